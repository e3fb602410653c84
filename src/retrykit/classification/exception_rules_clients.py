"""What the exceptions of HTTP clients, API clients, mail clients and resolvers mean, where they carry no answer."""

from __future__ import annotations

from typing import Final

from ..failure import ErrorClass as C  # it stands in every row
from .exception_facts import grpc_status, is_about_mail_routing, is_caused_by
from .exception_table import NOT_SENT, REJECTED, UNKNOWN, Meanings, case, rows

__all__ = ["CLIENT_RULES"]

# Raised by nothing but the attempt to connect; why that failed is their cause.
_CONNECTING: Final = (
    "httpx.ConnectError httpx2.ConnectError httpcore.ConnectError httpcore2.ConnectError anyio.ConnectionFailed "
    "aiohttp.client_exceptions.ClientConnectorError aiosmtplib.errors.SMTPConnectError "
    "urllib3.exceptions.NewConnectionError botocore.exceptions.EndpointConnectionError "
    "pika.adapters.utils.connection_workflow.AMQPConnectorException"
)
_CONNECT: Final = (
    case(
        _CONNECTING,
        "connecting.certificate",
        C.PROVIDER_MISCONFIGURED,
        NOT_SENT,
        predicate=is_caused_by("ssl.SSLCertVerificationError"),
    ),
    case(_CONNECTING, "connecting.dns", C.DNS_FAILURE, NOT_SENT, predicate=is_caused_by("socket.gaierror")),
    case(_CONNECTING, "connecting", C.CONNECTION_ERROR, NOT_SENT),
)

_PROXY: Final = (
    "httpx.ProxyError httpx2.ProxyError httpcore.ProxyError httpcore2.ProxyError urllib3.exceptions.ProxyError "
    "requests.exceptions.ProxyError botocore.exceptions.ProxyConnectionError"
)
_HTTPX: Final[Meanings] = {
    (C.NETWORK_TIMEOUT, NOT_SENT): "ConnectTimeout",
    (C.NETWORK_TIMEOUT, None): "TimeoutException",
    (C.RESOURCE_CONTENTION, NOT_SENT): "PoolTimeout",
    (C.CONNECTION_ERROR, NOT_SENT): "ProxyError",
    (C.CONNECTION_ERROR, None): "NetworkError RemoteProtocolError",
    (C.INTERNAL_ERROR, NOT_SENT): "UnsupportedProtocol",
    (C.INTERNAL_ERROR, None): "LocalProtocolError",
}
# What is above the transport, so that httpcore has none of it.
_HTTPX_ABOVE: Final[Meanings] = {
    (C.PROVIDER_UNAVAILABLE, None): "DecodingError",
    (C.PROVIDER_MISCONFIGURED, UNKNOWN): "TooManyRedirects",
    (C.INTERNAL_ERROR, NOT_SENT): "InvalidURL",
    (C.INTERNAL_ERROR, None): "CookieConflict StreamError",
}

