"""A cancelled flow takes no further step, and cleans up after itself."""

from __future__ import annotations

import asyncio

import pytest

from retrykit._steps import arun, do
from tests.capabilities import require

require("trio")

import trio
import trio.testing


class Script:
    """A flow of three steps that notes what happens; the second one is awaited for ever."""

    def __init__(self, wait_for_ever):
        self.log = []
        self._wait_for_ever = wait_for_ever

    async def _second(self):
        self.log.append("second begins")
        try:
            await self._wait_for_ever()
        finally:
            self.log.append("second is cancelled")

    def flow(self):
        try:
            yield from do(self.log.append, "first")
            yield from do(self._second)
        except Exception:  # noqa: BLE001 - a cancellation is no error
            self.log.append("except")
        finally:
            self.log.append("finally")
        yield from do(self.log.append, "third")


CANCELLED = ["first", "second begins", "second is cancelled", "finally"]


async def _for_ever_asyncio():
    await asyncio.get_running_loop().create_future()


def test_asyncio_cancel_in_mid_step_stops_the_flow():
    """The task ends as cancelled; `finally` ran, `except Exception` did not, and no step followed."""
    script = Script(_for_ever_asyncio)

    async def main():
        task = asyncio.create_task(arun(script.flow()))
        await asyncio.sleep(0)
        assert script.log == ["first", "second begins"]
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    assert asyncio.run(main()) is True
    assert CANCELLED == script.log


class Careful(Script):
    """A flow that asks for another step on its way out."""

    def flow(self):
        try:
            yield from super().flow()
        finally:
            self.log.append("asks")
            yield from do(self.log.append, "never")


def test_asyncio_cancelled_flow_that_asks_for_another_step_is_refused_it():
    """Not even a step in `finally` is taken: what the flow held is a lease."""
    script = Careful(_for_ever_asyncio)

    async def main():
        async with asyncio.timeout(0):
            await arun(script.flow())

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert [*CANCELLED, "asks"] == script.log


def test_trio_cancelled_flow_that_asks_for_another_step_is_refused_it():
    """The same under trio."""
    script = Careful(trio.sleep_forever)

    async def main():
        with trio.move_on_after(60) as scope:
            await arun(script.flow())
        return scope.cancelled_caught

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) is True
    assert [*CANCELLED, "asks"] == script.log


def test_asyncio_timeout_in_mid_step_stops_the_flow():
    """A timeout around a flow is a TimeoutError for the caller and a cancellation for the flow."""
    script = Script(_for_ever_asyncio)

    async def main():
        async with asyncio.timeout(0):
            await arun(script.flow())

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert CANCELLED == script.log


def test_trio_cancel_in_mid_step_stops_the_flow():
    """The cancel scope catches its cancellation; `finally` ran, `except Exception` did not, and no step followed."""
    script = Script(trio.sleep_forever)

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(arun, script.flow())
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        return nursery.cancel_scope.cancelled_caught

    assert trio.run(main) is True
    assert CANCELLED == script.log


def test_trio_deadline_in_mid_step_stops_the_flow():
    """A deadline around a flow works as any other cancellation."""
    script = Script(trio.sleep_forever)

    async def main():
        with trio.move_on_after(60) as scope:
            await arun(script.flow())
        return scope.cancelled_caught

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) is True
    assert CANCELLED == script.log


def test_coroutine_closed_in_mid_step_closes_the_flow():
    """A coroutine that nobody awaits to its end still lets the flow clean up."""
    log = []

    class Pending:
        def __await__(self):
            yield
            log.append("never")

    def flow():
        try:
            yield from do(Pending)
            yield from do(log.append, "never either")
        finally:
            log.append("finally")

    coroutine = arun(flow())
    coroutine.send(None)
    coroutine.close()
    assert log == ["finally"]


def test_generator_closed_before_a_step_runs_its_finally():
    """A flow that is abandoned between two steps cleans up without taking another."""
    log = []

    def flow():
        try:
            yield from do(log.append, "never")
        finally:
            log.append("finally")

    pending = flow()
    next(pending)
    pending.close()
    assert log == ["finally"]


def test_asyncio_cancelled_flow_leaves_its_neighbours_alone():
    """Flows in one loop are independent."""
    scripts = [Script(_for_ever_asyncio), Script(lambda: asyncio.sleep(0))]

    async def main():
        tasks = [asyncio.create_task(arun(script.flow())) for script in scripts]
        await asyncio.sleep(0)
        tasks[0].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second = asyncio.run(main())
    assert type(first) is asyncio.CancelledError
    assert second is None
    assert [*CANCELLED, "third"] == scripts[1].log
