"""How a hold ends: the fence, each decision, repetition, and the acceptance that needs no token."""

from __future__ import annotations

import attrs
import pytest

from retrykit.decision import Action, DeadLetterReason, Decision, DispositionKind
from retrykit.failure import Outcome
from retrykit.lease import Lease
from retrykit.machines import claim as machine
from retrykit.machines.claim import ClaimRecord, ClaimState, Counters
from tests.machines.claims import (
    DEAD,
    LEASE,
    NOW,
    RETRY,
    TIMEOUT,
    VERIFY,
    at,
    claimed,
    dead,
    done,
    sending,
    settled,
    unknown,
    verifying,
    waiting,
)


def test_begin_send_marks_the_send_and_renews_the_lease():
    """The token stays the same, so it may be repeated after a lost answer."""
    record = machine.begin_send(claimed(), 1, lease=60.0, now=at(20))
    assert (ClaimState.SENDING, 1, Lease("me", 1, at(80), NOW)) == (record.state, record.seq, record.lease)
    again = machine.begin_send(record, 1, lease=60.0, now=at(25))
    assert attrs.evolve(record, lease=Lease("me", 1, at(85), NOW)) == again


def test_begin_send_with_a_lease_that_ended_but_was_not_taken_is_granted():
    """Nobody else has it, so nobody is harmed."""
    assert machine.begin_send(claimed(), 1, lease=60.0, now=at(1000)).state is ClaimState.SENDING


@pytest.mark.parametrize("token", [0, 2, -1])
def test_begin_send_with_another_token_is_refused(token):
    """A late holder finds out before it sends."""
    assert machine.begin_send(claimed(), token, lease=60.0, now=NOW) is None


@pytest.mark.parametrize("make", [waiting, unknown, verifying, done, dead])
def test_begin_send_of_what_is_not_claimed_is_refused(make):
    """Whoever only verifies must not send, and what is settled is not sent again."""
    record = make()
    assert machine.begin_send(record, record.seq, lease=60.0, now=NOW) is None
    assert machine.begin_send(None, 0, lease=60.0, now=NOW) is None


def test_begin_send_after_a_takeover_is_refused():
    """The old token is stale once somebody else holds the message."""
    late, current = claimed(), claimed(claimed(), owner="other", now=at(LEASE))
    assert machine.begin_send(current, late.seq, lease=60.0, now=at(LEASE)) is None


def test_settle_sent_is_done_with_provider_and_instant():
    """The final word: what was accepted, by whom, when."""
    held = sending()
    record = settled(held, machine.sent(held, provider="ses", provider_id="p-1"), delay=99.0, now=at(3))
    expected = attrs.evolve(
        held,
        state=ClaimState.DONE,
        seq=2,
        lease=None,
        disposition=DispositionKind.SENT,
        provider="ses",
        provider_id="p-1",
        settled_at=at(3),
    )
    assert expected == record


def test_settle_retry_waits_for_the_delay_by_the_clock_of_the_store():
    """The try is in the history with its decision and its worker."""
    record = waiting(delay=5.0)
    (attempt,) = record.attempts
    assert (ClaimState.WAITING, 2, None, at(5)) == (record.state, record.seq, record.lease, record.not_before)
    assert (record.counters, record.settled_at) == (Counters(started=1, failed=1), None)
    assert (1, 1, NOW, TIMEOUT, Action.RETRY, 5.0, RETRY.reason, "me", None, {}) == attrs.astuple(
        attempt, recurse=False
    )


def test_settle_verify_is_unknown_until_it_is_due():
    """The first verification counts no check; each one that cannot tell counts one."""
    record = unknown(delay=60.0)
    assert (ClaimState.UNKNOWN, at(60), 0) == (record.state, record.not_before, record.checks)
    for checks in (1, 2):
        held = machine.take_unknown(record, owner="me", lease=LEASE, now=at(checks * 100))
        record = settled(held, machine.decided(held, VERIFY), delay=60.0, now=at(checks * 100))
        assert (ClaimState.UNKNOWN, checks, 1) == (record.state, record.checks, len(record.attempts))
    held = machine.take_unknown(record, owner="me", lease=LEASE, now=at(1000))
    assert machine.decided(held, RETRY).checks == 0


