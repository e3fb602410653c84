"""Backoffs: the formulas, their bounds, and draws that are the same on every Python."""

from __future__ import annotations

import functools
import math
import pickle
import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.errors import ConfigurationError
from retrykit.policy import (
    Backoff,
    Jitter,
    constant,
    decorrelated,
    delays,
    exponential,
    fit,
    formula,
    linear,
    plus_minus,
    upward,
)
from retrykit.policy.backoff import MAX_DELAY, Delays, as_backoff, as_jitter
from tests.policy.strategies import HIGHEST, Fixed, adding_backoffs, backoffs

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
        ([1, 4, 9, 16, 25, 36], formula(lambda retry: retry**2, jitter="quarter")),
        ([300, 600, 900, 1200, 1500, 1500], linear("5m", cap="25m")),
        ([10, 12.5, 15, 17.5, 20, 22.5], linear(10, step=2.5, jitter="full")),
        ([0, 3, 6, 7, 7, 7], linear(0, step=3, cap=7)),
        ([0, 0, 0, 0, 0, 0], linear(0)),
        ([5, 5, 5, 5, 5, 5], linear(5, step=0)),
        ([2, 3.5, 5.75, 9.125, 10, 10], decorrelated(1, cap=10)),
        ([0, 0, 0, 0, 0, 0], decorrelated(0)),
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
        (3600.0, linear(5, cap="1h")),
        (MAX_DELAY, linear(1e308, cap=1e308)),
        (0.0, linear(0)),
        (5.0, linear(5, step=0)),
        (20.0, decorrelated(0.1, cap=20)),
        (0.0, decorrelated(0)),
        (MAX_DELAY, formula(lambda _: 1e300)),
        (7.0, formula(lambda _: 7)),
    ],
)
@pytest.mark.parametrize("retry", [1_025, 10**6])
def test_delay_of_a_late_retry_is_exactly_the_cap(expected, backoff, retry):
    """No overflow, no slow loop, and zero stays zero."""
    assert expected == backoff.delay(retry)
    assert expected <= backoff.delay(retry, Fixed(HIGHEST)) <= MAX_DELAY
    assert backoff.bounds(retry)[1] >= expected


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


@given(backoffs, retries, st.randoms(use_true_random=False), st.none() | st.floats(0, 1e12))
def test_delay_is_finite_and_within_its_bounds(backoff, retry, rng, previous):
    """Whatever the backoff, the retry, the wait before and the draw."""
    low, high = backoff.bounds(retry)
    assert 0 <= low <= backoff.delay(retry, rng, previous=previous) <= high <= MAX_DELAY
    assert low <= min(backoff.rung(retry), MAX_DELAY) == backoff.delay(retry) <= high


@given(adding_backoffs, retries, st.randoms(use_true_random=False))
def test_delay_with_an_adding_jitter_is_never_below_the_rung(backoff, retry, rng):
    """What waits in a queue waits at least as long as the policy says."""
    assert backoff.jitter.only_adds
    assert min(backoff.rung(retry), MAX_DELAY) == backoff.bounds(retry)[0] <= backoff.delay(retry, rng)


