"""Windows: which results count, the rules that look at them, and the settings that make no sense."""

from __future__ import annotations

import math
from collections import deque
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.errors import ConfigurationError
from retrykit.machines.windows import Consecutive, TimeWindow, failure_count, failure_rate

RESULTS = st.lists(st.tuples(st.booleans(), st.integers(1, 30)))
"""Whether it is a failure; how many successes come at once, or how many failures one after the other."""


def test_streak_success_begins_anew() -> None:
    """Only the failures since the latest success count."""
    window = Consecutive(3).window()
    window.failed(0.0)
    window.failed(1.0)
    assert (2, 2) == (window.calls, window.failures)
    window.succeeded(0, 2.0)
    window.at(1e9)
    assert (2, 2) == (window.calls, window.failures)
    window.succeeded(1, 2.0)
    assert (0, 0) == (window.calls, window.failures)


@given(st.integers(1, 20), RESULTS)
def test_call_window_holds_the_latest_results(size: int, results: list[tuple[bool, int]]) -> None:
    """The sums are those of the latest results, however many come at once."""
    window = failure_rate(0.5, window=size, minimum_calls=1).window()
    model: deque[bool] = deque(maxlen=size)
    for failed, count in results:
        model.extend([failed] * count)
        if failed:
            for _ in range(count):
                window.failed(0.0)
        else:
            window.succeeded(count, 0.0)
        window.at(1e9)
        assert (len(model), sum(model)) == (window.calls, window.failures)


def test_call_window_takes_no_successes_as_nothing() -> None:
    """Nothing that succeeded changes nothing."""
    window = failure_count(1, window=5).window()
    window.succeeded(0, 0.0)
    assert (0, 0) == (window.calls, window.failures)


def test_call_window_costs_the_same_at_any_size() -> None:
    """A window of a million calls takes in a million successes at once."""
    window = failure_rate(0.5, window=1_000_000, minimum_calls=1).window()
    window.failed(0.0)
    window.succeeded(999_999, 0.0)
    assert (1_000_000, 1) == (window.calls, window.failures)
    window.succeeded(10**12, 0.0)
    assert (1_000_000, 0) == (window.calls, window.failures)


