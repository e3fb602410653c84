"""Figures that are read when somebody asks: of a backend, and of the parts of this process.

A backend tells how deep the dead letters lie, what waits for its retry, where deliveries stand; it is read at most once in a while,
so that many scrapes do not become many queries. Budgets and breakers tell what they hold and what they have refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import ClassVar, Final, Protocol

import attrs

from .._steps import is_async
from ..breaker import CircuitBreaker
from ..budget import RetryBudget
from ..clock import Clock, current_clock
from ..errors import ConfigurationError, StoreError
from ..stores import Backend
from ..times import Duration, seconds

__all__ = ["BackendGauges", "Gauge", "Gauges", "PartGauges", "Reading", "figures_of"]


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


class BackendGauges:
    """Reads the figures of a backend, and keeps what it read for a while.

    It is safe in threads: while one reads, the others get what was read before. When the stores cannot be read, "backend.up" is
    0, the other gauges are absent, and the error is logged.

    Args:
        backend: a synchronous one. For an asynchronous one open a second, synchronous one on the same URL.
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

    def __init__(self, backend: Backend, *, fresh: Duration = 10.0, clock: Clock | None = None) -> None:
        if is_async(backend.retries.stats):
            raise ConfigurationError(
                f"the backend is {backend!r}, which is asynchronous; a scrape cannot await: use open_backend(url) beside it"
            )
        self._backend = backend
        self._fresh = seconds(fresh, "fresh")
        self._clock = clock
        self._lock = threading.Lock()
        self._readings: Sequence[Reading] = ()
        self._read_at: float | None = None

    def read(self) -> Sequence[Reading]:
        """Return the figures, at most `fresh` old, or those of before while another thread reads."""
        clock = self._clock or current_clock()
        if not self._lock.acquire(blocking=self._read_at is None):
            return self._readings
        try:
            now = clock.monotonic()
            if self._read_at is None or not 0 <= now - self._read_at < self._fresh:
                self._readings = self._read(clock.now())
                self._read_at = now
            return self._readings
        finally:
            self._lock.release()

    def _read(self, now: datetime) -> Sequence[Reading]:
        try:
            return [Reading(_UP, {"": 1}), *figures_of(self._backend, now)]
        except StoreError as error:
            import logging  # only on the failing path

            logging.getLogger("retrykit.exporters").warning("the figures of the backend cannot be read now: %s", error)
            return [Reading(_UP, {"": 0})]


def figures_of(backend: Backend, now: datetime) -> Iterator[Reading]:
    """Read the figures of a backend.

    Args:
        backend: a synchronous one.
        now: by which ages are counted.

    Raises:
        StoreError: the stores cannot be read now.
    """
    letters = backend.dead_letters.stats()
    states = ("quarantined", "redriving", "resolved", "discarded", "superseded")
    yield Reading(_LETTERS, {state: float(getattr(letters, state)) for state in states})
    yield Reading(_DIED, {"1h": letters.died_last_hour, "1d": letters.died_last_day})
    yield Reading(_LETTER_AGE, {"": _age(letters.oldest_quarantined_at, now)})
    retries = backend.retries.stats()
    yield Reading(_WAITING, {"waiting": retries.waiting, "leased": retries.leased})
    yield Reading(_DUE, {"": retries.due})
    yield Reading(_DUE_AGE, {"": _age(retries.next_due_at, now)})
    yield Reading(_DELIVERIES, {status.value: count for status, count in backend.deliveries.counts().items()})
    yield Reading(_UNSETTLED, {"": len(backend.claims.unsettled(_MAX_UNSETTLED))})


_TOKENS: Final = Gauge(name="budget.tokens", text="Retries that a budget could pay for now", label="budget")
_DENIED: Final = Gauge(name="budget.denied", text="Retries that a budget has denied", label="budget", is_total=True)
_REJECTED: Final = Gauge(
    name="breaker.rejected", text="Calls that a breaker has not let through", label="breaker", is_total=True
)


class PartGauges:
    """Reads the figures of budgets and breakers of this process.

    Args:
        budgets: by the name under which they are shown.
        breakers: each shown under its own name.

    Example:
        >>> from retrykit import RetryBudget
        >>> [dict(reading.values) for reading in PartGauges(budgets={"ses": RetryBudget(capacity=10)}).read()]
        [{'ses': 10.0}, {'ses': 0}, {}]
    """

    gauges: ClassVar[tuple[Gauge, ...]] = (_TOKENS, _DENIED, _REJECTED)

    def __init__(
        self, *, budgets: Mapping[str, RetryBudget] = MappingProxyType({}), breakers: Iterable[CircuitBreaker] = ()
    ) -> None:
        self._budgets = dict(budgets)
        self._breakers = tuple(breakers)

    def read(self) -> Sequence[Reading]:
        """Return the figures as they are now."""
        return [
            Reading(_TOKENS, {name: budget.tokens for name, budget in self._budgets.items()}),
            Reading(_DENIED, {name: budget.denied for name, budget in self._budgets.items()}),
            Reading(_REJECTED, {breaker.name: breaker.rejected for breaker in self._breakers}),
        ]


def _age(instant: datetime | None, now: datetime) -> float:
    return 0.0 if instant is None else max(0.0, (now - instant).total_seconds())
