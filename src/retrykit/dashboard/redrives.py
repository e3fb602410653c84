"""Put dead letters back: the plan, its root cause, the confirmation, and how it goes; in the order of `retrykit dlq redrive`."""

from __future__ import annotations

from typing import Final

import attrs
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..errors import ConfigurationError
from ..machines.redrive import RedriveJob, RedriveState
from ..redrive_plan import MAX_REDRIVES, RedrivePlan
from ..stores import DeadLetterQuery
from ..times import from_iso, seconds
from .asking import Ask
from .site import Site

__all__ = ["act", "confirm", "plan", "redrive", "redrives", "start"]

_PAGE: Final = 20
_ACTS: Final = ("pause", "resume", "stop")


async def plan(site: Site, ask: Ask) -> Response:
    """Say what a redrive would put back and what speaks against it, and ask for the root cause."""
    everything, query = ask.flag("everything"), ask.query()
    if query == DeadLetterQuery() and not everything:
        return site.page(ask, "plan_none.html")
    made = await site.queue.plan(query, everything=everything, max_redrives=_most(ask))
    return _plan_page(site, ask, made)


def _plan_page(site: Site, ask: Ask, made: RedrivePlan, status: int = 200, said: str = "") -> Response:
    return site.page(
        ask,
        "plan.html",
        status,
        plan=made,
        query=str(attrs.evolve(made.query, state=None, until=None)),
        exact=str(made.query),
        everything=ask.flag("everything"),
        said=said,
        given={name: ask.text(name) for name in ("root_cause", "rate", "canary", "tolerance", "patience")},
        not_sent=ask.flag("not_sent"),
    )


@attrs.frozen(kw_only=True)
class _Terms:
    """How a redrive is to go, as the form says it."""

    root_cause: str
    canary: int
    rate: float | None
    tolerance: float
    """Percent of messages."""
    patience: str
    not_sent: bool


def _terms(ask: Ask) -> _Terms:
    """Return how a redrive is to go, checked before anybody confirms it."""
    tolerance, rate, patience = ask.number("tolerance"), ask.number("rate"), ask.text("patience", "15m", most=40)
    seconds(patience, "patience", positive=True)
    if tolerance is None or not 0 <= tolerance < 100:
        raise ConfigurationError("what may fail again is a share of 0 to 99 percent")
    if rate is not None and not 0 < rate < float("inf"):
        raise ConfigurationError(f"rate is {rate!r}; allowed are messages a second > 0, or nothing")
    cause = ask.text("root_cause", most=10_000)
    if not cause:
        raise ConfigurationError("root_cause is missing; say why the letters had died, and why they will not again")
    return _Terms(
        root_cause=cause,
        canary=ask.whole("canary", 10, 0, 100_000),
        rate=rate,
        tolerance=tolerance,
        patience=patience,
        not_sent=ask.flag("not_sent"),
    )


def _most(ask: Ask) -> int:
    return ask.whole("max_redrives", MAX_REDRIVES, 1, 1_000)


async def _planned(site: Site, ask: Ask) -> RedrivePlan:
    """Make the plan again that the form was made of: the same letters, dead before the same cut-off."""
    cut_off = from_iso(ask.text("cut_off", most=60), "cut_off")
    query = ask.query()
    exact = attrs.evolve(query, until=cut_off if query.until is None else min(query.until, cut_off))
    return await site.queue.plan(exact, everything=ask.flag("everything"), max_redrives=_most(ask))


async def confirm(site: Site, ask: Ask) -> Response:
    """Show once more what will be put back, and how; nothing is changed yet."""
    terms = _terms(ask)
    made = await _planned(site, ask)
    if made.count == 0:
        return _plan_page(site, ask, made, 409, "There is nothing left to put back: somebody else has been here.")
    return site.page(
        ask, "confirm.html", plan=made, terms=terms, exact=str(made.query), everything=ask.flag("everything")
    )


async def start(site: Site, ask: Ask) -> Response:
    """Start the redrive that was confirmed, if its letters are still those."""
    terms, planned = _terms(ask), ask.whole("planned", 0, 0, 10**12)
    made = await _planned(site, ask)
    if made.count != planned:
        said = (
            f"The plan has changed: {planned:,} letters were confirmed, {made.count:,} wait now. Look at it once more."
        )
        return _plan_page(site, ask, made, 409, said)
    if made.count == 0:
        return _plan_page(site, ask, made, 409, "There is nothing to put back.")
    job = await site.queue.redrive(
        made,
        root_cause=terms.root_cause,
        by=ask.session.operator.name,
        canary=terms.canary,
        rate=terms.rate,
        tolerance=terms.tolerance / 100,
        patience=terms.patience,
        not_sent=terms.not_sent,
    )
    site.running.go_on(job.id)
    return site.to(ask, "/redrive", id=job.id)


async def redrives(site: Site, ask: Ask) -> Response:
    """List redrives, the one created last first."""
    after = await _found(site, ask.text("after", most=300)) if ask.text("after", most=300) else None
    jobs = await site.backend.redrives.jobs(limit=_PAGE + 1, after=after)
    more = jobs[_PAGE - 1].id if len(jobs) > _PAGE else None
    return site.page(ask, "redrives.html", jobs=jobs[:_PAGE], more=more, is_first=after is None)


async def redrive(site: Site, ask: Ask) -> Response:
    """Show how a redrive goes, or what came of it."""
    job = await _found(site, ask.needed("id"))
    if job.state is RedriveState.RUNNING:
        site.running.go_on(job.id)
    handled = job.put_back + job.already_sent + job.passed_over
    refresh = 3 if job.state is RedriveState.RUNNING else None
    return site.page(
        ask,
        "redrive.html",
        job=job,
        handled=handled,
        refresh=refresh,
        runs_here=site.running.is_on,
        letters=_whatever_became_of(job.query),
    )


def _whatever_became_of(query: str) -> str:
    """Return the query of a redrive for its letters in any state: those that were sent wait no more."""
    try:
        return str(attrs.evolve(DeadLetterQuery.parse(query), state=None))
    except ConfigurationError:
        return query  # of a newer retrykit


async def act(site: Site, ask: Ask) -> Response:
    """Pause, resume or stop a redrive."""
    act, why = ask.choice("act", _ACTS, ""), ask.text("why", most=10_000)
    job = await _found(site, ask.needed("id"))
    if not why:
        raise ConfigurationError(f"why is missing; say why you {act} it: it stands in the audit log")
    changed: RedriveJob = await getattr(site.queue, act)(job.id, by=ask.session.operator.name, why=why)
    if changed.state is RedriveState.RUNNING:
        site.running.go_on(job.id)
    return site.to(ask, "/redrive", id=job.id)


async def _found(site: Site, redrive_id: str) -> RedriveJob:
    job = await site.backend.redrives.get(redrive_id)
    if job is None:
        raise HTTPException(404, f"There is no redrive {redrive_id[:255]!r}. The list has those that there are.")
    return job
