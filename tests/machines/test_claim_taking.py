"""What a claim is answered in each state, and what it does to the record."""

from __future__ import annotations

from datetime import timedelta

import attrs
import pytest

from retrykit.decision import Action
from retrykit.errors import FingerprintMismatchError
from retrykit.failure import ErrorClass, Failure, Outcome
from retrykit.lease import Lease
from retrykit.machines import claim as machine
from retrykit.machines.claim import Claimed, ClaimRecord, ClaimState, Counters, Done, InProgress, NotDue, Unknown
from tests.machines.claims import LEASE, NOW, at, claimed, dead, done, sending, take, unknown, verifying, waiting


def test_claim_of_an_unknown_key_is_granted():
    """The record begins with this claim."""
    expected = ClaimRecord(
        key="k",
        state=ClaimState.CLAIMED,
        seq=1,
        lease=Lease("me", 1, at(LEASE), NOW),
        fingerprint="f",
        opened_at=NOW,
        counters=Counters(started=1),
    )
    assert (expected, Claimed(expected)) == take(None, fingerprint="f")


def test_claim_of_a_free_record_is_granted():
    """What a shutdown handed back may be taken by anybody."""
    held = claimed()
    free = machine.write(
        held, attrs.evolve(held, state=ClaimState.FREE, seq=2, lease=None), held.seq, delay=0.0, now=NOW
    )
    record, answer = take(free, owner="other")
    assert Claimed(record) == answer
    assert (ClaimState.CLAIMED, 3, Lease("other", 3, at(LEASE), NOW)) == (record.state, record.seq, record.lease)
    assert record.counters == Counters(started=2)


@pytest.mark.parametrize("make", [claimed, sending, verifying])
@pytest.mark.parametrize("seconds", [0, 29.999])
def test_claim_of_a_held_record_is_in_progress(make, seconds):
    """Nothing changes, and the caller learns when to come back."""
    record = make(owner="other")
    assert (record, InProgress(record, at(LEASE))) == take(record, now=at(seconds))


def test_claim_repeated_by_the_holder_is_granted_again():
    """Its first answer was lost: it gets the same hold, not another one."""
    record = claimed()
    assert (record, Claimed(record)) == take(record, now=at(10))


def test_claim_repeated_by_the_verifier_is_granted_again():
    """The same holds for a verification."""
    record = verifying()
    assert (record, Unknown(record)) == take(record, now=at(10))


def test_claim_repeated_by_the_holder_after_begin_send_is_in_progress():
    """Whether it sent cannot be told any more, so nobody may begin again before the lease ends."""
    record = sending()
    assert (record, InProgress(record, at(LEASE))) == take(record, now=at(10))


@pytest.mark.parametrize("owner", ["me", "other"])
def test_claim_after_the_lease_ended_before_the_send_counts_a_crash_and_is_granted(owner):
    """Nothing was sent, so the work may be repeated; the holder that lapsed is told by name."""
    record, answer = take(claimed(), owner=owner, now=at(LEASE))
    assert Claimed(record, is_suspect=True) == answer
    assert (ClaimState.CLAIMED, 2, Lease(owner, 2, at(2 * LEASE), at(LEASE))) == (
        record.state,
        record.seq,
        record.lease,
    )
    assert record.counters == Counters(started=2, crashed=1)
    (crash,) = record.attempts
    assert crash.failure == Failure(
        error_class=ErrorClass.INTERNAL_ERROR,
        outcome=Outcome.NOT_SENT,
        error_code="worker_lost",
        error_message="the lease of me ended before it had sent",
        rule="claim.lease_ended",
    )
    assert (1, 1, NOW, at(LEASE), Action.RETRY, "me") == (
        crash.number,
        crash.generation,
        crash.started_at,
        crash.failed_at,
        crash.action,
        crash.worker,
    )


def test_claim_after_the_lease_ended_in_the_send_counts_a_crash_and_is_unknown():
    """It may have been sent: the caller holds it to find out."""
    record, answer = take(sending(), owner="other", now=at(100))
    assert Unknown(record) == answer
    assert (ClaimState.UNKNOWN, 2, Lease("other", 2, at(100 + LEASE), at(100))) == (
        record.state,
        record.seq,
        record.lease,
    )
    assert record.counters == Counters(started=1, crashed=1)
    (crash,) = record.attempts
    assert crash.failure == Failure(
        error_class=ErrorClass.INTERNAL_ERROR,
        outcome=Outcome.UNKNOWN,
        error_code="worker_lost",
        error_message="the lease of me ended while it was sending",
        stage="send",
        rule="claim.lease_ended",
    )
    assert (at(LEASE), Action.VERIFY) == (crash.failed_at, crash.action)


def test_claim_after_the_lease_ended_while_verifying_counts_no_crash():
    """Only asking was lost; the message itself was not tried."""
    before = verifying()
    record, answer = take(before, owner="other", now=at(LEASE))
    assert Unknown(record) == answer
    assert (before.counters, before.attempts) == (record.counters, record.attempts)
    assert (before.seq + 1, "other") == (record.seq, record.lease.owner)


