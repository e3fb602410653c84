"""What exceptions mean: a table by qualified name, and how to read the SMTP replies that some of them carry.

Nothing is imported to recognise an exception: each class of its MRO is looked up by name, nearest first, so that a
specific class is met before its base ("smtplib.SMTPException" is an `OSError`) and libraries need not be installed.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from ..failure import ErrorClass as C  # it stands in every row
from ..failure import Outcome
from .http import HttpReply
from .rules import Rule
from .smtp import PHASES, SmtpReply

__all__ = [
    "CANCELLATIONS",
    "EXCEPTION_RULES",
    "REPLY_READERS",
    "WRAPPERS",
    "phase_of",
    "provider_of",
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

_NOT_SENT: Final = Outcome.NOT_SENT
_UNREACHABLE: Final = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOSPC})
# SQLITE_BUSY and SQLITE_LOCKED with their extended codes (the low byte is the primary one).
_SQLITE_BUSY: Final = frozenset({5, 5 | 1 << 8, 5 | 2 << 8, 5 | 3 << 8, 6, 6 | 1 << 8, 6 | 2 << 8})


def _row(name: str, error_class: C, outcome: Outcome | None = None) -> Rule:
    return Rule(f"exception.{name}", error_class, exceptions=(name,), outcome=outcome)


EXCEPTION_RULES: Final = (
    # Connections. Where nothing can have been written yet the outcome is certain.
    _row("builtins.ConnectionRefusedError", C.CONNECTION_ERROR, _NOT_SENT),
    _row("builtins.ConnectionError", C.CONNECTION_ERROR),
    _row("builtins.TimeoutError", C.NETWORK_TIMEOUT),
    _row("asyncio.exceptions.IncompleteReadError", C.CONNECTION_ERROR),
    _row("socket.gaierror", C.DNS_FAILURE, _NOT_SENT),
    _row("socket.herror", C.DNS_FAILURE, _NOT_SENT),
    _row("ssl.SSLCertVerificationError", C.PROVIDER_MISCONFIGURED, _NOT_SENT),
    _row("ssl.SSLError", C.CONNECTION_ERROR),
    Rule(
        "exception.builtins.OSError.unreachable",
        C.CONNECTION_ERROR,
        exceptions="builtins.OSError",
        attribute=("errno", _UNREACHABLE),
    ),
    # SMTP without a reply.
    Rule(
        "exception.smtplib.SMTPServerDisconnected.not_connected",
        C.CONNECTION_ERROR,
        exceptions="smtplib.SMTPServerDisconnected",
        words="please run connect() first",
        outcome=_NOT_SENT,
    ),
    _row("smtplib.SMTPServerDisconnected", C.CONNECTION_ERROR),
    _row("smtplib.SMTPNotSupportedError", C.PROVIDER_MISCONFIGURED, _NOT_SENT),
    # HTTP clients.
    _row("httpx.ConnectError", C.CONNECTION_ERROR, _NOT_SENT),
    _row("httpx.ConnectTimeout", C.NETWORK_TIMEOUT, _NOT_SENT),
    _row("httpx.PoolTimeout", C.RESOURCE_CONTENTION, _NOT_SENT),
    _row("httpx.TimeoutException", C.NETWORK_TIMEOUT),
    _row("httpx.NetworkError", C.CONNECTION_ERROR),
    _row("requests.exceptions.ConnectTimeout", C.NETWORK_TIMEOUT, _NOT_SENT),
    _row("requests.exceptions.Timeout", C.NETWORK_TIMEOUT),
    _row("requests.exceptions.ConnectionError", C.CONNECTION_ERROR),
    _row("urllib3.exceptions.NewConnectionError", C.CONNECTION_ERROR, _NOT_SENT),
    _row("urllib3.exceptions.ConnectTimeoutError", C.NETWORK_TIMEOUT, _NOT_SENT),
    _row("urllib3.exceptions.TimeoutError", C.NETWORK_TIMEOUT),
    # This machine.
    _row("builtins.MemoryError", C.RESOURCE_CONTENTION),
    _row("builtins.BlockingIOError", C.RESOURCE_CONTENTION),
    Rule(
        "exception.builtins.OSError.exhausted",
        C.RESOURCE_CONTENTION,
        exceptions="builtins.OSError",
        attribute=("errno", _EXHAUSTED),
    ),
    Rule(
        "exception.sqlite3.OperationalError.busy",
        C.RESOURCE_CONTENTION,
        exceptions="sqlite3.OperationalError",
        attribute=("sqlite_errorcode", _SQLITE_BUSY),
        source="SQLite result codes 5 and 6",
    ),
    _row("sqlite3.Error", C.INTERNAL_ERROR),
    # retrykit's own.
    _row("retrykit.errors.InvalidMessageError", C.INVALID_PAYLOAD),
    _row("retrykit.errors.InvalidPayloadError", C.INVALID_PAYLOAD),
    _row("retrykit.errors.StoreUnavailableError", C.RESOURCE_CONTENTION),
    _row("retrykit.errors.CallRefusedError", C.PROVIDER_UNAVAILABLE, _NOT_SENT),
    _row("retrykit.errors.RetrykitError", C.INTERNAL_ERROR),
    # Bugs. KeyError and ValueError are not among them: too many libraries derive their errors from these.
    _row("builtins.AssertionError", C.INTERNAL_ERROR),
    _row("builtins.AttributeError", C.INTERNAL_ERROR),
    _row("builtins.FileNotFoundError", C.INTERNAL_ERROR),
    _row("builtins.ImportError", C.INTERNAL_ERROR),
    _row("builtins.NameError", C.INTERNAL_ERROR),
    _row("builtins.NotImplementedError", C.INTERNAL_ERROR),
    _row("builtins.PermissionError", C.INTERNAL_ERROR),
    _row("builtins.SyntaxError", C.INTERNAL_ERROR),
    _row("builtins.TypeError", C.INTERNAL_ERROR),
)
"""All rules for exceptions. Of those that fit, the one for the class nearest in the MRO counts, then the first."""


def text_of(error: BaseException) -> str:
    """Return an exception's message, also where it cannot be read."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a `__str__` that raises
        return f"<{type(error).__qualname__} whose message cannot be read>"


