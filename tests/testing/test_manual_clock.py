"""The clock for tests: it stands still until it is moved."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from retrykit.clock import SystemClock, current_clock
from retrykit.errors import ConfigurationError
from retrykit.testing import ManualClock, manual_clock
from tests.capabilities import require

require("trio")

import trio  # only where it is present

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_clock_stands_still():
    """Reading it moves nothing; every clock begins at the same instant."""
    clock = ManualClock()
    assert [START] * 3 == [clock.now() for _ in range(3)]
    assert clock.monotonic() == START.timestamp()
    assert clock.sleeps == []


@pytest.mark.parametrize("duration", [90, 90.0, "90s", "1m30s", timedelta(seconds=90)])
def test_advance_moves_it_forward(duration):
    """By any form of duration, for instants and spans alike; it is no sleep."""
    clock = ManualClock()
    clock.advance(duration)
    assert (START + timedelta(seconds=90), START.timestamp() + 90, []) == (clock.now(), clock.monotonic(), clock.sleeps)


def test_advance_by_many_small_steps_is_exact():
    """Tests may count on the millisecond."""
    clock = ManualClock()
    for _ in range(1000):
        clock.advance(16.1)
    assert START + timedelta(seconds=16100) == clock.now()


@pytest.mark.parametrize("duration", [-1, float("nan"), "soon"])
def test_advance_by_what_is_no_duration_is_refused(duration):
    """It does not move then."""
    clock = ManualClock()
    with pytest.raises(ConfigurationError):
        clock.advance(duration)
    assert START == clock.now()


def test_move_to_sets_it_forward_and_back():
    """Real clocks are set back too."""
    clock = ManualClock(datetime(2020, 1, 1, 5, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))))
    assert datetime(2020, 1, 1, tzinfo=UTC) == clock.now()
    for year in (2030, 2010):
        clock.move_to(datetime(year, 1, 1, tzinfo=UTC))
        assert clock.now().year == year


@pytest.mark.parametrize("call", [ManualClock, ManualClock().move_to])
def test_naive_instant_is_refused(call):
    """As everywhere."""
    with pytest.raises(ConfigurationError, match="naive datetime"):
        call(datetime(2026, 1, 1))  # noqa: DTZ001 - on purpose


def test_sleep_moves_it_at_once_and_is_noted():
    """A test sees what was waited for, and does not wait."""
    clock = ManualClock()
    clock.sleep(3600)
    asyncio.run(clock.sleep_async(0.5))
    trio.run(clock.sleep_async, 0)
    assert clock.sleeps == [3600, 0.5, 0]
    assert START + timedelta(seconds=3600.5) == clock.now()


def test_clock_moved_by_many_threads_loses_no_step():
    """Workers of a test may all sleep on it."""
    clock, barrier = ManualClock(), threading.Barrier(8)

    def work():
        barrier.wait(30)
        for _ in range(100):
            clock.sleep(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert START + timedelta(seconds=800) == clock.now()
    assert len(clock.sleeps) == 800


def test_manual_clock_is_in_force_inside_its_block():
    """For everything that was given no clock of its own; also after an error real time is back."""
    with contextlib.suppress(ZeroDivisionError), manual_clock() as clock:
        assert isinstance(clock, ManualClock)
        assert current_clock() is clock
        raise ZeroDivisionError
    assert isinstance(current_clock(), SystemClock)
