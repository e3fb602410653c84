"""Blocks of asynchronous code that another thread may end, under asyncio and trio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Protocol, Self

from ..clock import in_trio

__all__ = ["Loop", "Scope", "new_scope", "running_loop", "shielded"]


class Scope(Protocol):
    """A block that can be cancelled by itself; what `trio.CancelScope` is."""

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> bool | None:
        """End; its own cancellation does not leave it."""
        ...

    def cancel(self) -> None:
        """Cancel what runs in it, now or when it is entered; in its own loop."""
        ...


class _AsyncioScope:
    """A scope for asyncio: the task that has entered it is cancelled, and goes on after it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._before = 0
        self._is_cancelled = False

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        assert self._task is not None, "a coroutine runs in a task"
        self._before = self._task.cancelling()
        if self._is_cancelled:
            self._task.cancel()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> bool:
        task, self._task = self._task, None
        if not self._is_cancelled or task is None or task.uncancel() > self._before:
            return False
        return kind is not None and issubclass(kind, asyncio.CancelledError)

    def cancel(self) -> None:
        if not self._is_cancelled:
            self._is_cancelled = True
            if self._task is not None:
                self._task.cancel()


def new_scope() -> Scope:
    """Return a scope for the loop that runs here."""
    if in_trio():
        import trio

        return trio.CancelScope()
    return _AsyncioScope()


@contextlib.contextmanager
def shielded(limit: float) -> Generator[None]:
    """Let what is awaited in this block go on, for up to `limit` seconds, although its task is cancelled.

    Under asyncio a cancellation has been delivered by then, and only another one breaks the block off.
    """
    if not in_trio():
        yield
        return
    import trio

    with trio.CancelScope(shield=True, deadline=trio.current_time() + limit):
        yield


class Loop(Protocol):
    """An event loop, seen from another thread; a loop that has ended does nothing any more."""

    def call(self, fn: Callable[[], object]) -> None:
        """Call a function in the loop soon."""
        ...

    def spawn(self, fn: Callable[[], Awaitable[object]]) -> None:
        """Run a coroutine function, which raises nothing, in the loop soon."""
        ...


class _AsyncioLoop:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks = set[asyncio.Future[object]]()

    def call(self, fn: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(fn)

    def spawn(self, fn: Callable[[], Awaitable[object]]) -> None:
        def begin() -> None:
            task = asyncio.ensure_future(fn())
            self._tasks.add(task)  # or it might be collected in the middle
            task.add_done_callback(self._tasks.discard)

        self.call(begin)


class _TrioLoop:
    def __init__(self) -> None:
        import trio

        self._trio = trio
        self._token = trio.lowlevel.current_trio_token()

    def call(self, fn: Callable[[], object]) -> None:
        with contextlib.suppress(self._trio.RunFinishedError):
            self._token.run_sync_soon(fn)

    def spawn(self, fn: Callable[[], Awaitable[object]]) -> None:
        self.call(lambda: self._trio.lowlevel.spawn_system_task(fn))


def running_loop() -> Loop:
    """Return the loop that runs here."""
    return _TrioLoop() if in_trio() else _AsyncioLoop()
