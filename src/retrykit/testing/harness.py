"""Drive a flow step by step: stop it before any step, leave it there as a dead process would, or go on later.

A flow is a generator of calls, so a test sees each store operation before it happens. `crash_before(flow, n)` makes the
first n calls and then abandons the flow, which is what `kill -9` does to it; `run_until` pauses it, so that others can
run while it stands still, as a stalled process does.

The flows of asynchronous stores are driven in the same way, by ordinary code: `drive` runs one call to its end, for
example `asyncio.Runner().run`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeAlias, TypeVar

from .._steps import Step, Steps

__all__ = ["Drive", "Paused", "StepLog", "crash_before", "run_until"]

T = TypeVar("T")

Drive: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine to its end and returns its result."""


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
        drive: runs a call that gives an awaitable; None: there is none.

    Example:
        >>> import asyncio
        >>> from retrykit.backends import MemoryBackend
        >>> from retrykit.dispatch import AsyncDispatcher
        >>> from retrykit.stores import as_async
        >>> async def send(message, key):
        ...     return "provider-id-1"
        >>> dispatcher = AsyncDispatcher(send, backend=as_async(MemoryBackend()))
        >>> with asyncio.Runner() as runner:
        ...     worker = run_until(dispatcher._handle({"id": "welcome-17"}, None), 2, drive=runner.run)
        ...     worker.step.fn.__name__, worker.finish().kind.value
        ('begin_send', 'sent')
    """

    def __init__(self, flow: Steps[T], log: StepLog | None = None, *, drive: Drive | None = None) -> None:
        self._flow = flow
        self._drive = drive
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
            value = self._step()
            if self._drive is not None and inspect.isawaitable(value):
                value = self._drive(_awaited(value))
            self._value, self._thrown = value, None
        except Exception as error:  # noqa: BLE001 - errors belong to the flow
            self._value, self._thrown = None, error
        if inspect.iscoroutine(self._value):
            self._value.close()
            raise AssertionError(f"{self._step.fn!r} gave a coroutine: give `drive`")
        self._forward()

    def interrupt(self, error: BaseException) -> None:
        """Raise `error` in the flow at the call it stands before, as a signal does, and go on to the next call.

        A flow that asks for calls on its way out raises `error` when they are made; any other raises it here.
        """
        assert self._step is not None, "the flow is at its end"
        self._thrown = error
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


async def _awaited(value: Awaitable[T]) -> T:
    return await value


def run_until(flow: Steps[T], steps: int, log: StepLog | None = None, *, drive: Drive | None = None) -> Paused[T]:
    """Make the first `steps` calls of a flow, or all if it has fewer, and leave it standing before the next."""
    paused = Paused(flow, log, drive=drive)
    for _ in range(steps):
        if paused.done:
            break
        paused.make_step()
    return paused


def crash_before(flow: Steps[T], steps: int, log: StepLog | None = None, *, drive: Drive | None = None) -> bool:
    """Make the first `steps` calls of a flow and abandon it; False when it had come to its end by then."""
    return not run_until(flow, steps, log, drive=drive).done
