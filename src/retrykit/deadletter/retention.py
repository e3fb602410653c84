"""How long dead letters are kept: by error class, counted from the death, and only those that nobody waits for any more.

Letters are evidence: what is quarantined or being put back is never deleted, unless the application names a time for quarantined ones
as well. Deleting is done in batches, each an atomic step of the store. It may be stopped at any point, repeated, and run by any number
of processes at once: each letter is deleted and counted once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias, cast

import attrs

from .._steps import Steps, arun, do, run
from ..checks import check_limit
from ..clock import Clock, current_clock
from ..dead_letter import DeadLetterState
from ..errors import ConfigurationError
from ..failure import BUILT_IN_CLASSES, ErrorClass, ErrorGroup
from ..stores import AsyncDeadLetterStore, DeadLetterQuery, DeadLetterStore
from ..stores.dead_letters import Facet
from ..times import Duration, seconds, utc

__all__ = ["Retention", "RetentionReport"]

Times: TypeAlias = Mapping[ErrorClass | ErrorGroup | str, Duration]

_FINISHED: Final = frozenset({"resolved", "discarded", "superseded"})
"""Where letters stand that nobody waits for."""

_ALL: Final = 1_000_000
"""Classes and groups that are looked at."""

_LONGEST: Final = 1000 * 365 * 86400.0


def _times(value: Times) -> dict[str, float]:
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"the times are {value!r}; allowed is a mapping of error class or group to duration")
    return {_name(key): seconds(time, f"the time of {str(key)!r}", positive=True) for key, time in value.items()}


def _name(key: object) -> str:
    """Return the name of a group, or of a class: an application's own may stand here without its group."""
    if not isinstance(key, str):
        raise ConfigurationError(f"a time is given for {key!r}; allowed are error classes, groups, and their names")
    if key not in list(ErrorGroup) and key not in BUILT_IN_CLASSES:
        ErrorClass(key, group=ErrorGroup.UNMAPPED)  # refuses what cannot be a class
    return str(key)


def _default(value: Duration | None) -> float | None:
    return None if value is None else seconds(value, "default", positive=True)


def _quarantined(value: Times | Duration | None) -> dict[str, float] | float | None:
    if value is None:
        return None
    return _times(value) if isinstance(value, Mapping) else seconds(value, "quarantined", positive=True)


@attrs.frozen(kw_only=True)
class RetentionReport:
    """What was deleted, or would be."""

    finished: Mapping[str, int] = attrs.field(factory=dict[str, int], hash=False)
    """Letters that nobody waited for, by error class; "other" are those that were finished while it ran."""
    quarantined: Mapping[str, int] = attrs.field(factory=dict[str, int], hash=False)
    """Letters that were still quarantined, by error class."""

    @property
    def total(self) -> int:
        """How many letters there are in all."""
        return sum(self.finished.values()) + sum(self.quarantined.values())


