"""The retry store's contract, the same for every backend and colour."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest

from retrykit.errors import ConfigurationError
from retrykit.message import Message
from retrykit.stores import RetryStats

NOON = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C = (Message(name, {"n": number}, {"tenant": "acme"}) for number, name in enumerate("abc"))


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def claim(backend, limit=100, owner="me", lease=30):
    """Claim what is due."""
    return list(backend.retries.claim_due(limit, owner=owner, lease=lease))


def ids(due):
    return [entry.message.id for entry in due]


def test_message_is_handed_out_from_its_due_time_on(backend, clock):
    """Never a millisecond early, and whole."""
    backend.retries.schedule(A, at(5), generation=3, version=7)
    clock.advance("4999ms")
    assert claim(backend) == []
    clock.advance("1ms")
    (due,) = claim(backend)
    assert (A, 3, at(5)) == (due.message, due.generation, due.due_at)
    assert ("me", at(35)) == (due.lease.owner, due.lease.deadline)


def test_message_due_in_the_past_is_due_at_once(backend):
    """A late projection loses nothing."""
    backend.retries.schedule(A, at(-(10**9)))
    assert ids(claim(backend)) == ["a"]


def test_due_messages_come_earliest_first_and_up_to_the_limit(backend, clock):
    """The rest stays for the next caller."""
    for message, seconds in ((B, 2), (C, 3), (A, 3), (Message("d", None), 1)):
        backend.retries.schedule(message, at(seconds))
    clock.advance("1h")
    assert ids(claim(backend, limit=2)) == ["d", "b"]
    assert ids(claim(backend, limit=sys.maxsize)) == ["a", "c"]


def test_due_messages_come_earliest_first_also_after_a_lapsed_lease(backend, clock):
    """An entry that came back stands where its due time puts it."""
    backend.retries.schedule(A, at(0))
    claim(backend, lease=30)
    backend.retries.schedule(B, at(10))
    clock.advance("40s")
    assert ids(claim(backend)) == ["a", "b"]


def test_message_is_held_by_one_caller_until_its_lease_ends(backend, clock):
    """A crashed claimer's message is due again, under a new token."""
    backend.retries.schedule(A, at(0))
    (first,) = claim(backend, owner="first")
    clock.advance("29999ms")
    assert claim(backend, owner="second") == []
    clock.advance("1ms")
    (second,) = claim(backend, owner="second")
    assert second.lease.token > first.lease.token
    assert ("second", at(0)) == (second.lease.owner, second.due_at)
    assert backend.retries.ack(first) is False
    assert backend.retries.ack(second) is True


def test_ack_removes_the_entry_once(backend):
    """A repeated ack after a lost answer removes nothing."""
    backend.retries.schedule(A, at(0))
    (due,) = claim(backend)
    assert [True, False] == [backend.retries.ack(due), backend.retries.ack(due)]
    assert backend.retries.stats() == RetryStats(waiting=0, leased=0, due=0, next_due_at=None)


def test_ack_with_a_lease_that_ended_but_was_not_taken_removes_the_entry(backend, clock):
    """Nobody else has it: handing it on was right."""
    backend.retries.schedule(A, at(0))
    (due,) = claim(backend)
    clock.advance("1h")
    assert backend.retries.ack(due) is True


def test_ack_with_an_old_token_after_the_entry_came_again_removes_nothing(backend):
    """Tokens never restart, though the entry is a new one."""
    backend.retries.schedule(A, at(0), version=1)
    (old,) = claim(backend)
    assert backend.retries.ack(old) is True
    backend.retries.schedule(A, at(0), version=2)
    assert backend.retries.ack(old) is False
    (new,) = claim(backend)
    assert backend.retries.ack(old) is False
    assert new.lease.token > old.lease.token
    assert backend.retries.ack(new) is True


def test_one_entry_for_each_message_and_generation(backend):
    """The same generation replaces or stays; another one stands beside it."""
    for generation, version in ((1, 1), (1, 2), (2, 1), (2, 1)):
        backend.retries.schedule(A, at(0), generation=generation, version=version)
    assert sorted(due.generation for due in claim(backend)) == [1, 2]


def test_newer_version_replaces_a_waiting_entry(backend, clock):
    """Due time and message are those of the newer one."""
    newer = Message("a", {"n": "newer"}, {"tenant": "other"})
    backend.retries.schedule(A, at(5), version=1)
    backend.retries.schedule(newer, at(60), version=2)
    clock.advance("59s")
    assert claim(backend) == []
    clock.advance("1s")
    assert [newer] == [due.message for due in claim(backend)]


@pytest.mark.parametrize("version", [1, 2])
def test_older_or_equal_version_leaves_a_waiting_entry_alone(backend, clock, version):
    """A projection that is repeated or comes late neither hastens nor delays."""
    backend.retries.schedule(A, at(5), version=2)
    for seconds in (0, 60):
        backend.retries.schedule(Message("a", "late"), at(seconds), version=version)
        assert backend.retries.stats().next_due_at == at(5)
    clock.advance("5s")
    assert [A] == [due.message for due in claim(backend)]


