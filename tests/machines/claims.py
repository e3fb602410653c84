"""Claim records in every state, for the tests of the claim machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from retrykit.decision import Action, DeadLetterReason, Decision
from retrykit.failure import ErrorClass, Failure, Outcome
from retrykit.machines import claim as machine
from retrykit.machines.claim import ClaimRecord, PoisonRule

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = 30.0
USUAL = PoisonRule()

TIMEOUT = Failure(error_class=ErrorClass.NETWORK_TIMEOUT, outcome=Outcome.NOT_SENT, error_message="timed out")
RETRY = Decision(Action.RETRY, 5.0, "network_timeout, retry 1 of 5, waits 5 s")
VERIFY = Decision(Action.VERIFY, 60.0, "network_timeout, may have been sent, verified in 60 s")
DEAD = Decision(Action.DEAD_LETTER, 0.0, "all used", DeadLetterReason.RETRIES_EXHAUSTED)


def at(seconds):
    """Return the instant so many seconds after the first."""
    return NOW + timedelta(seconds=seconds)


def take(record, *, owner="me", now=NOW, fingerprint=None, lease=LEASE, poison=USUAL, **terms):
    """Claim the record's key."""
    return machine.take(
        record,
        "k",
        fingerprint=fingerprint,
        owner=owner,
        lease=lease,
        terms=machine.ClaimTerms(poison=poison, **terms),
        now=now,
    )


def claimed(record=None, *, owner="me", now=NOW) -> ClaimRecord:
    """Return the record once `owner` holds it."""
    return take(record, owner=owner, now=now)[0]


def sending(record=None, *, owner="me", now=NOW) -> ClaimRecord:
    record = claimed(record, owner=owner, now=now)
    return machine.begin_send(record, record.seq, lease=LEASE, now=now)


def settled(record, next_record, *, delay=0.0, now=NOW) -> ClaimRecord:
    """Return what is stored when the holder of `record` settles it."""
    return machine.write(record, next_record, record.seq, delay=delay, now=now)


def waiting(record=None, *, now=NOW, delay=5.0) -> ClaimRecord:
    record = claimed(record, now=now)
    return settled(record, machine.failed(record, TIMEOUT, RETRY, failed_at=now), delay=delay, now=now)


def unknown(*, now=NOW, delay=60.0) -> ClaimRecord:
    record = sending(now=now)
    return settled(record, machine.failed(record, TIMEOUT, VERIFY, failed_at=now), delay=delay, now=now)


def verifying(*, owner="me", now=NOW) -> ClaimRecord:
    return machine.take_unknown(unknown(delay=0.0), owner=owner, lease=LEASE, now=now)


def done(*, now=NOW) -> ClaimRecord:
    record = sending(now=now)
    return settled(record, machine.sent(record, provider="ses", provider_id="p-1"), now=now)


def dead(*, now=NOW) -> ClaimRecord:
    record = claimed(now=now)
    return settled(record, machine.failed(record, TIMEOUT, DEAD, failed_at=now), now=now)
