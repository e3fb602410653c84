"""Clocks: real time, scaled time, and which clock is in force."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from retrykit import clock as clocks
from retrykit.clock import Clock, ScaledClock, SystemClock, current_clock, in_trio, use_clock
from retrykit.errors import ConfigurationError
from retrykit.testing import ManualClock
from tests.capabilities import require

require("trio")

import trio
import trio.testing


@pytest.fixture
def real_time(monkeypatch):
    """Replace the time module's readings and its sleep, and return the place to set and to read them."""

    class Time:
        slept = None
        wall = 1_800_000_000.0
        steady = 50.0

    Time.slept = []
    monkeypatch.setattr(time, "time", lambda: Time.wall)
    monkeypatch.setattr(time, "time_ns", lambda: int(Time.wall * 1e9))
    monkeypatch.setattr(time, "monotonic", lambda: Time.steady)
    monkeypatch.setattr(time, "sleep", Time.slept.append)
    return Time


@pytest.mark.parametrize("clock", [SystemClock(), ScaledClock(2), ManualClock()])
def test_clock_of_ours_is_a_clock(clock):
    """Every clock has the four methods."""
    assert isinstance(clock, Clock)
    assert not isinstance(object(), Clock)


def test_system_clock_reads_real_time_cut_to_the_millisecond(real_time):
    """The instant is aware, in UTC, and a store gives it back unchanged."""
    real_time.wall = 1_800_000_000.1239
    assert datetime.fromtimestamp(1_800_000_000, UTC) + timedelta(milliseconds=123) == SystemClock().now()
    assert SystemClock().monotonic() == 50.0


def test_system_clock_sleeps_in_real_time(real_time):
    """`sleep` is the sleep of the time module."""
    SystemClock().sleep(1.5)
    assert real_time.slept == [1.5]


def test_scaled_clock_runs_faster_from_its_epoch(real_time):
    """One real second is `speed` seconds of the clock, for instants, spans and sleeps alike."""
    clock = ScaledClock(60)
    assert real_time.wall == clock.epoch
    assert datetime.fromtimestamp(real_time.wall, UTC) == clock.now()
    real_time.wall += 2
    real_time.steady += 2
    assert datetime.fromtimestamp(clock.epoch + 120, UTC) == clock.now()
    assert clock.monotonic() == 52.0 * 60
    clock.sleep(90)
    assert real_time.slept[-1:] == [1.5]


def test_scaled_clocks_with_one_epoch_agree(real_time):
    """Processes that share the epoch share the time, whenever they started."""
    first = ScaledClock(1000, epoch=real_time.wall)
    real_time.wall += 3
    assert first.now() == ScaledClock(1000, epoch=first.epoch).now()


@pytest.mark.parametrize("speed", [0, -1, math.nan, math.inf, 1e9])
def test_scaled_clock_with_another_speed_is_refused(speed):
    """A speed is a positive number below 1e9."""
    with pytest.raises(ConfigurationError) as caught:
        ScaledClock(speed)
    assert f"speed is {speed!r}; allowed is a number > 0 and < 1e9" == str(caught.value)


@pytest.mark.parametrize(("clock", "expected"), [(SystemClock(), 90.0), (ScaledClock(60), 1.5)])
def test_sleep_async_under_trio_is_a_trio_sleep(clock, expected):
    """The task sleeps on trio's own clock."""

    async def main():
        before = trio.current_time()
        await clock.sleep_async(90)
        return trio.current_time() - before

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) == pytest.approx(expected)


@pytest.mark.parametrize(("clock", "expected"), [(SystemClock(), 90.0), (ScaledClock(60), 1.5)])
def test_sleep_async_under_asyncio_is_an_asyncio_sleep(monkeypatch, clock, expected):
    """The task sleeps in the loop and does not block it."""
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(clock.sleep_async(90))
    assert [expected] == slept


def test_in_trio_tells_where_the_code_runs(monkeypatch):
    """True under trio only, and trio is not imported to find out."""

    async def ask():
        return in_trio()

    assert trio.run(ask) is True
    assert asyncio.run(ask()) is False
    assert in_trio() is False
    monkeypatch.delitem(sys.modules, "trio")
    assert in_trio() is False
    assert "trio" not in sys.modules


def test_current_clock_is_real_time_unless_said_otherwise():
    """`use_clock` holds inside its block, nests, and ends also after an error."""
    assert type(current_clock()) is SystemClock
    outer, inner = ManualClock(), ManualClock()
    with use_clock(outer) as given:
        assert given is outer is current_clock()
        with contextlib.suppress(ZeroDivisionError), use_clock(inner):
            assert current_clock() is inner
            raise ZeroDivisionError
        assert current_clock() is outer
    assert clocks._SYSTEM is current_clock()


def test_current_clock_is_that_of_the_context():
    """A thread started inside the block has real time, a copied context has the clock."""
    seen = []
    with use_clock(ManualClock()) as clock:
        thread = threading.Thread(target=lambda: seen.append(type(current_clock())))
        thread.start()
        thread.join()
        context = contextvars.copy_context()
    assert [SystemClock] == seen
    assert context.run(current_clock) is clock
