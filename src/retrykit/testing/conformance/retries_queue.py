"""The queue: what waits, when it is handed out and in which order, and which entry replaces which."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest

from ...message import Message
from ...stores.retries import RetryStats, RetryStore
from .retries_states import at, due, held, ids
from .suite import StoreSuite, SuiteClock

__all__ = ["RetryQueueTests"]

_A, _B, _C = (Message(name, {"n": number}, {"tenant": "acme"}) for number, name in enumerate("abc"))
_NOTHING = RetryStats(waiting=0, leased=0, due=0, next_due_at=None)


class RetryQueueTests(StoreSuite[RetryStore]):
    """What `schedule`, `claim_due`, `cancel` and `stats` do."""

    def test_message_is_handed_out_from_its_due_time_on(self, store: RetryStore, clock: SuiteClock) -> None:
        """Never a millisecond early, and whole."""
        store.schedule(_A, at(5), generation=3, version=7)
        clock.advance("4999ms")
        assert due(store) == []
        clock.advance("1ms")
        entry = held(store)
        assert (_A, 3, at(5)) == (entry.message, entry.generation, entry.due_at)
        assert ("me", at(35)) == (entry.lease.owner, entry.lease.deadline)

    def test_message_due_late_in_a_second_is_not_early(self, store: RetryStore, clock: SuiteClock) -> None:
        """Instants are kept to the millisecond: .999 is not .000."""
        clock.advance("900ms")
        store.schedule(_A, at(1.999))
        clock.advance("1098ms")
        assert due(store) == []
        clock.advance("1ms")
        assert at(1.999) == held(store).due_at

    def test_message_due_in_the_past_is_due_at_once(self, store: RetryStore) -> None:
        """A late projection loses nothing."""
        store.schedule(_A, at(-(10**9)))
        assert ids(due(store)) == ["a"]

    def test_wait_longer_than_any_lease_is_one_wait(self, store: RetryStore, clock: SuiteClock) -> None:
        """What waits is in nobody's hands, so no lease of it can lapse."""
        store.schedule(_A, at(2 * 3600))
        for _ in range(120):
            assert due(store, lease=1) == []
            clock.advance("1m")
        assert (at(7200), 1) == (held(store).due_at, store.stats().leased)
        assert due(store) == []

    def test_due_messages_come_earliest_first_and_up_to_the_limit(self, store: RetryStore, clock: SuiteClock) -> None:
        """The rest stays for the next caller."""
        for message, seconds in ((_B, 2), (_C, 3), (_A, 3), (Message("d", None), 1)):
            store.schedule(message, at(seconds))
        clock.advance("1h")
        assert ids(due(store, limit=2)) == ["d", "b"]
        assert ids(due(store, limit=sys.maxsize)) == ["a", "c"]

    def test_due_messages_of_one_instant_come_by_id_and_generation(self, store: RetryStore) -> None:
        """The order is the same in every store."""
        for name in ("b", "ü", "Z", "a", "😀"):
            for generation in (10, 2, 1):
                store.schedule(Message(name, None), at(0), generation=generation)
        order = [(name, generation) for name in ("Z", "a", "b", "ü", "😀") for generation in (1, 2, 10)]
        taken = [*due(store, limit=4), *due(store)]
        assert order == [(entry.message.id, entry.generation) for entry in taken]

    def test_due_messages_come_earliest_first_also_after_a_lapsed_lease(
        self, store: RetryStore, clock: SuiteClock
    ) -> None:
        """An entry that came back is chosen by when it came back, and stands where its due time puts it."""
        store.schedule(_A, at(0))
        due(store, lease=30)
        store.schedule(_B, at(10))
        clock.advance("40s")
        assert ids(due(store, lease=30)) == ["a", "b"]
        store.schedule(_C, at(60))
        clock.advance("30s")
        assert ids(due(store, limit=1)) == ["c"]

    def test_one_entry_for_each_message_and_generation(self, store: RetryStore) -> None:
        """The same generation replaces or stays; another one stands beside it."""
        for generation, version in ((1, 1), (1, 2), (2, 1), (2, 1)):
            store.schedule(_A, at(0), generation=generation, version=version)
        assert [1, 2] == [entry.generation for entry in due(store)]

    def test_newer_version_replaces_a_waiting_entry(self, store: RetryStore, clock: SuiteClock) -> None:
        """Due time and message are those of the newer one, later or earlier."""
        for version, seconds in ((1, 5), (2, 60), (10, 30)):
            newer = Message("a", {"version": version}, {"tenant": f"{version}"})
            store.schedule(newer, at(seconds), version=version)
            assert RetryStats(waiting=1, leased=0, due=0, next_due_at=at(seconds)) == store.stats()
        clock.advance("30s")
        assert Message("a", {"version": 10}, {"tenant": "10"}) == held(store).message

    @pytest.mark.parametrize("version", [0, 1, 9, 10])
    def test_older_or_equal_version_leaves_a_waiting_entry_alone(
        self, store: RetryStore, clock: SuiteClock, version: int
    ) -> None:
        """A projection that is repeated or comes late neither hastens nor delays, nor changes the message."""
        store.schedule(_A, at(5), version=10)
        for seconds in (0, 60):
            store.schedule(Message("a", "late"), at(seconds), version=version)
            assert at(5) == store.stats().next_due_at
        clock.advance("5s")
        assert _A == held(store).message

    def test_version_of_one_generation_says_nothing_about_another(self, store: RetryStore, clock: SuiteClock) -> None:
        """Nor about another message."""
        store.schedule(_A, at(5), generation=1, version=10)
        store.schedule(_A, at(6), generation=2, version=1)
        store.schedule(_B, at(7), generation=1, version=1)
        clock.advance("7s")
        assert [("a", 1), ("a", 2), ("b", 1)] == [(entry.message.id, entry.generation) for entry in due(store)]

    @pytest.mark.parametrize(
        ("version", "expected"), [(1, _A), (2, _A), (3, Message("a", "newer"))], ids=["older", "equal", "newer"]
    )
    def test_schedule_takes_a_leased_entry_back_from_its_holder(
        self, store: RetryStore, clock: SuiteClock, version: int, expected: Message
    ) -> None:
        """The old holder has no say any more; the message of the newest version is kept, and so is its version."""
        store.schedule(_A, at(0), version=2)
        old = held(store)
        store.schedule(Message("a", "newer"), at(9), version=version)
        assert RetryStats(waiting=1, leased=0, due=0, next_due_at=at(9)) == store.stats()
        assert [False, False] == [store.ack(old), store.release(old)]
        assert store.extend(old) is None
        clock.advance("9s")
        new = held(store)
        assert (expected, at(9)) == (new.message, new.due_at)
        assert new.lease.token > old.lease.token
        store.release(new)
        store.schedule(Message("a", "older"), at(60), version=min(version, 2))
        assert at(9) == store.stats().next_due_at

    def test_schedule_takes_back_what_lapsed_as_well(self, store: RetryStore, clock: SuiteClock) -> None:
        """It is due when the new decision says, not when the lease ended."""
        store.schedule(_A, at(0), version=1)
        late = held(store)
        clock.advance("30s")
        store.schedule(_A, at(60), version=2)
        assert due(store) == []
        assert store.ack(late) is False
        clock.advance("30s")
        assert ids(due(store)) == ["a"]

    def test_cancel_removes_all_generations_of_a_message_and_no_other(self, store: RetryStore) -> None:
        """Also what is leased; its holder is told."""
        for message, generation in ((_A, 1), (_A, 2), (_B, 1), (Message("A", 1), 1), (Message("a:1", 1), 1)):
            store.schedule(message, at(0 if generation == 1 else 9), generation=generation)
        entries = due(store)
        assert store.cancel("a") is True
        assert RetryStats(waiting=0, leased=3, due=0, next_due_at=at(30)) == store.stats()
        assert {"a": False, "b": True, "A": True, "a:1": True} == {
            entry.message.id: store.ack(entry) for entry in entries
        }
        assert store.cancel("a") is False
        assert _NOTHING == store.stats()

    def test_cancelled_message_may_be_scheduled_again(self, store: RetryStore) -> None:
        """With any version: nothing is left of the entry before, and its holder has no say about the new one."""
        store.schedule(_A, at(0), version=9)
        old = held(store)
        store.cancel("a")
        store.schedule(_A, at(0), version=1)
        assert store.ack(old) is False
        new = held(store)
        assert new.lease.token > old.lease.token
        assert [False, False, True] == [store.ack(old), store.release(old), store.ack(new)]

    def test_stats_tell_what_waits_what_is_leased_and_what_is_due(self, store: RetryStore, clock: SuiteClock) -> None:
        """A leased entry counts as due again when its lease has ended, to the millisecond."""
        assert _NOTHING == store.stats()
        store.schedule(_A, at(0))
        store.schedule(_B, at(10))
        assert RetryStats(waiting=2, leased=0, due=1, next_due_at=at(0)) == store.stats()
        due(store, lease=30)
        assert RetryStats(waiting=1, leased=1, due=0, next_due_at=at(10)) == store.stats()
        clock.advance("29999ms")
        assert RetryStats(waiting=1, leased=1, due=1, next_due_at=at(10)) == store.stats()
        clock.advance("1ms")
        assert RetryStats(waiting=1, leased=1, due=2, next_due_at=at(10)) == store.stats()

    def test_due_time_in_another_zone_is_the_same_instant(self, store: RetryStore) -> None:
        """Instants are compared in UTC and cut to the millisecond."""
        elsewhere = timezone(timedelta(hours=5, minutes=30))
        store.schedule(_A, at(5.0009).astimezone(elsewhere))
        assert at(5) == store.stats().next_due_at

    def test_due_time_at_an_end_of_the_calendar_is_kept(self, store: RetryStore, clock: SuiteClock) -> None:
        """The job does not disappear."""
        last = datetime.max.replace(tzinfo=UTC)
        kept = last.replace(microsecond=999000)
        store.schedule(_A, last)
        assert due(store) == []
        assert kept == store.stats().next_due_at
        store.schedule(_B, datetime.min.replace(tzinfo=UTC))
        assert datetime.min.replace(tzinfo=UTC) == held(store).due_at
        clock.move_to(last)
        assert [("a", kept), ("b", datetime.min.replace(tzinfo=UTC))] == sorted(
            (entry.message.id, entry.due_at) for entry in due(store)
        )

    def test_clock_that_is_set_back_hands_nothing_out_early(self, store: RetryStore, clock: SuiteClock) -> None:
        """What is due, and what is leased, is so by the instants that were stored."""
        clock.advance("1d")
        for message, seconds in ((_A, 0), (_B, 90000)):
            store.schedule(message, at(seconds))
        assert ids(due(store, lease=30)) == ["a"]
        clock.move_to(at(0))
        assert due(store) == []
        clock.move_to(at(86400 + 30))
        assert ids(due(store)) == ["a"]
