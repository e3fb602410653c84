"""Run an asynchronous test under each event loop that the library supports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import pytest

from tests.capabilities import require

require("trio")

import trio

Main: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]
Runner: TypeAlias = Callable[[Main], Any]


def run_asyncio(main: Main) -> Any:
    return asyncio.run(main())


both_loops = pytest.mark.parametrize("runner", [run_asyncio, trio.run], ids=["asyncio", "trio"])


def cancel(runner: Runner, main: Main) -> None:
    """Cancel a call that has begun to wait, and see that the cancellation reaches its caller."""

    async def in_asyncio() -> None:
        task = asyncio.ensure_future(main())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def in_trio() -> None:
        with trio.move_on_after(0) as scope:
            await main()
        assert scope.cancelled_caught

    runner(in_trio if runner is trio.run else in_asyncio)


async def hang(runner: Runner) -> None:
    """Wait for ever."""
    if runner is trio.run:
        await trio.sleep_forever()
    await asyncio.Event().wait()
