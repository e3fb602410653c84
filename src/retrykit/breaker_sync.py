"""Breakers of many processes that act as one: what one finds out holds for all within an interval.

Each process keeps its own breakers, and calls never touch the store. Once per interval a process tells the store what its
breakers found, and takes over what the others did: one opens a circuit and all stop; no more probes than one process would
allow go out from the whole fleet; one closes it and all go on. While the store is away each process acts on its own evidence.

- A process that may probe and has no call by the next exchange gives the probe back, so that it goes round until somebody has one.
- A breaker that closed by itself while the store was away, or was reset by hand, is believed like a probe that succeeded.
- A breaker that was isolated or disabled by hand is left alone. The pause of `provider:<name>` isolates the breakers of that
  name; resuming it closes those that it isolated, and then they follow the fleet again.
- The store's clock decides, whatever the clocks of the processes show.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

import attrs

from ._steps import Steps, arun, do, run
from .breaker import BreakerRegistry, BreakerState, CircuitBreaker
from .clock import Clock, current_clock
from .errors import ConfigurationError, StoreError
from .lease import Lease, new_owner
from .stores import AsyncBackend, AsyncCircuitStore, Backend, Circuit, CircuitStore
from .times import Duration, seconds

__all__ = ["AsyncBreakerSync", "BreakerSync"]

_MISSED: Final = 5
"""Intervals without a word from the store after which a breaker acts on its own evidence."""

_BY_HAND: Final = frozenset({BreakerState.ISOLATED, BreakerState.DISABLED})
_PROBED: Final = frozenset({BreakerState.OPEN, BreakerState.HALF_OPEN})


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
        self._found: deque[tuple[CircuitBreaker, int, bool | None]] = deque()
        self._followed: WeakKeyDictionary[CircuitBreaker, tuple[int, datetime]] = WeakKeyDictionary()  # openings
        self._isolated: WeakSet[CircuitBreaker] = WeakSet()
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
        found = [(breaker, *verdict) for breaker in breakers.values() for verdict in breaker.verdicts()]
        self._found.extend(found)
        yield from self._tell_verdicts()
        known = {circuit.name: circuit for circuit in (yield from do(self._circuits.circuits))}
        unused = {breaker.name for breaker, _, succeeded in found if succeeded is None}
        for name, breaker in breakers.items():
            circuit = yield from self._agree(breaker, known.get(name))
            if circuit is not None and circuit.is_open and name not in unused and breaker.state in _PROBED:
                yield from self._ask_for_probe(breaker)
        yield from self._take_over_pauses(breakers)

    def _tell_verdicts(self) -> Steps[None]:
        """Tell the fleet what probes have found; what the store did not take stays for the next time."""
        while self._found:
            breaker, token, succeeded = self._found[0]
            yield from do(
                self._circuits.record_probe,
                breaker.name,
                token,
                succeeded=succeeded,
                close_after=breaker.settings.close_after,
                recovery=self._recovery(breaker),
            )
            self._found.popleft()

    def _agree(self, breaker: CircuitBreaker, circuit: Circuit | None) -> Steps[Circuit | None]:
        """Bring one breaker and its circuit together: the fleet's news first, then what the breaker found itself."""
        state, followed = breaker.state, self._followed.get(breaker)
        if state in _BY_HAND:
            self._followed.pop(breaker, None)  # once it is let go of, all that holds then is news
            return None
        if circuit is not None and circuit.is_open:
            if followed != _identity(circuit):
                self._follow(breaker, circuit)
            elif state is BreakerState.CLOSED:
                yield from self._prove(breaker)
        elif circuit is not None and followed is not None:
            del self._followed[breaker]
            if state in _PROBED:
                breaker.reset()
        elif state is BreakerState.OPEN:
            circuit = yield from self._open(breaker)
        elif state is BreakerState.CLOSED and breaker.settings.trip.every_success:
            circuit = yield from self._count(breaker, circuit)
        if state is not BreakerState.HALF_OPEN or (circuit is not None and circuit.is_open):
            breaker.lead(self._interval * _MISSED)  # else it probes by its own evidence, and there is nobody to lead it
        return circuit

    def _follow(self, breaker: CircuitBreaker, circuit: Circuit) -> None:
        """Open a breaker because the fleet has."""
        self._followed[breaker] = _identity(circuit)
        if circuit.open_until is not None:
            whole = circuit.open_until - circuit.changed_at
            left = circuit.open_until - self._time().now()  # more than the whole where our clock is behind the store's
            breaker.open(max(0.0, min(left, whole).total_seconds()), opens=circuit.opens)

    def _open(self, breaker: CircuitBreaker) -> Steps[Circuit]:
        """Tell the fleet that a breaker has opened; what somebody else decided in the meantime holds."""
        circuit = yield from do(self._circuits.trip, breaker.name, by=self._instance, recovery=self._recovery(breaker))
        self._follow(breaker, circuit)
        return circuit

    def _prove(self, breaker: CircuitBreaker) -> Steps[None]:
        """Tell the fleet that a breaker has closed by itself, while the store was away or by hand: as a probe that succeeded."""
        lease = yield from self._lease_probe(breaker)
        if lease is not None:
            yield from do(self._circuits.record_probe, breaker.name, lease.token, succeeded=True)

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
        return (yield from self._open(breaker)) if breaker.settings.trip.is_met(_Fleet(*circuit.counted)) else circuit

    def _lease_probe(self, breaker: CircuitBreaker) -> Steps[Lease | None]:
        return (
            yield from do(
                self._circuits.lease_probe,
                breaker.name,
                owner=f"{self._instance}/{next(self._asked)}",
                limit=breaker.settings.probes,
                lease=breaker.settings.probe_timeout,
            )
        )

    def _ask_for_probe(self, breaker: CircuitBreaker) -> Steps[None]:
        """Ask for a probe of an open circuit; the next call will be it, or until the next exchange none."""
        began = self._time().monotonic()
        lease = yield from self._lease_probe(breaker)
        if lease is not None:  # it began after we asked, by the store's clock, and so ends later than ours
            breaker.grant(lease.token, breaker.settings.probe_timeout - (self._time().monotonic() - began))

    def _take_over_pauses(self, breakers: Mapping[str, CircuitBreaker]) -> Steps[None]:
        """Isolate the breakers of paused providers, and let go of those that were resumed."""
        pauses = {pause.key for pause in (yield from do(self._circuits.pauses))}
        for name, breaker in breakers.items():
            if f"provider:{name}" not in pauses:
                if breaker in self._isolated and breaker.is_isolated:
                    breaker.reset()
                self._isolated.discard(breaker)
            elif not breaker.is_isolated:
                breaker.isolate()
                self._isolated.add(breaker)

    def _recovery(self, breaker: CircuitBreaker) -> float:
        """Return for how long a circuit is to be open, at least a little: what is left of the breaker's own time."""
        if breaker.state is BreakerState.OPEN:
            return max(0.001, breaker.retry_after or 0.0)
        return max(0.001, breaker.settings.recovery.delay(1, None))

    def _run(self, sleep: Callable[[float], Awaitable[None] | None]) -> Steps[None]:
        while not self._is_stopped:
            try:
                yield from self._run_once()
            except StoreError as error:
                _log_store_error(error)
            if not self._is_stopped:
                yield from do(sleep, self._interval)


def _identity(circuit: Circuit) -> tuple[int, datetime]:
    """Return what tells an opening from all others, also from those of a circuit that was forgotten in between."""
    return circuit.generation, circuit.changed_at


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