@pytest.mark.parametrize(
    ("version", "expected"), [(1, A), (2, A), (3, Message("a", "newer"))], ids=["older", "equal", "newer"]
)
def test_schedule_takes_a_leased_entry_back_from_its_holder(backend, clock, version, expected):
    """Its old ack removes nothing; the message of the newest version is kept."""
    backend.retries.schedule(A, at(0), version=2)
    (old,) = claim(backend)
    backend.retries.schedule(Message("a", "newer"), at(9), version=version)
    assert backend.retries.stats() == RetryStats(waiting=1, leased=0, due=0, next_due_at=at(9))
    assert [False, False] == [backend.retries.ack(old), backend.retries.release(old)]
    clock.advance("9s")
    (new,) = claim(backend)
    assert (expected, at(9)) == (new.message, new.due_at)
    backend.retries.release(new)
    backend.retries.schedule(Message("a", "older"), at(60), version=min(version, 2))
    assert backend.retries.stats().next_due_at == at(9)


def test_release_makes_the_entry_due_again_after_its_delay(backend, clock):
    """The holder's token is worth nothing afterwards."""
    backend.retries.schedule(A, at(0))
    (due,) = claim(backend)
    assert backend.retries.release(due, delay="10s") is True
    assert [False, False] == [backend.retries.release(due), backend.retries.ack(due)]
    clock.advance("9999ms")
    assert claim(backend) == []
    clock.advance("1ms")
    (again,) = claim(backend)
    assert (A, at(10)) == (again.message, again.due_at)


def test_release_without_a_delay_makes_the_entry_due_now(backend):
    """Zero is a delay."""
    backend.retries.schedule(A, at(0))
    (due,) = claim(backend)
    backend.retries.release(due)
    assert ids(claim(backend)) == ["a"]


def test_stats_tell_what_waits_what_is_leased_and_what_is_due(backend, clock):
    """A leased entry counts as due again when its lease has ended."""
    assert backend.retries.stats() == RetryStats(waiting=0, leased=0, due=0, next_due_at=None)
    backend.retries.schedule(A, at(0))
    backend.retries.schedule(B, at(10))
    assert backend.retries.stats() == RetryStats(waiting=2, leased=0, due=1, next_due_at=at(0))
    claim(backend, lease=30)
    assert backend.retries.stats() == RetryStats(waiting=1, leased=1, due=0, next_due_at=at(10))
    clock.advance("30s")
    assert backend.retries.stats() == RetryStats(waiting=1, leased=1, due=2, next_due_at=at(10))


def test_due_time_in_another_zone_is_the_same_instant(backend):
    """Instants are compared in UTC and cut to the millisecond."""
    elsewhere = timezone(timedelta(hours=5, minutes=30))
    backend.retries.schedule(A, at(5.0009).astimezone(elsewhere))
    assert backend.retries.stats().next_due_at == at(5)


def test_due_time_at_the_end_of_the_calendar_is_kept(backend):
    """The job does not disappear."""
    last = datetime.max.replace(tzinfo=UTC)
    backend.retries.schedule(A, last)
    assert backend.retries.stats().next_due_at == last.replace(microsecond=999000)


def test_due_time_that_is_naive_is_refused(backend):
    """Nothing is stored."""
    with pytest.raises(ConfigurationError, match=r"^due_at is the naive datetime"):
        backend.retries.schedule(A, datetime(2026, 1, 1))  # noqa: DTZ001 - on purpose
    assert backend.retries.stats().waiting == 0


@pytest.mark.parametrize("limit", [0, -1, True, 2.0])
def test_limit_that_is_no_count_is_refused(backend, limit):
    """Nothing is leased."""
    backend.retries.schedule(A, at(0))
    with pytest.raises(ConfigurationError, match=r"^limit is "):
        claim(backend, limit=limit)
    assert backend.retries.stats().leased == 0


@pytest.mark.parametrize("duration", [-1, float("inf"), "x"])
def test_duration_that_is_none_is_refused(backend, duration):
    """For leases and delays alike; a lease of zero is refused too."""
    backend.retries.schedule(A, at(0))
    (due,) = claim(backend)
    with pytest.raises(ConfigurationError, match=r"^delay is "):
        backend.retries.release(due, delay=duration)
    for lease in (duration, 0):
        with pytest.raises(ConfigurationError, match=r"^lease is "):
            claim(backend, lease=lease)


def test_empty_body_and_large_body_come_back_byte_for_byte(backend):
    """From no byte to more than the usual limit."""
    large = Message("large", bytes(range(256)) * 5000, max_payload=2_000_000)
    for message in (Message("empty", b""), large):
        backend.retries.schedule(message, at(0))
    assert [b"", large.body] == [due.message.body for due in claim(backend)]
