"""Reports and events for the suites."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from ...classification.provider_event import EventKind
from ...failure import ErrorGroup
from ...stores.deliveries import Delivery, DeliveryEvent, DeliveryStatus

__all__ = ["EVENTS", "NOW", "delivery", "event"]

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def delivery(
    status: DeliveryStatus,
    version: int = 1,
    message_id: str = "m",
    *,
    minutes: int = 0,
    provider: str | None = None,
    provider_id: str | None = None,
) -> Delivery:
    """Return a report, so many minutes after the first instant."""
    return Delivery(
        message_id=message_id,
        status=status,
        version=version,
        provider=provider,
        provider_id=provider_id,
        updated_at=NOW + timedelta(minutes=minutes),
    )


def event(
    kind: EventKind,
    event_id: str | None = None,
    message_id: str = "m",
    *,
    minutes: int = 0,
    group: ErrorGroup | None = None,
    provider: str = "ses",
    provider_id: str | None = None,
) -> DeliveryEvent:
    """Return what a provider reported, so many minutes after the first instant."""
    return DeliveryEvent(
        message_id=message_id,
        kind=kind,
        provider=provider,
        provider_id=provider_id,
        event_id=event_id,
        error_class=None if group is None else f"own.{group.value}",
        error_group=group,
        error_code=None if group is None else "450",
        at=NOW + timedelta(minutes=minutes),
    )


EVENTS: Final = (
    event(EventKind.ACCEPTED, "e-1"),
    event(EventKind.DEFERRED, "e-2", minutes=1, group=ErrorGroup.TEMPORARY_MAILBOX),
    event(EventKind.DEFERRED, "e-3", minutes=2, group=ErrorGroup.THROTTLING),
    event(EventKind.DELIVERED, "e-4", minutes=3),
    event(EventKind.BOUNCED, "e-5", minutes=4, group=ErrorGroup.PERMANENT_RECIPIENT),
    event(EventKind.COMPLAINED, "e-6", minutes=5),
    event(EventKind.UNSUBSCRIBED, "e-7", minutes=6),
)
"""What a provider reports of one message that is delivered and comes back; it ends as `bounced_permanent`, in whatever order."""
