"""Figures that are read when somebody asks: of a backend, and of the parts of this process.

A backend tells how deep the dead letters lie, what waits for its retry, where deliveries stand; it is read at most once in a while,
so that many scrapes do not become many queries. Budgets and breakers tell what they hold and what they have refused.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import ClassVar, Final, Protocol

import attrs

from .._steps import Steps, arun, do, is_async, run
from ..breaker import CircuitBreaker
from ..budget import RetryBudget
from ..checks import has_methods, instance_with
from ..clock import Clock, current_clock
from ..errors import ConfigurationError, StoreError
from ..message import check_name
from ..stores import AsyncBackend, Backend
from ..times import Duration, seconds

__all__ = [
    "AsyncBackendGauges",
    "BackendGauges",
    "Gauge",
    "Gauges",
    "PartGauges",
    "Reading",
    "check_gauges",
    "figures_of",
]


@attrs.frozen(kw_only=True)
class Gauge:
    """A figure that can be read at any time."""

    name: str
    """As OpenTelemetry writes it, without the namespace."""
    text: str
    """What it is, in one line."""
    label: str | None = None
    unit: str = ""
    """"s" for seconds."""
    is_total: bool = False
    """Whether it only grows."""


@attrs.frozen
class Reading:
    """What a gauge showed."""

    gauge: Gauge
    values: Mapping[str, float]
    """By the value of its label; by "" where it has none."""


class Gauges(Protocol):
    """What an exporter can watch."""

    gauges: ClassVar[tuple[Gauge, ...]]
    """All that may be read."""

    def read(self) -> Sequence[Reading]:
        """Return what they show now; those without a value may be absent."""
        ...


def check_gauges(gauges: Gauges) -> None:
    """See that an exporter can watch something.

    Raises:
        ConfigurationError: it cannot.
    """
    instance_with(
        gauges, "gauges", "gauges read", "BackendGauges(backend), AsyncBackendGauges(backend) or PartGauges(...)"
    )


_UP: Final = Gauge(name="backend.up", text="Whether the stores could be read: 1 or 0")
_LETTERS: Final = Gauge(name="dlq.letters", text="Dead letters by state; quarantined ones are the depth", label="state")
_DIED: Final = Gauge(name="dlq.died", text="Dead letters that came within a window: the growth", label="window")
_LETTER_AGE: Final = Gauge(name="dlq.oldest.age", text="Age of the oldest letter that waits for a person", unit="s")
_WAITING: Final = Gauge(name="retry_queue.messages", text="Messages in the retry queue", label="state")
_DUE: Final = Gauge(name="retry_queue.due", text="Messages that are due now: the backlog")
_DUE_AGE: Final = Gauge(name="retry_queue.oldest.age", text="For how long the oldest message has been due", unit="s")
_DELIVERIES: Final = Gauge(name="deliveries", text="Messages in the delivery log, by status", label="status")
_UNSETTLED: Final = Gauge(
    name="unsettled", text="Sends of which it is time to find out whether they happened, up to 1,000"
)

_MAX_UNSETTLED: Final = 1_000
_STALE: Final = 60.0
_DOWN: Final = Reading(_UP, {"": 0})


class _BackendFlow:
    """What both colours share."""

    gauges: ClassVar[tuple[Gauge, ...]] = (
        _UP,
        _LETTERS,
        _DIED,
        _LETTER_AGE,
        _WAITING,
        _DUE,
        _DUE_AGE,
        _DELIVERIES,
        _UNSETTLED,
    )

    def __init__(self, backend: Backend | AsyncBackend, fresh: Duration, clock: Clock | None) -> None:
        stores = "dead_letters retries deliveries claims"
        instance_with(backend, "backend", stores, "one with all its stores, such as open_backend(url)")
        if is_async(backend.retries.stats) and not isinstance(self, AsyncBackendGauges):
            raise ConfigurationError(
                f"the backend is {backend!r}, which is asynchronous; a scrape cannot await: use AsyncBackendGauges(backend) and "
                "await its refresh(), or use open_backend(url) beside it"
            )
        if isinstance(self, AsyncBackendGauges) and not is_async(backend.retries.stats):
            raise ConfigurationError(
                f"the backend is {backend!r}, which is synchronous; use BackendGauges(backend), or as_async(backend)"
            )
        has_methods(clock, "clock", "now monotonic")
        self._backend = backend
        self._fresh = seconds(fresh, "fresh")
        self._clock = clock
        self._latest: tuple[Sequence[Reading], float] | None = None
        """What was read, and when."""

    def _time(self) -> Clock:
        return self._clock or current_clock()

    def _age(self) -> float:
        """Return how many seconds ago somebody read."""
        age = math.inf if self._latest is None else self._time().monotonic() - self._latest[1]
        return age if age >= 0 else math.inf

    def _measure(self) -> Steps[Sequence[Reading]]:
        clock = self._time()
        at = clock.monotonic()
        readings = [Reading(_UP, {"": 1})]
        try:
            readings += yield from figures_of(self._backend, clock.now())
        except StoreError as error:
            import logging  # only on the failing path

            logging.getLogger("retrykit.exporters").warning("the figures of the backend cannot be read now: %s", error)
            readings = [_DOWN]
        self._latest = readings, at
        return readings


def figures_of(backend: Backend | AsyncBackend, now: datetime) -> Steps[Sequence[Reading]]:
    """Read the figures of a backend.

    Args:
        backend: of either colour.
        now: by which ages are counted.

    Raises:
        StoreError: the stores cannot be read now.
    """
    letters = yield from do(backend.dead_letters.stats)
    retries = yield from do(backend.retries.stats)
    deliveries = yield from do(backend.deliveries.counts)
    unsettled = yield from do(backend.claims.unsettled, _MAX_UNSETTLED)
    states = ("quarantined", "redriving", "resolved", "discarded", "superseded")
    return [
        Reading(_LETTERS, {state: float(getattr(letters, state)) for state in states}),
        Reading(_DIED, {"1h": letters.died_last_hour, "1d": letters.died_last_day}),
        Reading(_LETTER_AGE, {"": _age(letters.oldest_quarantined_at, now)}),
        Reading(_WAITING, {"waiting": retries.waiting, "leased": retries.leased}),
        Reading(_DUE, {"": retries.due}),
        Reading(_DUE_AGE, {"": _age(retries.next_due_at, now)}),
        Reading(_DELIVERIES, {status.value: count for status, count in deliveries.items()}),
        Reading(_UNSETTLED, {"": len(unsettled)}),
    ]


class BackendGauges(_BackendFlow):
    """Reads the figures of a backend, and keeps what it read for a while.

    It is safe in threads: while one reads, the others get what was read before. When the stores cannot be read, "backend.up" is
    0, the other gauges are absent, and the error is logged.

    Args:
        backend: a synchronous one; for an asynchronous one there is `AsyncBackendGauges`.
        fresh: for how long figures are used before they are read again, >= 0 seconds. The delivery log is counted through
            each time: with many millions of rows take a minute.
        clock: where the time comes from; None: the clock in force.

    Raises:
        ConfigurationError: a value is not allowed, or the backend is asynchronous.

    Example:
        >>> from retrykit import open_backend
        >>> gauges = BackendGauges(open_backend("memory://"))
        >>> next(reading.values for reading in gauges.read() if reading.gauge.name == "retry_queue.due")
        {'': 0}
    """

    def __init__(self, backend: Backend, *, fresh: Duration = 10.0, clock: Clock | None = None) -> None:
        super().__init__(backend, fresh, clock)
        self._lock = threading.Lock()

    def read(self) -> Sequence[Reading]:
        """Return the figures, at most `fresh` old, or those of before while another thread reads."""
        latest = self._latest
        if not self._lock.acquire(blocking=latest is None) and latest is not None:
            return latest[0]
        try:
            if self._latest is not None and self._age() < self._fresh:
                return self._latest[0]
            return run(self._measure())
        finally:
            self._lock.release()


class AsyncBackendGauges(_BackendFlow):
    """`BackendGauges` for asynchronous callers: they refresh the figures, and a scrape, which cannot await, shows the latest.

    Where the application answers scrapes itself, it refreshes before each; else in a task, every ten seconds or so. When nobody has refreshed
    for a minute, or for three times `fresh` if that is more, "backend.up" is 0 and the other gauges are absent: figures that stand
    still look like a system that is well.

    Args:
        backend: an asynchronous one.
        fresh: for how long figures are used before they are read again, as for `BackendGauges`.
        clock: where the time comes from; None: the clock in force.

    Raises:
        ConfigurationError: a value is not allowed, or the backend is synchronous.

    Example:
        >>> import asyncio
        >>> from retrykit import open_async_backend
        >>> gauges = AsyncBackendGauges(open_async_backend("memory://"))
        >>> asyncio.run(gauges.refresh())
        >>> next(reading.values for reading in gauges.read() if reading.gauge.name == "retry_queue.due")
        {'': 0}
    """

    def __init__(self, backend: AsyncBackend, *, fresh: Duration = 10.0, clock: Clock | None = None) -> None:
        super().__init__(backend, fresh, clock)
        self._is_reading = False

    async def refresh(self) -> None:
        """Read the figures, unless they are still fresh or another task is about to read them."""
        if self._is_reading or self._age() < self._fresh:
            return
        self._is_reading = True
        try:
            await arun(self._measure())
        finally:
            self._is_reading = False

    def read(self) -> Sequence[Reading]:
        """Return the figures as they were last refreshed."""
        latest = self._latest
        return [_DOWN] if latest is None or self._age() > max(_STALE, 3 * self._fresh) else latest[0]


_TOKENS: Final = Gauge(name="budget.tokens", text="Retries that a budget could pay for now", label="budget")
_DENIED: Final = Gauge(name="budget.denied", text="Retries that a budget has denied", label="budget", is_total=True)
_REJECTED: Final = Gauge(
    name="breaker.rejected", text="Calls that a breaker has not let through", label="breaker", is_total=True
)


class PartGauges:
    """Reads the figures of budgets and breakers of this process.

    Args:
        budgets: by the name under which they are shown.
        breakers: each shown under its own name; their names differ.

    Raises:
        ConfigurationError: a value is not allowed, or two breakers have one name.

    Example:
        >>> from retrykit import RetryBudget
        >>> [dict(reading.values) for reading in PartGauges(budgets={"ses": RetryBudget(capacity=10)}).read()]
        [{'ses': 10.0}, {'ses': 0}, {}]
    """

    gauges: ClassVar[tuple[Gauge, ...]] = (_TOKENS, _DENIED, _REJECTED)

    def __init__(
        self, *, budgets: Mapping[str, RetryBudget] = MappingProxyType({}), breakers: Iterable[CircuitBreaker] = ()
    ) -> None:
        if not isinstance(budgets, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
            raise ConfigurationError(
                f"budgets is {budgets!r}; allowed are budgets by name, such as {{'ses': RetryBudget()}}"
            )
        if isinstance(breakers, (str, type)) or not isinstance(breakers, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"breakers is {breakers!r}; allowed is a list, such as [CircuitBreaker('ses')]")
        self._budgets = dict(budgets)
        self._breakers = tuple(breakers)
        for name, budget in self._budgets.items():
            check_name(name, "name of a budget")
            instance_with(budget, f"the budget {name!r}", "tokens denied", "a RetryBudget")
        names = set[str]()
        for breaker in self._breakers:
            instance_with(breaker, "a breaker", "name rejected", "a CircuitBreaker")
            if breaker.name in names:
                raise ConfigurationError(
                    f"two breakers are called {breaker.name!r}; each is shown under a name of its own"
                )
            names.add(breaker.name)

    def read(self) -> Sequence[Reading]:
        """Return the figures as they are now."""
        return [
            Reading(_TOKENS, {name: budget.tokens for name, budget in self._budgets.items()}),
            Reading(_DENIED, {name: budget.denied for name, budget in self._budgets.items()}),
            Reading(_REJECTED, {breaker.name: breaker.rejected for breaker in self._breakers}),
        ]


def _age(instant: datetime | None, now: datetime) -> float:
    return 0.0 if instant is None else max(0.0, (now - instant).total_seconds())
