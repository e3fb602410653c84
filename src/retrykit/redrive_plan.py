"""What a redrive would do, before anything is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, cast

import attrs

from ._steps import Steps, do
from .clock import Clock, current_clock
from .codec import JSON
from .dead_letter import SCHEMA_VERSION, DeadLetter, DeadLetterState
from .deadletter.payload import Cipher, message_to_put_back
from .errors import ConfigurationError
from .stores import AsyncBackend, AsyncDeadLetterStore, Backend, DeadLetterQuery, DeadLetterStore, Facet
from .stores.dead_letter_text import MAX_LENGTH
from .times import to_iso, utc

__all__ = ["MAX_REDRIVES", "RedrivePlan", "blocked_by", "plan_flow", "waiting"]

MAX_REDRIVES: Final = 3
"""Letters that were put back so often are parked, unless told otherwise."""

_LOOKED_AT: Final = 100
"""Letters that are looked at one by one for warnings."""

_SAMPLES: Final = 5
_TOP: Final = 5
_ALL: Final = 1_000_000


@attrs.frozen(kw_only=True)
class RedrivePlan:
    """Which letters a redrive would put back, and what to know before it does."""

    query: DeadLetterQuery
    """The letters: quarantined ones that died before the cut-off, which is its `until`."""
    count: int
    """How many there are."""
    max_redrives: int = MAX_REDRIVES
    """Letters that were put back so often before stay where they are."""
    error_classes: Sequence[tuple[str, int]] = ()
    """The most frequent error classes, with how many letters have each."""
    providers: Sequence[tuple[str, int]] = ()
    campaigns: Sequence[tuple[str, int]] = ()
    samples: Sequence[DeadLetter] = ()
    """Some of the letters, the ones put last."""
    warnings: Sequence[str] = ()
    """What speaks against it, a sentence each."""

    @property
    def cut_off(self) -> datetime:
        """Letters that died from then on are left out, so that what fails again is not picked up again."""
        assert self.query.until is not None
        return self.query.until

    def to_dict(self) -> dict[str, JSON]:
        """Return the plan as JSON values; of the samples the ids."""
        return {
            "query": str(self.query),
            "cut_off": to_iso(self.cut_off),
            "count": self.count,
            "max_redrives": self.max_redrives,
            "error_classes": dict(self.error_classes),
            "providers": dict(self.providers),
            "campaigns": dict(self.campaigns),
            "samples": [letter.id for letter in self.samples],
            "warnings": list(self.warnings),
        }


def waiting(query: DeadLetterQuery, now: datetime, *, everything: bool) -> DeadLetterQuery:
    """Return the query for those of its letters that wait for a person now.

    Raises:
        ConfigurationError: it asks for letters in another state, or for all of them without saying so.
    """
    if query.state not in (None, DeadLetterState.QUARANTINED):
        raise ConfigurationError(
            f"the query asks for letters that are {query.state.value}; allowed are quarantined ones"
        )
    if not everything and attrs.evolve(query, state=None) == DeadLetterQuery():
        raise ConfigurationError(
            "the query has no condition and takes in every dead letter; say everything=True (--everything) to mean that"
        )
    cut_off = utc(now) if query.until is None else min(query.until, utc(now))
    wanted = attrs.evolve(query, state=DeadLetterState.QUARANTINED, until=cut_off)
    if len(str(wanted)) > MAX_LENGTH:
        raise ConfigurationError(f"the query has {len(str(wanted)):,} characters as text; allowed are {MAX_LENGTH:,}")
    return wanted


def plan_flow(
    backend: Backend | AsyncBackend,
    query: DeadLetterQuery,
    *,
    everything: bool,
    max_redrives: int,
    cipher: Cipher | None,
    clock: Clock | None,
) -> Steps[RedrivePlan]:
    """Find out what a redrive of a query's letters would do."""
    letters = backend.dead_letters
    query = waiting(query, (clock or current_clock()).now(), everything=everything)
    page = yield from do(letters.search, query, limit=_LOOKED_AT)
    # Stores know how many there have been up to now; how many died before an instant, many of them only by looking at each.
    tops = yield from _tops(letters, attrs.evolve(query, until=None))
    if (yield from do(letters.count, attrs.evolve(query, since=query.until, until=None))):
        tops = yield from _tops(letters, query)
    classes, providers, campaigns = tops
    plan = RedrivePlan(
        query=query,
        count=sum(count for _, count in classes),  # every letter has one
        max_redrives=max_redrives,
        error_classes=classes[:_TOP],
        providers=providers,
        campaigns=campaigns,
        samples=page.letters[:_SAMPLES],
    )
    return attrs.evolve(plan, warnings=(yield from _warnings(backend, plan, page.letters, cipher)))