def _attribute(error: object, name: str) -> object:
    try:
        return cast("object", getattr(error, name, None))
    except Exception:  # noqa: BLE001 - a property that raises
        return None


def phase_of(error: BaseException) -> str | None:
    """Return the SMTP phase that a sender has written on an exception (`smtp_phase`), or None."""
    phase = _attribute(error, "smtp_phase")
    return phase if isinstance(phase, str) and phase in PHASES else None


def provider_of(error: object) -> str | None:
    """Return who answered, as a sender has written it on an exception (`provider`), or None."""
    provider = _attribute(error, "provider")
    return provider if isinstance(provider, str) else None


def _smtp_replies(error: BaseException, phase: str | None = None) -> Sequence[SmtpReply]:
    """Read the reply that stands on an exception."""
    return (_reply(_attribute(error, "smtp_code"), _attribute(error, "smtp_error"), phase_of(error) or phase),)


def _recipients_replies(error: BaseException) -> Sequence[SmtpReply]:
    """Read the reply for each refused recipient."""
    recipients = _attribute(error, "recipients")
    answers = cast("Mapping[object, object]", recipients).values() if isinstance(recipients, Mapping) else ()
    phase = phase_of(error) or "rcpt"
    return tuple(_reply(*cast("tuple[object, object]", answer), phase) for answer in answers if _is_answer(answer))


def _is_answer(value: object) -> bool:
    return isinstance(value, tuple) and len(cast("tuple[object, ...]", value)) == 2


def _reply(code: object, text: object, phase: str | None) -> SmtpReply:
    number = code if isinstance(code, int) and 200 <= code <= 599 else None  # smtplib gives -1 for what is not SMTP
    return SmtpReply(number, text if isinstance(text, (str, bytes)) else "", phase=phase)


REPLY_READERS: Final[Mapping[str, Callable[[BaseException], Sequence[SmtpReply | HttpReply]]]] = {
    "smtplib.SMTPConnectError": partial(_smtp_replies, phase="connect"),
    "smtplib.SMTPHeloError": partial(_smtp_replies, phase="ehlo"),
    "smtplib.SMTPAuthenticationError": partial(_smtp_replies, phase="auth"),
    "smtplib.SMTPSenderRefused": partial(_smtp_replies, phase="mail"),
    "smtplib.SMTPRecipientsRefused": _recipients_replies,
    "smtplib.SMTPDataError": partial(_smtp_replies, phase="data"),
    "smtplib.SMTPResponseException": _smtp_replies,
}
"""Exceptions that carry what a server answered, and how it is read from them; of several the first that may heal counts.

Where nothing is read (an HTTP error without an answer) the exception's type speaks.
"""

WRAPPERS: Final[Mapping[str, str]] = {}
"""Exceptions that hold another one, which says more, in an attribute."""


def wrapped_by(error: BaseException, attribute: str) -> BaseException | None:
    """Return the exception that another one holds in an attribute."""
    inner = _attribute(error, attribute)
    return inner if isinstance(inner, BaseException) else None
