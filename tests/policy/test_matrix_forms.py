"""Matrices as values: derived, compared, hashed, pickled, and printed for Markdown and rich; the one for HTTP."""

from __future__ import annotations

import io
import pickle

import pytest
from hypothesis import given

from retrykit.decision import Action
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, ErrorGroup
from retrykit.policy import (
    EMAIL_MATRIX,
    HTTP_API_MATRIX,
    PolicyMatrix,
    RetryPolicy,
    delays,
    exponential,
    formula,
    upward,
)
from tests.capabilities import is_present
from tests.policy.examples import failed
from tests.policy.strategies import matrices

E, G = ErrorClass, ErrorGroup
ONCE = RetryPolicy(max_retries=1, backoff=["10m"])


def test_with_puts_policies_in_place_and_behind():
    """A key that is there keeps its place; a new one stands last; all else stays."""
    derived = EMAIL_MATRIX.with_({E.GREYLISTED: ONCE, G.SENDER: ONCE})
    assert [*EMAIL_MATRIX.policies, E.GREYLISTED] == list(derived.policies)
    assert {**EMAIL_MATRIX.policies, E.GREYLISTED: ONCE, G.SENDER: ONCE} == derived.policies
    assert (EMAIL_MATRIX.max_attempts, EMAIL_MATRIX.max_age) == (derived.max_attempts, derived.max_age)


def test_with_changes_limits_and_keeps_the_policies():
    """Limits are given as the matrix takes them, durations as text too."""
    derived = EMAIL_MATRIX.with_(
        default=ONCE,
        max_attempts=3,
        max_age=None,
        max_retry_after="10m",
        on_unknown=Action.MANUAL_REVIEW,
        verify_backoff=["1m", "5m"],
    )
    assert EMAIL_MATRIX.policies == derived.policies
    assert (ONCE, 3, None, 600.0, Action.MANUAL_REVIEW, delays("1m", "5m")) == (
        derived.default,
        derived.max_attempts,
        derived.max_age,
        derived.max_retry_after,
        derived.on_unknown,
        derived.verify_backoff,
    )


def test_with_nothing_is_an_equal_matrix():
    """And the one it comes from is not changed by any derivation."""
    before = str(EMAIL_MATRIX)
    assert EMAIL_MATRIX == EMAIL_MATRIX.with_()
    EMAIL_MATRIX.with_({G.INTERNAL: ONCE}, max_attempts=1)
    assert before == str(EMAIL_MATRIX)


def test_with_refuses_what_the_matrix_refuses():
    """Bad keys and limits are named; a limit that there is none of is a TypeError."""
    with pytest.raises(ConfigurationError, match="a key of the matrix is 'greylisted'"):
        EMAIL_MATRIX.with_({"greylisted": ONCE})
    with pytest.raises(ConfigurationError, match="max_attempts is 0; allowed are whole numbers >= 1"):
        EMAIL_MATRIX.with_(max_attempts=0)
    with pytest.raises(TypeError, match="max_tries"):
        EMAIL_MATRIX.with_(max_tries=3)


@given(matrices())
def test_matrix_is_equal_to_its_copy_in_value_and_hash(matrix):
    """Also after a pickle."""
    for copy in (matrix.with_(), pickle.loads(pickle.dumps(matrix))):
        assert matrix == copy
        assert hash(matrix) == hash(copy)


@pytest.mark.parametrize(
    "other",
    [
        EMAIL_MATRIX.with_({G.SENDER: ONCE}),
        EMAIL_MATRIX.with_({E.GREYLISTED: ONCE}),
        EMAIL_MATRIX.with_(max_attempts=11),
        EMAIL_MATRIX.with_(max_age="2d"),
        EMAIL_MATRIX.with_(on_unknown=Action.RETRY),
        EMAIL_MATRIX.with_(verify_backoff=["1m"]),
        EMAIL_MATRIX.with_(default=ONCE),
    ],
)
def test_matrix_that_differs_is_not_equal(other):
    """In a policy or in any limit."""
    assert other != EMAIL_MATRIX
    assert len({EMAIL_MATRIX, other, EMAIL_MATRIX.with_()}) == 2


