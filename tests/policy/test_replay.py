"""Replay: what another matrix would have decided about dead letters."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.dead_letter import DeadLetter, dead_letter_id
from retrykit.decision import Action, Attempt, DeadLetterReason
from retrykit.failure import ErrorClass, ErrorGroup, Failure, Outcome
from retrykit.policy import EMAIL_MATRIX, PolicyMatrix, RetryPolicy, delays
from retrykit.policy.replay import replay
from retrykit.testing.strategies import letters
from tests.policy.strategies import matrices

E, G = ErrorClass, ErrorGroup
START = datetime(2026, 1, 1, tzinfo=UTC)
MATRIX = PolicyMatrix(
    {
        G.THROTTLING: RetryPolicy(max_retries=2, backoff=delays("1m", "1h")),
        G.PERMANENT_RECIPIENT: RetryPolicy.never(Action.MARK_BOUNCED),
    }
)


def letter(*tries, name="m-1", generation=1):
    """Return a dead letter with these tries: the class, the action, and the minutes since the start."""
    attempts = [
        Attempt(
            number=number,
            generation=generation,
            failed_at=START + timedelta(minutes=minutes),
            failure=error
            if isinstance(error, Failure)
            else Failure(error_class=error, outcome=Outcome.REJECTED, rule="r"),
            action=action,
        )
        for number, (error, action, minutes) in enumerate(tries, 1)
    ]
    error_class = attempts[-1].failure.error_class if attempts else E.UNKNOWN
    return DeadLetter(
        id=dead_letter_id(name, generation),
        message_id=name,
        generation=generation,
        error_class=error_class,
        reason=DeadLetterReason.RETRIES_EXHAUSTED,
        attempt_count=len(attempts),
        last_failed_at=START,
        dead_lettered_at=START,
        attempts=tuple(attempts),
        original_payload=b"{}",
    )


EXHAUSTED = letter(
    (E.PROVIDER_THROTTLED, Action.RETRY, 0),
    (E.QUOTA_EXCEEDED, Action.RETRY, 1),
    (E.PROVIDER_THROTTLED, Action.DEAD_LETTER, 61),
)
LOST = Failure(
    error_class=E.INTERNAL_ERROR, error_code="WorkerLost", outcome=Outcome.NOT_SENT, rule="claim.lease_ended"
)


def throttling(retries, **limits):
    """Return the matrix with another number of retries for throttling."""
    return MATRIX.with_({G.THROTTLING: RetryPolicy(max_retries=retries, backoff=delays("1m", "1h"))}, **limits)


def test_same_matrix_would_have_done_the_same():
    """Each attempt has the decision that is on record."""
    report = MATRIX.replay([EXHAUSTED])
    assert (1, 1, 0, 0, {}, []) == (
        report.letters,
        report.same,
        report.different,
        report.without_history,
        report.changes,
        report.examples,
    )


@pytest.mark.parametrize(
    ("matrix", "change", "attempt", "reason"),
    [
        (
            throttling(1),
            ("quota_exceeded", "retry", "dead_letter"),
            2,
            "quota_exceeded, all 1 retries used: dead letter; rule r",
        ),
        (
            throttling(0),
            ("provider_throttled", "retry", "dead_letter"),
            1,
            "provider_throttled, not retried: dead letter; rule r",
        ),
        (
            throttling(3),
            ("provider_throttled", "dead_letter", "retry"),
            3,
            "provider_throttled, retry 3 of 3, waits 3600 s; rule r",
        ),
        (
            throttling(2, max_age="1h"),
            ("quota_exceeded", "retry", "dead_letter"),
            2,
            "quota_exceeded, the next try would come later than 3600 s after the first: dead letter; rule r",
        ),
        (
            MATRIX.with_({E.QUOTA_EXCEEDED: RetryPolicy.never(Action.MANUAL_REVIEW)}),
            ("quota_exceeded", "retry", "manual_review"),
            2,
            "quota_exceeded, not retried: manual review; rule r",
        ),
    ],
)
def test_other_matrix_is_told_by_where_it_first_goes_another_way(matrix, change, attempt, reason):
    """Fewer retries, more retries, a shorter life, another end."""
    report = matrix.replay([EXHAUSTED])
    assert ({change: 1}, 0, 1) == (report.changes, report.same, report.different)
    (example,) = report.examples
    assert (EXHAUSTED.id, attempt, reason) == (example.letter_id, example.attempt, example.would.reason)


def test_letter_without_history_says_nothing():
    """As letters have that another system wrote."""
    report = MATRIX.replay([letter(), EXHAUSTED])
    assert (2, 1, 1, 0) == (report.letters, report.without_history, report.same, report.different)


@pytest.mark.parametrize("rule", ["claim.lease_ended", "claim.poison"])
def test_attempt_that_no_matrix_decided_is_passed_over(rule):
    """A lost worker and a poison verdict are the claim's; the attempts around them are replayed."""
    lost = attrs.evolve(LOST, rule=rule)
    history = [(lost, Action.RETRY, 0), (E.INVALID_RECIPIENT, Action.MARK_BOUNCED, 1)]
    assert 1 == MATRIX.replay([letter(*history)]).same
    assert 1 == MATRIX.replay([letter((lost, Action.DEAD_LETTER, 0))]).same
    stricter = MATRIX.with_({G.PERMANENT_RECIPIENT: RetryPolicy.never(Action.DISCARD)})
    assert [2] == [example.attempt for example in stricter.replay([letter(*history)]).examples]