@given(st.lists(st.tuples(st.integers(0, 400), st.booleans(), st.integers(1, 5))))
def test_time_window_holds_the_latest_ten_buckets(steps: list[tuple[int, bool, int]]) -> None:
    """A result counts until ten buckets of a tenth of the window have passed, and then no longer."""
    window = failure_rate(0.5, window="100s", minimum_calls=1).window()
    now, model = 0, list[tuple[int, bool]]()
    for passed, failed, count in steps:
        now += passed
        model += [(now // 10, failed)] * (1 if failed else count)
        if failed:
            window.failed(float(now))
        else:
            window.succeeded(count, float(now))
        counting = [failed for bucket, failed in model if bucket > now // 10 - 10]
        assert (len(counting), sum(counting)) == (window.calls, window.failures)
    window.at(now + 1000.0)
    assert (0, 0) == (window.calls, window.failures)


def test_time_window_clock_that_goes_back_counts_into_the_latest_bucket() -> None:
    """Nothing is lost or counted twice when the time jumps back, and the results leave with the bucket they are in."""
    window = failure_count(3, window="10s").window()
    window.failed(100.0)
    window.failed(20.0)
    window.succeeded(1, 99.0)
    assert (3, 2) == (window.calls, window.failures)
    window.at(110.0)
    assert (0, 0) == (window.calls, window.failures)


def test_time_window_says_when_a_bucket_ends() -> None:
    """A bucket is a tenth of the window, on a grid that all windows share."""
    window = TimeWindow(60.0)
    assert (2, 18.0) == (window.number(12.5), window.ends(12.5))


@pytest.mark.parametrize(("calls", "failures", "met"), [(4, 4, False), (5, 2, False), (5, 3, True), (10, 6, True)])
def test_failure_rate_is_met_by_reaching_it_with_enough_calls(calls: int, failures: int, met: bool) -> None:
    """Equal is enough; too few calls tell nothing."""
    trip = failure_rate(0.6, window=10, minimum_calls=5)
    window = trip.window()
    window.succeeded(calls - failures, 0.0)
    for _ in range(failures):
        window.failed(0.0)
    assert met is trip.is_met(window)


@given(st.integers(1, 1000), st.data())
def test_failure_rate_written_as_a_share_is_reached_exactly(calls: int, data: st.DataObject) -> None:
    """7 of 100 reach a rate of 0.07, whatever floats make of 0.07 * 100; and so for every share."""
    failures = data.draw(st.integers(1, calls))
    trip = failure_rate(float(f"{failures / calls!r}"), window=calls, minimum_calls=calls)
    window = trip.window()
    window.succeeded(calls - failures, 0.0)
    for _ in range(failures):
        window.failed(0.0)
    assert trip.is_met(window)


def test_failure_rate_of_seven_hundredths_opens_at_the_seventh() -> None:
    """A product would be 7.000000000000001."""
    trip = failure_rate(0.07, window=100, minimum_calls=100)
    window = trip.window()
    window.succeeded(93, 0.0)
    for number in range(1, 8):
        window.failed(0.0)
        assert (number == 7) is trip.is_met(window)


def test_failure_count_needs_its_failures_and_its_calls() -> None:
    """Two failures are enough only once there were three calls."""
    trip = failure_count(2, window=5, minimum_calls=3)
    window = trip.window()
    window.failed(0.0)
    window.failed(0.0)
    assert not trip.is_met(window)
    window.failed(0.0)
    assert trip.is_met(window)


def test_consecutive_is_met_by_a_streak() -> None:
    """The rule of a breaker that was told a number only."""
    trip = Consecutive(2)
    window = trip.window()
    window.failed(0.0)
    assert not trip.is_met(window)
    window.failed(0.0)
    assert trip.is_met(window)


@pytest.mark.parametrize(
    ("trip", "text", "length", "every_success"),
    [
        (Consecutive(5), "5 failures in a row", None, False),
        (failure_rate(0.5), "50% failures of the latest 100 calls, at least 20 calls", None, True),
        (failure_rate(1, window="60s"), "100% failures of the latest 60 s, at least 20 calls", 60.0, True),
        (failure_count(3, window=7), "3 failures of the latest 7 calls", None, True),
        (failure_count(3, window=timedelta(minutes=1)), "3 failures of the latest 60 s", 60.0, True),
    ],
)
def test_trip_says_what_it_is(trip: Any, text: str, length: float | None, every_success: bool) -> None:
    """Every rule reads as a sentence, and says whether time and successes matter to it."""
    assert (text, length, every_success) == (str(trip), trip.length, trip.every_success)


@pytest.mark.parametrize("rate", [0, -0.1, 1.01, math.nan, math.inf, True, "0.5", None])
def test_failure_rate_out_of_range_is_refused(rate: Any) -> None:
    """A rate is a number above 0 and at most 1."""
    with pytest.raises(ConfigurationError, match=r"rate is .*; allowed are numbers above 0 and at most 1"):
        failure_rate(rate)


@pytest.mark.parametrize("window", [0, -1, 1.5, math.nan, True, "", "0s", "soon", timedelta(0), None, [60]])
def test_window_that_is_none_is_refused(window: Any) -> None:
    """A window is a whole number of calls or a time."""
    with pytest.raises(ConfigurationError, match="window is"):
        failure_rate(0.5, window=window, minimum_calls=1)
    with pytest.raises(ConfigurationError, match="window is"):
        failure_count(1, window=window)


@pytest.mark.parametrize("number", [0, -3, 2.0, math.nan, True, "3", None])
def test_number_of_calls_that_is_none_is_refused(number: Any) -> None:
    """Failures and minimum_calls are whole numbers of at least 1."""
    if number is not None:
        with pytest.raises(ConfigurationError, match=r"minimum_calls is .*; allowed are whole numbers >= 1"):
            failure_rate(0.5, minimum_calls=number)
    with pytest.raises(ConfigurationError, match=r"failures is .*; allowed are whole numbers >= 1"):
        failure_count(number)
    with pytest.raises(ConfigurationError, match=r"minimum_calls is .*; allowed are whole numbers >= 1"):
        failure_count(1, minimum_calls=number)


def test_share_of_a_small_window_needs_no_more_calls_than_it_has() -> None:
    """The usual 20 would never be reached."""
    assert ["10 calls", "20 calls", "20 calls"] == [
        str(failure_rate(0.5, window=window)).rpartition("least ")[2] for window in (10, 100, "60s")
    ]


def test_number_of_calls_above_the_window_is_refused() -> None:
    """What can never be reached is a mistake, and is said at once."""
    with pytest.raises(ConfigurationError, match="minimum_calls is 11 and the window has 10 calls only"):
        failure_rate(0.5, window=10, minimum_calls=11)
    with pytest.raises(ConfigurationError, match="failures is 11 and the window has 10 calls only"):
        failure_count(11, window=10)
    with pytest.raises(ConfigurationError, match="minimum_calls is 11 and the window has 10 calls only"):
        failure_count(2, window=10, minimum_calls=11)
