"""Call an asynchronous store from a synchronous test: the loop runs in a thread of its own until the test is over.

The tests of a contract are written once. A synchronous store they call directly; an asynchronous one through a `Driven`
store, whose methods wait for the loop to finish the call. Several threads may wait at once: the loop then has as many tasks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, TypeVar

__all__ = ["COLOURS", "AsyncioLoop", "Driven", "Loop", "TrioLoop"]

T = TypeVar("T")


class Loop(Protocol):
    """An event loop in a thread of its own."""

    def call(self, fn: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
        """Call a coroutine function in the loop and wait for its result."""
        ...

    def call_cancelled(self, ticks: int, fn: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T | None:
        """Call a coroutine function and cancel it when the loop has gone round `ticks` times; None when it was cancelled."""
        ...

    def close(self) -> None:
        """End the loop and its thread."""
        ...


class AsyncioLoop:
    """An asyncio event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="retrykit-asyncio", daemon=True)
        self._thread.start()

    def call(self, fn: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
        """Call a coroutine function in the loop and wait for its result."""

        async def main() -> T:
            return await fn(*args, **kwargs)

        return asyncio.run_coroutine_threadsafe(main(), self._loop).result()

    def call_cancelled(self, ticks: int, fn: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T | None:
        """Call a coroutine function and cancel it when the loop has gone round `ticks` times; None when it was cancelled."""

        async def main() -> T | None:
            task: asyncio.Future[T] = asyncio.ensure_future(fn(*args, **kwargs))
            for _ in range(ticks):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            return None if task.cancelled() else task.result()

        return self.call(main)

    def close(self) -> None:
        """End the loop and its thread."""
        self.call(self._loop.shutdown_asyncgens)
        self.call(self._loop.shutdown_default_executor)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class TrioLoop:
    """A trio run in a thread of its own."""

    def __init__(self) -> None:
        import trio

        self._trio = trio
        self._begun: Future[Any] = Future()
        self._thread = threading.Thread(target=trio.run, args=(self._main,), name="retrykit-trio", daemon=True)
        self._thread.start()
        self._token = self._begun.result()

    async def _main(self) -> None:
        self._end = self._trio.Event()
        self._begun.set_result(self._trio.lowlevel.current_trio_token())
        await self._end.wait()

    def call(self, fn: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
        """Call a coroutine function in the loop and wait for its result."""
        result: T = self._trio.from_thread.run(partial(fn, *args, **kwargs), trio_token=self._token)
        return result

    def call_cancelled(self, ticks: int, fn: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T | None:
        """Call a coroutine function and cancel it when the loop has gone round `ticks` times; None when it was cancelled."""
        trio = self._trio
        result: list[T] = []

        async def work(scope: Any) -> None:
            with scope:
                result.append(await fn(*args, **kwargs))

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                scope = trio.CancelScope()
                nursery.start_soon(work, scope)
                for _ in range(ticks):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

        self.call(main)
        return result[0] if result else None

    def close(self) -> None:
        """End the loop and its thread."""
        self._trio.from_thread.run_sync(self._end.set, trio_token=self._token)
        self._thread.join()


COLOURS: dict[str, Callable[[], Loop]] = {"asyncio": AsyncioLoop, "trio": TrioLoop}
"""The loops under which an asynchronous store is tested."""


class Driven:
    """An asynchronous store for synchronous callers: the same names, each call driven to its end."""

    def __init__(self, store: object, loop: Loop) -> None:
        self.driven = store
        self.loop = loop

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self.loop.call, getattr(self.driven, name))
