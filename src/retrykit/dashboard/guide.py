"""The runbook as a page: each step with what the store holds, and where to go."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from .._steps import arun
from ..monitor.guide import guide, situation_flow
from ..stores import DeadLetterQuery
from .asking import Ask
from .site import Site

__all__ = ["runbook"]


async def runbook(site: Site, ask: Ask) -> Response:
    """Say what to do now."""
    since, begin = ask.since()
    recent = DeadLetterQuery(since=begin, until=ask.now() + timedelta(milliseconds=1))
    found = await arun(situation_flow(site.backend, recent))
    return site.page(ask, "runbook.html", since=since, found=found, steps=guide(found, since))
