"""The breaker's tables and its machine: probes, generations, recoveries, snapshots."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.errors import ConfigurationError
from retrykit.machines.breaker import (
    REFUSING,
    TRANSITIONS,
    BreakerEvent,
    BreakerState,
    Machine,
    Permit,
    Settings,
)
from retrykit.machines.windows import Consecutive, Trip, failure_rate
from retrykit.policy.backoff import Backoff, constant, exponential, formula, upward

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


def machine(
    *,
    trip: Trip = Consecutive(2),  # noqa: B008 - an immutable value
    recovery: Backoff = constant(60, jitter="none"),  # noqa: B008 - the same
    probes: int = 1,
    close_after: int = 1,
    probe_timeout: float = 30.0,
    rng: random.Random | None = None,
) -> Machine:
    settings = Settings(
        trip=trip, recovery=recovery, probes=probes, close_after=close_after, probe_timeout=probe_timeout
    )
    return Machine(settings, rng)


def fail(breaker: Machine, now: float, times: int = 2, **more: Any) -> None:
    for _ in range(times):
        permit = breaker.admit(now)
        assert permit is not None
        breaker.failed(permit, now, **more)


def half_open(**settings: Any) -> Machine:
    breaker = machine(**settings)
    fail(breaker, 0.0)
    breaker.at(60.0)
    assert HALF_OPEN is breaker.state
    return breaker


def test_tables_lead_from_every_state_to_known_ones() -> None:
    """Each state has its row, a person may isolate, disable and reset in each, and each can be reached."""
    assert set(BreakerState) == set(TRANSITIONS)
    reached = {state for row in TRANSITIONS.values() for state in row.values()}
    assert set(BreakerState) == reached
    by_hand = {BreakerEvent.ISOLATE, BreakerEvent.DISABLE, BreakerEvent.RESET}
    assert all(by_hand <= row.keys() for row in TRANSITIONS.values())
    assert {OPEN, BreakerState.ISOLATED} == REFUSING


@pytest.mark.parametrize("state", BreakerState)
@pytest.mark.parametrize("event", BreakerEvent)
def test_machine_takes_the_events_of_its_table_only(state: BreakerState, event: BreakerEvent) -> None:
    """An event that the state does not know is refused, and changes nothing."""
    breaker = machine()
    breaker.state = state
    expected = TRANSITIONS[state].get(event)
    if expected is None:
        with pytest.raises(ConfigurationError, match=f"a breaker that is {state} cannot be {event}"):
            breaker.by_hand(event)
        assert (state, 0) == (breaker.state, breaker.generation)
    else:
        breaker.by_hand(event)
        assert (expected, 1) == (breaker.state, breaker.generation)


def test_closed_opens_when_its_rule_is_met_and_recovers_in_time() -> None:
    """The first call after the recovery is a probe; its success closes."""
    breaker = machine()
    fail(breaker, 10.0)
    assert (OPEN, 60.0, None) == (breaker.state, breaker.retry_after(10.0), breaker.admit(10.0))
    assert (0.5, None) == (breaker.retry_after(69.5), breaker.admit(69.5))
    permit = breaker.admit(70.0)
    assert (HALF_OPEN, True) == (breaker.state, permit is not None and permit.probe is not None)
    assert permit is not None
    breaker.succeeded(permit, 71.0)
    assert (CLOSED, 0, 0) == (breaker.state, breaker.opens, breaker.window.failures)


def test_half_open_admits_exactly_its_probes_at_once() -> None:
    """Further calls are refused until one of them comes back."""
    breaker = half_open(probes=2, close_after=3)
    assert 2 == breaker.free_probes()
    first, second = breaker.admit(60.0), breaker.admit(60.0)
    assert first is not None and second is not None and first != second
    assert (None, 0, 30.0) == (breaker.admit(60.0), breaker.free_probes(), breaker.retry_after(60.0))
    breaker.succeeded(first, 61.0)
    assert (HALF_OPEN, 1, 0.0) == (breaker.state, breaker.free_probes(), breaker.retry_after(61.0))


def test_half_open_needs_so_many_successes_to_close() -> None:
    """Not one after the other of the same moment, but in all since it is half-open."""
    breaker = half_open(close_after=3)
    for number in range(3):
        assert HALF_OPEN is breaker.state
        permit = breaker.admit(60.0 + number)
        assert permit is not None
        breaker.succeeded(permit, 60.0 + number)
    assert CLOSED is breaker.state


def test_half_open_failure_opens_for_longer() -> None:
    """The recovery grows with each time it opens before it was closed, and begins anew afterwards."""
    breaker = machine(recovery=exponential(10, factor=2, cap=35, jitter="none"))
    fail(breaker, 0.0)
    now, seen = 0.0, [breaker.recovery]
    for _ in range(3):
        now += breaker.recovery
        fail(breaker, now, 1)
        seen.append(breaker.recovery)
    assert [10.0, 20.0, 35.0, 35.0] == seen
    permit = breaker.admit(now + 35.0)
    assert permit is not None
    breaker.succeeded(permit, now + 35.0)
    fail(breaker, now + 36.0)
    assert (10.0, 1) == (breaker.recovery, breaker.opens)


def test_recovery_is_jittered_by_its_own_source() -> None:
    """Up to a tenth more, drawn from the given source; without one, none."""
    recovery = exponential(100, cap=100, jitter=upward(0.1))
    drawn = []
    for seed in range(20):
        breaker = machine(recovery=recovery, rng=random.Random(seed))
        fail(breaker, 0.0)
        drawn.append(breaker.recovery)
    assert len(set(drawn)) == 20 and all(100.0 <= each <= 110.0 for each in drawn)
    plain = machine(recovery=recovery)
    fail(plain, 0.0)
    assert 100.0 == plain.recovery


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(None, 60.0), (0.0, 60.0), (5.0, 60.0), (90.0, 90.0), (1e9, 86400.0), (math.nan, 60.0), (-5.0, 60.0)],
)
def test_recovery_lasts_as_long_as_the_other_side_asked_for(asked: float | None, expected: float) -> None:
    """Never shorter than its own time, never longer than a day."""
    breaker = machine()
    fail(breaker, 0.0, retry_after=asked)
    assert expected == breaker.retry_after(0.0)


def test_probe_that_never_comes_back_is_replaced_after_its_timeout() -> None:
    """A hung probe holds its place for its timeout only, and what it finds then is dropped."""
    breaker = half_open(probe_timeout=30.0)
    hung = breaker.admit(60.0)
    assert hung is not None
    assert (None, 0.001) == (breaker.admit(89.999), pytest.approx(breaker.retry_after(89.999)))
    other = breaker.admit(90.0)
    assert other is not None
    assert breaker.failed(hung, 91.0) is False
    breaker.succeeded(hung, 91.0)
    assert HALF_OPEN is breaker.state
    breaker.succeeded(other, 92.0)
    assert CLOSED is breaker.state


def test_probe_late_result_is_dropped_whether_or_not_somebody_looked() -> None:
    """To look at a breaker changes nothing about what counts."""
    for looked in (False, True):
        breaker = half_open(probe_timeout=30.0)
        late = breaker.admit(60.0)
        assert late is not None
        if looked:
            breaker.at(95.0)
        breaker.succeeded(late, 96.0)
        assert HALF_OPEN is breaker.state


def test_probe_released_gives_its_place_back_without_a_verdict() -> None:
    """A cancelled probe neither closes nor opens."""
    breaker = half_open()
    for _ in range(5):
        permit = breaker.admit(60.0)
        assert permit is not None
        breaker.released(permit)
        breaker.released(permit)
        assert (HALF_OPEN, 1) == (breaker.state, breaker.free_probes())


def test_probe_counts_once() -> None:
    """The second result of one probe is dropped."""
    breaker = half_open(close_after=2)
    permit = breaker.admit(60.0)
    assert permit is not None
    breaker.succeeded(permit, 60.0)
    breaker.succeeded(permit, 60.0)
    assert HALF_OPEN is breaker.state


def test_result_of_an_earlier_generation_is_dropped() -> None:
    """A slow call from before the trip neither closes a half-open breaker nor counts in a closed one."""
    breaker = machine()
    old = breaker.admit(0.0)
    assert old is not None
    fail(breaker, 1.0)
    breaker.at(61.0)
    breaker.succeeded(old, 61.0)
    breaker.released(old)
    assert breaker.failed(old, 61.0) is False
    assert HALF_OPEN is breaker.state
    breaker.by_hand(BreakerEvent.RESET)
    assert breaker.failed(old, 62.0) is False
    assert (CLOSED, 0) == (breaker.state, breaker.window.failures)


def test_closed_success_reaches_the_window() -> None:
    """A streak ends with a success; a permit that tells nothing leaves it as it is."""
    breaker = machine()
    fail(breaker, 0.0, 1)
    permit = Permit(breaker.generation)
    breaker.released(permit)
    assert 1 == breaker.window.failures
    breaker.succeeded(permit, 0.0)
    assert 0 == breaker.window.failures


def test_closed_forgets_what_is_too_old() -> None:
    """Looking at a window of time lets go of what has left it."""
    breaker = machine(trip=failure_rate(0.5, window="10s", minimum_calls=5))
    fail(breaker, 100.0, 2)
    breaker.at(105.0)
    assert 2 == breaker.window.failures
    breaker.at(111.0)
    assert 0 == breaker.window.failures


def test_disabled_lets_everything_through_and_counts_nothing() -> None:
    """Also after any number of failures."""
    breaker = machine()
    breaker.by_hand(BreakerEvent.DISABLE)
    for _ in range(9):
        permit = breaker.admit(0.0)
        assert permit is not None
        assert breaker.failed(permit, 0.0) is False
    assert (BreakerState.DISABLED, 0, 0.0) == (breaker.state, breaker.window.failures, breaker.retry_after(0.0))


def test_isolated_lets_nothing_through_until_it_is_reset() -> None:
    """No time ends it, nobody knows when it ends, and no news from elsewhere opens it."""
    breaker = machine()
    breaker.by_hand(BreakerEvent.ISOLATE)
    breaker.open(0.0, 5.0)
    assert (BreakerState.ISOLATED, None, None) == (breaker.state, breaker.admit(1e9), breaker.retry_after(1e9))
    assert 0 == breaker.free_probes()
    breaker.by_hand(BreakerEvent.RESET)
    assert breaker.admit(1e9) is not None


def test_open_by_others_lasts_for_their_time_or_its_own() -> None:
    """From closed, half-open and open alike; a later word holds."""
    breaker = machine()
    breaker.open(0.0)
    assert (OPEN, 60.0, 1) == (breaker.state, breaker.retry_after(0.0), breaker.opens)
    breaker.open(10.0, 5.0)
    assert (5.0, 1) == (breaker.retry_after(10.0), breaker.opens)
    breaker.at(15.0)
    assert HALF_OPEN is breaker.state
    breaker.open(16.0, 7.0)
    assert (OPEN, 7.0, 2) == (breaker.state, breaker.retry_after(16.0), breaker.opens)


def test_clock_that_goes_back_lengthens_no_recovery_and_no_probe() -> None:
    """From where the time went back to it lasts a whole recovery at the most, and a probe its timeout."""
    breaker = machine()
    fail(breaker, 1000.0)
    assert (None, 60.0) == (breaker.admit(0.0), breaker.retry_after(0.0))
    assert None is breaker.admit(59.0)
    assert breaker.admit(60.0) is not None
    breaker = half_open()
    assert breaker.admit(60.0) is not None
    assert (None, 30.0) == (breaker.admit(-500.0), breaker.retry_after(-500.0))
    assert breaker.admit(-470.0) is not None


def test_recovery_that_cannot_be_told_changes_nothing() -> None:
    """A function of the user's own that raises leaves the breaker closed, and the error comes through."""
    breaker = machine(recovery=formula(lambda _: -1.0))
    fail(breaker, 0.0, 1)
    with pytest.raises(ConfigurationError, match=r"the delay that .* gave for retry 1"):
        fail(breaker, 0.0, 1)
    assert (CLOSED, 0) == (breaker.state, breaker.opens)


