"""`no_waiting`: every wait ends at once, in real time."""

from __future__ import annotations

import contextlib
import threading
from datetime import UTC, datetime

import pytest

from retrykit import retry
from retrykit.clock import Clock, SystemClock, current_clock
from retrykit.testing import ImpatientClock, no_waiting
from tests.capabilities import require

require("trio")

from tests.colours import both_loops

YEAR = 365 * 86400.0


def test_impatient_clock_is_a_clock_that_tells_real_time():
    """What was due in a year is not due after a wait for it."""
    clock = ImpatientClock()
    assert isinstance(clock, Clock)
    before, span = datetime.now(UTC), clock.monotonic()
    clock.sleep(YEAR)
    assert 0 <= (clock.now() - before).total_seconds() + 0.001 < YEAR / 2
    assert 0 <= clock.monotonic() - span < YEAR / 2


def test_wait_ends_at_once_and_is_noted():
    """The test ends, and sees what was to be waited for."""
    with no_waiting() as clock:
        current_clock().sleep(YEAR)
        current_clock().sleep(0.5)
    assert [YEAR, 0.5] == clock.sleeps


@both_loops
def test_asynchronous_wait_ends_at_once_and_lets_others_run(runner):
    """Under every loop."""
    turns = []

    async def main():
        if runner.__name__ == "run_asyncio":
            import asyncio

            await asyncio.gather(wait("a"), wait("b"))
        else:
            import trio

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait, "a")
                nursery.start_soon(wait, "b")

    async def wait(name):
        for _ in range(5):
            turns.append(name)
            await current_clock().sleep_async(YEAR)

    with no_waiting() as clock:
        runner(main)
    assert [YEAR] * 10 == clock.sleeps
    assert turns not in (sorted(turns), sorted(turns, reverse=True))


@both_loops
def test_asynchronous_retry_waits_for_nothing(runner):
    """The waits between the tries are those of the policy."""
    calls = []

    @retry(on=OSError, attempts=3)
    async def flaky():
        calls.append(1)
        if len(calls) < 3:
            raise OSError("down")
        return "up"

    with no_waiting() as clock:
        assert runner(flaky) == "up"
    assert len(clock.sleeps) == 2


def test_no_waiting_is_in_force_inside_its_block():
    """For what was given no clock of its own, in this thread; also after an error real waits are back."""
    elsewhere = []
    with contextlib.suppress(ZeroDivisionError), no_waiting() as clock:
        assert current_clock() is clock
        thread = threading.Thread(target=lambda: elsewhere.append(type(current_clock())))
        thread.start()
        thread.join()
        raise ZeroDivisionError
    assert [SystemClock, SystemClock] == [*elsewhere, type(current_clock())]


def test_unknown_name_of_the_kit_is_an_attribute_error():
    """A name that is not there is said to be missing, as from any module."""
    import retrykit.testing

    assert set(retrykit.testing.__all__) <= set(dir(retrykit.testing))
    with pytest.raises(AttributeError, match=r"module 'retrykit.testing' has no attribute 'no_sleeping'"):
        _ = retrykit.testing.no_sleeping
