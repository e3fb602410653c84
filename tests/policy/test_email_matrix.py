"""The matrix for e-mail, rung by rung."""

from __future__ import annotations

import pytest

from retrykit.decision import Action
from retrykit.failure import ErrorClass, ErrorGroup, Failure, Outcome
from retrykit.policy import EMAIL_MATRIX, RetryPolicy, constant, delays, exponential, upward

E, G = ErrorClass, ErrorGroup

EXPECTED = {
    E.NETWORK_TIMEOUT: RetryPolicy(max_retries=5, backoff=delays(5, 15, 30, 60, 120, jitter=upward(0.1))),
    G.TRANSIENT_INFRASTRUCTURE: RetryPolicy(
        max_retries=5, backoff=exponential(5, factor=2, cap="1h", jitter="quarter")
    ),
    E.PROVIDER_THROTTLED: RetryPolicy(max_retries=8, backoff=constant(10, jitter=upward(0.25)), throttle=True),
    G.THROTTLING: RetryPolicy(
        max_retries=4, backoff=delays("15m", "1h", "6h", "1d", jitter=upward(0.1)), throttle=True
    ),
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
        (E.QUOTA_EXCEEDED, [900, 3600, 21600, 86400], Action.DEAD_LETTER),
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
    row = "network_timeout           5        5, 15, 30, 60, 120 s + up to 10%           dead_letter"
    assert str(EMAIL_MATRIX).splitlines()[2] == row
