"""A fleet of processes that share one circuit, in either colour: each has a breaker of its own and exchanges it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from retrykit.breaker import BreakerRegistry, BreakerState, CircuitBreaker
from retrykit.breaker_sync import AsyncBreakerSync, BreakerSync
from retrykit.errors import BreakerOpenError, StoreUnavailableError
from retrykit.machines.breaker import Pass
from retrykit.policy import delays
from retrykit.testing import Paused
from tests.flows.fleet import Stage

INTERVAL = 1.0
RECOVERIES = (8.0, 16.0, 32.0)
PROBE_TIMEOUT = 6.0
SETTINGS: dict[str, Any] = {
    "failure_threshold": 3,
    "recovery_timeout": delays(*RECOVERIES, jitter="none"),
    "probe_timeout": PROBE_TIMEOUT,
}


class Door:
    """The circuits of a backend, which may be closed: then each call says that the store is away."""

    def __init__(self, circuits: Any) -> None:
        self._circuits = circuits
        self.is_closed = False

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._circuits, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.is_closed:
                raise StoreUnavailableError("the store is away")
            return operation(*args, **kwargs)

        call.__name__ = name
        return call


class Process:
    """One process: its breaker, and what exchanges it."""

    def __init__(self, stage: Stage, breakers: Any = None, name: str = "ses", **settings: Any) -> None:
        self.stage = stage
        if breakers is None:
            self.breaker = CircuitBreaker(name, clock=stage.clock, **{**SETTINGS, **settings})
            breakers = [self.breaker]
        elif isinstance(breakers, BreakerRegistry):
            self.breaker = breakers.get(name)
        self.door = Door((stage.twin or stage.backend).circuits)
        made = BreakerSync if stage.twin is None else AsyncBreakerSync
        self.sync = made(breakers, SimpleNamespace(circuits=self.door), interval=INTERVAL, clock=stage.clock)  # type: ignore[arg-type]

    @property
    def state(self) -> BreakerState:
        return self.breaker.state

    def exchange(self) -> None:
        """Exchange once."""
        done = self.sync.run_once()
        if self.stage.drive is not None and done is not None:
            self.stage.drive(done)

    def flow(self) -> Paused[None]:
        """Return an exchange that stands before its first call."""
        return Paused(self.sync._run_once(), drive=self.stage.drive)

    def call(self, works: bool = True) -> str:
        """Make a call; return "sent", "failed" or "refused"."""

        def send() -> None:
            if not works:
                raise ConnectionRefusedError("no answer")

        try:
            self.breaker.call(send)
        except BreakerOpenError:
            return "refused"
        except ConnectionRefusedError:
            return "failed"
        return "sent"

    def begin(self) -> Pass | None:
        """Begin a call that lasts; None when it is refused."""
        return self.breaker.gate or self.breaker.admit()

    def succeed(self, entered: Pass) -> None:
        """End it with a success."""
        if entered.note is not None:
            entered.note()

    def fail(self, entered: Pass) -> None:
        """End it with a failure."""
        self.breaker.failed(entered, ConnectionRefusedError("no answer"))

    def trip(self) -> None:
        """Let its calls fail until it opens."""
        while self.state is BreakerState.CLOSED:
            self.call(works=False)


class BreakerFleet:
    """Several processes on one backend and one clock."""

    def __init__(self, stage: Stage, size: int = 3, **settings: Any) -> None:
        self.stage = stage
        self.processes = [Process(stage, **settings) for _ in range(size)]

    def exchange(self, rounds: int = 1, *, without: tuple[Process, ...] = ()) -> None:
        """Let all exchange, one interval after the other."""
        for _ in range(rounds):
            for process in self.processes:
                if process not in without:
                    process.exchange()
            self.stage.clock.advance(INTERVAL)

    def wait(self, seconds: float, *, without: tuple[Process, ...] = ()) -> None:
        """Let time pass, and exchange in every interval of it."""
        self.exchange(round(seconds / INTERVAL), without=without)

    @property
    def states(self) -> list[str]:
        return [process.state.value for process in self.processes]

    def circuit(self, name: str = "ses") -> Any:
        """Return the circuit as the store has it."""
        return next((each for each in self.stage.backend.circuits.circuits() if each.name == name), None)

    def close_door(self, *, closed: bool = True) -> None:
        """Let the store go away for all, or come back."""
        for process in self.processes:
            process.door.is_closed = closed

    def calls(self, works: bool = True) -> list[str]:
        """Let every process make a call."""
        return [process.call(works) for process in self.processes]