@pytest.mark.parametrize(
    ("decision", "disposition", "letter"),
    [
        (DEAD, DispositionKind.DEAD_LETTERED, "k#1"),
        (attrs.evolve(DEAD, action=Action.MANUAL_REVIEW), DispositionKind.HELD_FOR_REVIEW, "k#1"),
        (attrs.evolve(DEAD, action=Action.DISCARD), DispositionKind.DISCARDED, "k#1"),
        (attrs.evolve(DEAD, action=Action.MARK_BOUNCED), DispositionKind.BOUNCED, None),
        (attrs.evolve(DEAD, action=Action.MARK_BOUNCED, audit=True), DispositionKind.BOUNCED, "k#1"),
    ],
)
def test_settle_final_action_is_done_with_its_letter(decision, disposition, letter):
    """Only a bounce without audit leaves none."""
    held = claimed()
    record = settled(held, machine.failed(held, TIMEOUT, decision, failed_at=NOW), now=at(2))
    assert (ClaimState.DONE, disposition, DeadLetterReason.RETRIES_EXHAUSTED, letter, at(2)) == (
        record.state,
        record.disposition,
        record.reason,
        record.dead_letter_id,
        record.settled_at,
    )
    assert (1, None) == (len(record.attempts), record.not_before)


def test_decision_without_a_try_adds_nothing_to_the_history():
    """A pause burns no attempt."""
    held = claimed()
    record = settled(held, machine.decided(held, RETRY), delay=60.0)
    assert (ClaimState.WAITING, (), Counters(started=1)) == (record.state, record.attempts, record.counters)


@pytest.mark.parametrize(
    ("make", "state"),
    [(claimed, ClaimState.FREE), (sending, ClaimState.UNKNOWN), (verifying, ClaimState.UNKNOWN)],
)
def test_interrupted_holder_gives_back_what_it_had_and_burns_no_attempt(make, state):
    """Free before the send, unknown in it; whoever was only finding out leaves it unknown, never free to be sent again."""
    held = make()
    record = settled(held, machine.interrupted(held), now=at(3))
    assert (state, held.seq + 1, None) == (record.state, record.seq, record.lease)
    assert attrs.evolve(held.counters, interrupted=1) == record.counters
    assert (held.attempts, held.checks, "the worker was interrupted") == (record.attempts, record.checks, record.note)
    answer = machine.take(
        record, "k", fingerprint=None, owner="next", lease=LEASE, terms=machine.ClaimTerms(), now=at(3)
    )[1]
    assert (machine.Claimed if state is ClaimState.FREE else machine.Unknown) is type(answer)


@pytest.mark.parametrize(
    ("decision", "outcome", "unsure"),
    [
        (DEAD, Outcome.UNKNOWN, True),
        (DEAD, Outcome.REJECTED, False),
        (RETRY, Outcome.UNKNOWN, False),
        (VERIFY, Outcome.UNKNOWN, False),
    ],
)
def test_final_decision_about_an_unknown_outcome_is_marked_as_unsure(decision, outcome, unsure):
    """It was settled without knowing that it was not sent; a later confirmation clears that."""
    held = sending()
    record = machine.failed(held, attrs.evolve(TIMEOUT, outcome=outcome), decision, failed_at=NOW)
    assert (unsure, decision.reason) == (record.is_unsure, record.note)
    assert unsure is machine.decided(held, decision, is_unsure=outcome is Outcome.UNKNOWN).is_unsure
    confirmed = machine.confirm(record, "k", provider=None, provider_id=None, now=NOW)
    assert (False, "") == (confirmed.is_unsure, confirmed.note)


@pytest.mark.parametrize("make", [claimed, sending, verifying])
@pytest.mark.parametrize("offset", [-1, 1])
def test_settle_with_another_token_is_refused(make, offset):
    """Nothing is written by a holder that was replaced."""
    record = make()
    assert machine.write(record, machine.sent(record), record.seq + offset, delay=0.0, now=NOW) is None


@pytest.mark.parametrize("make", [waiting, unknown, done, dead])
def test_settle_of_what_nobody_holds_is_refused(make):
    """The current number is not enough: it has to be held."""
    record = make()
    other = machine.decided(record, Decision(Action.DISCARD, 0.0, "cancelled"))
    assert machine.write(record, other, record.seq, delay=0.0, now=NOW) is None
    assert machine.write(None, other, 0, delay=0.0, now=NOW) is None