def _tops(
    letters: DeadLetterStore | AsyncDeadLetterStore, query: DeadLetterQuery
) -> Steps[list[Sequence[tuple[str, int]]]]:
    """Return how many letters of a query have which class, provider and campaign."""
    top = cast("Callable[..., Sequence[tuple[str, int]]]", letters.top)  # checkers do not see both colours in one
    found = list[Sequence[tuple[str, int]]]()
    facets: tuple[tuple[Facet, int], ...] = (("error_class", _ALL), ("provider", _TOP), ("campaign_id", _TOP))
    for facet, limit in facets:
        found.append((yield from do(top, facet, query=query, limit=limit)))
    return found


def _warnings(
    backend: Backend | AsyncBackend, plan: RedrivePlan, looked_at: Sequence[DeadLetter], cipher: Cipher | None
) -> Steps[Sequence[str]]:
    warnings = [
        f"{why}; nothing of it is put back before that is over" for why in (yield from blocked_by(backend, looked_at))
    ]
    sent = unsure = 0
    for letter in looked_at:
        delivery = yield from do(backend.deliveries.get, letter.message_id)
        claim = yield from do(backend.claims.get, letter.message_id)
        sent += delivery is not None and delivery.is_accepted
        unsure += claim is not None and claim.is_unsure and claim.dead_letter_id == letter.id
    parked = sum(letter.redrive_count >= plan.max_redrives for letter in looked_at)
    newer = sum(letter.schema_version > SCHEMA_VERSION for letter in looked_at)
    bare = sum(message_to_put_back(letter, cipher) is None for letter in looked_at) - newer
    for count, said in (
        (sent, "had been sent after all; they are resolved instead of being sent again"),
        (unsure, "may have been sent; the provider is asked before they are sent again, unless you say not_sent"),
        (parked, f"were put back {plan.max_redrives} times and more already; they are parked"),
        (newer, "were written by a newer retrykit; they are left alone"),
        (
            bare,
            "hold no whole message, since it is masked, withheld or encrypted; they are left alone unless somebody repairs them",
        ),
    ):
        if count:
            warnings.append(f"{count} of the {len(looked_at)} letters looked at {said}")
    return warnings


def blocked_by(backend: Backend | AsyncBackend, letters: Sequence[DeadLetter]) -> Steps[Sequence[str]]:
    """Return which pauses and open breakers stand in the way of letters, a sentence each."""
    keys = {f"campaign:{letter.campaign_id}" for letter in letters if letter.campaign_id is not None}
    keys |= {f"tenant:{letter.attributes['tenant']}" for letter in letters if "tenant" in letter.attributes}
    providers = {letter.provider for letter in letters if letter.provider is not None}
    keys |= {f"provider:{provider}" for provider in providers}
    found = [
        f"{pause.key} is paused by {pause.by}: {pause.reason}"
        for pause in (yield from do(backend.circuits.pauses))
        if pause.key in keys
    ]
    circuits = yield from do(backend.circuits.circuits)
    return found + [
        f"the breaker of {each.name} is open" for each in circuits if each.is_open and each.name in providers
    ]
