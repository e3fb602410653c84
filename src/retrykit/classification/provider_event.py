"""What a provider tells afterwards about a message: delivered, bounced, complained of."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

import attrs

from ..checks import provider_name
from ..codec import JSON
from ..errors import ConfigurationError
from ..times import utc
from .smtp import SmtpReply

__all__ = ["EventKind", "ProviderEvent", "event_kind"]


class EventKind(StrEnum):
    """What has happened to the message, in one vocabulary for all providers."""

    ACCEPTED = "accepted"
    """The provider has taken it: queued, processed, sent."""
    DELIVERED = "delivered"
    """The recipient's server has taken it."""
    DEFERRED = "deferred"
    """It was not delivered yet; the provider goes on trying."""
    BOUNCED = "bounced"
    """It was not delivered, and the provider has stopped trying."""
    REJECTED = "rejected"
    """The provider did not even try: suppressed, dropped, invalid."""
    COMPLAINED = "complained"
    """The recipient called it spam."""
    UNSUBSCRIBED = "unsubscribed"
    """The recipient wants no more."""
    ENGAGED = "engaged"
    """Opened, clicked, read."""
    OTHER = "other"
    """What is none of these, or not known."""

    @property
    def is_failure(self) -> bool:
        """Whether it says that the message did not arrive."""
        return self in (EventKind.DEFERRED, EventKind.BOUNCED, EventKind.REJECTED)


def event_kind(value: EventKind | str) -> EventKind:
    """Return a kind by itself or by its name.

    Raises:
        ConfigurationError: it is none.
    """
    if type(value) is EventKind:  # the usual case, and much faster
        return value
    try:
        return EventKind(value)
    except ValueError:
        raise ConfigurationError(f"the kind of event is {value!r}; allowed are {', '.join(EventKind)}") from None


def _at(value: datetime | None) -> datetime | None:
    return None if value is None else utc(value, "at")


_TEXTS: Final = ("vocabulary", "event_id", "provider_id", "message_id", "recipient")


@attrs.frozen(kw_only=True)
class ProviderEvent:
    """One event of one message, as a provider reported it.

    Raises:
        ConfigurationError: a field is of a wrong type, the kind is none, or `at` is naive. Values are not quoted: they may be personal.
    """

    provider: str = attrs.field(converter=provider_name)
    """Who reported it; kept in lower case: "ses", "sendgrid"."""
    kind: EventKind = attrs.field(converter=event_kind)
    """What has happened."""
    codes: tuple[str, ...] = ()
    """The provider's own words for the cause, verbatim, the most specific first."""
    vocabulary: str | None = None
    """Whose words the codes are, where the application calls the provider by another name: "aws"; None: `provider`'s."""
    text: str = attrs.field(default="", repr=False)
    """What it said about the cause."""
    reply: SmtpReply | None = attrs.field(default=None, repr=False)
    """What the recipient's server answered, where it is quoted."""
    event_id: str | None = None
    """The provider's id of the event."""
    provider_id: str | None = None
    """The provider's id of the message."""
    message_id: str | None = None
    """Our own id of the message, where the provider gives back what it was sent with."""
    recipient: str | None = attrs.field(default=None, repr=False)
    """The address or number it was for."""
    at: datetime | None = attrs.field(default=None, converter=_at)
    """When it happened, aware; kept in UTC, to the millisecond; None where the provider does not say."""
    raw: JSON = attrs.field(default=None, repr=False, eq=False)
    """The event as it came."""

    def __attrs_post_init__(self) -> None:
        """Check in one go what has no converter: events come by the million."""
        if type(self.codes) is not tuple or not all([isinstance(code, str) for code in self.codes]):  # noqa: C419 - faster
            raise _wrong("codes", self.codes, "a tuple of texts")
        if not isinstance(self.text, str):
            raise _wrong("text", self.text, "text")
        if self.reply is not None and not isinstance(self.reply, SmtpReply):
            raise _wrong("reply", self.reply, "an SmtpReply, or None")
        for name in _TEXTS:
            value: object = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise _wrong(name, value, "text, or None")


def _wrong(name: str, value: object, allowed: str) -> ConfigurationError:
    kind = type(value).__name__
    held = " that holds something else" if kind == "tuple" else ""
    return ConfigurationError(f"{name} of a provider's event is of type {kind}{held}; allowed is {allowed}")
