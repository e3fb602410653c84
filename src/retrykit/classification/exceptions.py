"""What exceptions hold: the answers that they carry, and other exceptions that say more.

Nothing is imported to recognise an exception: each class of its MRO is looked up by name, nearest first, so that a
specific class is met before its base ("smtplib.SMTPException" is an `OSError`) and libraries need not be installed.
Reading one never raises and never waits: a body that was not yet received is left where it is. `exception_rules` says
what the types mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, cast

from .exception_facts import attribute_of, is_caused_by, pairs_of
from .http import HttpReply
from .smtp import PHASES, SmtpReply

__all__ = [
    "CANCELLATIONS",
    "REPLY_READERS",
    "WRAPPERS",
    "phase_of",
    "provider_of",
    "refusals_of",
    "text_of",
    "wrapped_by",
]

CANCELLATIONS: Final = frozenset(
    {
        "asyncio.exceptions.CancelledError",
        "builtins.GeneratorExit",
        "builtins.KeyboardInterrupt",
        "builtins.SystemExit",
        "trio.Cancelled",
    }
)
"""Exceptions that end work from outside. They are no failures."""


def text_of(error: BaseException) -> str:
    """Return an exception's message, also where it cannot be read."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a `__str__` that raises
        return f"<{type(error).__qualname__} whose message cannot be read>"


def phase_of(error: BaseException) -> str | None:
    """Return the SMTP phase that a sender has written on an exception (`smtp_phase`), or None."""
    phase = attribute_of(error, "smtp_phase")
    return phase if isinstance(phase, str) and phase in PHASES else None


def provider_of(error: object) -> str | None:
    """Return who answered, as a sender has written it on an exception (`provider`), or None."""
    provider = attribute_of(error, "provider")
    return provider if isinstance(provider, str) else None


def wrapped_by(error: BaseException, attribute: str) -> BaseException | None:
    """Return the exception that another one holds in an attribute, or among the values there."""
    value = attribute_of(error, attribute)
    values = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    return next((each for each in values if isinstance(each, BaseException)), None)


def refusals_of(refused: object) -> dict[str, SmtpReply]:
    """Return what the server answered for each recipient that it refused.

    Args:
        refused: a `SMTPRecipientsRefused` of smtplib or aiosmtplib, or the mapping from recipients to code and text that
            `sendmail` returns when it refused some of them; replies and their whole texts are taken as well.

    Returns:
        The replies by recipient, in their order; a reply without code and text where none can be read. Empty for
        anything else.

    Example:
        >>> refusals_of({"ada@example.org": (550, b"5.1.1 user unknown")})["ada@example.org"].code
        550
    """
    recipients = refused if issubclass(type(refused), Mapping) else attribute_of(refused, "recipients")
    if isinstance(recipients, (list, tuple)) or recipients is None:
        errors = (refused,) if recipients is None else cast("Sequence[object]", recipients)
        answers: list[tuple[object, object]] = [
            (attribute_of(each, "recipient"), (attribute_of(each, "code"), attribute_of(each, "message")))
            for each in errors
        ]
    else:
        answers = pairs_of(recipients)
    phase = (phase_of(refused) if isinstance(refused, BaseException) else None) or "rcpt"
    read = _one_reply if recipients is refused else _of_pair  # by hand anything may be given, libraries give pairs
    return {name: read(answer, phase) for name, answer in answers if isinstance(name, str)}


def _one_reply(value: object, phase: str) -> SmtpReply:
    """Return the reply to one recipient, in whatever form it was given."""
    if isinstance(value, SmtpReply):
        return value
    if isinstance(value, (str, bytes)):
        return SmtpReply(None, value, phase=phase)
    return _of_pair(value, phase)


def _of_pair(value: object, phase: str) -> SmtpReply:
    return _reply(*_answer(value), phase)


def _answer(value: object) -> tuple[object, object]:
    is_pair = isinstance(value, tuple) and len(cast("tuple[object, ...]", value)) == 2
    return cast("tuple[object, object]", value) if is_pair else (None, "")


def _reply(code: object, text: object, phase: str | None) -> SmtpReply:
    number = code if isinstance(code, int) and 200 <= code <= 599 else None  # libraries give -1 for what is not SMTP
    return SmtpReply(number, text if isinstance(text, (str, bytes)) else "", phase=phase)


_Replies: TypeAlias = Sequence[SmtpReply | HttpReply]
_Reader: TypeAlias = Callable[[BaseException], _Replies]