_HTTP_CLIENTS: Final = (
    case(_PROXY, "proxy.login", C.PROVIDER_MISCONFIGURED, NOT_SENT, words=" 407 "),
    *rows("httpx", {**_HTTPX, **_HTTPX_ABOVE}),
    *rows("httpx2", {**_HTTPX, **_HTTPX_ABOVE}),
    *rows("httpcore", _HTTPX),
    *rows("httpcore2", _HTTPX),
    *rows(
        "urllib3.exceptions",
        {
            (C.NETWORK_TIMEOUT, NOT_SENT): "ConnectTimeoutError",
            (C.NETWORK_TIMEOUT, None): "TimeoutError",
            (C.DNS_FAILURE, NOT_SENT): "NameResolutionError",
            (C.RESOURCE_CONTENTION, NOT_SENT): "EmptyPoolError FullPoolError",
            (C.CONNECTION_ERROR, NOT_SENT): "ProxyError",
            (C.CONNECTION_ERROR, None): "IncompleteRead InvalidChunkLength ProtocolError SSLError",
            (C.PROVIDER_UNAVAILABLE, None): "DecodeError",
            (C.INTERNAL_ERROR, NOT_SENT): "ClosedPoolError InvalidHeader LocationValueError ProxySchemeUnsupported",
        },
    ),
    case(
        "urllib3.exceptions.ResponseError requests.exceptions.RetryError",
        "retries.throttled",
        C.PROVIDER_THROTTLED,
        REJECTED,
        words="too many 429 error",
    ),
    case(
        "urllib3.exceptions.ResponseError requests.exceptions.RetryError",
        "retries.statuses",
        C.PROVIDER_UNAVAILABLE,
        REJECTED,
        words="error responses",
    ),
    *rows("urllib3.exceptions", {(C.PROVIDER_MISCONFIGURED, UNKNOWN): "ResponseError"}),
    *rows(
        "requests.exceptions",
        {
            (C.NETWORK_TIMEOUT, NOT_SENT): "ConnectTimeout",
            (C.NETWORK_TIMEOUT, None): "Timeout",
            (C.CONNECTION_ERROR, NOT_SENT): "ProxyError",
            (C.CONNECTION_ERROR, None): "ChunkedEncodingError ConnectionError",
            (C.PROVIDER_UNAVAILABLE, None): "ContentDecodingError",
            (C.PROVIDER_MISCONFIGURED, UNKNOWN): "TooManyRedirects",
            (C.INTERNAL_ERROR, NOT_SENT): "InvalidHeader InvalidSchema InvalidURL MissingSchema URLRequired",
            (C.INTERNAL_ERROR, None): "InvalidJSONError StreamConsumedError UnrewindableBodyError",
        },
    ),
    case(
        "aiohttp.client_exceptions.ClientHttpProxyError",
        "login",
        C.PROVIDER_MISCONFIGURED,
        NOT_SENT,
        attribute=("status", {407}),
    ),
    *rows(
        "aiohttp.client_exceptions",
        {
            (C.NETWORK_TIMEOUT, NOT_SENT): "ConnectionTimeoutError",
            (C.NETWORK_TIMEOUT, None): "ServerTimeoutError",
            (C.DNS_FAILURE, NOT_SENT): "ClientConnectorDNSError",
            (C.CONNECTION_ERROR, NOT_SENT): "ClientConnectorSSLError ClientHttpProxyError ClientProxyConnectionError",
            (C.CONNECTION_ERROR, None): "ClientConnectionError ClientPayloadError ClientResponseError",
            (C.PROVIDER_MISCONFIGURED, NOT_SENT): "ClientConnectorCertificateError ServerFingerprintMismatch",
            (C.PROVIDER_MISCONFIGURED, UNKNOWN): "RedirectClientError TooManyRedirects",
            (C.INTERNAL_ERROR, NOT_SENT): "InvalidURL NonHttpUrlClientError",
            (C.INTERNAL_ERROR, None): "ContentTypeError WSMessageTypeError",
        },
    ),
)

_API_CLIENTS: Final = (
    case(
        "botocore.exceptions.SSLError",
        "certificate",
        C.PROVIDER_MISCONFIGURED,
        NOT_SENT,
        words="certificate verify failed",
    ),
    *rows(
        "botocore.exceptions",
        {
            (C.NETWORK_TIMEOUT, NOT_SENT): "ConnectTimeoutError",
            (C.NETWORK_TIMEOUT, None): "ReadTimeoutError WaiterError",
            (C.CONNECTION_ERROR, NOT_SENT): "ProxyConnectionError",
            (C.CONNECTION_ERROR, None): (
                "ChecksumError ConnectionError FlexibleChecksumError HTTPClientError IncompleteReadError SSLError"
            ),
            (C.PROVIDER_UNAVAILABLE, NOT_SENT): "MetadataRetrievalError",
            (C.PROVIDER_THROTTLED, NOT_SENT): "CapacityNotAvailableError",
            (C.PROVIDER_MISCONFIGURED, NOT_SENT): (
                "BaseEndpointResolverError ConfigNotFound ConfigParseError CredentialRetrievalError EndpointProviderError "
                "InvalidConfigError InvalidProxiesConfigError InvalidRetryConfigurationError LoginError NoAuthTokenError "
                "NoCredentialsError PartialCredentialsError ProfileNotFound SSOError TokenRetrievalError "
                "UnknownCredentialError UnknownSignatureVersionError UnsupportedSignatureVersionError"
            ),
            (C.INTERNAL_ERROR, NOT_SENT): (
                "DataNotFoundError InvalidDNSNameError InvalidRegionError MissingParametersError ParamValidationError "
                "UnknownClientMethodError UnseekableStreamError ValidationError"
            ),
            (C.INTERNAL_ERROR, None): "BotoCoreError",
        },
    ),
    *(
        rule
        for module in ("openai", "anthropic")
        for rule in rows(
            module,
            {
                (C.NETWORK_TIMEOUT, None): "APITimeoutError",
                (C.CONNECTION_ERROR, None): "APIConnectionError",
                (C.PROVIDER_UNAVAILABLE, None): "APIResponseValidationError",
            },
        )
    ),
    *rows("openai", {(C.PROVIDER_MISCONFIGURED, NOT_SENT): "OpenAIError"}),
    *rows("anthropic", {(C.PROVIDER_MISCONFIGURED, NOT_SENT): "CredentialsError"}),
    *rows("stripe._error", {(C.CONNECTION_ERROR, None): "APIConnectionError"}),
    *rows("google.api_core.exceptions", {(C.NETWORK_TIMEOUT, None): "RetryError"}),
)

