"""What types of exceptions mean: a table by qualified name, library by library.

Of all rules that fit, the one for the class nearest in the MRO counts, then the first in the table. So codes are asked
for at the base that has them, and what a subclass means without a code stands under its own name.

An outcome in a row is certain: nothing was sent where no connection had been made or the library refused its arguments;
rejected where the other side has answered. Without one it follows from the stage and the phase, and where the request
may have been written it is unknown.
"""

from __future__ import annotations

import errno
from typing import Final

from ..failure import ErrorClass as C  # it stands in every row
from .exception_rules_clients import CLIENT_RULES
from .exception_rules_stores import STORE_RULES
from .exception_table import NOT_SENT, UNKNOWN, case, rows

__all__ = ["EXCEPTION_RULES"]

_UNREACHABLE: Final = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})
_EXHAUSTED: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.ENOLCK}
)
# OpenSSL's names for what only a handshake meets, before anything of the application was written.
_HANDSHAKE: Final = frozenset(
    {
        "NO_CIPHERS_AVAILABLE",
        "NO_PROTOCOLS_AVAILABLE",
        "NO_SHARED_CIPHER",
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
        "TLSV1_ALERT_INSUFFICIENT_SECURITY",
        "TLSV1_ALERT_PROTOCOL_VERSION",
        "TLSV1_UNRECOGNIZED_NAME",
        "UNSUPPORTED_PROTOCOL",
    }
)
_STANDARD_LIBRARY: Final = (
    *rows(
        "builtins",
        {
            (C.CONNECTION_ERROR, NOT_SENT): "ConnectionRefusedError",
            (C.CONNECTION_ERROR, None): "ConnectionError",
            (C.NETWORK_TIMEOUT, None): "TimeoutError",
            (C.RESOURCE_CONTENTION, None): "MemoryError BlockingIOError",
            # Bugs. KeyError and ValueError are not among them: too many libraries derive their errors from these.
            (C.INTERNAL_ERROR, None): (
                "ArithmeticError AssertionError AttributeError FileExistsError FileNotFoundError ImportError "
                "IsADirectoryError NameError NotADirectoryError NotImplementedError PermissionError RecursionError "
                "SyntaxError TypeError UnicodeError"
            ),
        },
    ),
    case("builtins.OSError", "unreachable", C.CONNECTION_ERROR, attribute=("errno", _UNREACHABLE)),
    case("builtins.OSError", "exhausted", C.RESOURCE_CONTENTION, attribute=("errno", _EXHAUSTED)),
    case("builtins.OSError", "no_port", C.RESOURCE_CONTENTION, NOT_SENT, attribute=("errno", {errno.EADDRNOTAVAIL})),
    *rows("socket", {(C.DNS_FAILURE, NOT_SENT): "gaierror herror"}),
    case("ssl.SSLError", "handshake", C.PROVIDER_MISCONFIGURED, NOT_SENT, attribute=("reason", _HANDSHAKE)),
    # What answered speaks no TLS; seldom a stream that was broken later.
    case("ssl.SSLError", "no_tls", C.PROVIDER_MISCONFIGURED, UNKNOWN, attribute=("reason", {"WRONG_VERSION_NUMBER"})),
    *rows(
        "ssl",
        {
            (C.PROVIDER_MISCONFIGURED, NOT_SENT): "SSLCertVerificationError",
            (C.CONNECTION_ERROR, None): "SSLError",
        },
    ),
    *rows(
        "asyncio",
        {
            (C.CONNECTION_ERROR, None): "exceptions.IncompleteReadError exceptions.LimitOverrunError",
            (C.RESOURCE_CONTENTION, None): "queues.QueueFull",
            (C.INTERNAL_ERROR, None): "exceptions.InvalidStateError",
        },
    ),
    *rows(
        "concurrent.futures._base",
        {(C.RESOURCE_CONTENTION, None): "BrokenExecutor", (C.INTERNAL_ERROR, None): "InvalidStateError"},
    ),
    *rows(
        "multiprocessing.context",
        {
            (C.NETWORK_TIMEOUT, None): "TimeoutError",
            (C.PROVIDER_MISCONFIGURED, None): "AuthenticationError",
            (C.INTERNAL_ERROR, None): "ProcessError",
        },
    ),
    *rows("queue", {(C.RESOURCE_CONTENTION, None): "Full"}),
    *rows("subprocess", {(C.NETWORK_TIMEOUT, None): "TimeoutExpired"}),
    *rows("json.decoder", {(C.INTERNAL_ERROR, None): "JSONDecodeError"}),
    *rows(
        "http.client",
        {
            (C.CONNECTION_ERROR, None): (
                "BadStatusLine IncompleteRead LineTooLong UnknownProtocol UnknownTransferEncoding"
            ),
            (C.INTERNAL_ERROR, NOT_SENT): "InvalidURL CannotSendHeader CannotSendRequest NotConnected",
            (C.INTERNAL_ERROR, None): "HTTPException",
        },
    ),
    case(
        "urllib.error.URLError",
        "url",
        C.INTERNAL_ERROR,
        NOT_SENT,
        words=("unknown url type", "no host given"),
    ),
    *rows("urllib.error", {(C.CONNECTION_ERROR, None): "URLError"}),
    case(
        "smtplib.SMTPServerDisconnected",
        "not_connected",
        C.CONNECTION_ERROR,
        NOT_SENT,
        words="please run connect() first",
    ),
    case("smtplib.SMTPServerDisconnected", "timeout", C.NETWORK_TIMEOUT, words="timed out"),
    case(
        "smtplib.SMTPException",
        "no_mechanism",
        C.PROVIDER_MISCONFIGURED,
        NOT_SENT,
        words="no suitable authentication method",
    ),
    *rows(
        "smtplib",
        {
            (C.CONNECTION_ERROR, None): "SMTPServerDisconnected",
            (C.PROVIDER_MISCONFIGURED, NOT_SENT): "SMTPNotSupportedError",
        },
    ),
)

