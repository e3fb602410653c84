"""The adaptive throttle: its curve, its measurement, its bucket, and how they work together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.machines.throttle import Cubic, RateClock, Throttle, TokenBucket


def test_throttle_is_free_until_something_is_throttled() -> None:
    """Nobody waits while nobody says too much."""
    throttle = Throttle(0.0)
    for number in range(1000):
        now = number / 1000
        assert 0.0 == throttle.wait(now)
        throttle.succeeded(now)
    assert not throttle.is_active


def test_throttle_lowers_the_rate_to_seven_tenths_of_what_was_measured() -> None:
    """The first cut starts at the measured rate."""
    throttle = Throttle(0.0)
    for number in range(100):
        throttle.succeeded(number / 10)
    measured = throttle.measured
    assert 10.0 == pytest.approx(measured, rel=0.01)
    throttle.throttled(9.95)
    assert throttle.is_active
    assert 0.7 * measured == pytest.approx(throttle.bucket.rate)


def test_throttle_second_cut_starts_at_the_lower_rate() -> None:
    """While it is active the smaller of the measured and the allowed rate is cut."""
    throttle = Throttle(0.0)
    for number in range(100):
        throttle.succeeded(number / 10)
    throttle.throttled(9.95)
    first = throttle.bucket.rate
    throttle.throttled(9.96)
    assert 0.7 * first == pytest.approx(throttle.bucket.rate)


def test_throttle_never_goes_below_half_a_call_a_second() -> None:
    """However often it is throttled, something still goes out."""
    throttle = Throttle(0.0)
    for number in range(50):
        throttle.throttled(float(number))
    assert (0.5, 1.0) == (throttle.bucket.rate, throttle.bucket.capacity)


def test_throttle_obeys_what_the_other_side_asked_for() -> None:
    """No call is made before, also when a shorter wish follows."""
    throttle = Throttle(0.0)
    throttle.throttled(10.0, retry_after=30.0)
    throttle.throttled(11.0, retry_after=1.0)
    assert (30.0, 0.5) == (throttle.wait(10.0), throttle.wait(39.5))
    assert 0.0 == throttle.wait(40.0)


def test_throttle_sends_about_as_fast_as_it_may() -> None:
    """Against a limit of 10 calls a second it soon sends most of that, and is refused rarely."""
    throttle, limit = Throttle(0.0), TokenBucket(10.0, 1.0, 1.0, 0.0)
    now, sent, refused = 0.0, 0, 0
    while now < 300.0:
        if wait := throttle.wait(now):
            now += wait
            continue
        if limit.wait(now):
            refused += 1
            throttle.throttled(now)
        else:
            sent += 1
            throttle.succeeded(now)
        now += 0.01
    assert 10.0 * 300 * 0.6 <= sent <= 10.0 * 300 + 1
    assert refused <= 0.15 * sent


def test_bucket_wait_is_long_enough_and_takes_nothing() -> None:
    """After the wait that it asks for a call may be made; while it asks, nothing is owed."""
    bucket = TokenBucket(2.0, 1.0, 0.0, 0.0)
    assert [0.5] * 3 == [bucket.wait(0.0) for _ in range(3)]
    assert [0.0, 0.5] == [bucket.wait(0.5), bucket.wait(0.5)]


@given(st.floats(0.1, 100.0), st.lists(st.floats(0.0, 3.0), max_size=100))
def test_bucket_never_hands_out_more_than_its_rate(rate: float, gaps: list[float]) -> None:
    """Over any time there are at most its capacity and `rate` a second."""
    bucket = TokenBucket(rate, 1.0, 0.0, 0.0)
    now, taken = 0.0, 0
    for gap in gaps:
        now += gap
        taken += bucket.wait(now) == 0.0
        assert taken <= 1 + now * rate + 1e-6


@given(st.floats(0.1, 100.0), st.floats(0.0, 2e9))
def test_bucket_wait_ends_with_a_call(rate: float, start: float) -> None:
    """Whoever waits as long as told is let through, whatever floats make of it."""
    bucket = TokenBucket(rate, 1.0, 0.0, start)
    now, waits = start, 0
    while waits < 5 and (wait := bucket.wait(now)):
        now += wait
        waits += 1
    assert 1 <= waits <= 3


def test_bucket_clock_that_goes_back_brings_nothing() -> None:
    """Time that is lived twice counts from where it went back to."""
    bucket = TokenBucket(1.0, 1.0, 0.0, 100.0)
    assert 1.0 == bucket.wait(50.0)
    assert 0.0 == bucket.wait(51.0)


def test_rate_clock_changes_only_from_bucket_to_bucket() -> None:
    """Calls of one half second are one measurement; the call that ends it counts too."""
    clock = RateClock(7.3)
    assert [0.0, 0.0] == [clock.called(7.35), clock.called(7.45)]
    assert 0.8 * 3 / 0.5 == pytest.approx(clock.called(7.5))


def test_cubic_comes_back_to_the_refused_rate_and_passes_it() -> None:
    """The curve falls to seven tenths, is flat where it was refused, and then probes for more."""
    cubic = Cubic(0.0, 0.0)
    assert 7.0 == pytest.approx(cubic.throttled(10.0, 100.0))
    assert 7.0 == pytest.approx(cubic.succeeded(100.0))
    back = 1.9574338205844317
    assert 10.0 == pytest.approx(cubic.succeeded(100.0 + back))
    assert cubic.succeeded(100.0 + back + 3) > 20.0


@given(st.floats(0.5, 1e4), st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_cubic_never_falls_while_calls_succeed(most: float, first: float, then: float) -> None:
    """Only throttling lowers the rate."""
    cubic = Cubic(most, 0.0)
    assert cubic.succeeded(first) <= cubic.succeeded(first + then)
