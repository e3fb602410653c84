"""The drain of a process: what may still be waited for."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator

import pytest

from retrykit import draining
from retrykit.clock import SystemClock
from retrykit.draining import Drain, current_drain, install, outlasts_drain, remove, sleep, sleep_async
from retrykit.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def drain(clock: ManualClock) -> Iterator[Drain]:
    drain = Drain(25.0, clock)
    install(drain)
    yield drain
    remove(drain)


def slept(clock: ManualClock, seconds: float) -> float:
    return sleep(clock, seconds)


def slept_async(clock: ManualClock, seconds: float) -> float:
    return asyncio.run(sleep_async(clock, seconds))


both = pytest.mark.parametrize("wait", [slept, slept_async], ids=["sync", "async"])
Wait = Callable[[ManualClock, float], float]


def test_drain_begins_when_it_is_asked_for_and_ends_at_its_length(drain: Drain, clock: ManualClock) -> None:
    """Before it nothing is limited; after it nothing is left; the first who asks gives the reason."""
    assert (False, math.inf, "") == (drain.is_requested, drain.remaining(), drain.reason)
    drain.request("SIGTERM")
    clock.advance(10)
    assert (True, 15.0, "SIGTERM") == (drain.is_requested, drain.remaining(), drain.reason)
    clock.advance(20)
    assert 0.0 == drain.remaining()


def test_drain_asked_for_again_is_over(drain: Drain) -> None:
    """Only who asks for it at once leaves no time; and each one rings."""
    rings = []
    drain.bells.append(lambda: rings.append(1))
    drain.request("SIGTERM")
    drain.request("again")
    assert 25.0 == drain.remaining()
    drain.request("SIGINT", at_once=True)
    assert (0.0, "SIGTERM", 3) == (drain.remaining(), drain.reason, len(rings))


def test_drain_removed_by_another_stays(drain: Drain) -> None:
    """Only the one that is installed is forgotten."""
    remove(Drain(1.0))
    assert drain is current_drain()
    remove(drain)
    assert current_drain() is None


def test_outlasts_drain_only_what_is_longer_than_what_is_left(drain: Drain) -> None:
    """No wait outlasts a drain that was not asked for, and no zero wait outlasts any."""
    assert not outlasts_drain(1e9)
    drain.request("x")
    assert (False, False, True) == (outlasts_drain(0.0), outlasts_drain(25.0), outlasts_drain(25.1))
    drain.request("x", at_once=True)
    assert (False, True) == (outlasts_drain(0.0), outlasts_drain(0.1))


@both
def test_sleep_without_a_drain_is_the_clocks(wait: Wait, clock: ManualClock) -> None:
    """Nobody has installed one: nothing is different."""
    assert (0.0, [3600]) == (wait(clock, 3600), clock.sleeps)


@both
def test_sleep_that_would_outlive_the_drain_is_not_begun(wait: Wait, drain: Drain, clock: ManualClock) -> None:
    """What was not waited is given back; what ends in time is waited."""
    assert 0.0 == wait(clock, 100)
    drain.request("x")
    assert (26.0, [100]) == (wait(clock, 26), clock.sleeps)
    assert (0.0, [100, 5]) == (wait(clock, 5), clock.sleeps)


def test_sleep_that_has_begun_is_cut_short(drain: Drain) -> None:
    """A thread that waits for an hour comes back as soon as the process is told to stop."""
    left = []
    thread = threading.Thread(target=lambda: left.append(sleep(SystemClock(), 3600)))
    thread.start()
    drain.request("x")
    drain.quiet.set()
    thread.join()
    assert 3500 < left[0] <= 3600


def test_sleep_that_has_begun_and_ends_in_time_is_waited_to_its_end(
    drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of a short wait is waited after the signal."""
    waited: list[float] = []
    monkeypatch.setattr(SystemClock, "sleep", lambda _self, seconds: waited.append(seconds))

    def asked_meanwhile(_seconds: float) -> bool:
        drain.request("x")
        return True

    monkeypatch.setattr(drain.quiet, "wait", asked_meanwhile)
    assert 0.0 == sleep(SystemClock(), 20)
    assert 19 < waited[0] <= 20


def test_sleep_that_nobody_disturbs_is_waited_once(drain: Drain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for the drain has been the whole wait."""
    monkeypatch.setattr(SystemClock, "sleep", lambda _self, _seconds: pytest.fail("a second wait"))
    assert 0.0 == sleep(SystemClock(), 0.001)


def test_sleep_async_that_has_begun_is_cut_short(drain: Drain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task looks now and then."""
    monkeypatch.setattr(draining, "_GLANCE", 0.001)

    async def main() -> float:
        asyncio.get_running_loop().call_later(0.003, drain.request, "x")
        return await sleep_async(SystemClock(), 3600)

    assert 3500 < asyncio.run(main()) < 3600
