"""Call a blocking function from asynchronous code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .clock import in_trio

__all__ = ["in_thread"]

T = TypeVar("T")


async def in_thread(fn: Callable[..., T], /, *args: object) -> T:
    """Call a function in a thread, in the caller's context, under asyncio or trio."""

    def call() -> tuple[T]:
        try:
            return (fn(*args),)  # wrapped: trio takes no coroutine from a thread, even as a result
        except StopIteration as error:  # no future can hold it
            raise RuntimeError("a function raised StopIteration") from error

    if in_trio():
        import trio

        return (await trio.to_thread.run_sync(call))[0]
    import asyncio

    return (await asyncio.to_thread(call))[0]