def test_matrix_is_told_in_markdown():
    """A table for a runbook; a function without a name is no tag."""
    matrix = PolicyMatrix(
        {
            E.NETWORK_TIMEOUT: RetryPolicy(max_retries=2, backoff=["5s", "1m"]),
            G.THROTTLING: RetryPolicy(max_retries=1, backoff=lambda retry: 1.0),
            G.PERMANENT_RECIPIENT: RetryPolicy.never(Action.MARK_BOUNCED, audit=True),
        },
        max_age="1h",
    )
    assert matrix.to_markdown().splitlines() == [
        "| class or group | retries | delays | then |",
        "|---|---|---|---|",
        "| network_timeout | 2 | 5, 60 s + up to 10% | dead_letter |",
        r"| throttling | 1 | by \<lambda> | dead_letter |",
        "| permanent_recipient | 0 | - | mark_bounced, with a dead letter |",
        "",
        "at most 12 attempts, at most 3600 s after the first try; an unknown outcome: verify.",
    ]


@pytest.mark.skipif(not is_present("rich"), reason="needs rich")
def test_matrix_is_told_by_rich():
    """`rich.print(matrix)` shows a table with every row and the limits below."""
    from rich.console import Console

    console = Console(width=120, record=True, file=io.StringIO())
    console.print(EMAIL_MATRIX)
    text = console.export_text()
    for row in EMAIL_MATRIX.rows():
        assert all(cell in text for cell in row)
    assert EMAIL_MATRIX.limits in text


def test_http_api_matrix_is_exactly_this():
    """Policies, their order and the limits; whoever changes one of them changes this line too."""
    expected = {
        G.TRANSIENT_INFRASTRUCTURE: RetryPolicy(max_retries=3, backoff=exponential(0.5, cap=20, jitter="full")),
        G.THROTTLING: RetryPolicy(max_retries=4, backoff=exponential(1, cap=60, jitter=upward(0.25)), throttle=True),
        E.QUOTA_EXCEEDED: RetryPolicy(max_retries=1, backoff=delays("1h"), throttle=True),
        G.TEMPORARY_MAILBOX: RetryPolicy(max_retries=1, backoff=delays("15m")),
        G.SENDER: RetryPolicy.never(Action.DEAD_LETTER),
        G.INTERNAL: RetryPolicy.never(Action.DEAD_LETTER),
        G.PERMANENT_RECIPIENT: RetryPolicy.never(Action.DEAD_LETTER),
        G.CONTENT_POLICY: RetryPolicy.never(Action.MANUAL_REVIEW),
        G.UNMAPPED: RetryPolicy.never(Action.DEAD_LETTER),
    }
    assert expected == HTTP_API_MATRIX.policies
    assert list(expected) == list(HTTP_API_MATRIX.policies)
    assert (None, 6, 86400.0, 86400.0, Action.VERIFY) == (
        HTTP_API_MATRIX.default,
        HTTP_API_MATRIX.max_attempts,
        HTTP_API_MATRIX.max_age,
        HTTP_API_MATRIX.max_retry_after,
        HTTP_API_MATRIX.on_unknown,
    )


@pytest.mark.parametrize(
    ("error_class", "waits", "end"),
    [
        (E.CONNECTION_ERROR, [0.5, 1, 2], Action.DEAD_LETTER),
        (E.PROVIDER_THROTTLED, [1, 2, 4, 8], Action.DEAD_LETTER),
        (E.QUOTA_EXCEEDED, [3600], Action.DEAD_LETTER),
        (E.MAILBOX_FULL, [900], Action.DEAD_LETTER),
        (E.PROVIDER_MISCONFIGURED, [], Action.DEAD_LETTER),
        (E.INTERNAL_ERROR, [], Action.DEAD_LETTER),
        (E.INVALID_RECIPIENT, [], Action.DEAD_LETTER),
        (E.POLICY_VIOLATION, [], Action.MANUAL_REVIEW),
        (E.UNKNOWN, [], Action.DEAD_LETTER),
    ],
)
def test_http_call_that_keeps_failing_waits_these_seconds_and_ends(error_class, waits, end):
    """The whole life of a call that fails the same way each time."""
    life = [HTTP_API_MATRIX.decide(failed(error_class), number) for number in range(1, len(waits) + 2)]
    assert [*waits, 0.0] == [decision.delay for decision in life]
    assert [Action.RETRY] * len(waits) + [end] == [decision.action for decision in life]


def test_matrix_with_a_function_is_hashable_and_picklable_by_its_name():
    """A function of a module stands for itself."""
    matrix = PolicyMatrix({G.THROTTLING: RetryPolicy(max_retries=1, backoff=formula(float))})
    assert matrix == pickle.loads(pickle.dumps(matrix))
    assert hash(matrix) == hash(matrix.with_())
