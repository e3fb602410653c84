"""What a provider tells afterwards about a message: delivered, bounced, complained of."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import attrs

from ..checks import provider_name
from ..codec import JSON
from .smtp import SmtpReply

__all__ = ["EventKind", "ProviderEvent"]


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


@attrs.frozen(kw_only=True)
class ProviderEvent:
    """One event of one message, as a provider reported it."""

    provider: str = attrs.field(converter=provider_name)
    """Who reported it; kept in lower case: "ses", "sendgrid"."""
    kind: EventKind
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
    at: datetime | None = None
    """When it happened, aware, in UTC; None where the provider does not say."""
    raw: JSON = attrs.field(default=None, repr=False, eq=False)
    """The event as it came."""
