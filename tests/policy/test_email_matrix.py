"""The matrix for e-mail, rung by rung, and what holds for every matrix and every failure."""

from __future__ import annotations

import math
import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.decision import Action
from retrykit.failure import ErrorClass, ErrorGroup, Failure, Outcome
from retrykit.policy import EMAIL_MATRIX, PolicyMatrix, RetryPolicy, constant, delays, exponential, upward
from retrykit.policy.backoff import MAX_DELAY
from tests.strategies import attempts, error_classes, failures

E, G = ErrorClass, ErrorGroup

EXPECTED = {
    E.NETWORK_TIMEOUT: RetryPolicy(max_retries=5, backoff=delays(5, 15, 30, 60, 120, jitter=upward(0.1))),
    G.TRANSIENT_INFRASTRUCTURE: RetryPolicy(
        max_retries=5, backoff=exponential(5, factor=2, cap="1h", jitter="quarter")
    ),
    E.PROVIDER_THROTTLED: RetryPolicy(max_retries=8, backoff=constant(10, jitter=upward(0.25)), throttle=True),
    G.TEMPORARY_MAILBOX: RetryPolicy(max_retries=3, backoff=delays("15m", "1h", "6h", jitter=upward(0.1))),
    G.SENDER: RetryPolicy(max_retries=2, backoff=delays("5m", "30m", jitter=upward(0.1))),
    E.RENDERING_FAILURE: RetryPolicy(max_retries=0, on_exhausted=Action.DEAD_LETTER),
    G.INTERNAL: RetryPolicy(max_retries=0, on_exhausted=Action.DEAD_LETTER),
    G.PERMANENT_RECIPIENT: RetryPolicy(max_retries=0, on_exhausted=Action.MARK_BOUNCED),
    G.CONTENT_POLICY: RetryPolicy(max_retries=0, on_exhausted=Action.MANUAL_REVIEW),
    G.UNMAPPED: RetryPolicy(max_retries=1, backoff=constant(60, jitter=upward(0.1))),
}


def test_email_matrix_is_exactly_this():
    """Policies, their order and the limits; whoever changes one of them changes this line too."""
    assert EXPECTED == EMAIL_MATRIX.policies
    assert list(EXPECTED) == list(EMAIL_MATRIX.policies)
    assert (None, 12, 259200.0, 86400.0, Action.VERIFY) == (
        EMAIL_MATRIX.default,
        EMAIL_MATRIX.max_attempts,
        EMAIL_MATRIX.max_age,
        EMAIL_MATRIX.max_retry_after,
        EMAIL_MATRIX.on_unknown,
    )
    assert exponential("30s", cap="1h") == EMAIL_MATRIX.verify_backoff


@pytest.mark.parametrize(
    ("error_class", "waits", "end"),
    [
        (E.NETWORK_TIMEOUT, [5, 15, 30, 60, 120], Action.DEAD_LETTER),
        (E.CONNECTION_ERROR, [5, 10, 20, 40, 80], Action.DEAD_LETTER),
        (E.PROVIDER_THROTTLED, [10] * 8, Action.DEAD_LETTER),
        (E.QUOTA_EXCEEDED, [60], Action.DEAD_LETTER),
        (E.MAILBOX_FULL, [900, 3600, 21600], Action.DEAD_LETTER),
        (E.REPUTATION_BLOCKED, [300, 1800], Action.DEAD_LETTER),
        (E.RENDERING_FAILURE, [], Action.DEAD_LETTER),
        (E.INVALID_PAYLOAD, [], Action.DEAD_LETTER),
        (E.INVALID_RECIPIENT, [], Action.MARK_BOUNCED),
        (E.CONTENT_REJECTED, [], Action.MANUAL_REVIEW),
        (E.UNKNOWN, [60], Action.DEAD_LETTER),
    ],
)
def test_email_message_that_keeps_failing_waits_these_seconds_and_ends(error_class, waits, end):
    """The whole life of a message that fails the same way each time."""
    failure = Failure(error_class=error_class, outcome=Outcome.NOT_SENT)
    life = [EMAIL_MATRIX.decide(failure, number) for number in range(1, len(waits) + 2)]
    assert [*waits, 0.0] == [decision.delay for decision in life]
    assert [Action.RETRY] * len(waits) + [end] == [decision.action for decision in life]


def test_email_matrix_prints_its_first_row():
    """`print(EMAIL_MATRIX)` shows the table."""
    row = "network_timeout           5        5, 15, 30, 60, 120 s    dead_letter"
    assert str(EMAIL_MATRIX).splitlines()[2] == row


any_float = st.floats()
policies = st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 12),
    backoff=st.sampled_from([delays(0), delays(5, 60, "1h"), constant(10, jitter="quarter"), exponential(1)]),
    on_exhausted=st.sampled_from(sorted(set(Action) - {Action.RETRY, Action.VERIFY})),
    audit=st.booleans(),
)
matrices = st.just(EMAIL_MATRIX) | st.builds(
    PolicyMatrix,
    st.dictionaries(st.sampled_from(ErrorGroup) | error_classes, policies, max_size=4),
    default=st.none() | policies,
    max_attempts=st.integers(1, 20),
    max_age=st.none() | st.floats(1, 1e6),
    max_retry_after=st.floats(1, 1e6),
    on_unknown=st.sampled_from(Action),
)
wild_failures = st.builds(
    lambda failure, retry_after: attrs.evolve(failure, retry_after=retry_after), failures, st.none() | any_float
)
tries = st.integers(1, 10**6) | st.lists(attempts, max_size=4)


@given(matrices, wild_failures, tries, any_float, st.integers())
def test_decision_is_total_deterministic_and_bounded(matrix, failure, tries, age, seed):
    """Any failure, history and age gives one decision: finite, never early, never a retry of the unknown."""
    decision = matrix.decide(failure, tries, age=age, rng=random.Random(seed))
    assert decision == matrix.decide(failure, tries, age=age, rng=random.Random(seed))
    assert 0 <= decision.delay <= max(MAX_DELAY, matrix.max_retry_after)
    assert decision.reason.startswith(f"{failure.error_class}, ")
    if decision.is_final:
        assert decision.delay == 0
        assert decision.dead_letter_reason is not None
    else:
        assert decision.dead_letter_reason is None
    if decision.action is Action.RETRY:
        asked = failure.retry_after
        if asked is not None and not math.isnan(asked):
            assert decision.delay >= min(asked, matrix.max_retry_after)
        assert failure.outcome is not Outcome.UNKNOWN or matrix.on_unknown is Action.RETRY
        number = tries if isinstance(tries, int) else len(tries) + 1
        assert number < matrix.max_attempts
        assert matrix.max_age is None or math.isnan(age) or age + decision.delay <= matrix.max_age


@given(matrices, wild_failures, tries)
def test_decision_about_a_known_outcome_is_never_to_verify(matrix, failure, tries):
    """There is nothing to find out about what certainly did not happen."""
    known = attrs.evolve(failure, outcome=Outcome.NOT_SENT)
    assert matrix.decide(known, tries).action is not Action.VERIFY