_RUNTIMES: Final = (
    *rows(
        "trio",
        {
            (C.NETWORK_TIMEOUT, None): "TooSlowError",
            (C.CONNECTION_ERROR, None): "BrokenResourceError ClosedResourceError EndOfChannel",
            (C.RESOURCE_CONTENTION, None): "WouldBlock",
            (C.INTERNAL_ERROR, None): "BusyResourceError NeedHandshakeError RunFinishedError TrioInternalError",
        },
    ),
    *rows(
        "anyio",
        {
            (C.CONNECTION_ERROR, None): (
                "BrokenResourceError ClosedResourceError DelimiterNotFound EndOfStream IncompleteRead"
            ),
            (C.RESOURCE_CONTENTION, None): "BrokenWorkerInterpreter BrokenWorkerProcess WouldBlock",
            (C.INTERNAL_ERROR, None): "BusyResourceError NoEventLoopError RunFinishedError TypedAttributeLookupError",
        },
    ),
    *rows(
        "celery.exceptions",
        {
            (C.NETWORK_TIMEOUT, None): "TimeoutError",
            (C.RESOURCE_CONTENTION, None): "BackendError",
            (C.INTERNAL_ERROR, NOT_SENT): "ImproperlyConfigured InvalidTaskError NotRegistered QueueNotFound",
        },
    ),
    *rows(
        "billiard.exceptions",
        {
            (C.NETWORK_TIMEOUT, None): "SoftTimeLimitExceeded TimeLimitExceeded",
            (C.RESOURCE_CONTENTION, None): "WorkerLostError",
        },
    ),
)

_OWN: Final = rows(
    "retrykit.errors",
    {
        (C.INVALID_PAYLOAD, None): "InvalidMessageError InvalidPayloadError",
        (C.RESOURCE_CONTENTION, None): "StoreUnavailableError",
        (C.PROVIDER_UNAVAILABLE, NOT_SENT): "CallRefusedError",
        (C.INTERNAL_ERROR, None): "RetrykitError",
    },
)

EXCEPTION_RULES: Final = (*_STANDARD_LIBRARY, *CLIENT_RULES, *STORE_RULES, *_RUNTIMES, *_OWN)
"""All rules for exceptions. Of those that fit, the one for the class nearest in the MRO counts, then the first."""
