"""States: by time, by hand, over a restart; and who is told."""

from __future__ import annotations

import json
import logging
import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from retrykit import CircuitBreaker
from retrykit.breaker import BreakerState, failure_rate
from retrykit.clock import use_clock
from retrykit.errors import BreakerOpenError, ConfigurationError
from retrykit.events import BreakerChanged, Event
from retrykit.testing import ManualClock
from tests.parts.breakers import attempt, breaker, down, refused, throttled, trip


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_open_lasts_its_whole_time_from_any_instant(clock: ManualClock) -> None:
    """A second is a second, also when it begins at the end of one."""
    clock.move_to(datetime(2026, 1, 1, 0, 0, 0, 900_000, tzinfo=UTC))
    guard = breaker(clock, recovery_timeout=[1], rng=None)
    trip(guard)
    clock.advance(0.999)
    assert not attempt(guard)
    clock.advance(0.101)
    assert attempt(guard)


def test_recovery_by_default_doubles_with_jitter_to_ten_minutes(clock: ManualClock) -> None:
    """A minute, two, four, eight, ten and ten; each with up to a tenth more; a minute again once it was closed."""
    guard = CircuitBreaker("ses", failure_threshold=1, clock=clock, rng=random.Random(7))
    waits = []
    for _ in range(6):
        trip(guard, 1)
        wait = guard.retry_after
        assert wait is not None
        waits.append(wait)
        clock.advance(wait)
    for expected, wait in zip([60, 120, 240, 480, 600, 600], waits, strict=True):
        assert expected <= wait <= expected * 1.1
    assert 6 == len(set(waits))
    assert attempt(guard)
    trip(guard, 1)
    assert 60 <= (guard.retry_after or 0) <= 66


@pytest.mark.parametrize(("first", "longest", "expected"), [("1h", None, 3600), (10, 15, 15), (10, 10, 10)])
def test_recovery_is_capped_as_told(clock: ManualClock, first: Any, longest: Any, expected: float) -> None:
    """A first recovery above ten minutes is its own cap."""
    guard = CircuitBreaker("ses", failure_threshold=1, recovery_timeout=first, max_recovery=longest, clock=clock)
    for _ in range(3):
        trip(guard, 1)
        clock.advance((guard.retry_after or 0.0) + 0.001)
    trip(guard, 1)
    assert expected <= (guard.retry_after or 0) <= expected * 1.1


def test_recovery_list_and_function_give_each_time(clock: ManualClock) -> None:
    """As retries are told their waits."""
    for recovery in ([5, 7], lambda number: 3 + 2 * number):
        guard = breaker(clock, recovery_timeout=recovery, failure_threshold=1)
        for expected in (5, 7):
            trip(guard, 1)
            assert expected <= (guard.retry_after or 0) <= expected * 1.1
            clock.advance((guard.retry_after or 0.0) + 0.001)


def test_clock_that_goes_back_does_not_keep_it_open(clock: ManualClock) -> None:
    """A breaker made under one clock and used under an earlier one is open for its own time at the most."""
    guard = breaker(clock)
    trip(guard)
    clock.move_to(clock.now() - timedelta(days=400))
    assert (60.0, False) == (guard.retry_after, attempt(guard))
    clock.advance(60)
    assert attempt(guard)
    assert BreakerState.CLOSED is guard.state


@pytest.mark.parametrize("rule", [{"failure_threshold": 2}, {"trip": failure_rate(0.5, window="60s", minimum_calls=3)}])
def test_clock_in_force_is_used_where_none_was_given(rule: dict[str, Any], clock: ManualClock) -> None:
    """Of the caller, not of where the breaker was made."""
    guard = breaker(**rule)
    with use_clock(clock):
        attempt(guard)
        trip(guard)
        assert 60.0 == guard.retry_after
        clock.advance(60)
        assert attempt(guard)


def test_isolate_holds_until_reset(clock: ManualClock) -> None:
    """Neither time nor the success of a call from before lets anything through."""
    guard = breaker(clock)
    entered = guard.gate
    assert entered is not None
    guard.isolate()
    guard.failed(entered, refused())
    clock.advance("30d")
    assert (BreakerState.ISOLATED, True, None, False) == (
        guard.state,
        guard.is_isolated,
        guard.retry_after,
        attempt(guard),
    )
    guard.open(5)
    assert BreakerState.ISOLATED is guard.state
    guard.reset()
    assert (BreakerState.CLOSED, True, 1) == (guard.state, attempt(guard), guard.rejected)


