"""Drive a flow step by step: stop it before any step, leave it there as a dead process would, or go on later.

A flow is a generator of calls, so a test sees each store operation before it happens. `crash_before(flow, n)` makes the
first n calls and then abandons the flow, which is what `kill -9` does to it; `run_until` pauses it, so that others can
run while it stands still, as a stalled process does.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from .._steps import Step, Steps

__all__ = ["Paused", "StepLog", "crash_before", "run_until"]

T = TypeVar("T")


class StepLog:
    """The names of the calls that a driver made."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def made(self, step: Step) -> None:
        """Note a call."""
        self.names.append(getattr(step.fn, "__name__", repr(step.fn)))


class Paused(Generic[T]):
    """A flow that stands before a call.

    Args:
        flow: not yet begun.
        log: where to note the calls.
    """

    def __init__(self, flow: Steps[T], log: StepLog | None = None) -> None:
        self._flow = flow
        self._log = log or StepLog()
        self._value: Any = None
        self._thrown: BaseException | None = None
        self._step: Step | None = None
        self.result: T | None = None
        self.done = False
        self._forward()

    @property
    def step(self) -> Step | None:
        """The call it stands before; None at its end."""
        return self._step

    def make_step(self) -> None:
        """Make the call it stands before and go on to the next."""
        assert self._step is not None, "the flow is at its end"
        self._log.made(self._step)
        try:
            self._value, self._thrown = self._step(), None
        except Exception as error:  # noqa: BLE001 - errors belong to the flow
            self._value, self._thrown = None, error
        self._forward()

    def finish(self) -> T:
        """Make all its remaining calls and return its result."""
        while not self.done:
            self.make_step()
        return self.result  # type: ignore[return-value]

    def _forward(self) -> None:
        try:
            self._step = self._flow.throw(self._thrown) if self._thrown is not None else self._flow.send(self._value)
        except StopIteration as end:
            self._step, self.done, self.result = None, True, end.value


def run_until(flow: Steps[T], steps: int, log: StepLog | None = None) -> Paused[T]:
    """Make the first `steps` calls of a flow, or all if it has fewer, and leave it standing before the next."""
    paused = Paused(flow, log)
    for _ in range(steps):
        if paused.done:
            break
        paused.make_step()
    return paused


def crash_before(flow: Steps[T], steps: int, log: StepLog | None = None) -> bool:
    """Make the first `steps` calls of a flow and abandon it; False when it had come to its end by then."""
    return not run_until(flow, steps, log).done
