"""The claim record as it is stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import given

from retrykit.codec import decode, encode
from retrykit.decision import Action, Attempt
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, Failure, Outcome
from retrykit.lease import Lease
from retrykit.machines.claim import HISTORY_LIMIT, ClaimRecord, ClaimState, Counters
from retrykit.machines.poison import PoisonRule, is_crash
from retrykit.testing.strategies import claim_records

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def attempt(*, number=1, generation=1, failed_at=NOW, error_code=None, error_class=ErrorClass.INTERNAL_ERROR):
    return Attempt(
        number=number,
        generation=generation,
        failed_at=failed_at,
        failure=Failure(error_class=error_class, outcome=Outcome.NOT_SENT, error_code=error_code),
        action=Action.RETRY,
    )


CRASH = attempt(error_code="worker_lost")


@given(claim_records)
def test_record_survives_a_round_trip(record):
    """Through JSON, equal in every field, and what a newer version added is kept."""
    assert record == ClaimRecord.from_dict(decode(encode(record.to_dict())))


@pytest.mark.parametrize(
    ("packed", "lease"),
    [
        (["me", 3, 30_000], Lease("me", 3, EPOCH + timedelta(seconds=30))),
        (["me", 3, 30_000, 0], Lease("me", 3, EPOCH + timedelta(seconds=30), EPOCH)),
        (["me", 3, 30_000, None, "exit 1"], Lease("me", 3, EPOCH + timedelta(seconds=30), None, "exit 1")),
        (["me", 3, 30_000, 0, "exit 1", "newer"], Lease("me", 3, EPOCH + timedelta(seconds=30), EPOCH, "exit 1")),
    ],
)
def test_lease_of_any_version_is_read(packed, lease):
    """Earlier ones kept less, and a newer one may keep more."""
    fields = ClaimRecord(key="k", state=ClaimState.CLAIMED, opened_at=NOW).to_dict() | {"lease": packed}
    assert lease == ClaimRecord.from_dict(fields).lease


def test_record_written_has_these_fields():
    """Instants are whole milliseconds since the epoch, and the shape carries its version."""
    record = ClaimRecord(
        key="welcome-17",
        state=ClaimState.CLAIMED,
        seq=3,
        lease=Lease("me", 3, NOW + timedelta(seconds=30), NOW, "signal 9"),
        opened_at=NOW,
        counters=Counters(2, 1, 0, 0),
        extra={"mood": "good"},
    )
    assert json.loads(encode(record.to_dict())) == {
        "mood": "good",
        "schema_version": 1,
        "key": "welcome-17",
        "state": "claimed",
        "seq": 3,
        "lease": ["me", 3, 1767225630000, 1767225600000, "signal 9"],
        "generation": 1,
        "fingerprint": None,
        "opened_at": 1767225600000,
        "not_before": None,
        "disposition": None,
        "reason": None,
        "dead_letter_id": None,
        "provider": None,
        "provider_id": None,
        "settled_at": None,
        "counters": [2, 1, 0, 0],
        "checks": 0,
        "note": "",
        "is_unsure": False,
        "attempts": [],
    }


@pytest.mark.parametrize("name", sorted(set(ClaimRecord(key="k", opened_at=NOW).to_dict())))
def test_record_read_without_a_field_is_an_error(name):
    """A damaged record is not taken for a fresh one."""
    fields = ClaimRecord(key="k", opened_at=NOW).to_dict()
    del fields[name]
    with pytest.raises(KeyError, match=name):
        ClaimRecord.from_dict(fields)


def test_tries_are_those_of_the_generation():
    """A redrive starts afresh; the history is kept beside."""
    old, new = attempt(generation=1), attempt(generation=2)
    record = ClaimRecord(key="k", opened_at=NOW, generation=2, attempts=(old, new))
    assert (new,) == record.tries
    assert new.failure == record.failure
    assert ClaimRecord(key="k", opened_at=NOW).failure is None


def test_crashes_are_counted_by_time_and_generation():
    """Only tries that ended with their worker, in this generation, after the instant."""
    attempts = [
        attrs.evolve(CRASH, failed_at=NOW),
        attrs.evolve(CRASH, failed_at=NOW + timedelta(seconds=1)),
        attrs.evolve(CRASH, failed_at=NOW + timedelta(seconds=1), generation=2),
        attempt(failed_at=NOW + timedelta(seconds=1)),
    ]
    record = ClaimRecord(key="k", opened_at=NOW, attempts=tuple(attempts))
    assert record.crashes_since(NOW - timedelta(seconds=1)) == 2
    assert record.crashes_since(NOW) == 1
    assert record.crashes_since(NOW + timedelta(seconds=1)) == 0


def test_age_is_that_of_the_first_failed_try_of_the_generation():
    """A message that has not failed yet has no age, and a clock that was set back makes none negative."""
    attempts = (attempt(), *(attempt(generation=2, failed_at=NOW + timedelta(seconds=s)) for s in (10, 50)))
    record = ClaimRecord(key="k", opened_at=NOW, generation=2, attempts=attempts)
    assert [0.0, 0.0, 90.5] == [record.age(NOW + timedelta(seconds=seconds)) for seconds in (0, 10, 100.5)]
    assert ClaimRecord(key="k", opened_at=NOW).age(NOW + timedelta(days=9)) == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "the limit of a PoisonRule is 0; allowed are whole numbers >= 1"),
        ({"limit": True}, "the limit of a PoisonRule is True; allowed are whole numbers >= 1"),
        ({"limit": 2.5}, "the limit of a PoisonRule is 2.5; allowed are whole numbers >= 1"),
        ({"failures": 0}, "the failures of a PoisonRule is 0; allowed are whole numbers >= 1"),
        (
            {"failures": 17},
            "the failures of a PoisonRule is 17; allowed are 1 to 16, or None to count by message alone",
        ),
        ({"window": 0}, "the window of a PoisonRule is 0; allowed are finite durations > 0"),
        ({"window": float("inf")}, "the window of a PoisonRule is inf; allowed are finite durations > 0"),
    ],
)
def test_poison_rule_that_makes_no_sense_is_refused(options, message):
    """A limit of zero would quarantine everything."""
    with pytest.raises(ConfigurationError) as caught:
        PoisonRule(**options)
    assert message == str(caught.value)
    assert PoisonRule(window="3d") == PoisonRule()


def test_crash_is_told_by_code_and_class():
    """An application's error code of the same text is no crash."""
    assert is_crash(CRASH) is True
    assert is_crash(attempt(error_code="worker_lost", error_class=ErrorClass.UNKNOWN)) is False
    assert is_crash(attempt()) is False


def test_limits_are_exactly_these():
    """Three crashes in 72 hours, and a history of a hundred attempts."""
    assert PoisonRule() == PoisonRule(limit=3, window=259200.0, failures=3, failure_window=900.0)
    assert HISTORY_LIMIT == 100
    assert [state.value for state in ClaimState] == ["free", "claimed", "sending", "waiting", "unknown", "done"]