@pytest.mark.parametrize("rule", [{"failure_threshold": 2}, {"trip": failure_rate(0.5, window=4, minimum_calls=2)}])
def test_disable_lets_everything_through_until_reset(clock: ManualClock, rule: dict[str, Any]) -> None:
    """Nothing counts meanwhile, also not afterwards."""
    guard = breaker(clock, **rule)
    attempt(guard, down())
    guard.disable()
    for _ in range(9):
        assert attempt(guard, down())
        assert attempt(guard)
    assert (BreakerState.DISABLED, (0, 0), 0.0) == (guard.state, guard.counted, guard.retry_after)
    guard.reset()
    attempt(guard, down())
    assert (1, 1) == guard.counted


def test_open_by_hand_lasts_as_told(clock: ManualClock) -> None:
    """For a duration in any form, or its own time."""
    guard = breaker(clock)
    for length, expected in ((None, 60.0), ("5m", 300.0), (timedelta(seconds=7), 7.0), (0, 0.0)):
        guard.reset()
        guard.open(length)
        assert expected == guard.retry_after
    assert BreakerState.HALF_OPEN is guard.state


@pytest.mark.parametrize("length", [-1, math.nan, math.inf, "soon", True, []])
def test_open_by_hand_for_no_duration_is_refused(length: Any) -> None:
    """And opens nothing."""
    guard = breaker()
    with pytest.raises(ConfigurationError, match="recovery is"):
        guard.open(length)
    assert BreakerState.CLOSED is guard.state


@pytest.mark.parametrize(
    "late", [None, down(), refused(), throttled()], ids=["success", "failure", "rejected", "throttled"]
)
@pytest.mark.parametrize(
    "rule",
    [
        {"failure_threshold": 2},
        {"trip": failure_rate(0.5, window=4, minimum_calls=2)},
        {"trip": failure_rate(0.5, window="60s", minimum_calls=2)},
    ],
)
def test_late_result_of_an_earlier_generation_is_dropped(
    clock: ManualClock, rule: dict[str, Any], late: Exception | None
) -> None:
    """It neither closes a half-open breaker, nor opens or clears a closed one."""
    guard = breaker(clock, **rule)
    attempt(guard, down())
    old = guard.gate
    assert old is not None
    attempt(guard, down())
    clock.advance(60)
    assert BreakerState.HALF_OPEN is guard.state

    def end_late() -> None:
        if late is not None:
            guard.failed(old, late)
        elif old.note is not None:
            old.note()

    end_late()
    assert BreakerState.HALF_OPEN is guard.state
    assert attempt(guard)
    attempt(guard, down())
    before = guard.counted
    end_late()
    assert (BreakerState.CLOSED, before) == (guard.state, guard.counted)


def test_probes_are_exactly_so_many_at_once(clock: ManualClock) -> None:
    """Of twenty callers two are let through; each that comes back makes room for one."""
    guard = breaker(clock, probes=2, close_after=9)
    trip(guard)
    clock.advance(60)
    begun = [guard.gate or guard.admit() for _ in range(20)]
    inside = [entered for entered in begun if entered is not None]
    assert (2, 18) == (len(inside), guard.rejected)
    inside[0].note()  # type: ignore[misc]
    again = [guard.admit() for _ in range(5)]
    assert 1 == sum(entered is not None for entered in again)


@pytest.mark.parametrize("end", [None, down, refused, throttled, KeyboardInterrupt, BreakerOpenError])
def test_probe_place_is_freed_on_every_exit(clock: ManualClock, end: Any) -> None:
    """However a probe ends, the breaker is not stuck."""
    guard = breaker(clock, probes=1, close_after=2)
    trip(guard)
    clock.advance(60)
    error = end("other", 1.0) if end is BreakerOpenError else end and end()
    assert attempt(guard, error)
    if end is down:
        clock.advance(60)
    assert (BreakerState.HALF_OPEN, 0.0, True) == (guard.state, guard.retry_after, attempt(guard))


