"""Failures, attempts, decisions and dispositions: the records a decision rests on."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, datetime

import attrs
import pytest
from hypothesis import given

from retrykit.codec import decode, encode
from retrykit.decision import Action, Attempt, DeadLetterReason, Decision, Disposition, DispositionKind
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, ErrorGroup, Failure, Outcome
from retrykit.testing.strategies import attempts, failures

FAILURE = Failure(
    error_class=ErrorClass.MAILBOX_FULL,
    outcome=Outcome.REJECTED,
    error_code="452",
    enhanced_code="4.2.2",
    error_message="4.2.2 mailbox full",
    provider="ses",
    stage="send",
    retry_after=60.0,
    rule="smtp.x.2.2",
    frame="shop.mail:send",
)
ATTEMPT = Attempt(
    number=2,
    generation=1,
    failed_at=datetime(2026, 1, 31, 8, tzinfo=UTC),
    failure=FAILURE,
    action=Action.RETRY,
    delay=900.0,
    reason="mailbox_full, retry 2 of 3, waits 900 s",
    worker="host:1:a",
)


@given(failures)
def test_failure_survives_a_round_trip(failure):
    """Through a dictionary, JSON, pickle and copies, equal in every field."""
    assert failure == Failure.from_dict(failure.to_dict())
    assert failure == Failure.from_dict(decode(encode(failure.to_dict())))
    assert failure == pickle.loads(pickle.dumps(failure)) == copy.deepcopy(failure)


@given(attempts)
def test_attempt_survives_a_round_trip(attempt):
    """Through a dictionary, JSON and pickle, equal in every field."""
    assert attempt == Attempt.from_dict(decode(encode(attempt.to_dict())))
    assert attempt == pickle.loads(pickle.dumps(attempt))


def test_failure_written_leaves_out_what_says_nothing():
    """Histories are stored with every message: only what is known takes space."""
    assert Failure(error_class=ErrorClass.UNKNOWN, outcome=Outcome.UNKNOWN).to_dict() == {
        "error_class": "unknown",
        "error_group": "unmapped",
        "outcome": "unknown",
    }


def test_failure_written_has_these_fields():
    """The stored names are part of the format."""
    assert FAILURE.to_dict() == {
        "error_class": "mailbox_full",
        "error_group": "temporary_mailbox",
        "outcome": "rejected",
        "error_code": "452",
        "enhanced_code": "4.2.2",
        "error_message": "4.2.2 mailbox full",
        "provider": "ses",
        "stage": "send",
        "retry_after": 60.0,
        "rule": "smtp.x.2.2",
        "frame": "shop.mail:send",
    }


def test_attempt_written_holds_the_failure_in_the_same_object():
    """One flat object per try is what people query."""
    assert ATTEMPT.to_dict() == {
        "number": 2,
        "generation": 1,
        "failed_at": "2026-01-31T08:00:00.000Z",
        "action": "retry",
        "delay": 900.0,
        "reason": "mailbox_full, retry 2 of 3, waits 900 s",
        "worker": "host:1:a",
        **FAILURE.to_dict(),
    }


def test_failure_read_ignores_fields_it_does_not_know():
    """An attempt of a newer version still loads."""
    assert FAILURE == Failure.from_dict({**FAILURE.to_dict(), "weather": "rain"})


def test_attempt_read_without_the_optional_fields_has_their_defaults():
    """The oldest form of the record loads."""
    fields = ATTEMPT.to_dict()
    for name in ("delay", "reason", "worker", "frame"):
        del fields[name]
    failure = attrs.evolve(FAILURE, frame=None)
    assert attrs.evolve(ATTEMPT, failure=failure, delay=0.0, reason="", worker=None) == Attempt.from_dict(fields)


def test_failure_group_is_that_of_its_class():
    """Who is at fault follows from the class."""
    assert FAILURE.group is ErrorGroup.TEMPORARY_MAILBOX


def test_attempt_with_a_naive_instant_is_refused():
    """It would be stored as if it were local time."""
    with pytest.raises(ConfigurationError, match=r"^failed_at is the naive datetime"):
        attrs.evolve(ATTEMPT, failed_at=datetime(2026, 1, 31))  # noqa: DTZ001 - on purpose


@pytest.mark.parametrize("record", [FAILURE, ATTEMPT, Decision(Action.RETRY, 5.0, "x")])
def test_record_is_frozen_and_hashable(record):
    """Nobody rewrites history."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(record, attrs.fields(type(record))[0].name, "other")
    assert len({record, copy.copy(record)}) == 1


@pytest.mark.parametrize("action", list(Action))
def test_decision_is_final_unless_something_follows(action):
    """Only a retry and a verification go on."""
    assert (action not in {Action.RETRY, Action.VERIFY}) is Decision(action, 0.0, "x").is_final


def test_disposition_of_a_sent_message_has_nothing_else_to_say():
    """Every field but kind and message has a default."""
    disposition = Disposition(kind=DispositionKind.SENT, message_id="welcome-17")
    assert (None, None, None, None, None, None, "", 0, None) == attrs.astuple(disposition, recurse=False)[2:]


@pytest.mark.parametrize(
    ("enum", "values"),
    [
        (Outcome, "not_sent rejected unknown"),
        (Action, "retry verify dead_letter mark_bounced manual_review discard"),
        (
            DeadLetterReason,
            (
                "retries_exhausted expired invalid_payload rendering_failure policy_rejected unmapped_error "
                "poison_message application"
            ),
        ),
        (DispositionKind, "sent duplicate retry_scheduled verifying dead_lettered bounced held_for_review discarded"),
    ],
)
def test_stored_words_are_exactly_these(enum, values):
    """The values are what is stored, so they do not change."""
    assert values.split() == [member.value for member in enum]
    assert json.dumps(list(enum)) == json.dumps(values.split())
