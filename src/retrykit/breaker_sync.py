"""Breakers of many processes that act as one: what one finds out holds for all within an interval.

Each process keeps its own breakers, and calls never touch the store. Once per interval a process tells the store what its
breakers found, and takes over what the others did: one opens a circuit and all stop; no more probes than one process would
allow go out from the whole fleet; one closes it and all go on. While the store is away each process acts on its own evidence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import count
from typing import Final

import attrs

from ._steps import Steps, arun, do, run
from .breaker import BreakerRegistry, BreakerState, CircuitBreaker
from .clock import Clock, current_clock
from .errors import ConfigurationError, StoreError
from .lease import new_owner
from .stores import AsyncBackend, AsyncCircuitStore, Backend, Circuit, CircuitStore
from .times import Duration, seconds

__all__ = ["AsyncBreakerSync", "BreakerSync"]

_MISSED: Final = 5
"""Intervals without a word from the store after which a breaker acts on its own evidence."""


@attrs.frozen
class _Fleet:
    """The fleet's sums, as a window that a rule may judge."""

    calls: int
    failures: int


class _SyncFlow:
    """The one logic of both colours."""

    def __init__(
        self,
        breakers: BreakerRegistry | Iterable[CircuitBreaker],
        circuits: CircuitStore | AsyncCircuitStore,
        interval: Duration,
        clock: Clock | None,
    ) -> None:
        self._breakers = breakers if isinstance(breakers, BreakerRegistry) else _by_name(breakers)
        self._circuits = circuits
        self._interval = seconds(interval, "interval", positive=True)
        self._clock = clock
        self._instance = new_owner()
        self._asked = count(1)
        self._followed: dict[str, int] = {}
        self._isolated: set[str] = set()
        self._is_stopped = False

    def stop(self) -> None:
        """Let `run` end after the interval it is at; safe from other threads and from signal handlers."""
        self._is_stopped = True

    def _time(self) -> Clock:
        return self._clock or current_clock()

    def _all(self) -> Mapping[str, CircuitBreaker]:
        return self._breakers.all() if isinstance(self._breakers, BreakerRegistry) else self._breakers

    def _run_once(self) -> Steps[None]:
        breakers = self._all()
        for breaker in breakers.values():
            for token, succeeded in breaker.verdicts():
                yield from do(
                    self._circuits.record_probe,
                    breaker.name,
                    token,
                    succeeded=succeeded,
                    close_after=breaker.settings.close_after,
                    recovery=self._recovery(breaker),
                )
        known = {circuit.name: circuit for circuit in (yield from do(self._circuits.circuits))}
        for name, breaker in breakers.items():
            yield from self._agree(breaker, known.get(name))
        yield from self._take_over_pauses(breakers)

    def _agree(self, breaker: CircuitBreaker, circuit: Circuit | None) -> Steps[None]:
        """Bring one breaker and its circuit together: the fleet's news first, then what the breaker found itself."""
        if circuit is not None and circuit.generation > self._followed.get(breaker.name, 0):
            self._follow(breaker, circuit)
        elif breaker.state is BreakerState.OPEN and (circuit is None or not circuit.is_open):
            circuit = yield from self._open(breaker)
        elif breaker.state is BreakerState.CLOSED and breaker.settings.trip.every_success:
            circuit = yield from self._count(breaker, circuit)
        breaker.lead(self._interval * _MISSED)
        if circuit is not None and circuit.is_open and breaker.state is not BreakerState.ISOLATED:
            yield from self._ask_for_probe(breaker)

    def _follow(self, breaker: CircuitBreaker, circuit: Circuit) -> None:
        """Take over what the fleet has decided."""
        self._followed[breaker.name] = circuit.generation
        if breaker.state in (BreakerState.ISOLATED, BreakerState.DISABLED):
            return
        if not circuit.is_open:
            breaker.reset()
        elif circuit.open_until is not None:
            breaker.open(max(0.0, (circuit.open_until - self._time().now()).total_seconds()))

    def _open(self, breaker: CircuitBreaker) -> Steps[Circuit]:
        """Tell the fleet that a breaker has opened; what somebody else decided in the meantime holds."""
        circuit = yield from do(self._circuits.trip, breaker.name, by=self._instance, recovery=self._recovery(breaker))
        self._follow(breaker, circuit)
        return circuit

    def _count(self, breaker: CircuitBreaker, circuit: Circuit | None) -> Steps[Circuit | None]:
        """Tell the fleet what a breaker counted, and open it if the sums of all are too bad."""
        calls, failures = breaker.counted
        if not calls:
            return circuit
        circuit = yield from do(
            self._circuits.report,
            breaker.name,
            instance=self._instance,
            calls=calls,
            failures=failures,
            length=self._interval * _MISSED,
        )
        sums = _Fleet(*circuit.counted(self._time().now()))
        return (yield from self._open(breaker)) if breaker.settings.trip.is_met(sums) else circuit

    def _ask_for_probe(self, breaker: CircuitBreaker) -> Steps[None]:
        """Ask for a probe of an open circuit; the next call will be it."""
        lease = yield from do(
            self._circuits.lease_probe,
            breaker.name,
            owner=f"{self._instance}/{next(self._asked)}",
            limit=breaker.settings.probes,
            lease=breaker.settings.probe_timeout,
        )
        if lease is not None:
            breaker.grant(lease.token, (lease.deadline - self._time().now()).total_seconds())

    def _take_over_pauses(self, breakers: Mapping[str, CircuitBreaker]) -> Steps[None]:
        """Isolate the breakers of paused providers, and let go of those that were resumed."""
        pauses = {pause.key for pause in (yield from do(self._circuits.pauses))}
        paused = {name for name in breakers if f"provider:{name}" in pauses}
        for name in paused - self._isolated:
            breakers[name].isolate()
        for name in self._isolated - paused:
            if name in breakers:
                breakers[name].reset()
        self._isolated = paused

    def _recovery(self, breaker: CircuitBreaker) -> float:
        """Return for how long a circuit is to be open, at least a little."""
        return max(0.001, breaker.retry_after or breaker.settings.recovery.delay(1, None))

    def _run(self, sleep: Callable[[float], Awaitable[None] | None]) -> Steps[None]:
        while not self._is_stopped:
            try:
                yield from self._run_once()
            except StoreError as error:
                _log_store_error(error)
            if not self._is_stopped:
                yield from do(sleep, self._interval)