def _smtp(
    error: BaseException, phase: str | None = None, code: str = "smtp_code", text: str = "smtp_error"
) -> _Replies:
    """Read the reply that stands on an exception."""
    return (_reply(attribute_of(error, code), attribute_of(error, text), phase_of(error) or phase),)


_aiosmtp: Final = partial(_smtp, code="code", text="message")


def _recipients(error: BaseException) -> _Replies:
    """Read the reply for each refused recipient."""
    return tuple(reply for reply in refusals_of(error).values() if reply.code is not None or reply.text)


def _nothing(_: BaseException) -> _Replies:
    """Read no answer from an exception whose base carries one."""
    return ()


def _http(status: object, headers: object, body: object, least: int = 400) -> _Replies:
    """Make an answer of its parts, unless its status, being below `least`, tells of no failure."""
    if isinstance(status, str) and status.isascii() and status.isdigit():
        status = int(status[:9])
    if isinstance(status, bool) or not isinstance(status, int) or not least <= status <= 599:
        return ()
    fields = [
        (name, value)
        for name, value in pairs_of(headers)
        if isinstance(name, (str, bytes)) and isinstance(value, (str, bytes))
    ]
    is_body = isinstance(body, (str, bytes, bytearray, memoryview, Mapping, list))
    return (HttpReply(int(status), fields, cast("bytes", body) if is_body else b""),)


def _received(response: object) -> object:
    """Return the part of a response's body that was already read; its public `content` might wait for the network."""
    body = attribute_of(response, "_content")
    return body if isinstance(body, bytes) else b""


def _of_response(error: BaseException) -> _Replies:
    """Read `response`, as httpx and requests make it."""
    response = attribute_of(error, "response")
    return _http(attribute_of(response, "status_code"), attribute_of(response, "headers"), _received(response))


def _of_attributes(error: BaseException, status: str, headers: str, body: str) -> _Replies:
    """Read an answer whose parts stand on the exception itself."""
    return _http(attribute_of(error, status), attribute_of(error, headers), attribute_of(error, body))


_is_no_http: Final = is_caused_by("aiohttp.http_exceptions.HttpProcessingError")


def _of_aiohttp(error: BaseException) -> _Replies:
    """Read an answer, unless the client itself made up its status for one that is not HTTP."""
    return () if _is_no_http(error) else _of_attributes(error, "status", "headers", "message")


def _of_aiohttp_websocket(error: BaseException) -> _Replies:
    return _http(attribute_of(error, "status"), attribute_of(error, "headers"), b"")  # the message is the client's own


def _of_model_api(error: BaseException) -> _Replies:
    """Read an answer of openai or anthropic; an error within a stream has a body only, and the status of its beginning."""
    replies = _of_response(error)
    if replies and cast("HttpReply", replies[0]).text:
        return replies
    body = attribute_of(error, "body")
    if not isinstance(body, Mapping):
        return replies
    fields = dict(pairs_of(cast("object", body)))
    document = fields if "error" in fields else {"error": fields}
    status = attribute_of(error, "status_code")
    headers = attribute_of(attribute_of(error, "response"), "headers")
    return _http(status, headers, document) or (HttpReply(None, (), cast("Mapping[str, object]", document)),)


def _of_aws(error: BaseException) -> _Replies:
    """Read botocore's own form of an answer back into that of the service."""
    response = dict(pairs_of(attribute_of(error, "response")))
    said, about = dict(pairs_of(response.get("Error"))), dict(pairs_of(response.get("ResponseMetadata")))
    body = {"__type": said.get("Code"), "message": said.get("Message")}
    if not isinstance(body["__type"], str):
        return ()
    found = _http(about.get("HTTPStatusCode"), about.get("HTTPHeaders"), body, 100)
    return found or (HttpReply(None, (), body),)


def _of_google(error: BaseException) -> _Replies:
    """Read an answer to a REST call; that to a gRPC call is the exception's cause."""
    response = attribute_of(error, "response")
    if callable(attribute_of(response, "code")):
        return ()
    status = attribute_of(attribute_of(error, "grpc_status_code"), "name")
    body = _received(response) or {"error": {"status": status, "message": attribute_of(error, "message")}}
    return _http(attribute_of(error, "code"), attribute_of(response, "headers"), body)


def _of_google_client(error: BaseException) -> _Replies:
    response = attribute_of(error, "resp")
    return _http(attribute_of(response, "status"), response, attribute_of(error, "content"))


def _of_slack(error: BaseException) -> _Replies:
    """Read an answer of Slack, which tells of failures with status 200."""
    response = attribute_of(error, "response")
    data = attribute_of(response, "data")
    body = response if data is None else data  # a client may give the document itself
    return _http(attribute_of(response, "status_code") or 200, attribute_of(response, "headers"), body, 100)