_GRPC: Final = "grpc.RpcError"
_GRPC_RULES: Final = (
    # Source of the statuses: grpc.io, "Status codes and their use in gRPC".
    case(
        _GRPC,
        "dns",
        C.DNS_FAILURE,
        NOT_SENT,
        words=("dns resolution failed", "name resolution failure"),
        predicate=grpc_status("UNAVAILABLE"),
    ),
    case(
        _GRPC,
        "connect",
        C.CONNECTION_ERROR,
        NOT_SENT,
        words="failed to connect to all addresses",
        predicate=grpc_status("UNAVAILABLE"),
    ),
    case(_GRPC, "unavailable", C.PROVIDER_UNAVAILABLE, predicate=grpc_status("UNAVAILABLE")),
    case(_GRPC, "deadline", C.NETWORK_TIMEOUT, predicate=grpc_status("DEADLINE_EXCEEDED")),
    case(_GRPC, "cancelled", C.CONNECTION_ERROR, predicate=grpc_status("CANCELLED")),
    case(
        _GRPC,
        "sent_too_large",
        C.INVALID_PAYLOAD,
        NOT_SENT,
        words="sent message larger than max",
        predicate=grpc_status("RESOURCE_EXHAUSTED"),
    ),
    case(
        _GRPC,
        "received_too_large",
        C.INTERNAL_ERROR,
        words="received message larger than max",
        predicate=grpc_status("RESOURCE_EXHAUSTED"),
    ),
    case(_GRPC, "exhausted", C.PROVIDER_THROTTLED, predicate=grpc_status("RESOURCE_EXHAUSTED")),
    case(_GRPC, "aborted", C.RESOURCE_CONTENTION, REJECTED, predicate=grpc_status("ABORTED")),
    case(_GRPC, "refused", C.PROVIDER_MISCONFIGURED, predicate=grpc_status("PERMISSION_DENIED", "UNAUTHENTICATED")),
    case(
        _GRPC,
        "arguments",
        C.INTERNAL_ERROR,
        REJECTED,
        predicate=grpc_status(
            "ALREADY_EXISTS", "FAILED_PRECONDITION", "INVALID_ARGUMENT", "NOT_FOUND", "OUT_OF_RANGE", "UNIMPLEMENTED"
        ),
    ),
    case(_GRPC, "server", C.PROVIDER_UNAVAILABLE, predicate=grpc_status("DATA_LOSS", "INTERNAL", "UNKNOWN")),
    *rows("grpc", {(C.NETWORK_TIMEOUT, None): "FutureTimeoutError"}),
    *rows("grpc._cython.cygrpc", {(C.INTERNAL_ERROR, None): "UsageError"}),
)

_MAIL: Final = (
    case(
        "aiosmtplib.errors.SMTPServerDisconnected",
        "not_connected",
        C.CONNECTION_ERROR,
        NOT_SENT,
        words="server not connected",
    ),
    case(
        "aiosmtplib.errors.SMTPException",
        "no_mechanism",
        C.PROVIDER_MISCONFIGURED,
        NOT_SENT,
        words=("no suitable authentication method", "extension not supported", "extension is not supported"),
    ),
    *rows(
        "aiosmtplib.errors",
        {
            (C.NETWORK_TIMEOUT, NOT_SENT): "SMTPConnectTimeoutError",
            (C.NETWORK_TIMEOUT, None): "SMTPTimeoutError",
            (C.CONNECTION_ERROR, None): "SMTPServerDisconnected",
            (C.PROVIDER_MISCONFIGURED, NOT_SENT): "SMTPNotSupported",
        },
    ),
)

_DNS: Final = (
    # Only a question for MX records is certainly about the recipient's domain; another name may be one of our own.
    case(
        "dns.resolver.NXDOMAIN",
        "mx",
        C.INVALID_DOMAIN,
        NOT_SENT,
        predicate=is_about_mail_routing,
    ),
    *rows("dns.resolver", {(C.PROVIDER_MISCONFIGURED, NOT_SENT): "NoResolverConfiguration"}),
    *rows(
        "dns.exception",
        {(C.INVALID_PAYLOAD, NOT_SENT): "SyntaxError", (C.DNS_FAILURE, NOT_SENT): "DNSException"},
    ),
)

CLIENT_RULES: Final = (*_CONNECT, *_HTTP_CLIENTS, *_API_CLIENTS, *_GRPC_RULES, *_MAIL, *_DNS)
"""Rules for clients of HTTP, of APIs, of gRPC, of SMTP and of DNS."""