@given(backoffs.filter(lambda backoff: not isinstance(backoff, Delays)), st.integers(1, 2000))
def test_growing_backoff_never_shrinks(backoff, retry):
    """A later retry of linear, exponential and decorrelated waits at least as long, up to the cap."""
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
        (lambda: upward(True), "the share of upward() is True; allowed are numbers from 0 to 1"),
        (lambda: plus_minus("10%"), "the share of plus_minus() is '10%'; allowed are numbers from 0 to 1"),
        (lambda: plus_minus(1.01), "the share of plus_minus() is 1.01; allowed are numbers from 0 to 1"),
        (
            lambda: delays(1, jitter="half"),
            "jitter is 'half'; allowed are 'none', 'full', 'equal', 'quarter', plus_minus(share) and upward(share)",
        ),
        (lambda: as_jitter(["full"]), "jitter is ['full']; allowed are 'none', 'full', 'equal', 'quarter', plus_minus"),
        (lambda: as_jitter(0.1), "jitter is 0.1; allowed are 'none', 'full', 'equal', 'quarter', plus_minus(share)"),
        (lambda: exponential(1, factor=10**400), "the factor of exponential() is 1000"),
        (lambda: exponential(1, factor=True), "the factor of exponential() is True; allowed are finite numbers >= 1"),
        (lambda: exponential(1, factor="2"), "the factor of exponential() is '2'; allowed are finite numbers >= 1"),
        (lambda: linear(-1), "the base of linear() is -1; allowed are finite durations >= 0"),
        (lambda: linear(1, step=-1), "the step of linear() is -1; allowed are finite durations >= 0"),
        (lambda: linear(10, cap=5), "the cap of linear() is 5 s, below its base of 10 s"),
        (lambda: decorrelated("soon"), "the base of decorrelated() is 'soon'; allowed is text such as '500ms'"),
        (lambda: decorrelated(10, cap=5), "the cap of decorrelated() is 5 s, below its base of 10 s"),
        (lambda: formula("n * 2"), "formula() was given 'n * 2'; allowed is a function of the retry's number"),
        (lambda: fit(1, "1h"), "the tries of fit() are 1; allowed are whole numbers from 2 to 1000"),
        (lambda: fit(1001, "1h"), "the tries of fit() are 1001; allowed are whole numbers from 2 to 1000"),
        (lambda: fit(True, "1h"), "the tries of fit() are True; allowed are whole numbers from 2 to 1000"),
        (lambda: fit(2.0, "1h"), "the tries of fit() are 2.0; allowed are whole numbers from 2 to 1000"),
        (lambda: fit(3, 0), "the window of fit() is 0; allowed are finite durations > 0"),
        (lambda: fit(3, 1, factor=0), "the factor of fit() is 0; allowed are finite numbers > 0"),
        (lambda: fit(3, 1, factor=math.inf), "the factor of fit() is inf; allowed are finite numbers > 0"),
        (lambda: fit(3, 1, factor=False), "the factor of fit() is False; allowed are finite numbers > 0"),
        (lambda: fit(3, 1, factor="2"), "the factor of fit() is '2'; allowed are finite numbers > 0"),
        (lambda: constant(1).delay(0), "retry is 0; retries are counted from 1"),
        (lambda: exponential(1).bounds(-1), "retry is -1; retries are counted from 1"),
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

    with pytest.raises(ConfigurationError, match=r"^the delay that broken gave for retry 3 is "):
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
        ("5, 15, 30 s + up to 10%", delays(5, 15, 30)),
        ("10 s + up to 25%", constant(10, jitter=upward(0.25))),
        ("10 s", constant(10, jitter="none")),
        ("10 s +/- 50%", constant(10, jitter=plus_minus(0.5))),
        ("5 s x 2^n, up to 3600 s + up to a quarter", exponential(5, cap="1h", jitter="quarter")),
        ("60 s + 30 s each, up to 86400 s, equal jitter", linear(60, step=30, jitter="equal")),
        ("0.5 s x 1.5^n, up to 20 s, full jitter", exponential(0.5, factor=1.5, cap=20, jitter="full")),
        ("decorrelated from 0.1 s, up to 20 s", decorrelated(0.1, cap=20)),
        ("by _minutes", as_backoff(_minutes)),
        ("by _minutes +/- 10%", formula(_minutes, jitter=plus_minus(0.1))),
    ],
)
def test_backoff_prints_what_it_does(text, backoff):
    """The text stands in the printed matrix."""
    assert text == str(backoff)
    assert backoff == pickle.loads(pickle.dumps(backoff))


def test_callable_object_prints_its_type():
    """What has no name of its own stands for its kind."""

    class Minutes:
        def __call__(self, retry):
            return 60.0 * retry

    assert str(as_backoff(Minutes())) == "by Minutes"
    assert str(as_backoff(functools.partial(_minutes))) == "by partial"


@pytest.mark.parametrize(
    ("expected", "backoff"),
    [
        (86_400.0, linear(1, jitter="none")),
        (5.0, linear(5, step=0, jitter="none")),
        (1.0, exponential(1, factor=1, jitter="none")),
        (60.0, exponential(1, cap=60, jitter="none")),
        (0.0, exponential(0, jitter="none")),
    ],
)
def test_wait_before_an_absurd_retry_is_the_cap_or_what_never_grows(expected, backoff):
    """Also where the retry's number is beyond what a float holds."""
    assert expected == backoff.delay(10**400)


def test_long_rungs_are_printed_without_an_exponent():
    """A fortnight is a number of seconds, not a power of ten; small jitters are not rounded away."""
    assert str(delays(1_234_567, jitter=upward(0.125))) == "1234567 s + up to 12.5%"