def test_attempt_of_a_lost_worker_counts_as_an_attempt():
    """As it did when the message was handled."""
    history = [(LOST, Action.RETRY, 0), (E.PROVIDER_THROTTLED, Action.RETRY, 1)]
    assert "all 2 attempts used" in MATRIX.with_(max_attempts=2).replay([letter(*history)]).examples[0].would.reason


def test_only_the_last_generation_is_replayed():
    """What came before a redrive was decided by itself."""
    second = letter((E.INVALID_RECIPIENT, Action.MARK_BOUNCED, 600), generation=2)
    whole = attrs.evolve(second, attempts=(*EXHAUSTED.attempts, *second.attempts))
    assert 1 == throttling(0).replay([whole]).same


def test_unknown_outcome_is_replayed_as_it_was():
    """A verification on record is one in a matrix that verifies."""
    failure = Failure(error_class=E.PROVIDER_THROTTLED, outcome=Outcome.UNKNOWN)
    unsure = letter((failure, Action.VERIFY, 0))
    assert 1 == MATRIX.replay([unsure]).same
    assert {("provider_throttled", "verify", "retry"): 1} == MATRIX.with_(on_unknown=Action.RETRY).replay(
        [unsure]
    ).changes


def test_letters_are_read_once_and_counted_by_change():
    """A generator will do; the most frequent change comes first; the first twenty letters are shown."""
    bounced = letter((E.INVALID_RECIPIENT, Action.MARK_BOUNCED, 0), name="m-2")
    report = (
        throttling(0)
        .with_({G.PERMANENT_RECIPIENT: RetryPolicy.never(Action.DISCARD)})
        .replay(one for one in [bounced, *[EXHAUSTED] * 30])
    )
    assert (31, 0, 31, 20) == (report.letters, report.same, report.different, len(report.examples))
    table = report.to_dict()
    assert {
        "letters": 31,
        "without_history": 0,
        "same": 0,
        "different": 31,
        "changes": [
            {"error_class": "provider_throttled", "decided": "retry", "would": "dead_letter", "letters": 30},
            {"error_class": "invalid_recipient", "decided": "mark_bounced", "would": "discard", "letters": 1},
        ],
    } == {name: value for name, value in table.items() if name != "examples"}
    assert {
        "letter_id": bounced.id,
        "attempt": 1,
        "error_class": "invalid_recipient",
        "decided": "mark_bounced",
        "would": "discard",
        "reason": "invalid_recipient, not retried: discard; rule r",
    } == table["examples"][0]


@pytest.mark.unmeasured
@given(matrices(), st.lists(letters, max_size=4))
def test_replay_of_any_letters_adds_up_and_is_json(matrix, recorded):
    """Each letter is the same, different, or without a history."""
    report = matrix.replay(recorded)
    assert len(recorded) == report.letters == report.same + report.different + report.without_history
    assert report.to_dict() == json.loads(json.dumps(report.to_dict()))


def test_matrix_replayed_on_its_own_history_agrees_near_the_maximum_age():
    """The jitter of then is not on record: whichever end of it decided, it is no divergence."""
    matrix = PolicyMatrix(
        {ErrorGroup.UNMAPPED: RetryPolicy(max_retries=3, backoff=delays("20h", "24h", "24h"))}, max_age="3d"
    )
    failure = Failure(error_class=ErrorClass.UNKNOWN, outcome=Outcome.REJECTED, rule="example")
    for seed in range(50):
        rng, tries, at = random.Random(seed), [], datetime(2026, 1, 1, tzinfo=UTC)
        began = at
        while not tries or tries[-1].action is Action.RETRY:
            decision = matrix.decide(failure, tries, age=(at - began).total_seconds(), rng=rng)
            tries.append(
                Attempt(
                    number=len(tries) + 1,
                    generation=1,
                    failed_at=at,
                    failure=failure,
                    action=decision.action,
                    delay=decision.delay,
                )
            )
            at += timedelta(seconds=decision.delay)
        assert replay(matrix, [dead(tries)]).same == 1


def test_replay_of_idempotent_calls_retries_unknown_outcomes():
    """What was declared idempotent then is to be declared so now."""
    failure = Failure(error_class=ErrorClass.NETWORK_TIMEOUT, outcome=Outcome.UNKNOWN, rule="example")
    attempt = Attempt(
        number=1, generation=1, failed_at=datetime(2026, 1, 1, tzinfo=UTC), failure=failure, action=Action.RETRY
    )
    assert replay(EMAIL_MATRIX, [dead([attempt])], idempotent=True).same == 1
    assert replay(EMAIL_MATRIX, [dead([attempt])]).different == 1


def dead(tries):
    """A dead letter with this history."""
    return DeadLetter(
        id="m#1",
        message_id="m",
        error_class=tries[-1].failure.error_class,
        reason=DeadLetterReason.APPLICATION,
        attempt_count=len(tries),
        last_failed_at=tries[-1].failed_at,
        dead_lettered_at=tries[-1].failed_at,
        attempts=tuple(tries),
        original_payload=b"{}",
    )
