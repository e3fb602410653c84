"""Backoffs: the formulas, their bounds, and draws that are the same on every Python."""

from __future__ import annotations

import math
import pickle
import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.errors import ConfigurationError
from retrykit.policy import Backoff, Jitter, constant, delays, exponential, upward
from retrykit.policy.backoff import MAX_DELAY, as_backoff

HIGHEST = math.nextafter(1.0, 0.0)


class Fixed:
    """A source of randomness that always says the same."""

    def __init__(self, number):
        self._number = number

    def random(self):
        return self._number


durations = st.floats(0, 1e9) | st.integers(0, 10**9)
jitters = st.sampled_from(["none", "quarter"]) | st.floats(0, 1).map(upward)
backoffs = st.one_of(
    st.builds(
        lambda rungs, jitter: delays(*rungs, jitter=jitter), st.lists(durations, min_size=1, max_size=6), jitters
    ),
    st.builds(lambda delay, jitter: constant(delay, jitter=jitter), durations, jitters),
    st.builds(
        lambda base, extra, factor, jitter: exponential(base, cap=base + extra, factor=factor, jitter=jitter),
        durations,
        durations,
        st.floats(1, 1e6),
        jitters,
    ),
)
retries = st.integers(1, 20) | st.integers(1, 10**6)


@pytest.mark.parametrize(
    ("expected", "backoff"),
    [
        ([5, 15, 30, 60, 120, 120], delays(5, 15, 30, 60, 120)),
        ([900, 3600, 21600, 21600, 21600, 21600], delays("15m", timedelta(hours=1), "6h", jitter="quarter")),
        ([7, 7, 7, 7, 7, 7], delays(7)),
        ([0, 0, 0, 0, 0, 0], delays(0)),
        ([10, 10, 10, 10, 10, 10], constant(10, jitter=upward(0.25))),
        ([5, 10, 20, 40, 80, 160], exponential(5, cap="1h", jitter="quarter")),
        ([1, 3, 9, 27, 30, 30], exponential(1, factor=3, cap=30)),
        ([2, 2, 2, 2, 2, 2], exponential(2, factor=1)),
        ([4, 4, 4, 4, 4, 4], exponential(4, cap=4)),
        ([0, 0, 0, 0, 0, 0], exponential(0, cap="1h")),
        ([1, 4, 9, 16, 25, 36], as_backoff(lambda retry: retry * retry)),
    ],
)
def test_delay_without_randomness_is_the_rung(expected, backoff):
    """The first six waits of every form."""
    assert expected == [backoff.delay(retry) for retry in range(1, 7)]
    assert expected == [backoff.rung(retry) for retry in range(1, 7)]


@pytest.mark.parametrize(
    ("expected", "backoff"),
    [
        (3600.0, exponential(5, cap="1h", jitter="none")),
        (86400.0, exponential(2.0)),
        (MAX_DELAY, exponential(1, cap=1e300, factor=1e300)),
        (MAX_DELAY, exponential(1e308, cap=1e308, factor=1.7e308)),
        (0.0, exponential(0, factor=10)),
        (1.0, exponential(1, factor=1.0)),
        (120.0, delays(5, 120)),
        (MAX_DELAY, delays(1e300)),
    ],
)
@pytest.mark.parametrize("retry", [1_025, 10**6])
def test_delay_of_a_late_retry_is_exactly_the_cap(expected, backoff, retry):
    """No overflow, no slow loop, and zero stays zero."""
    assert expected == backoff.delay(retry)
    assert backoff.delay(retry, Fixed(HIGHEST)) <= MAX_DELAY


@pytest.mark.parametrize(
    ("wait", "most"), [(0, 1), (1, 1), (3.9, 1), (4, 1), (7, 1), (8, 2), (10, 2), (40, 10), (43.9, 10), (3600, 900)]
)
def test_quarter_adds_a_whole_number_of_seconds_up_to_a_quarter(wait, most):
    """0 to max(1, delay // 4), each equally often."""
    backoff = constant(wait, jitter="quarter")
    assert (wait, wait + most) == backoff.bounds(1)
    assert wait == backoff.delay(1, Fixed(0.0))
    assert wait + most == backoff.delay(1, Fixed(HIGHEST))
    shares = [backoff.delay(1, Fixed((2 * step + 1) / (2 * (most + 1)))) - wait for step in range(most + 1)]
    assert pytest.approx(list(range(most + 1))) == shares


def test_upward_adds_up_to_its_share_and_never_takes_away():
    """A wait is never shorter than its rung."""
    backoff = constant(100, jitter=upward(0.25))
    assert (100.0, 125.0) == backoff.bounds(1)
    assert [100.0, 112.5] == [backoff.delay(1, Fixed(number)) for number in (0.0, 0.5)]
    assert 100.0 < backoff.delay(1, Fixed(HIGHEST)) <= 125.0
    assert (60.0, 60.0) == constant(60, jitter=upward(0)).bounds(1)


def test_none_adds_nothing():
    """The wait is the rung, whatever the source says."""
    backoff = delays(3, 9, jitter="none")
    assert [3.0, 9.0] == [backoff.delay(retry, Fixed(HIGHEST)) for retry in (1, 2)]
    assert (9.0, 9.0) == backoff.bounds(2)


@given(backoffs, retries, st.randoms(use_true_random=False))
def test_delay_is_finite_within_its_bounds_and_never_below_the_rung(backoff, retry, rng):
    """Whatever the backoff, the retry and the draw."""
    low, high = backoff.bounds(retry)
    delay = backoff.delay(retry, rng)
    assert 0 <= low <= delay <= high <= MAX_DELAY
    assert min(backoff.rung(retry), MAX_DELAY) == low == backoff.delay(retry)


