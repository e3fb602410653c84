"""What a provider's event and the delivery log say of one message and cannot both be right about."""

from __future__ import annotations

from ..machines.status import DeliveryStatus
from ..stores.deliveries import Delivery, DeliveryEvent

__all__ = ["conflict_of"]

_NOT_TAKEN = (
    DeliveryStatus.DEFERRED,
    DeliveryStatus.BOUNCED_TRANSIENT,
    DeliveryStatus.BOUNCED_PERMANENT,
    DeliveryStatus.FAILED_INTERNAL,
)


def _bare(provider_id: str) -> str:
    return provider_id.removeprefix("<").removesuffix(">")


def conflict_of(delivery: Delivery, event: DeliveryEvent) -> str | None:
    """Return in what an event contradicts the log, in one sentence; None where it does not.

    Args:
        delivery: as the log had it before the event, reported by ourselves.
        event: what the provider tells.

    Example:
        >>> from datetime import UTC, datetime
        >>> now = datetime(2026, 1, 1, tzinfo=UTC)
        >>> given_up = Delivery(message_id="m", status=DeliveryStatus.FAILED_INTERNAL, updated_at=now)
        >>> conflict_of(given_up, DeliveryEvent(message_id="m", kind="delivered", provider="ses", at=now))
        "the log has it as failed_internal, and 'ses' has taken it"
    """
    if event.told is None:
        return None
    if not delivery.is_accepted:
        if delivery.status not in _NOT_TAKEN or delivery.status is event.told:
            return None
        return f"the log has it as {delivery.status.value}, and {event.provider!r} has taken it"
    if delivery.provider is not None and delivery.provider != event.provider:
        return f"the log has it as sent by {delivery.provider!r}, and {event.provider!r} has it too"
    if delivery.provider_id and event.provider_id and _bare(delivery.provider_id) != _bare(event.provider_id):
        return (
            f"the log has it as {delivery.provider_id!r}, and {event.provider!r} tells of {event.provider_id!r}: "
            "it may have been sent twice"
        )
    return None
