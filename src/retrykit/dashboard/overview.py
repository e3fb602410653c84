"""The first page: how bad it is, at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import attrs
from starlette.responses import Response

from .._steps import arun
from ..dead_letter import DeadLetterState
from ..monitor.guide import alerts_flow
from ..stores import DeadLetterQuery
from .asking import Ask
from .charts import chart_of
from .site import Site

__all__ = ["overview"]


@attrs.frozen
class _Share:
    """A value, how many have it, and where they are."""

    name: str
    count: int
    path: str
    params: Mapping[str, str]


_WAITING: Final = DeadLetterQuery(state=DeadLetterState.QUARANTINED)


async def overview(site: Site, ask: Ask) -> Response:
    """Show how deep the queue is and how it grows, of what, and what is switched off."""
    backend, now = site.backend, ask.now()
    letters = backend.dead_letters
    window = DeadLetterQuery(since=now - timedelta(hours=47), until=now + timedelta(milliseconds=1))
    alerts, trouble = await arun(alerts_flow(backend))
    circuits = await backend.circuits.circuits()
    jobs = await backend.redrives.jobs(active=True, limit=5)
    retries = await site.figures.of("retries", backend.retries.stats)
    deliveries = await site.figures.of("deliveries", backend.deliveries.counts)
    return site.page(
        ask,
        "overview.html",
        stats=await letters.stats(),
        trend=chart_of(await letters.trend(window, step="1h")),
        errors=[
            _Share(name, count, "/letters", {"q": str(attrs.evolve(_WAITING, error_class=name))})
            for name, count in await letters.top("error_class", query=_WAITING, limit=6)
        ],
        groups=(await letters.groups(_WAITING, order="matching", limit=5)).groups,
        retries=retries.value,
        retries_at=retries.at,
        deliveries=[
            _Share(status.value.replace("_", " "), count, "/deliveries", {"status": status.value})
            for status, count in deliveries.value.items()
        ],
        deliveries_at=deliveries.at,
        alerts=alerts,
        trouble=trouble,
        circuits=circuits,
        broken=[each for each in circuits if each.is_open],
        pauses=await backend.circuits.pauses(),
        jobs=jobs,
    )