def _by_name(breakers: Iterable[CircuitBreaker]) -> Mapping[str, CircuitBreaker]:
    found: dict[str, CircuitBreaker] = {}
    for breaker in breakers:
        if found.setdefault(breaker.name, breaker) is not breaker:
            raise ConfigurationError(f"two breakers are called {breaker.name!r}; give each circuit a name of its own")
    return found


def _log_store_error(error: StoreError) -> None:
    import logging  # only on the failing path

    logging.getLogger("retrykit.breaker").warning("circuits are not shared now, trying again: %s", error)


class BreakerSync(_SyncFlow):
    """Shares breakers with the other processes that use the same store.

    Args:
        breakers: a registry, or breakers of different names.
        backend: where the circuits are.
        interval: how often they are exchanged.
        clock: where the time comes from; None: the clock in force.

    Raises:
        ConfigurationError: a value is not allowed, or two breakers have one name.

    Example:
        >>> from retrykit.backends import MemoryBackend
        >>> backend = MemoryBackend()
        >>> here, there = CircuitBreaker("ses"), CircuitBreaker("ses")  # of two processes
        >>> here.open()
        >>> for breaker in (here, there):
        ...     BreakerSync([breaker], backend).run_once()
        >>> there.state.value
        'open'
    """

    def __init__(
        self,
        breakers: BreakerRegistry | Iterable[CircuitBreaker],
        backend: Backend,
        *,
        interval: Duration = 1.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(breakers, backend.circuits, interval, clock)

    def run_once(self) -> None:
        """Exchange once.

        Raises:
            StoreError: the store failed; the breakers go on by their own evidence.
        """
        run(self._run_once())

    def run(self) -> None:
        """Exchange once per interval until `stop` is called, in a thread that the application starts. Store errors are logged."""
        run(self._run(self._time().sleep))


class AsyncBreakerSync(_SyncFlow):
    """`BreakerSync` for asynchronous callers."""

    def __init__(
        self,
        breakers: BreakerRegistry | Iterable[CircuitBreaker],
        backend: AsyncBackend,
        *,
        interval: Duration = 1.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(breakers, backend.circuits, interval, clock)

    async def run_once(self) -> None:
        """Exchange once, as `BreakerSync.run_once`."""
        await arun(self._run_once())

    async def run(self) -> None:
        """Exchange once per interval until `stop` is called, in a task that the application starts."""
        await arun(self._run(self._time().sleep_async))