@pytest.mark.parametrize(("seconds", "due"), [(0, False), (4.999, False), (5, True), (1000, True)])
def test_claim_of_a_waiting_record_is_not_due_until_its_instant(seconds, due):
    """Not a millisecond early, and from then on granted."""
    before = waiting()
    record, answer = take(before, now=at(seconds))
    if due:
        assert Claimed(record) == answer
        assert (ClaimState.CLAIMED, before.seq + 1, None) == (record.state, record.seq, record.not_before)
        assert (2, 1, 0) == (record.counters.started, record.counters.failed, record.counters.crashed)
    else:
        assert (before, NotDue(before, at(5))) == (record, answer)


@pytest.mark.parametrize(("seconds", "due"), [(0, False), (59.999, False), (60, True)])
def test_claim_of_an_unknown_record_is_not_due_until_its_instant(seconds, due):
    """A verification waits for its time like a retry."""
    before = unknown()
    record, answer = take(before, now=at(seconds))
    if due:
        assert Unknown(record) == answer
        assert (ClaimState.UNKNOWN, before.seq + 1, "me") == (record.state, record.seq, record.lease.owner)
        assert before.counters == record.counters
    else:
        assert (before, NotDue(before, at(60))) == (record, answer)


@pytest.mark.parametrize("make", [done, dead])
def test_claim_of_a_settled_record_is_done(make):
    """Nothing changes, whoever asks and however late."""
    record = make()
    assert (record, Done(record)) == take(record, owner="other", now=at(10**9))


@pytest.mark.parametrize("make", [claimed, sending, waiting, unknown, verifying, done])
def test_claim_with_another_payload_is_refused(make):
    """The key belongs to the payload it was first claimed with."""
    record = attrs.evolve(make(), fingerprint="first")
    with pytest.raises(FingerprintMismatchError) as caught:
        take(record, fingerprint="second", now=at(1000))
    assert caught.value.key == "k"


@pytest.mark.parametrize(("first", "second"), [(None, "f"), ("f", None), (None, None), ("f", "f")])
def test_claim_without_a_fingerprint_to_compare_is_not_refused(first, second):
    """None does not look."""
    record = attrs.evolve(claimed(), fingerprint=first)
    assert first == take(record, fingerprint=second, now=at(1000))[0].fingerprint


@pytest.mark.parametrize("make", [claimed, waiting, done, dead])
def test_take_unknown_of_what_is_not_unknown_is_none(make):
    """There is nothing to find out, now or later."""
    for seconds in (0, 1000):
        assert machine.take_unknown(make(), owner="me", lease=LEASE, now=at(seconds)) is None
    assert machine.take_unknown(None, owner="me", lease=LEASE, now=NOW) is None


@pytest.mark.parametrize(
    ("make", "due"), [(unknown, 60), (sending, LEASE), (verifying, LEASE)], ids=["unknown", "sending", "verifying"]
)
def test_take_unknown_holds_what_may_have_been_sent_once_it_is_time(make, due):
    """A verification that is due, a send whose holder is gone, and a verifier that is gone."""
    before = make()
    assert machine.is_unsettled(before, at(due) - timedelta(milliseconds=1)) is False
    assert machine.take_unknown(before, owner="other", lease=LEASE, now=at(due - 0.001)) is None
    assert machine.is_unsettled(before, at(due)) is True
    record = machine.take_unknown(before, owner="other", lease=LEASE, now=at(due))
    assert (ClaimState.UNKNOWN, before.seq + 1) == (record.state, record.seq)
    assert Lease("other", before.seq + 1, at(due + LEASE), at(due)) == record.lease
    assert before.counters.crashed + (before.state is ClaimState.SENDING) == record.counters.crashed


@pytest.mark.parametrize(
    ("make", "due"), [(unknown, 60), (sending, LEASE), (verifying, LEASE)], ids=["unknown", "sending", "verifying"]
)
def test_call_is_never_unsettled_for_others_and_is_held_by_who_has_its_key(make, due):
    """A key with the mark of calls; one that holds it elsewhere is a message's."""
    call, message = (attrs.evolve(make(), key=key) for key in ("\x1epayments\x1ek", "payments\x1ek"))
    assert (call.is_call, message.is_call) == (True, False)
    assert [machine.is_unsettled(each, at(due)) for each in (call, message)] == [False, True]
    record = machine.take_unknown(call, owner="other", lease=LEASE, now=at(due))
    assert (ClaimState.UNKNOWN, "other") == (record.state, record.lease.owner)


def test_unknown_record_without_an_instant_is_to_be_settled_at_once():
    """A record without `not_before` does not wait."""
    record = attrs.evolve(unknown(), not_before=None)
    assert machine.is_unsettled(record, NOW) is True