def test_probe_that_hangs_is_replaced_after_its_timeout(clock: ManualClock) -> None:
    """The rejected are told when; the verdict of the lost one is dropped."""
    guard = breaker(clock, probe_timeout="10s")
    trip(guard)
    clock.advance(60)
    hung = guard.admit()
    assert hung is not None
    clock.advance(4)
    assert (False, 6.0) == (attempt(guard), guard.retry_after)
    assert (6.0, "half_open") == (guard.refusal().retry_after, guard.refusal().state)
    clock.advance(6)
    other = guard.admit()
    assert other is not None
    guard.failed(hung, down())
    assert BreakerState.HALF_OPEN is guard.state
    other.note()  # type: ignore[misc]
    assert BreakerState.CLOSED is guard.state


def test_events_tell_every_change_once(clock: ManualClock) -> None:
    """By failures, by time, by probes, by hand; with the failure that led there, and when."""
    heard: list[Event] = []
    guard = breaker(clock, on_event=[heard.append])
    start = clock.now()
    trip(guard)
    clock.advance(60)
    assert BreakerState.HALF_OPEN is guard.state
    attempt(guard, down())
    clock.advance(60)
    attempt(guard)
    guard.isolate()
    guard.isolate()
    guard.disable()
    guard.reset()
    guard.open()
    changes = [(e.before, e.after, e.failure is not None) for e in heard if isinstance(e, BreakerChanged)]
    assert [
        ("closed", "open", True),
        ("open", "half_open", False),
        ("half_open", "open", True),
        ("open", "half_open", False),
        ("half_open", "closed", False),
        ("closed", "isolated", False),
        ("isolated", "disabled", False),
        ("disabled", "closed", False),
        ("closed", "open", False),
    ] == changes
    assert [start, start + timedelta(seconds=60)] == [event.at for event in heard[:2]]
    assert {"ses"} == {event.name for event in heard if isinstance(event, BreakerChanged)}


def test_events_listener_may_use_the_breaker_and_may_raise(caplog: pytest.LogCaptureFixture) -> None:
    """No lock is held while it is told, and what it raises breaks no call."""

    def listen(_: Event) -> None:
        seen.append(guard.state)
        raise RuntimeError("a bad listener")

    seen: list[BreakerState] = []
    guard = breaker(on_event=[listen])
    with caplog.at_level(logging.ERROR):
        trip(guard)
    assert [BreakerState.OPEN] == seen
    assert "failed on BreakerChanged" in caplog.text


def test_snapshot_survives_a_restart(clock: ManualClock) -> None:
    """Through JSON: state, time left, growth of the recovery, and counts."""
    guard = breaker(clock, recovery_timeout=[10, 20])
    trip(guard)
    clock.advance(15)
    attempt(guard, down())
    clock.advance(5)
    heard: list[Event] = []
    other = breaker(ManualClock(), recovery_timeout=[10, 20], on_event=[heard.append])
    other.restore(json.loads(json.dumps(guard.snapshot())))
    assert (guard.state, guard.retry_after, guard.snapshot()) == (
        other.state,
        pytest.approx(other.retry_after),
        {**other.snapshot(), "retry_after": guard.retry_after},
    )
    assert [("closed", "open")] == [(e.before, e.after) for e in heard if isinstance(e, BreakerChanged)]
    assert not attempt(other)


@pytest.mark.parametrize("state", ["isolated", "disabled", "closed"])
def test_snapshot_keeps_what_people_have_set(state: str) -> None:
    """Whoever isolated it finds it isolated after a restart."""
    guard = breaker(ManualClock())
    getattr(guard, {"isolated": "isolate", "disabled": "disable", "closed": "reset"}[state])()
    other = breaker(ManualClock())
    other.restore(guard.snapshot())
    assert (state, state != "isolated") == (other.state, attempt(other))


def test_snapshot_counts_go_on_where_they_were(clock: ManualClock) -> None:
    """One more failure opens a breaker that was one short of it."""
    guard = breaker(clock, failure_threshold=5)
    trip(guard, 4)
    other = breaker(clock, failure_threshold=5)
    other.restore(guard.snapshot())
    attempt(other)
    assert (0, 0) == other.counted
    other.restore(guard.snapshot())
    trip(other, 1)
    assert BreakerState.OPEN is other.state


@pytest.mark.parametrize("snapshot", [None, {}, {"state": "open"}, [1], "open"])
def test_snapshot_that_is_none_is_refused(snapshot: Any) -> None:
    """And changes nothing."""
    guard = breaker()
    attempt(guard, down())
    with pytest.raises(ConfigurationError, match="is none of a breaker"):
        guard.restore(snapshot)
    assert (1, 1) == guard.counted
