"""Schedules that other systems publish, said in retrykit's backoffs, and which of them cannot be said so.

The numbers are those of each system's own source, tests or manual. What cannot be said, and what to take instead:

| system | why not | instead |
|---|---|---|
| Envoy's own backoff | whole milliseconds by the remainder of a random integer | "full", the same up to a millisecond |
| Envoy's interval plus half a remainder | the same | `upward(0.5)` |
| Sidekiq, Faktory, Hangfire | whole seconds up to ten or thirty times the retry's number are added | `formula` with their mean |
| Polly's exponential backoff with jitter | a wait is the difference of two draws | `decorrelated` |
| Oban with other than 20 attempts | the exponent depends on the number of attempts | `formula` of the application |
| Temporal's attempt -1 | a try is counted from 1, others are refused | 1 |
| Temporal's last interval, cut to what is left | a wait that would pass the limit is not waited | see the test |
"""

from __future__ import annotations

import math

import pytest

from retrykit.decision import Action
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, Failure, Outcome
from retrykit.policy import (
    PolicyMatrix,
    RetryPolicy,
    constant,
    delays,
    exponential,
    formula,
    linear,
    plus_minus,
    upward,
)
from tests.policy.strategies import Fixed

DOWN = Failure(error_class=ErrorClass.PROVIDER_UNAVAILABLE, outcome=Outcome.NOT_SENT)


@pytest.mark.parametrize(
    ("backoff", "number", "expected"),
    [
        # AWS SDKs, retry behaviour 2.1: upper ends of full jitter, for errors, throttling and DynamoDB.
        (
            exponential(0.05, cap=20, jitter="full"),
            1.0,
            [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 20, 20],
        ),
        (exponential(1, cap=20, jitter="full"), 1.0, [1, 2, 4, 8, 16, 20]),
        (exponential(0.025, cap=20, jitter="full"), 1.0, [0.025, 0.05, 0.1]),
        (exponential(0.05, cap=20, jitter="full"), 0.0, [0, 0]),
        # gRPC, proposal A6: the jitter comes after the cap.
        (exponential(100, cap=700, jitter=plus_minus(0.2)), 0.5, [100, 200, 400, 700, 700]),
        (exponential(1, cap=10, jitter=plus_minus(0.2)), 0.0, [0.8, 1.6, 3.2, 6.4, 8]),
        (exponential(1, cap=10, jitter=plus_minus(0.2)), 1.0, [1.2, 2.4, 4.8, 9.6, 12]),
        # Temporal: 2 s x3; and the server's own publishing.
        (exponential(2, factor=3, cap=100), None, [2, 6, 18, 54, 100]),
        (exponential(0.05, cap=10), None, [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10, 10]),
        (exponential(3, cap=3), None, [3] * 5),
        # Spring Kafka.
        (exponential(1, cap=30), None, [1, 2, 4, 8, 16, 30]),
        # BullMQ, a jitter of one half: from half the wait to the wait.
        (exponential(1, jitter="equal"), 0.0, [0.5, 1, 2]),
        (exponential(1, jitter="equal"), 1.0, [1, 2, 4]),
        # Polly v8, a jitter of a quarter to either side; the third attempt of a linear one.
        (constant(1, jitter=plus_minus(0.25)), 0.0, [0.75]),
        (constant(1, jitter=plus_minus(0.25)), 0.4, [0.95]),
        (constant(1, jitter=plus_minus(0.25)), 0.6, [1.05]),
        (constant(1, jitter=plus_minus(0.25)), 1.0, [1.25]),
        (linear(1, jitter=plus_minus(0.25)), 0.0, [0.75, 1.5, 2.25]),
        (linear(1, jitter=plus_minus(0.25)), 0.4, [0.95, 1.9, 2.85]),
        (linear(1, jitter=plus_minus(0.25)), 0.6, [1.05, 2.1, 3.15]),
        (linear(1, jitter=plus_minus(0.25)), 1.0, [1.25, 2.5, 3.75]),
        # River: the fourth power of the retry's number.
        (
            formula(lambda n: n**4, jitter=plus_minus(0.1)),
            0.5,
            [1, 16, 81, 256, 625, 1296, 2401, 4096, 6561, 10_000],
        ),
    ],
)
def test_published_schedule_is_said_by_a_backoff(backoff, number, expected):
    """For a source of randomness that says `number` each time; None for none."""
    rng = None if number is None else Fixed(number)
    assert pytest.approx(expected) == [backoff.delay(retry, rng) for retry in range(1, len(expected) + 1)]


@pytest.mark.parametrize(
    ("retry", "low", "high"),
    [(1, 17, 18.7), (2, 19, 20.9), (5, 47, 51.7), (10, 1039, 1142.9), (20, 1_048_591, 1_153_450.1)],
)
def test_oban_schedule_lies_in_its_published_bounds(retry, low, high):
    """15 + 2^n seconds, and up to a tenth more."""
    oban = formula(lambda n: 15 + 2**n, jitter=upward(0.1))
    assert pytest.approx((low, high)) == oban.bounds(retry)


