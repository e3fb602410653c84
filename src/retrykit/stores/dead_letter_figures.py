"""Figures of the dead letters: how many there are and come, and how they are spread over time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from ..dead_letter import DeadLetter, DeadLetterState
from ..errors import ConfigurationError
from ..times import Duration, from_millis, plain, seconds, to_millis
from .dead_letter_query import DeadLetterQuery

__all__ = ["DeadLetterStats", "DeadLetterTrend", "frame", "spread", "stats_of"]

MAX_STEPS: Final = 10_000
"""Steps that a trend may have."""

_MINUTE: Final = 60
_HOUR: Final = 3600


@attrs.frozen(kw_only=True)
class DeadLetterStats:
    """How deep the dead letter queue is, and how fast it grows."""

    quarantined: int = 0
    """Letters that wait for a person: the depth."""
    redriving: int = 0
    resolved: int = 0
    discarded: int = 0
    superseded: int = 0
    died_last_hour: int = 0
    """Letters, whatever became of them since, that died (`dead_lettered_at`) in the last hour: the growth."""
    died_last_day: int = 0
    """Those of the last 24 hours."""
    oldest_quarantined_at: datetime | None = None
    """When the oldest letter that waits for a person died, or None."""

    @property
    def total(self) -> int:
        """All letters."""
        return self.quarantined + self.redriving + self.resolved + self.discarded + self.superseded


@attrs.frozen
class DeadLetterTrend:
    """How many letters died in each step of a window."""

    start: datetime
    """When the first step begins: a multiple of the step since 1970 in UTC."""
    step: float
    """Seconds of a step."""
    counts: Sequence[int]
    """Letters of each step, one after the other; of the first and the last only those within the query's window."""


def stats_of(letters: Iterable[DeadLetter], now: datetime) -> DeadLetterStats:
    """Return the figures of letters at an instant."""
    kept = list(letters)
    states = Counter(letter.state.value for letter in kept)
    waiting = [letter.dead_lettered_at for letter in kept if letter.state is DeadLetterState.QUARANTINED]
    hour, day = now - timedelta(hours=1), now - timedelta(days=1)
    return DeadLetterStats(
        died_last_hour=sum(hour <= letter.dead_lettered_at <= now for letter in kept),
        died_last_day=sum(day <= letter.dead_lettered_at <= now for letter in kept),
        oldest_quarantined_at=min(waiting, default=None),
        **states,
    )


def frame(query: DeadLetterQuery, step: Duration) -> tuple[datetime, float, int]:
    """Return where the first step of a trend begins, the seconds of a step, and how many steps there are.

    Raises:
        ConfigurationError: the query has no window with both ends, the step is not allowed, or there are too many steps.
    """
    length = seconds(step, "step", positive=True)
    if length % _MINUTE or (_HOUR % length and length % _HOUR):
        raise ConfigurationError(
            f"step is {plain(length)} s; allowed are whole minutes that divide an hour, such as '1m' or '15m', and whole hours"
        )
    if query.since is None or query.until is None:
        raise ConfigurationError("the query of a trend has no window; give it both since and until")
    millis = int(length) * 1000
    first, last = to_millis(query.since) // millis, (to_millis(query.until) - 1) // millis
    steps = last - first + 1
    if steps > MAX_STEPS:
        raise ConfigurationError(f"the trend has {steps} steps; allowed are {MAX_STEPS}: make them longer")
    try:
        return from_millis(first * millis), length, steps
    except OverflowError:
        raise ConfigurationError("the first step of the trend begins before the year 1; let it begin later") from None


def spread(instants: Iterable[datetime], start: datetime, step: float, steps: int) -> list[int]:
    """Return how many of the instants lie in each step; all of them lie in one."""
    counts = Counter((to_millis(instant) - to_millis(start)) // (int(step) * 1000) for instant in instants)
    return [counts[number] for number in range(steps)]
