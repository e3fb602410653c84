"""Crashes: the client goes before, during or after an operation, and nothing is lost or done twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from ...backends.memory import MemoryBackend
from ...machines import claim as machine
from ...stores.claims import Claimed, ClaimState, ClaimStore, InProgress, Unknown
from .breaking import TICKS, cancelled_after, interrupted
from .child import Child
from .claims_states import OPERATIONS, STATES, claimed, is_answer_to, sending
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["ClaimCrashesTests"]

_KILLS = 3


class ClaimCrashesTests(StoreSuite[ClaimStore]):
    """What is left when the client dies."""

    @pytest.mark.parametrize("state", STATES)
    def test_operation_repeated_after_a_lost_answer_gives_it_again(
        self, store: ClaimStore, clock: SuiteClock, state: str
    ) -> None:
        """Whatever the state, and the repetition changes nothing; the next client is told what the record says."""
        prepare, seconds = STATES[state]
        for name, operate in OPERATIONS.items():
            record = prepare(store, name)
            clock.advance(seconds)
            answer, after = operate(store, name, record), store.get(name)
            assert answer == operate(store, name, record), name
            assert after == store.get(name), name
            assert is_answer_to(after, store.claim(name, owner="the next"), clock.now()), name

    @pytest.mark.parametrize("state", STATES)
    def test_operation_interrupted_in_the_middle_happened_or_not(
        self, store: ClaimStore, clock: SuiteClock, state: str
    ) -> None:
        """Never half; and it can be done again. Where nothing interrupts it, it does what the memory store does."""
        prepare, seconds = STATES[state]
        model = MemoryBackend(clock=clock).claims
        for name, operate in OPERATIONS.items():
            for number in count(1):
                key = f"{name} {number}"
                record = prepare(store, key)
                assert record == prepare(model, key)
                clock.advance(seconds)
                before = store.get(key)
                expected, after = operate(model, key, record), model.get(key)
                call = partial(operate, store, key, record)
                broke, answer = interrupted(clock, number, call)
                assert store.get(key) in ((before, after) if broke else (after,)), key
                assert expected == (call() if broke else answer), key
                assert after == store.get(key), key
                if not broke:
                    break

    @needs("async")
    @pytest.mark.parametrize("state", ["absent", "claimed", "sending", "waiting, due", "sending, lapsed"])
    def test_operation_cancelled_in_the_middle_happened_or_not(
        self, store: ClaimStore, clock: SuiteClock, state: str
    ) -> None:
        """And the next operation gets its own answer, not the one that nobody waited for."""
        prepare, seconds = STATES[state]
        model = MemoryBackend(clock=clock).claims
        for ticks in range(TICKS):
            cancelled = cancelled_after(ticks, store)
            for name, operate in OPERATIONS.items():
                key = f"{name} {ticks}"
                record = prepare(store, key)
                assert record == prepare(model, key)
                clock.advance(seconds)
                before = store.get(key)
                expected, after = operate(model, key, record), model.get(key)
                assert operate(cancelled, key, record) in (None, expected), key
                fresh = claimed(store, f"next {key}")
                assert f"next {key}" == fresh.key
                assert store.get(key) in (before, after), key
                assert expected == operate(store, key, record), key

    def test_purge_interrupted_in_the_middle_happened_or_not(self, store: ClaimStore, clock: SuiteClock) -> None:
        """All that it would have deleted, or nothing."""
        for number in count(1):
            keys = [f"{number} {key}" for key in "abc"]
            for key in keys:
                store.confirm(key)
            clock.advance("1ms")
            broke, _ = interrupted(clock, number, lambda: store.purge(clock.now()))
            left = sum(store.get(key) is not None for key in keys)
            assert left in ((0, 3) if broke else (0,))
            assert left == store.purge(clock.now())
            if not broke:
                return

    def test_purge_repeated_after_a_lost_answer_deletes_no_more(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Not even with the clock gone on."""
        store.confirm("old")
        clock.advance("1ms")
        before = clock.now()
        record = store.confirm("young")
        clock.advance("1d")
        assert [1, 0] == [store.purge(before) for _ in range(2)]
        assert record == store.get("young")

    @needs("reopen")
    def test_store_opened_again_finds_every_record(
        self, store: ClaimStore, clock: SuiteClock, opened: Callable[[Place], ClaimStore], place: Place
    ) -> None:
        """And goes on where the other one stands: the same answers, the same fence."""
        other = opened(place)
        for state, (prepare, seconds) in STATES.items():
            record = prepare(store, state)
            clock.advance(seconds)
            assert record == other.get(state)
            assert list(store.unsettled()) == list(other.unsettled())
            answer = other.claim(state, owner="other")
            assert is_answer_to(record, answer, clock.now())
            assert answer.record == store.get(state)
            if isinstance(answer, (Claimed, Unknown)):
                assert store.renew(state, answer.record.seq - 1, lease=30) is None
                assert store.settle(machine.sent(answer.record), answer.record.seq) == other.get(state)
        records = [store.get(state) for state in STATES]
        again = opened(place)
        assert records == [again.get(state) for state in STATES]

    @needs("reopen", "processes")
    def test_killed_process_loses_nothing_that_was_answered(
        self, store: ClaimStore, clock: SuiteClock, place: Place, colour: str
    ) -> None:
        """Whatever it was doing, the store goes on, and what it held is free when its lease ends."""
        for kill in range(_KILLS):
            with Child(self, place, "settle_without_end", colour, by=f"{kill}") as child:
                child.wait_until_ready()
                child.begin()
                keys = child.said_until_killed(3 + 7 * kill)
            for key in keys:
                record = store.get(key)
                assert record is not None
                assert (ClaimState.DONE, key) == (record.state, record.provider_id)
            unfinished = f"{kill} {len(keys)}"
            answer = store.claim(unfinished, owner="me", lease=30)
            if isinstance(answer, InProgress):
                clock.advance("30s")
                answer = store.claim(unfinished, owner="me", lease=30)
                assert answer.record.state in (ClaimState.CLAIMED, ClaimState.UNKNOWN)
                assert answer.record.counters.crashed == 1
            assert sending(store, f"after {kill}").seq == 1