@given(
    st.lists(st.sampled_from(["ok", "fail", "wait", "isolate", "disable", "reset"]), max_size=30),
    st.floats(0, 2e9),
    st.floats(0.001, 100),
)
def test_snapshot_survives_json_and_restores_the_same(steps: list[str], start: float, recovery: float) -> None:
    """What a restored breaker says of itself is what the first one said; half-open comes back as open, and due."""
    breaker = machine(trip=failure_rate(0.5, window=10, minimum_calls=4), recovery=constant(recovery, jitter="none"))
    now = start
    for step in steps:
        if step == "wait":
            now += recovery / 3
        elif step in ("ok", "fail"):
            permit = breaker.admit(now)
            if permit is not None:
                _ = breaker.succeeded(permit, now) if step == "ok" else breaker.failed(permit, now)
        else:
            breaker.by_hand(BreakerEvent(step))
    snapshot = json.loads(json.dumps(breaker.snapshot(now)))
    other = machine(trip=failure_rate(0.5, window=10, minimum_calls=4), recovery=constant(recovery, jitter="none"))
    other.restore(snapshot, 0.0)
    if snapshot["state"] == "open" and snapshot["retry_after"] == 0:
        assert HALF_OPEN is (other.at(0.0) or other.state)
    else:
        assert snapshot == other.snapshot(0.0)
    assert (breaker.state, breaker.opens) in ((other.state, other.opens), (HALF_OPEN, other.opens))