def test_settle_after_a_takeover_never_replaces_the_new_holders_result():
    """A finished result stays, and so does a running hold."""
    late = claimed()
    running = claimed(late, owner="other", now=at(LEASE))
    finished = settled(running, machine.sent(running), now=at(LEASE))
    stale = machine.failed(late, TIMEOUT, DEAD, failed_at=at(LEASE))
    for stored in (running, finished):
        assert machine.write(stored, stale, late.seq, delay=0.0, now=at(LEASE)) is None


@pytest.mark.parametrize(
    ("next_record", "delay"),
    [
        (lambda held: machine.sent(held, provider="ses"), 0.0),
        (lambda held: machine.failed(held, TIMEOUT, RETRY, failed_at=NOW), 5.0),
        (lambda held: machine.failed(held, TIMEOUT, VERIFY, failed_at=NOW), 60.0),
        (lambda held: machine.failed(held, TIMEOUT, DEAD, failed_at=NOW), 0.0),
    ],
)
def test_settle_repeated_after_a_lost_answer_gives_what_was_stored(next_record, delay):
    """The instants are those of the first time, however late the repetition comes."""
    held = sending()
    following = next_record(held)
    stored = machine.write(held, following, held.seq, delay=delay, now=at(1))
    assert stored == machine.write(stored, following, held.seq, delay=delay, now=at(50))


def test_settle_repeated_with_another_decision_is_refused():
    """The first decision stands."""
    held = sending()
    stored = settled(held, machine.sent(held))
    other = machine.failed(held, TIMEOUT, RETRY, failed_at=NOW)
    assert machine.write(stored, other, held.seq, delay=5.0, now=NOW) is None


@pytest.mark.parametrize("make", [claimed, sending, waiting, unknown, verifying, dead])
def test_confirm_makes_any_record_sent(make):
    """It is a fact, whoever holds the claim; the letter that may exist is still named, to be resolved."""
    before = make()
    record = machine.confirm(before, "k", provider="ses", provider_id="p-1", now=at(7))
    assert (ClaimState.DONE, DispositionKind.SENT, None, at(7)) == (
        record.state,
        record.disposition,
        record.lease,
        record.settled_at,
    )
    assert (before.seq + 1, "ses", "p-1", None) == (record.seq, record.provider, record.provider_id, record.reason)
    assert (before.dead_letter_id, before.attempts) == (record.dead_letter_id, record.attempts)


def test_confirm_of_an_unknown_key_makes_a_record():
    """A provider may know a message that this store has forgotten."""
    record = machine.confirm(None, "k", provider=None, provider_id="p-1", now=NOW)
    assert (
        ClaimRecord(
            key="k",
            state=ClaimState.DONE,
            seq=1,
            opened_at=NOW,
            disposition=DispositionKind.SENT,
            provider_id="p-1",
            settled_at=NOW,
        )
        == record
    )


def test_confirm_repeated_changes_nothing():
    """A fact may be told twice."""
    record = done()
    assert machine.confirm(record, "k", provider="other", provider_id="p-2", now=at(9)) is record


def test_confirm_fences_the_holder_out():
    """A holder that did not know is refused afterwards."""
    held = sending()
    record = machine.confirm(held, "k", provider="ses", provider_id=None, now=at(1))
    assert (
        machine.write(record, machine.failed(held, TIMEOUT, RETRY, failed_at=at(2)), held.seq, delay=5.0, now=at(2))
        is None
    )
    assert machine.begin_send(record, held.seq, lease=LEASE, now=at(2)) is None


def test_confirm_fills_in_what_was_not_known_yet():
    """Field by field; what is known and when it was settled stay, and the number grows."""
    held = sending()
    record = settled(held, machine.sent(held, provider="ses"))
    known = machine.confirm(record, "k", provider="other", provider_id="p-1", now=at(9))
    assert attrs.evolve(record, provider_id="p-1", seq=record.seq + 1) == known
    assert machine.confirm(known, "k", provider="other", provider_id="p-2", now=at(10)) is known
    bare = machine.confirm(None, "k", provider=None, provider_id=None, now=NOW)
    assert attrs.evolve(bare, provider="ses", seq=2) == machine.confirm(
        bare, "k", provider="ses", provider_id=None, now=at(9)
    )