@attrs.frozen
class Retention:
    """How long dead letters are kept.

    Args:
        times: by error class, group, or the name of one; a class goes before its group.
        default: for all other classes, a year if not said; None keeps them for ever.
        quarantined: for letters that are still quarantined: one time for all, or times by class and group, and then the others are
            kept. None keeps all of them for ever.

    Raises:
        ConfigurationError: a time is no duration > 0, or is given for what is neither a class nor a group.

    Example:
        >>> from retrykit.backends import MemoryBackend
        >>> retention = Retention({ErrorClass.MAILBOX_FULL: "30d", ErrorGroup.INTERNAL: "90d"}, default="365d")
        >>> retention.apply(MemoryBackend().dead_letters).total
        0
    """

    times: Mapping[str, float] = attrs.field(factory=dict[str, float], converter=_times, hash=False)
    default: float | None = attrs.field(default=365 * 86400.0, converter=_default, kw_only=True)
    quarantined: Mapping[str, float] | float | None = attrs.field(
        default=None, converter=_quarantined, kw_only=True, hash=False
    )

    def apply(self, store: DeadLetterStore, *, batch: int = 1000, clock: Clock | None = None) -> RetentionReport:
        """Delete the letters whose time is over.

        Args:
            store: where they are, for example `backend.dead_letters`.
            batch: how many are deleted in one step of the store, at least 1.
            clock: where the time comes from; None: the clock in force.

        Raises:
            StoreError: the store failed. What was deleted stays deleted; run it again.
        """
        return run(self._apply(store, check_limit(batch, "batch"), clock))

    async def apply_async(
        self, store: AsyncDeadLetterStore, *, batch: int = 1000, clock: Clock | None = None
    ) -> RetentionReport:
        """Delete the letters whose time is over, as `apply`."""
        return await arun(self._apply(store, check_limit(batch, "batch"), clock))

    def due(self, store: DeadLetterStore, *, clock: Clock | None = None) -> RetentionReport:
        """Return what `apply` would delete now, and delete nothing."""
        return run(self._due(store, clock))

    async def due_async(self, store: AsyncDeadLetterStore, *, clock: Clock | None = None) -> RetentionReport:
        """Return what `apply` would delete now, as `due`."""
        return await arun(self._due(store, clock))

    def _apply(
        self, store: DeadLetterStore | AsyncDeadLetterStore, batch: int, clock: Clock | None
    ) -> Steps[RetentionReport]:
        def delete(query: DeadLetterQuery, before: datetime) -> Steps[int]:
            total, gone = 0, batch
            while gone == batch:
                gone = yield from do(store.purge, before, query=query, limit=batch)
                total += gone
            return total

        now = (clock or current_clock()).now()
        report = yield from self._each(store, now, delete)
        if self.default is not None:  # what was resolved before its letter came is of no class
            before = _before(now, max(self.default, *self.times.values(), 0.0))
            others = yield from delete(DeadLetterQuery(state=DeadLetterState.RESOLVED), before)
            report = attrs.evolve(report, finished=+Counter({**report.finished, "other": others}))
        if report.total:
            _log(report)
        return report

    def _due(self, store: DeadLetterStore | AsyncDeadLetterStore, clock: Clock | None) -> Steps[RetentionReport]:
        def count(query: DeadLetterQuery, before: datetime) -> Steps[int]:
            return (yield from do(store.count, attrs.evolve(query, until=before)))

        return (yield from self._each(store, (clock or current_clock()).now(), count))

    def _kept(self, state: DeadLetterState) -> tuple[Mapping[str, float], float | None]:
        """Return the times and the default for letters of a state."""
        if state.value in _FINISHED:
            return self.times, self.default
        if state is not DeadLetterState.QUARANTINED or self.quarantined is None:
            return {}, None
        return (self.quarantined, None) if isinstance(self.quarantined, Mapping) else ({}, self.quarantined)

    def _each(
        self,
        store: DeadLetterStore | AsyncDeadLetterStore,
        now: datetime,
        act: Callable[[DeadLetterQuery, datetime], Steps[int]],
    ) -> Steps[RetentionReport]:
        """Act on the letters of each class whose time is over."""
        finished, quarantined = Counter[str](), Counter[str]()
        for state in DeadLetterState:
            times, default = self._kept(state)
            counts = quarantined if state is DeadLetterState.QUARANTINED else finished
            if not times and default is None:
                continue
            for group in (yield from _values(store, "error_group", DeadLetterQuery(state=state))):
                of_group = DeadLetterQuery(state=state, error_group=ErrorGroup(group))
                for name in (yield from _values(store, "error_class", of_group)):
                    time = times.get(name, times.get(group, default))
                    if time is not None:
                        counts[name] += yield from act(attrs.evolve(of_group, error_class=name), _before(now, time))
        return RetentionReport(finished=+finished, quarantined=+quarantined)


def _values(store: DeadLetterStore | AsyncDeadLetterStore, facet: Facet, query: DeadLetterQuery) -> Steps[list[str]]:
    """Return the values that letters have in a field."""
    top = cast("Callable[..., Sequence[tuple[str, int]]]", store.top)  # checkers do not see both colours in one
    return [value for value, _ in (yield from do(top, facet, query=query, limit=_ALL))]


def _before(now: datetime, time: float) -> datetime:
    """Return what letters have died before that were kept for some seconds; for no more than a thousand years."""
    return utc(now - timedelta(seconds=min(time, _LONGEST)))


def _log(report: RetentionReport) -> None:
    import logging  # only where something was deleted

    logging.getLogger("retrykit.deadletter").info(
        "deleted %d dead letters whose time was over, by error class: finished %s, quarantined %s",
        report.total,
        dict(report.finished),
        dict(report.quarantined),
    )
