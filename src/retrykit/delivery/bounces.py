"""Bounce messages: what a mail server reports by mail, recipient by recipient.

A delivery status notification (RFC 3464) holds a group of fields for each recipient. Older servers only write prose; of these the
first lines that look like a reply are taken, and the recipients from the field that some add. Python's own parser reads the mail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs

from ..classification.provider_event import EventKind, ProviderEvent
from ..classification.smtp import SmtpReply
from ..errors import ConfigurationError
from .metadata import HEADER

if TYPE_CHECKING:
    from email.message import Message

    Mail: TypeAlias = Message[str, str]

__all__ = ["parse_bounce"]

MAX_MESSAGE: Final = 10 << 20
"""Bytes of a message that are read."""
MAX_PARTS: Final = 1_000
"""Parts of one message that are looked at."""
MAX_RECIPIENTS: Final = 1_000
"""Recipients of one message that are reported."""

_KINDS: Final = {
    "failed": EventKind.BOUNCED,
    "delayed": EventKind.DEFERRED,
    "delivered": EventKind.DELIVERED,
    "relayed": EventKind.ACCEPTED,
    "expanded": EventKind.ACCEPTED,
}
_STATUS: Final = re.compile(r"[245]\.\d{1,3}\.\d{1,3}", re.ASCII)
_REPLY: Final = re.compile(r"(?:^|[\s:<'\"])([45]\d\d[ -]\S.{0,400})", re.ASCII)
_MAX_PROSE: Final = 4_000
_PROVIDER: Final = "dsn"


def parse_bounce(message: bytes | str | Message[str, str]) -> tuple[ProviderEvent, ...]:
    r"""Read a bounce message.

    Args:
        message: the whole mail, with its header; or what Python's `email` made of it. The first 10 MiB count.

    Returns:
        An event for each recipient that is reported on, in order; their `provider` is "dsn". Without any that can be read, one
        event of the kind "other" with the mail's own text. `provider_id` is the Message-ID of the mail that bounced, where it
        is quoted, and `message_id` what stands in its X-Retrykit-Id (`smtp_headers`), or without one its Message-ID.

    Raises:
        ConfigurationError: it is none of these.

    Example:
        >>> (event,) = parse_bounce(
        ...     "Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n"
        ...     "--b\nContent-Type: message/delivery-status\n\n"
        ...     "Reporting-MTA: dns; mx.example.org\n\n"
        ...     "Final-Recipient: rfc822; ada@example.org\nAction: failed\nStatus: 5.1.1\n"
        ...     "Diagnostic-Code: smtp; 550 5.1.1 user unknown\n\n--b--\n"
        ... )
        >>> event.kind.value, event.recipient, event.reply.code, event.reply.enhanced_code
        ('bounced', 'ada@example.org', 550, '5.1.1')

    Source:
        RFC 3464; RFC 3461 for the types of addresses.
    """
    try:
        mail = _mail(message)
        parts = list(islice(mail.walk(), MAX_PARTS))
    except RecursionError:  # parts within parts within parts: nobody writes that to be read
        mail = _mail(b"")
        parts = [mail]
    known = _enclosed(parts, "message-id")
    own = _enclosed(parts, HEADER) or known
    events: list[ProviderEvent] = []
    for fields in _groups(parts):
        if len(events) < MAX_RECIPIENTS and (event := _event(fields)) is not None:
            events.append(event)
    events = events or list(_of_prose(mail, parts))
    return tuple(attrs.evolve(event, provider_id=known, message_id=own) for event in events)


def _mail(message: object) -> Mail:
    import email  # only here: few read bounces, and it takes longer to load than the rest
    from email.message import Message

    if isinstance(message, Message):
        return cast("Mail", message)
    if isinstance(message, str):
        return email.message_from_string(message[:MAX_MESSAGE])
    if isinstance(message, (bytes, bytearray)):
        return email.message_from_bytes(bytes(message[:MAX_MESSAGE]))
    raise ConfigurationError(
        f"the bounce message is a {type(message).__name__}; allowed are bytes, text and Message objects"
    )


def _groups(parts: Sequence[Mail]) -> Iterator[Mail]:
    """Give the groups of fields of all recipients; the first group of a delivery status is the message's own."""
    for part in parts:
        if part.get_content_type() in ("message/delivery-status", "message/global-delivery-status"):
            groups: object = part.get_payload()
            for group in cast("list[Mail]", groups) if isinstance(groups, list) else ():
                if any(name in group for name in ("action", "status", "final-recipient")):
                    yield group