SNAPSHOT = {"state": "closed", "opens": 0, "recovery": 60.0, "retry_after": 0.0, "calls": 5, "failures": 2}


@pytest.mark.parametrize(
    "change",
    [
        {"state": "ajar"},
        {"state": None},
        {"opens": -1},
        {"opens": "many"},
        {"opens": 1.5},
        {"opens": True},
        {"recovery": -1.0},
        {"recovery": math.nan},
        {"recovery": math.inf},
        {"recovery": 1e12},
        {"retry_after": -1.0},
        {"retry_after": 61.0},
        {"retry_after": math.nan},
        {"calls": 1},
        {"failures": -1},
        {"failures": None},
    ],
)
def test_restore_bad_value_is_refused(change: dict[str, Any]) -> None:
    """Nothing of a snapshot that makes no sense is taken over."""
    breaker = machine()
    fail(breaker, 0.0)
    before = breaker.snapshot(0.0)
    with pytest.raises(ConfigurationError, match=r"the snapshot .* (is none of a breaker|contradicts itself)"):
        breaker.restore({**SNAPSHOT, **change}, 0.0)
    assert before == breaker.snapshot(0.0)


@pytest.mark.parametrize("snapshot", [None, {}, [], "closed", {**SNAPSHOT} | {"calls": []}, 5])
def test_restore_something_else_is_refused(snapshot: Any) -> None:
    """What is no snapshot at all is said to be none."""
    with pytest.raises(ConfigurationError, match="is none of a breaker"):
        machine().restore(snapshot, 0.0)


def test_restore_bounds_the_failures_that_it_counts_again() -> None:
    """A snapshot that claims a billion failures costs no billion steps."""
    breaker = machine(trip=failure_rate(0.5, window=20, minimum_calls=4))
    breaker.restore({**SNAPSHOT, "calls": 2 * 10**9, "failures": 10**9}, 0.0)
    assert (20, 20) == (breaker.window.calls, breaker.window.failures)
