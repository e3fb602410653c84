"""A hold that is renewed, a message that is taken back, and a record that may be forgotten."""

from __future__ import annotations

from datetime import timedelta

import attrs
import pytest

from retrykit.decision import DispositionKind
from retrykit.lease import Lease
from retrykit.machines import claim as machine
from retrykit.machines.claim import ClaimRecord, ClaimState, Counters
from tests.machines.claims import LEASE, NOW, at, claimed, dead, done, sending, settled, unknown, verifying, waiting


def free():
    """Return a record that its holder gave back before the send."""
    held = claimed()
    return settled(held, machine.interrupted(held))


@pytest.mark.parametrize("make", [claimed, sending, verifying])
@pytest.mark.parametrize("seconds", [0, 10, 1000])
def test_renew_moves_the_end_of_the_lease_and_nothing_else(make, seconds):
    """Counted from now on, also when it has ended and nobody took over."""
    record = make()
    renewed = machine.renew(record, record.seq, lease=60.0, now=at(seconds))
    assert attrs.evolve(record, lease=Lease("me", record.seq, at(seconds + 60), record.lease.granted_at)) == renewed


@pytest.mark.parametrize("make", [claimed, sending, verifying])
@pytest.mark.parametrize("offset", [-1, 1])
def test_renew_with_another_token_is_refused(make, offset):
    """A late holder finds out."""
    record = make()
    assert machine.renew(record, record.seq + offset, lease=60.0, now=NOW) is None


@pytest.mark.parametrize("make", [free, waiting, unknown, done, dead])
def test_renew_of_what_nobody_holds_is_refused(make):
    """The current number is not enough."""
    record = make()
    assert machine.renew(record, record.seq, lease=60.0, now=NOW) is None
    assert machine.renew(None, 0, lease=60.0, now=NOW) is None


def test_take_unknown_repeated_by_its_owner_is_granted_again():
    """Its first answer was lost: the same hold, until it ends; nobody else gets it before."""
    record = verifying()
    last = at(LEASE) - timedelta(milliseconds=1)
    assert machine.take_unknown(record, owner="me", lease=99.0, now=last) is record
    assert machine.take_unknown(record, owner="other", lease=99.0, now=last) is None
    assert machine.take_unknown(record, owner="me", lease=99.0, now=at(LEASE)).seq == record.seq + 1


def test_cancel_of_a_key_never_claimed_discards_it():
    """A message that comes later is not sent."""
    expected = ClaimRecord(
        key="k",
        state=ClaimState.DONE,
        seq=1,
        opened_at=NOW,
        disposition=DispositionKind.DISCARDED,
        settled_at=NOW,
        note="cancelled by the application",
    )
    assert expected == machine.cancel(None, "k", now=NOW)


@pytest.mark.parametrize("make", [free, waiting])
def test_cancel_of_what_nobody_works_on_discards_it(make):
    """Whether its time had come or not; history and counters stay, and it leaves no letter."""
    before = make()
    record = machine.cancel(before, "k", now=at(3))
    expected = attrs.evolve(
        before,
        state=ClaimState.DONE,
        seq=before.seq + 1,
        not_before=None,
        disposition=DispositionKind.DISCARDED,
        settled_at=at(3),
        note="cancelled by the application",
    )
    assert expected == record
    assert machine.cancel(record, "k", now=at(9)) is record


def test_cancel_after_the_lease_ended_before_the_send_counts_the_crash_and_discards():
    """Nothing was sent, and nothing will be."""
    record = machine.cancel(claimed(), "k", now=at(LEASE))
    assert (DispositionKind.DISCARDED, Counters(started=1, crashed=1)) == (record.disposition, record.counters)
    assert (2, None, 1) == (record.seq, record.lease, len(record.attempts))


@pytest.mark.parametrize(
    ("make", "seconds"),
    [
        (claimed, 0),
        (claimed, LEASE - 0.001),
        (sending, 0),
        (sending, LEASE),
        (unknown, 0),
        (unknown, 1000),
        (verifying, 0),
        (verifying, LEASE),
        (done, 0),
        (dead, 0),
    ],
)
def test_cancel_leaves_alone_what_is_held_settled_or_may_have_been_sent(make, seconds):
    """The caller sees its state."""
    record = make()
    assert machine.cancel(record, "k", now=at(seconds)) is record


@pytest.mark.parametrize("make", [done, dead, lambda: machine.cancel(None, "k", now=NOW)])
def test_settled_record_is_expired_once_the_instant_has_passed(make):
    """Strictly before."""
    record = make()
    assert [False, True] == [machine.is_expired(record, at(seconds)) for seconds in (0, 0.001)]
    assert machine.is_expired(attrs.evolve(record, settled_at=None), at(10**9)) is False


@pytest.mark.parametrize("make", [free, claimed, sending, waiting, unknown, verifying])
def test_unfinished_record_is_never_expired(make):
    """However old it is."""
    assert machine.is_expired(make(), at(10**9)) is False