def _event(fields: Mail) -> ProviderEvent | None:
    """Read the fields of one recipient."""
    found = _STATUS.search(_field(fields, "status"))
    status = found[0] if found else None
    diagnostic = _value(_field(fields, "diagnostic-code"))
    kind = _KINDS.get(_field(fields, "action").strip().lower())
    if kind is None:
        if status is None:
            return None
        kind = {"2": EventKind.DELIVERED, "4": EventKind.DEFERRED, "5": EventKind.BOUNCED}[status[0]]
    recipient = _value(_field(fields, "final-recipient")) or _value(_field(fields, "original-recipient"))
    return ProviderEvent(
        provider=_PROVIDER,
        kind=kind,
        codes=(status,) if status else (),
        text=diagnostic,
        reply=SmtpReply(None, diagnostic, enhanced_code=_own_status(status, diagnostic))
        if diagnostic or status
        else None,
        recipient=recipient or None,
    )


def _own_status(status: str | None, diagnostic: str) -> str | None:
    """Return the field's status, unless it says nothing and the diagnostic holds a better one."""
    return (
        None if status is not None and status.endswith(".0.0") and SmtpReply(None, diagnostic).enhanced_code else status
    )


def _of_prose(mail: Mail, parts: Sequence[Mail]) -> Iterator[ProviderEvent]:
    """Read a mail without fields for recipients: one event for each that the header names, or one for nobody.

    Only of a mail server's own mail the words are believed: people quote bounces, and are out of office.
    """
    prose = next((text for part in parts if (text := _text(part))), "")
    named = [address.strip() for address in _field(mail, "x-failed-recipients").split(",") if address.strip()]
    if not named and not _is_a_servers(mail):
        yield ProviderEvent(provider=_PROVIDER, kind=EventKind.OTHER, text=prose)
        return
    found = _REPLY.search(prose)
    reply = SmtpReply(None, found[1] if found else prose)
    kind = EventKind.BOUNCED if named or found else EventKind.OTHER
    for recipient in (*named[:MAX_RECIPIENTS],) or (None,):
        yield ProviderEvent(provider=_PROVIDER, kind=kind, text=prose, reply=reply, recipient=recipient)


def _is_a_servers(mail: Mail) -> bool:
    """Tell whether a mail comes from a mail server and not from a person or his automatic answer."""
    if _field(mail, "auto-submitted").lower().startswith("auto-replied"):
        return False
    sender = _field(mail, "from").lower()
    return "mailer-daemon" in sender or "postmaster" in sender or _field(mail, "return-path").strip() == "<>"


def _text(part: Mail) -> str:
    if part.get_content_type() != "text/plain":
        return ""
    try:
        payload = part.get_payload(decode=True)
    except Exception:  # noqa: BLE001 - a broken encoding
        return ""
    return payload[:_MAX_PROSE].decode("utf-8", "replace") if isinstance(payload, bytes) else ""


def _enclosed(parts: Sequence[Mail], name: str) -> str | None:
    """Return a field of the mail that bounced, from the copy or the header that is enclosed."""
    for part in parts:
        if part is not parts[0] and (found := _field(part, name).strip()):
            return found
        if part.get_content_type() == "text/rfc822-headers":
            for line in str(part.get_payload()).splitlines():
                field, colon, value = line.partition(":")
                if colon and field.strip().lower() == name.lower():
                    return value.strip()
    return None


def _field(fields: Mail, name: str) -> str:
    """Return a field in one line, empty where it is absent or cannot be read."""
    try:
        return " ".join(str(fields.get(name, "")).split())
    except Exception:  # noqa: BLE001 - a header that Python's parser refuses
        return ""


def _value(field: str) -> str:
    """Cut the type off a typed field: "smtp; 550 no", "rfc822; ada@example.org"."""
    kind, semicolon, value = field.partition(";")
    return value.strip() if semicolon and len(kind) <= 16 and " " not in kind.strip() else field.strip()