@given(backoffs.filter(lambda backoff: "x" in str(backoff)), st.integers(1, 2000))
def test_exponential_never_shrinks(backoff, retry):
    """A later retry waits at least as long, up to the cap."""
    assert backoff.rung(retry) <= backoff.rung(retry + 1)


@pytest.mark.parametrize(
    ("expected", "backoff"),
    [
        ([5.06, 15.75, 31.54, 65.16, 121.23, 122.68], delays(5, 15, 30, 60, 120)),
        ([5.0, 11.0, 23.0, 49.0, 82.0, 169.0], exponential(5, cap="1h", jitter="quarter")),
        ([10.3, 11.26, 11.28, 12.15, 10.26, 10.56], constant(10, jitter=upward(0.25))),
        ([0.0, 1.0, 1.0, 1.0, 0.0, 0.0], delays(0, jitter="quarter")),
    ],
)
def test_delay_drawn_with_a_seed_is_a_fixed_number(expected, backoff):
    """The same seed gives the same story on every Python: only `random()` is asked, whose sequence is guaranteed."""
    rng = random.Random(2026)
    assert expected == [round(backoff.delay(retry, rng), 2) for retry in range(1, 7)]


def test_random_module_is_a_source_of_randomness():
    """`random` itself may be given."""
    assert 10 <= constant(10).delay(1, random) <= 11


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (delays, "delays() needs at least one duration, for example delays('1m', '5m', '15m')"),
        (lambda: delays(1, -1), "a rung of delays() is -1; allowed are finite durations >= 0"),
        (lambda: delays(math.nan), "a rung of delays() is nan; allowed are finite durations >= 0"),
        (lambda: constant("soon"), "the delay of constant() is 'soon'; allowed is text such as '500ms', '30s', '15m',"),
        (lambda: exponential(-1), "the base of exponential() is -1; allowed are finite durations >= 0"),
        (lambda: exponential(1, cap=math.inf), "the cap of exponential() is inf; allowed are finite durations >= 0"),
        (lambda: exponential(10, cap=5), "the cap of exponential() is 5 s, below its base of 10 s"),
        (lambda: exponential(1, factor=0.5), "the factor of exponential() is 0.5; allowed are finite numbers >= 1"),
        (
            lambda: exponential(1, factor=math.inf),
            "the factor of exponential() is inf; allowed are finite numbers >= 1",
        ),
        (
            lambda: exponential(1, factor=math.nan),
            "the factor of exponential() is nan; allowed are finite numbers >= 1",
        ),
        (lambda: upward(1.5), "the share of upward() is 1.5; allowed are numbers from 0 to 1"),
        (lambda: upward(-0.1), "the share of upward() is -0.1; allowed are numbers from 0 to 1"),
        (lambda: upward(math.nan), "the share of upward() is nan; allowed are numbers from 0 to 1"),
        (lambda: delays(1, jitter="full"), "jitter is 'full'; allowed are 'none', 'quarter' or upward(share)"),
    ],
)
def test_bad_setting_is_refused_when_the_backoff_is_made(call, message):
    """Not on the first failure in production."""
    with pytest.raises(ConfigurationError) as caught:
        call()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("value", [[1, "5m"], (1, 300), range(1, 301, 299)])
def test_sequence_is_taken_as_a_ladder(value):
    """A plain list of durations is a backoff, with the usual jitter."""
    assert delays(1, 300) == as_backoff(value)


def test_backoff_is_taken_as_it_is():
    """Nothing is wrapped twice."""
    backoff = constant(5)
    assert as_backoff(backoff) is backoff


@pytest.mark.parametrize("value", ["15m", 15, None, {1: 2}])
def test_something_else_is_refused_as_a_backoff(value):
    """The error says what is allowed."""
    with pytest.raises(ConfigurationError, match=r"^the backoff is .*; allowed are delays\(\.\.\.\), constant"):
        as_backoff(value)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, None, True])
def test_function_that_gives_no_duration_is_refused_with_the_retry(value):
    """The error names the function and the retry, so that it can be found."""

    def broken(retry):
        return value

    with pytest.raises(ConfigurationError, match=r"^the delay that <function .*broken at .*> gave for retry 3 is "):
        as_backoff(broken).delay(3)


class _Squares(Backoff):
    jitter = Jitter("none")

    def rung(self, retry):
        return float(retry**2)


def test_subclass_of_an_application_is_a_backoff():
    """One method and a jitter are enough."""
    assert as_backoff(_Squares()).delay(4) == 16.0
    assert (16.0, 16.0) == _Squares().bounds(4)


def _minutes(retry):
    return 60.0 * retry


@pytest.mark.parametrize(
    ("text", "backoff"),
    [
        ("5, 15, 30 s", delays(5, 15, 30)),
        ("10 s", constant(10)),
        ("5 s x 2^n up to 3600 s", exponential(5, cap="1h")),
        ("_minutes", as_backoff(_minutes)),
    ],
)
def test_backoff_prints_what_it_does(text, backoff):
    """The text stands in the printed matrix."""
    assert text == str(backoff)
    assert backoff == pickle.loads(pickle.dumps(backoff))


def test_function_without_a_name_prints_itself():
    """A callable object stands for itself."""

    class Callable:
        def __call__(self, retry):
            return 1.0

        def __repr__(self):
            return "<callable>"

    assert str(as_backoff(Callable())) == "<callable>"
