"""Mistakes about delays and deadlines that other libraries have made, each as the smallest case."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from retrykit.decision import Action, DeadLetterReason
from retrykit.failure import ErrorClass, ErrorGroup
from retrykit.policy import PolicyMatrix, RetryPolicy, constant, delays, exponential, formula
from retrykit.policy.backoff import MAX_DELAY
from retrykit.times import later
from tests.policy.examples import failed
from tests.policy.strategies import Fixed

E, G = ErrorClass, ErrorGroup
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def matrix_of(backoff, **limits):
    """Return a matrix that retries throttling nearly for ever."""
    policy = RetryPolicy(max_retries=10**9, backoff=backoff)
    return PolicyMatrix({G.THROTTLING: policy}, **{"max_attempts": 10**9, "max_age": None} | limits)


@pytest.mark.parametrize("number", [1_025, 10**6, 10**8])
def test_exponential_of_a_late_try_is_exactly_the_cap(number):
    """Two seconds doubled a thousand times is more than a float holds; the wait is the cap, at once."""
    backoff = exponential(2.0, cap=60, jitter="none")
    assert 60.0 == backoff.delay(number)
    assert 60.0 == matrix_of(backoff).decide(failed(E.PROVIDER_THROTTLED), number).delay


@pytest.mark.parametrize("number", [1, 1_025, 10**6])
def test_base_of_zero_stays_zero(number):
    """Nothing times infinity is nothing, not the cap; what is left is the jitter's."""
    assert 0.0 == exponential(0, cap="1h", jitter="none").delay(number, Fixed(0.9))
    assert (0.0, 1.0) == exponential(0, cap="1h", jitter="quarter").bounds(number)


@pytest.mark.parametrize(
    "matrix",
    [
        matrix_of(formula(lambda _: 1e300)),
        matrix_of(delays(1e300)),
        matrix_of(constant(1), max_retry_after=1e300),
        matrix_of(constant(1), max_retry_after=1.7e308),
    ],
)
def test_wait_beyond_the_calendar_is_clamped_and_the_retry_stays(matrix):
    """A retry that is due after the last day there is, is due on that day; it does not disappear."""
    decision = matrix.decide(failed(E.PROVIDER_THROTTLED, retry_after=math.inf), 1)
    assert decision.action is Action.RETRY
    assert NOW + timedelta(days=1) <= later(NOW, decision.delay) <= datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(("age", "action"), [(1, Action.RETRY), (3, Action.DEAD_LETTER)])
def test_wait_that_would_end_after_the_deadline_is_not_begun(age, action):
    """Five seconds in all, a wait of four: at second three it is given up at once, not slept past the end."""
    decision = matrix_of(delays(4, jitter="none"), max_age=5).decide(failed(E.PROVIDER_THROTTLED), 1, age=age)
    assert action is decision.action
    assert (0.0, DeadLetterReason.EXPIRED) == (decision.delay, decision.dead_letter_reason) or age == 1


def test_deadline_counts_the_jitter_too():
    """A wait that fits without its jitter and not with it, is not begun."""
    matrix = matrix_of(delays(4, jitter="full"), max_age=5)
    assert Action.RETRY is matrix.decide(failed(E.PROVIDER_THROTTLED), 1, age=3, rng=Fixed(0.4)).action
    assert Action.DEAD_LETTER is matrix.decide(failed(E.PROVIDER_THROTTLED), 1, age=3, rng=Fixed(0.6)).action


@pytest.mark.parametrize("asked", [9_999_999_999.0, 1e300, math.inf])
def test_huge_retry_after_is_capped(asked):
    """One day at the most, or what the matrix says; never more than a wait can be."""
    decision = matrix_of(constant(1)).decide(failed(E.PROVIDER_THROTTLED, retry_after=asked), 1)
    assert (Action.RETRY, 86_400.0, True) == (decision.action, decision.delay, decision.delay <= MAX_DELAY)


def test_retry_after_past_the_deadline_ends_it_at_once():
    """An hour is asked for, half a minute is left: nobody waits."""
    decision = matrix_of(constant(1), max_age=30).decide(failed(E.PROVIDER_THROTTLED, retry_after=3600.0), 1)
    assert (Action.DEAD_LETTER, 0.0, DeadLetterReason.EXPIRED) == (
        decision.action,
        decision.delay,
        decision.dead_letter_reason,
    )


@pytest.mark.parametrize("asked", [0.0, -30.0, -math.inf, math.nan])
def test_retry_after_that_is_over_leaves_the_own_backoff(asked):
    """No hammering without a pause, and no negative wait."""
    decision = matrix_of(delays(7, jitter="none")).decide(failed(E.PROVIDER_THROTTLED, retry_after=asked), 1)
    assert (Action.RETRY, 7.0) == (decision.action, decision.delay)
