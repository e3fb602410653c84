"""A message put back into circulation from its dead letter."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given

from retrykit.decision import DispositionKind
from retrykit.errors import FingerprintMismatchError
from retrykit.failure import Outcome
from retrykit.machines import claim as machine
from retrykit.machines.claim import Claimed, ClaimRecord, ClaimState, Counters, Done, ReopenTerms, Replaced, Unknown
from retrykit.testing.strategies import claim_records
from tests.machines.claims import (
    DEAD,
    LEASE,
    NOW,
    TIMEOUT,
    at,
    claimed,
    dead,
    done,
    sending,
    settled,
    take,
    unknown,
    verifying,
    waiting,
)

TERMS = ReopenTerms(letter_id="k#1", generation=1)
EDITED = ReopenTerms(letter_id="k#1", generation=1, fingerprint="new", replaced=("old",))


def reopen(record, terms=TERMS, *, now=NOW):
    return machine.reopen(record, "k", terms, now=now)


def unsure():
    """Return a record that was given up without knowing whether it was sent."""
    record = sending()
    failure = attrs.evolve(TIMEOUT, outcome=Outcome.UNKNOWN)
    return settled(record, machine.failed(record, failure, DEAD, failed_at=NOW))


def cancelled():
    return machine.cancel(None, "k", now=NOW)


def test_reopen_of_a_dead_message_begins_the_next_generation():
    """With counters of its own; the history stays, and so does what a newer version wrote."""
    before = attrs.evolve(dead(), fingerprint="f", result='"r"', extra={"mood": "good"})
    assert ClaimRecord(
        key="k",
        state=ClaimState.FREE,
        seq=before.seq + 1,
        generation=2,
        fingerprint="f",
        opened_at=at(100),
        note="put back from the dead letter 'k#1'",
        attempts=before.attempts,
        redriven_from="k#1",
        extra={"mood": "good"},
    ) == reopen(before, now=at(100))
    assert len(before.attempts) == 1


def test_reopen_of_a_message_nobody_knows_any_more_takes_the_generation_from_the_letter():
    """Its record was purged; the letter is all there is."""
    terms = ReopenTerms(letter_id="k#7", generation=7, fingerprint="f", replaced=("f", "old"))
    assert ClaimRecord(
        key="k",
        seq=1,
        generation=8,
        fingerprint="f",
        opened_at=NOW,
        note="put back from the dead letter 'k#7'",
        redriven_from="k#7",
        replaced=("old",),
    ) == reopen(None, terms)


def test_reopen_of_a_cancelled_message_puts_it_back():
    """Somebody has decided otherwise."""
    record = reopen(cancelled())
    assert (ClaimState.FREE, 2, None) == (record.state, record.generation, record.disposition)


@pytest.mark.parametrize("make", [claimed, sending, waiting, unknown, verifying, done])
def test_reopen_of_what_was_sent_or_is_in_circulation_changes_nothing(make):
    """Not even where its lease has ended: it is found out about first."""
    record = make()
    assert reopen(record, EDITED, now=at(1000)) is record


def test_reopen_repeated_changes_nothing():
    """The first answer was lost; neither while it is in circulation, nor when it has died again since."""
    record = reopen(dead())
    assert reopen(record, now=at(5)) is record
    again = claimed(record)
    again = settled(again, machine.failed(again, TIMEOUT, DEAD, failed_at=NOW))
    assert (2, "k#2") == (again.generation, again.dead_letter_id)
    assert reopen(again) is again
    assert (3, "k#2") == (
        reopen(again, ReopenTerms(letter_id="k#2", generation=2)).generation,
        reopen(again, ReopenTerms(letter_id="k#2", generation=2)).redriven_from,
    )


@pytest.mark.parametrize(("not_sent", "state"), [(False, ClaimState.UNKNOWN), (True, ClaimState.FREE)])
def test_reopen_of_what_may_have_been_sent_is_found_out_about_first(not_sent, state):
    """Unless somebody has made sure."""
    before = unsure()
    assert before.is_unsure is True
    record = reopen(before, attrs.evolve(TERMS, not_sent=not_sent))
    assert (state, False, None) == (record.state, record.is_unsure, record.not_before)
    assert machine.is_unsettled(record, NOW) is (state is ClaimState.UNKNOWN)
    expected = Claimed if not_sent else Unknown
    held, answer = take(record)
    assert expected(held) == answer


def test_reopened_message_is_no_poison_for_what_it_was_before():
    """Workers that were lost are counted by generation."""
    record, now = None, 0.0
    for _ in range(3):
        record = claimed(record, now=at(now))
        now += LEASE
    record, answer = take(record, now=at(now))
    assert Done(record, convicted=True) == answer
    reopened = reopen(record, now=at(now))
    assert Counters() == reopened.counters
    for crashes in range(3):
        reopened, answer = take(reopened, owner="other", now=at(now))
        assert Claimed(reopened, is_suspect=crashes > 0) == answer
        now += LEASE
    assert Done(take(reopened, now=at(now))[0], convicted=True) == take(reopened, now=at(now))[1]


@pytest.mark.parametrize("make", [claimed, sending])
def test_holder_from_before_writes_nothing_into_the_reopened_record(make):
    """Its token has been replaced."""
    late = make()
    record = reopen(settled(late, machine.failed(late, TIMEOUT, DEAD, failed_at=NOW)))
    assert machine.renew(record, late.seq, lease=60.0, now=NOW) is None
    assert machine.begin_send(record, late.seq, lease=60.0, now=NOW) is None
    assert machine.write(record, machine.sent(late), late.seq, delay=0.0, now=NOW) is None
    held = claimed(record)
    assert machine.write(held, machine.sent(late), late.seq, delay=0.0, now=NOW) is None


def test_copy_with_a_payload_that_was_replaced_is_answered_so():
    """In every state, and the new one is claimed; any other payload is still refused."""
    record = reopen(attrs.evolve(dead(), fingerprint="older"), EDITED)
    assert ("new", ("older", "old")) == (record.fingerprint, record.replaced)
    for state in (record, claimed(record), done_again(record)):
        for fingerprint in ("old", "older"):
            assert (state, Replaced(state)) == take(state, fingerprint=fingerprint, now=at(10**6))
        with pytest.raises(FingerprintMismatchError):
            take(state, fingerprint="other")
    assert type(take(record, fingerprint="new")[1]) is Claimed


def done_again(record):
    held = claimed(record)
    return settled(held, machine.sent(held))


def test_payload_that_is_put_back_again_is_no_replaced_one():
    """An edit was taken back."""
    record = reopen(attrs.evolve(dead(), fingerprint="old", replaced=("first", "new", "old")), EDITED)
    assert ("new", ("first", "old")) == (record.fingerprint, record.replaced)


def test_record_remembers_the_latest_payloads_that_were_replaced():
    """A bounded number of them."""
    before = attrs.evolve(dead(), fingerprint="known", replaced=tuple(f"{each}" for each in range(20)))
    record = reopen(before, EDITED)
    assert (*(f"{each}" for each in range(6, 20)), "known", "old") == record.replaced


@given(claim_records)
def test_reopen_of_any_record_never_goes_back(record):
    """The token grows, the generation is the letter's next, and a sent message stays sent."""
    for generation in (record.generation - 1, record.generation, record.generation + 5):
        terms = ReopenTerms(letter_id="l", generation=generation, fingerprint="f", replaced=("g",))
        after = machine.reopen(record, record.key, terms, now=NOW)
        if after is record:
            continue
        assert (record.state, record.seq + 1, generation + 1) == (ClaimState.DONE, after.seq, after.generation)
        assert record.disposition is not DispositionKind.SENT
        assert generation >= record.generation
        assert (record.attempts, Counters(), "l", "f") == (
            after.attempts,
            after.counters,
            after.redriven_from,
            after.fingerprint,
        )
        assert after.tries == tuple(each for each in record.attempts if each.generation == generation + 1)
        assert machine.reopen(after, record.key, terms, now=NOW) is after
