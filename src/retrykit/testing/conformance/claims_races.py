"""Races: many threads and processes at once, and each key has one holder, one decision and one end."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ...decision import DispositionKind
from ...machines import claim as machine
from ...stores.claims import Claimed, ClaimRecord, ClaimStore, Done, InProgress, Unknown
from .child import in_processes
from .claims_states import HELD, RETRY, claimed, following, sending
from .races import PROCESSES, THREADS, in_threads
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["ClaimRacesTests"]

_KEYS = [f"key-{number}" for number in range(25)]


def _shuffled(number: int) -> list[str]:
    return random.Random(number).sample(_KEYS, len(_KEYS))


class ClaimRacesTests(StoreSuite[ClaimStore]):
    """What races come to."""

    def test_many_threads_racing_for_a_key_one_is_granted(self, store: ClaimStore) -> None:
        """Exactly one for each key; all others see it in progress."""
        answers = in_threads(
            lambda number: {key: type(store.claim(key, owner=f"thread-{number}")) for key in _shuffled(number)}
        )
        for key in _KEYS:
            assert {Claimed: 1, InProgress: THREADS - 1} == Counter(answer[key] for answer in answers)
            record = store.get(key)
            assert record is not None
            assert (1, 1) == (record.seq, record.counters.started)

    def test_many_threads_taking_over_a_lapsed_hold_one_is_granted(self, store: ClaimStore, clock: SuiteClock) -> None:
        """And the crash is counted once."""
        for key in _KEYS:
            claimed(store, key)
        clock.advance("30s")
        answers = in_threads(
            lambda number: {key: type(store.claim(key, owner=f"thread-{number}")) for key in _shuffled(number)}
        )
        for key in _KEYS:
            assert {Claimed: 1, InProgress: THREADS - 1} == Counter(answer[key] for answer in answers)
            record = store.get(key)
            assert record is not None
            assert (2, 1, 1) == (record.seq, record.counters.crashed, len(record.attempts))

    def test_many_threads_finding_a_lapsed_send_one_verifies(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Whether it comes by the message or looks for such sends."""
        for key in _KEYS:
            sending(store, key)
        clock.advance("30s")

        for turn, key in enumerate(_KEYS):

            def work(number: int, key: str = key, turn: int = turn) -> bool:
                if (number + turn) % 2:
                    return isinstance(store.claim(key, owner=f"thread-{number}"), Unknown)
                return store.claim_unknown(key, owner=f"thread-{number}") is not None

            assert in_threads(work, 4).count(True) == 1

    def test_many_threads_claiming_poison_one_convicts(self, store: ClaimStore, clock: SuiteClock) -> None:
        """It is told once, and starts nothing."""
        for number in range(3):
            claimed(store, owner=f"worker-{number}")
            clock.advance("31s")
        answers = in_threads(lambda number: store.claim("k", owner=f"thread-{number}"))
        record = store.get("k")
        assert record is not None
        assert {Done(record, convicted=True): 1, Done(record): THREADS - 1} == {
            answer: answers.count(answer) for answer in (Done(record, convicted=True), Done(record))
        }

    @pytest.mark.parametrize("state", HELD)
    def test_holder_racing_with_those_who_take_over_one_has_the_key(
        self, store: ClaimStore, clock: SuiteClock, state: str
    ) -> None:
        """Either it renewed in time and all others are told so, or one of them holds the key and it is told that."""
        for turn, key in enumerate(_KEYS):
            held = HELD[state](store, key)
            assert held is not None
            clock.advance("30s")

            def work(number: int, holder: int = turn % 4, key: str = key, held: ClaimRecord = held) -> bool:
                if number == holder:
                    return store.renew(key, held.seq, lease=30) is not None
                return isinstance(store.claim(key, owner=f"thread-{number}"), (Claimed, Unknown))

            assert in_threads(work, 4).count(True) == 1

    def test_many_threads_settling_one_hold_one_decision_stands(self, store: ClaimStore) -> None:
        """All have the same token, and a decision of their own."""
        for key in _KEYS[:5]:
            held = sending(store, key)

            def work(number: int, held: ClaimRecord = held) -> ClaimRecord | None:
                return store.settle(machine.sent(held, provider_id=f"{number}"), held.seq)

            answers = in_threads(work)
            assert answers.count(None) == THREADS - 1
            assert store.get(key) in answers

    def test_settlement_racing_with_a_confirmation_the_fact_stands(self, store: ClaimStore) -> None:
        """Whoever comes first."""
        for key in _KEYS:
            held = sending(store, key)

            def work(number: int, key: str = key, held: ClaimRecord = held) -> object:
                if number == 0:
                    return store.confirm(key, provider_id="p-1")
                return store.settle(following(held, RETRY), held.seq, delay=5)

            in_threads(work, 2)
            record = store.get(key)
            assert record is not None
            assert (DispositionKind.SENT, "p-1") == (record.disposition, record.provider_id)

    def test_claims_racing_with_cancellations_one_side_wins(self, store: ClaimStore) -> None:
        """A message that was taken back is not worked on, and one that is worked on was not taken back."""
        for turn, key in enumerate(_KEYS):

            def work(number: int, key: str = key, turn: int = turn) -> tuple[bool, bool]:
                if (number + turn) % 2:
                    return isinstance(store.claim(key, owner=f"thread-{number}"), Claimed), False
                return False, store.cancel(key).disposition is DispositionKind.DISCARDED

            claims, cancellations = map(sum, zip(*in_threads(work, 4), strict=True))
            assert (claims, cancellations) in ((1, 0), (0, 2))

    def test_many_threads_purging_each_record_is_counted_once(self, store: ClaimStore, clock: SuiteClock) -> None:
        """No one's count is another's."""
        for key in _KEYS:
            store.confirm(key)
        clock.advance("1ms")
        assert len(_KEYS) == sum(in_threads(lambda _: store.purge(clock.now(), limit=10)))

    @needs("processes")
    def test_many_processes_racing_for_keys_each_is_settled_by_one(
        self, store: ClaimStore, place: Place, colour: str
    ) -> None:
        """No key has two holders, none is lost, and the decision is its holder's."""
        work = [{"keys": _shuffled(number), "owner": f"process {number}"} for number in range(PROCESSES)]
        granted = in_processes(self, place, "claim_many", colour, work)
        assert sorted(_KEYS) == sorted(key for keys in granted for key in keys)
        for each, keys in zip(work, granted, strict=True):
            for key in keys:
                record = store.get(key)
                assert record is not None
                assert (each["owner"], 1) == (record.provider_id, record.counters.started)