def _of_twilio(error: BaseException) -> _Replies:
    text = attribute_of(error, "msg") or attribute_of(error, "detail") or attribute_of(error, "title")
    status, code = attribute_of(error, "status"), attribute_of(error, "code")
    return _http(status, (), {"code": code, "message": text, "status": status})


REPLY_READERS: Final[Mapping[str, _Reader]] = {
    "smtplib.SMTPConnectError": partial(_smtp, phase="connect"),
    "smtplib.SMTPHeloError": partial(_smtp, phase="ehlo"),
    "smtplib.SMTPAuthenticationError": partial(_smtp, phase="auth"),
    "smtplib.SMTPSenderRefused": partial(_smtp, phase="mail"),
    "smtplib.SMTPRecipientsRefused": _recipients,
    "smtplib.SMTPDataError": partial(_smtp, phase="data"),
    "smtplib.SMTPResponseException": _smtp,
    "aiosmtplib.errors.SMTPConnectResponseError": partial(_aiosmtp, phase="connect"),
    "aiosmtplib.errors.SMTPHeloError": partial(_aiosmtp, phase="ehlo"),
    "aiosmtplib.errors.SMTPAuthenticationError": partial(_aiosmtp, phase="auth"),
    "aiosmtplib.errors.SMTPSenderRefused": partial(_aiosmtp, phase="mail"),
    "aiosmtplib.errors.SMTPRecipientRefused": partial(_aiosmtp, phase="rcpt"),
    "aiosmtplib.errors.SMTPRecipientsRefused": _recipients,
    "aiosmtplib.errors.SMTPDataError": partial(_aiosmtp, phase="data"),
    "aiosmtplib.errors.SMTPResponseException": _aiosmtp,
    "httpx.HTTPStatusError": _of_response,
    "httpx2.HTTPStatusError": _of_response,
    "requests.exceptions.HTTPError": _of_response,
    "urllib.error.HTTPError": partial(_of_attributes, status="code", headers="headers", body="reason"),
    "aiohttp.client_exceptions.ClientResponseError": _of_aiohttp,
    "aiohttp.client_exceptions.ClientHttpProxyError": _nothing,
    "aiohttp.client_exceptions.TooManyRedirects": _nothing,
    "aiohttp.client_exceptions.WSServerHandshakeError": _of_aiohttp_websocket,
    "openai.APIError": _of_model_api,
    "openai.APIConnectionError": _nothing,
    "openai.APIResponseValidationError": _nothing,
    "anthropic.APIError": _of_model_api,
    "anthropic.APIConnectionError": _nothing,
    "anthropic.APIResponseValidationError": _nothing,
    "botocore.exceptions.ClientError": _of_aws,
    "google.api_core.exceptions.GoogleAPICallError": _of_google,
    "googleapiclient.errors.HttpError": _of_google_client,
    "python_http_client.exceptions.HTTPError": partial(
        _of_attributes, status="status_code", headers="headers", body="body"
    ),
    "slack_sdk.errors.SlackApiError": _of_slack,
    "stripe._error.StripeError": partial(_of_attributes, status="http_status", headers="headers", body="http_body"),
    "twilio.base.exceptions.TwilioRestException": _of_twilio,
    "twilio.base.exceptions.TwilioServiceException": _of_twilio,
}
"""Exceptions that carry what a server answered, and how it is read from them; of several the first that may heal counts.

Where nothing is read (an HTTP error without an answer) the exception's type speaks.
"""

WRAPPERS: Final[Mapping[str, str]] = {
    "urllib.error.URLError": "reason",
    "urllib3.exceptions.MaxRetryError": "reason",
    "urllib3.exceptions.ProtocolError": "args",
    "urllib3.exceptions.SSLError": "args",
    "requests.exceptions.ConnectionError": "args",
    "requests.exceptions.RetryError": "args",
    "openai.APIConnectionError": "__cause__",
    "anthropic.APIConnectionError": "__cause__",
    "stripe._error.APIConnectionError": "__cause__",
    "google.api_core.exceptions.RetryError": "cause",
    "sqlalchemy.exc.StatementError": "orig",
    "pika.exceptions.AMQPConnectionError": "args",
    "aiormq.exceptions.AMQPConnectionError": "__cause__",
    "kombu.exceptions.OperationalError": "__cause__",
}
"""Exceptions that hold another one, which says more, in an attribute; where it says nothing the type's own rule speaks."""
