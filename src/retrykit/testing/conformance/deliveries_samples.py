"""Reports for the suites."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from ...stores.deliveries import Delivery, DeliveryStatus

__all__ = ["NOW", "delivery"]

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
