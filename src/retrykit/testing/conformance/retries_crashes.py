"""Crashes: the client goes before, during or after an operation, and no message is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import cast

import attrs
import pytest

from ...backends.memory import MemoryBackend
from ...lease import Lease
from ...message import Message
from ...stores.retries import DueMessage, RetryStore
from .breaking import TICKS, cancelled_after, interrupted
from .child import Child
from .retries_states import OPERATIONS, STATES, at, contents, due, held, ids
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["RetryCrashesTests"]

_KILLS = 3


def _known(answer: object) -> object:
    """Return an answer without the tokens, which each store counts for itself."""
    if isinstance(answer, DueMessage):
        return attrs.evolve(answer, lease=Lease(answer.lease.owner, 0, answer.lease.deadline))
    if isinstance(answer, (list, tuple)):
        return [_known(entry) for entry in cast("Sequence[object]", answer)]
    return answer


class RetryCrashesTests(StoreSuite[RetryStore]):
    """What is left when the client dies."""

    def test_schedule_repeated_after_a_lost_answer_changes_nothing(self, store: RetryStore, clock: SuiteClock) -> None:
        """One entry, due when it was."""
        for _ in range(2):
            store.schedule(Message("a", 1), at(5), generation=2, version=3)
            clock.advance("1s")
        clock.advance("1h")
        assert [("a", 2, at(5))] == [(each.message.id, each.generation, each.due_at) for each in due(store)]

    def test_schedule_repeated_after_the_entry_was_handed_on_brings_it_back(self, store: RetryStore) -> None:
        """Rather once too often than never: whoever takes it has to claim its message first."""
        store.schedule(Message("a", 1), at(0), version=3)
        assert store.ack(held(store))
        store.schedule(Message("a", 1), at(0), version=3)
        assert ids(due(store)) == ["a"]

    def test_hand_out_whose_answer_was_lost_comes_again_when_its_lease_ends(
        self, store: RetryStore, clock: SuiteClock
    ) -> None:
        """Not before, for the same caller neither."""
        store.schedule(Message("a", 1), at(0))
        lost = due(store, lease=30)
        clock.advance("29999ms")
        assert due(store) == []
        clock.advance("1ms")
        (again,) = due(store)
        assert lost[0].message == again.message

    def test_ack_release_and_extend_repeated_after_a_lost_answer_change_nothing(
        self, store: RetryStore, clock: SuiteClock
    ) -> None:
        """What is gone is gone; what is extended is extended to the same end."""
        for name in "abc":
            store.schedule(Message(name, 1), at(0))
        first, second, third = due(store, lease=30)
        assert [True, False] == [store.ack(first) for _ in range(2)]
        assert [True, False] == [store.release(second, delay=9) for _ in range(2)]
        assert store.extend(third, lease=60) == store.extend(third, lease=60)
        assert [("b", 1, at(9)), ("c", 1, at(0))] == contents(store, clock)

    def test_cancel_repeated_after_a_lost_answer_finds_nothing(self, store: RetryStore) -> None:
        """It is gone for good."""
        store.schedule(Message("a", 1), at(0))
        assert [True, False, False] == [store.cancel("a") for _ in range(3)]

    @pytest.mark.parametrize("state", STATES)
    def test_operation_interrupted_in_the_middle_happened_or_not(
        self, store: RetryStore, clock: SuiteClock, state: str
    ) -> None:
        """Never half, and the store goes on. Where nothing interrupts it, it does what the memory store does."""
        prepare = STATES[state]
        for name, operate in OPERATIONS.items():
            for number in count(1):
                for each in "abc":
                    store.cancel(each)
                model = MemoryBackend(clock=clock).retries
                entries, modelled = prepare(clock, [store, model])
                assert _known(entries) == _known(modelled)
                before = model.stats()
                expected = operate(model, modelled)
                broke, answer = interrupted(clock, number, partial(operate, store, entries))
                assert store.stats() in ((before, model.stats()) if broke else (model.stats(),)), name
                if not broke:
                    assert _known(expected) == _known(answer), name
                    assert contents(model, clock) == contents(store, clock), name
                    break
                assert len(due(store)) <= 3
                assert [each[0] for each in contents(store, clock)] in (
                    ["a", "b", "c"],
                    [each[0] for each in contents(model, clock)],
                ), name

    @needs("async")
    @pytest.mark.parametrize("state", STATES)
    def test_operation_cancelled_in_the_middle_happened_or_not(
        self, store: RetryStore, clock: SuiteClock, state: str
    ) -> None:
        """And the next operation gets its own answer, not the one that nobody waited for."""
        prepare = STATES[state]
        for ticks in range(TICKS):
            for name, operate in OPERATIONS.items():
                for each in "abc":
                    store.cancel(each)
                model = MemoryBackend(clock=clock).retries
                entries, modelled = prepare(clock, [store, model])
                before = model.stats()
                expected = operate(model, modelled)
                answer = operate(cancelled_after(ticks, store), entries)
                assert _known(answer) in (None, _known(expected)), name
                assert store.cancel("nobody") is False
                assert store.stats() in (before, model.stats()), name

    @needs("reopen")
    def test_store_opened_again_finds_every_entry(
        self, store: RetryStore, clock: SuiteClock, opened: Callable[[Place], RetryStore], place: Place
    ) -> None:
        """Waiting and leased; the holds go on, and no token comes twice."""
        for name, seconds in (("a", 0), ("b", 5)):
            store.schedule(Message(name, {"of": name}, {"{}": name}), at(seconds), generation=7, version=3)
        (first,) = due(store, lease=30)
        assert store.ack(first)
        store.schedule(Message("a", 2), at(0), version=3)
        (second,) = due(store, lease=30)
        other = opened(place)
        assert store.stats() == other.stats()
        assert due(other) == []
        extended = other.extend(second, lease=31)
        assert extended is not None
        assert store.release(extended)
        clock.advance("5s")
        again = due(other)
        assert ["a", "b"] == ids(again)
        assert Message("b", {"of": "b"}, {"{}": "b"}) == again[1].message
        assert min(each.lease.token for each in again) > second.lease.token > first.lease.token
        assert store.ack(second) is False
        assert [True, True] == [store.ack(each) for each in again]

    @needs("reopen")
    def test_tokens_do_not_restart_in_an_empty_store_opened_again(
        self, store: RetryStore, opened: Callable[[Place], RetryStore], place: Place
    ) -> None:
        """A holder of before has no say about a new entry of the same message."""
        store.schedule(Message("a", 1), at(0))
        late = held(store)
        assert store.cancel("a")
        other = opened(place)
        other.schedule(Message("a", 1), at(0))
        new = held(other)
        assert new.lease.token > late.lease.token
        assert [False, False] == [other.ack(late), other.release(late)]
        assert other.extend(late) is None
        assert other.ack(new)

    @needs("reopen", "processes")
    def test_killed_process_loses_nothing_that_was_answered(
        self, store: RetryStore, clock: SuiteClock, place: Place, colour: str
    ) -> None:
        """Whatever it was doing, the store goes on, and what it held comes again when its lease ends."""
        for kill in range(_KILLS):
            with Child(self, place, "schedule_without_end", colour, by=f"{kill}") as child:
                child.wait_until_ready()
                child.begin()
                said = child.said_until_killed(3 + 7 * kill)
            clock.advance("30s")
            left = ids(due(store))
            assert left in ([], [f"{kill} acked {len(said)}"])
            assert [True] * len(said) == [store.cancel(f"{kill} waits {number}") for number in said]
            assert [False] * len(said) == [store.cancel(f"{kill} acked {number}") for number in said]
            store.cancel(f"{kill} acked {len(said)}")
            store.cancel(f"{kill} waits {len(said)}")
            assert store.stats().next_due_at is None
