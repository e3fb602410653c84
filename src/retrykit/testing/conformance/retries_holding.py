"""Holding: who has an entry, for how long, and the token without which nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from ...errors import ConfigurationError, InvalidMessageError
from ...lease import Lease
from ...message import Message
from ...stores.retries import DueMessage, RetryStats, RetryStore
from .hostile import NO_COUNTS, NO_DURATIONS, NO_KEYS
from .retries_states import at, due, held, ids, with_token
from .suite import StoreSuite, SuiteClock

__all__ = ["RetryHoldingTests"]

_A = Message("a", {"n": 0}, {"tenant": "acme"})


def _refused(store: RetryStore, entry: DueMessage) -> bool:
    """Tell whether nothing can be done with an entry."""
    return (store.ack(entry), store.release(entry, delay=5), store.extend(entry, lease=5)) == (False, False, None)


class RetryHoldingTests(StoreSuite[RetryStore]):
    """What `ack`, `release` and `extend` do, and for whom."""

    def test_message_is_held_by_one_caller_until_its_lease_ends(self, store: RetryStore, clock: SuiteClock) -> None:
        """A lost holder's message is due again, under a new token."""
        store.schedule(_A, at(0))
        (first,) = due(store, owner="first", lease=30)
        clock.advance("29999ms")
        assert due(store, owner="second") == due(store, owner="first") == []
        clock.advance("1ms")
        (second,) = due(store, owner="second")
        assert second.lease.token > first.lease.token
        assert ("second", at(0), _A) == (second.lease.owner, second.due_at, second.message)
        assert _refused(store, first)
        assert store.ack(second) is True

    def test_message_of_holders_that_are_lost_again_and_again_comes_again(
        self, store: RetryStore, clock: SuiteClock
    ) -> None:
        """Also under the same name, and no token comes twice."""
        store.schedule(_A, at(0))
        tokens = list[int]()
        for _ in range(5):
            tokens.append(held(store).lease.token)
            clock.advance("30s")
        assert sorted(set(tokens)) == tokens

    def test_ack_removes_the_entry(self, store: RetryStore, clock: SuiteClock) -> None:
        """For good."""
        store.schedule(_A, at(0))
        assert store.ack(held(store)) is True
        assert RetryStats(waiting=0, leased=0, due=0, next_due_at=None) == store.stats()
        clock.advance("1000d")
        assert due(store) == []

    def test_ack_with_a_lease_that_ended_but_was_not_taken_removes_the_entry(
        self, store: RetryStore, clock: SuiteClock
    ) -> None:
        """Nobody else has it: handing it on was right."""
        store.schedule(_A, at(0))
        entry = held(store)
        clock.advance("1h")
        assert store.ack(entry) is True
        assert due(store) == []

    def test_ack_with_an_old_token_after_the_entry_came_again_removes_nothing(self, store: RetryStore) -> None:
        """Tokens never restart, though the entry is a new one."""
        store.schedule(_A, at(0), version=1)
        old = held(store)
        assert store.ack(old) is True
        store.schedule(_A, at(0), version=2)
        assert _refused(store, old)
        new = held(store)
        assert _refused(store, old)
        assert new.lease.token > old.lease.token
        assert store.ack(new) is True

    def test_token_of_another_changes_nothing(self, store: RetryStore, clock: SuiteClock) -> None:
        """Nor does the right one for another generation or another message."""
        store.schedule(_A, at(0), generation=2)
        store.schedule(Message("b", 1), at(0))
        store.schedule(Message("c", 1), at(900))
        entry, _ = due(store, lease=30)
        before = store.stats()
        for token in (0, -1, entry.lease.token + 10**6):
            assert _refused(store, with_token(entry, token))
        assert _refused(store, attrs.evolve(entry, generation=1))
        assert _refused(store, attrs.evolve(entry, message=Message("c", 1), generation=1))
        assert _refused(store, attrs.evolve(entry, message=Message("missing", 1)))
        assert before == store.stats()
        assert store.ack(entry) is True
        clock.advance("30s")
        assert ids(due(store)) == ["b"]

    def test_release_makes_the_entry_due_again_after_its_delay(self, store: RetryStore, clock: SuiteClock) -> None:
        """Counted from now on; the holder's token is worth nothing afterwards."""
        store.schedule(_A, at(0), generation=2)
        entry = held(store)
        clock.advance("3s")
        assert store.release(entry, delay="9.9991s") is True
        assert _refused(store, entry)
        assert RetryStats(waiting=1, leased=0, due=0, next_due_at=at(13)) == store.stats()
        clock.advance("9999ms")
        assert due(store) == []
        clock.advance("1ms")
        again = held(store)
        assert (_A, 2, at(13)) == (again.message, again.generation, again.due_at)
        assert _refused(store, entry)

    def test_release_without_a_delay_makes_the_entry_due_now(self, store: RetryStore) -> None:
        """Zero is a delay."""
        store.schedule(_A, at(0))
        for _ in range(2):
            assert store.release(held(store), delay=0) is True
        assert store.release(held(store)) is True
        assert ids(due(store)) == ["a"]

    def test_release_keeps_the_version(self, store: RetryStore, clock: SuiteClock) -> None:
        """An older decision that comes late does not replace it."""
        store.schedule(_A, at(0), version=5)
        store.release(held(store), delay=5)
        store.schedule(Message("a", "older"), at(0), version=5)
        assert due(store) == []
        clock.advance("5s")
        assert _A == held(store).message

    def test_release_and_lease_beyond_the_calendar_end_with_it(self, store: RetryStore, clock: SuiteClock) -> None:
        """An absurd delay loses no message."""
        last = datetime.max.replace(microsecond=999000, tzinfo=UTC)
        store.schedule(_A, at(0))
        (entry,) = due(store, lease=1e15)
        assert last == entry.lease.deadline
        extended = store.extend(entry, lease=1e15)
        assert extended is not None
        assert last == extended.lease.deadline
        assert store.release(extended, delay=1e15) is True
        assert RetryStats(waiting=1, leased=0, due=0, next_due_at=last) == store.stats()
        clock.move_to(last)
        assert last == held(store).due_at

    def test_extend_moves_the_end_of_the_hold_and_nothing_else(self, store: RetryStore, clock: SuiteClock) -> None:
        """Counted from now on, to the millisecond; it may also make a hold shorter."""
        store.schedule(_A, at(0), generation=2)
        entry = held(store)
        for length, deadline in ((60_000, at(70)), (60_000, at(80)), (10, at(30.01))):
            clock.advance("10s")
            extended = attrs.evolve(entry, lease=Lease("me", entry.lease.token, deadline))
            assert extended == store.extend(entry, lease=f"{length}ms")
            assert RetryStats(waiting=0, leased=1, due=0, next_due_at=deadline) == store.stats()
        clock.advance("9ms")
        assert due(store) == []
        clock.advance("1ms")
        assert ids(due(store)) == ["a"]
        assert _refused(store, entry)

    def test_extended_hold_outlasts_any_work(self, store: RetryStore, clock: SuiteClock) -> None:
        """An hour of work under a lease of 30 seconds is one hold."""
        store.schedule(_A, at(0))
        entry = held(store)
        for _ in range(180):
            clock.advance("20s")
            extended = store.extend(entry, lease=30)
            assert extended is not None
            assert entry.lease.token == extended.lease.token
            assert due(store) == []
        assert store.ack(entry) is True

    def test_extend_with_a_lease_that_ended_but_was_not_taken_is_granted(
        self, store: RetryStore, clock: SuiteClock
    ) -> None:
        """A holder that was only slow goes on."""
        store.schedule(_A, at(0))
        entry = held(store)
        clock.advance("1d")
        assert store.extend(entry, lease=30) is not None
        assert due(store) == []

    def test_lease_that_began_late_in_a_second_is_no_shorter(self, store: RetryStore, clock: SuiteClock) -> None:
        """Instants are kept to the millisecond, and what is asked for is never cut short."""
        clock.advance("999ms")
        store.schedule(_A, at(0))
        due(store, lease=1)
        clock.advance("999ms")
        assert due(store) == []
        clock.advance("1ms")
        (entry,) = due(store, lease=0.0001)
        assert at(2.0) == entry.lease.deadline
        assert due(store) == []

    def test_due_time_that_is_naive_is_refused(self, store: RetryStore) -> None:
        """It could mean any zone; nothing is stored."""
        with pytest.raises(ConfigurationError):
            store.schedule(_A, datetime(2026, 1, 1))  # noqa: DTZ001
        assert store.stats().waiting == 0

    def test_values_that_make_no_sense_are_refused(self, store: RetryStore) -> None:
        """And change nothing; a lease of zero makes no sense either."""
        store.schedule(_A, at(0))
        entry = held(store)
        before = store.stats()
        calls: list[tuple[tuple[Any, ...], Callable[[Any], object]]] = [
            (NO_COUNTS, lambda limit: store.claim_due(limit, owner="me")),
            (NO_DURATIONS, lambda delay: store.release(entry, delay=delay)),
            ((*NO_DURATIONS, 0), lambda lease: store.claim_due(owner="me", lease=lease)),
            ((*NO_DURATIONS, 0), lambda lease: store.extend(entry, lease=lease)),
        ]
        for values, call in calls:
            for value in values:
                with pytest.raises(ConfigurationError):
                    call(value)
        for key in NO_KEYS:
            with pytest.raises(InvalidMessageError):
                store.cancel(key)
        assert before == store.stats()
        assert store.ack(entry) is True
