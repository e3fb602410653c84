"""Deliveries: how many stand where, and which."""

from __future__ import annotations

from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..stores import DeadLetterQuery, DeliveryStatus
from .asking import Ask
from .site import Site

__all__ = ["deliveries", "delivery"]

_PAGE: Final = 50
_UNEXPECTED: Final = "unexpected"


async def deliveries(site: Site, ask: Ask) -> Response:
    """Count deliveries by status, and list those of one."""
    log = site.backend.deliveries
    status = ask.choice("status", ("", _UNEXPECTED, *DeliveryStatus), "")
    after = ask.given.get("after", "")[:300]
    if not status:
        found = []
    elif status == _UNEXPECTED:
        found = [*await log.unexpected(limit=_PAGE + 1, after=after)]
    else:
        found = [*await log.with_status(DeliveryStatus(status), limit=_PAGE + 1, after=after)]
    counts = await site.figures.of("deliveries", log.counts)
    return site.page(
        ask,
        "deliveries.html",
        status=status,
        counts=[(each, counts.value[each]) for each in DeliveryStatus if each in counts.value],
        counted_at=counts.at,
        deliveries=found[:_PAGE],
        more=found[_PAGE - 1].message_id if len(found) > _PAGE else None,
        is_first=not after,
    )


async def delivery(site: Site, ask: Ask) -> Response:
    """Show where the delivery of one message stands."""
    message_id = ask.needed("id")
    found = await site.backend.deliveries.get(message_id)
    claim = await site.backend.claims.get(message_id)
    query = DeadLetterQuery(message_id=message_id)
    letters = (await site.backend.dead_letters.search(query, limit=5)).letters
    if found is None and claim is None and not letters:
        raise HTTPException(404, f"Nothing is known of a message {message_id[:255]!r}.")
    return site.page(ask, "delivery.html", id=message_id, delivery=found, claim=claim, letters=letters)