@pytest.mark.parametrize(
    ("system", "backoff", "retries", "seconds"),
    [
        ("Sidekiq", formula(lambda n: (n - 1) ** 4 + 15 + (10 * n - 1) / 2), 25, 1_765_007.5),
        ("Faktory", formula(lambda n: (n - 1) ** 4 + 15 + 14.5 * n), 25, 1_768_107.5),
        ("River", formula(lambda n: n**4, jitter=plus_minus(0.1)), 24, 1_763_020),
        ("Oban", formula(lambda n: 15 + 2**n, jitter=upward(0.1)), 19, 1_048_859),
        ("Hangfire", formula(lambda n: (n - 1) ** 4 + 15 + 14.5 * n), 10, 16_280.5),
        ("NServiceBus", delays(10, 20, 30), 3, 60),
        ("Spring Kafka", constant(1), 2, 2),
        ("Polly", constant(2), 3, 6),
        ("AWS", formula(lambda n: min(20, 0.05 * 2 ** (n - 1)) / 2), 2, 0.075),
    ],
)
def test_published_give_up_horizon_is_the_sum_of_the_waits(system, backoff, retries, seconds):
    """How long each system waits in all, as expected without its jitter or with its jitter's mean."""
    assert pytest.approx(seconds) == math.fsum(backoff.delay(retry) for retry in range(1, retries + 1)), system


def test_river_last_wait_is_its_published_one():
    """The 24th retry."""
    assert 331_776 == formula(lambda n: n**4).delay(24)


@pytest.mark.parametrize(
    ("policy", "limits", "tries", "age", "expected"),
    [
        (exponential(5, cap=500, jitter="none"), {}, 1, 0, 5),
        (exponential(2, factor=3, cap=200, jitter="none"), {}, 4, 0, 54),
        (constant(1, jitter="none"), {}, 5, 0, 1),
        (exponential(2, jitter="none"), {"max_attempts": 10}, 10, 0, "all 10 attempts used"),
        (exponential(2, jitter="none"), {"max_attempts": 1000}, 10, 0, 1024),
        (constant(100), {"max_age": 60}, 1, 0, "the next try would come later than 60 s after the first"),
        (constant(1), {"max_age": 60}, 1, 60, "the next try would come later than 60 s after the first"),
    ],
)
def test_temporal_cases_are_decided_as_temporal_does(policy, limits, tries, age, expected):
    """Interval, attempt limit and deadline: stop now rather than sleep past the deadline."""
    matrix = PolicyMatrix({ErrorClass.PROVIDER_UNAVAILABLE: RetryPolicy(max_retries=1000, backoff=policy)}, **limits)
    decision = matrix.decide(DOWN, tries, age=age)
    if isinstance(expected, str):
        assert (Action.DEAD_LETTER, f"provider_unavailable, {expected}: dead letter") == (
            decision.action,
            decision.reason,
        )
    else:
        assert (Action.RETRY, expected) == (decision.action, decision.delay)


def test_temporal_attempt_below_one_is_refused():
    """Temporal takes it for the first; here it is a mistake of the caller."""
    with pytest.raises(ConfigurationError, match="tries is -1; tries are counted from 1"):
        PolicyMatrix({}).decide(DOWN, -1)


def test_wait_that_would_pass_the_window_ends_it_instead_of_being_cut():
    """Temporal's publishing waits 7.25 s in the end, to fill its 60 s; here the 13th retry is not waited for."""
    policy = RetryPolicy(max_retries=100, backoff=exponential(0.05, cap=10, jitter="none"))
    matrix = PolicyMatrix({ErrorClass.PROVIDER_UNAVAILABLE: policy}, max_attempts=1000, max_age=60)
    waits = []
    while (decision := matrix.decide(DOWN, len(waits) + 1, age=math.fsum(waits))).action is Action.RETRY:
        waits.append(decision.delay)
    assert [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10, 10] == waits
    assert pytest.approx(60 - 7.25) == math.fsum(waits)


@pytest.mark.parametrize(
    ("immediate", "delayed", "attempts"),
    [
        (0, 0, 1),
        (1, 0, 2),
        (2, 0, 3),
        (3, 0, 4),
        (0, 1, 2),
        (1, 1, 4),
        (2, 1, 6),
        (3, 1, 8),
        (1, 2, 6),
        (2, 2, 9),
        (1, 3, 8),
        (5, 3, 24),
    ],
)
def test_immediate_and_delayed_retries_of_nservicebus_are_one_ladder(immediate, delayed, attempts):
    """Each delayed round tries at once as often as the first: (immediate + 1) x (delayed + 1) attempts."""
    rungs = [0] * immediate
    for number in range(delayed):
        rungs += [10 * (number + 1), *[0] * immediate]
    policy = RetryPolicy(max_retries=len(rungs), backoff=rungs or [0])
    matrix = PolicyMatrix({ErrorClass.PROVIDER_UNAVAILABLE: policy}, max_attempts=100)
    made = 1
    waited = 0.0
    while (decision := matrix.decide(DOWN, made)).action is Action.RETRY:
        made += 1
        waited += decision.delay
    assert (attempts, 5 * delayed * (delayed + 1)) == (made, waited)
