"""Many clients of a circuit store at once."""

from __future__ import annotations

from ...stores.circuits import CircuitStore
from .child import in_processes
from .races import PROCESSES, THREADS, in_threads
from .suite import Place, StoreSuite, needs

__all__ = ["CircuitRaces"]

KEYS = [f"campaign:{number:02}" for number in range(40)]


class CircuitRaces(StoreSuite[CircuitStore]):
    """No pause is lost, and none is resumed twice."""

    def test_many_threads_pausing_each_pause_is_kept(self, store: CircuitStore) -> None:
        """None overwrites another's."""

        def work(number: int) -> None:
            for key in KEYS[number::THREADS]:
                store.pause(key, reason="r", by="ada")

        in_threads(work)
        assert [pause.key for pause in store.pauses()] == KEYS

    def test_many_threads_resuming_each_pause_is_resumed_once(self, store: CircuitStore) -> None:
        """One of them is told that it was in force."""
        for key in KEYS:
            store.pause(key, reason="r", by="ada")
        resumed = in_threads(lambda _: [key for key in KEYS if store.resume(key)])
        assert sorted(key for each in resumed for key in each) == KEYS
        assert list(store.pauses()) == []

    def test_many_threads_pausing_one_key_one_whole_pause_stands(self, store: CircuitStore) -> None:
        """Reason and author are those of one of them."""

        def work(number: int) -> None:
            for _ in range(20):
                store.pause("provider:ses", reason=f"reason {number}", by=f"author {number}")
                (pause,) = store.pauses()
                assert pause.by == pause.reason.replace("reason", "author")

        in_threads(work, 4)
        assert len(store.pauses()) == 1

    @needs("processes")
    def test_many_processes_pausing_each_pause_is_kept(self, store: CircuitStore, place: Place, colour: str) -> None:
        """And each sees its own at once."""
        work = [{"keys": [f"campaign:{n}-{i}" for i in range(20)], "by": f"process {n}"} for n in range(PROCESSES)]
        answers = in_processes(self, place, "pause_many", colour, work)
        for own, seen in zip(work, answers, strict=True):
            assert set(own["keys"]) <= set(seen)
        assert {key for own in work for key in own["keys"]} == {pause.key for pause in store.pauses()}

    @needs("processes")
    def test_many_processes_resuming_each_pause_is_resumed_once(
        self, store: CircuitStore, place: Place, colour: str
    ) -> None:
        """One of them is told that it was in force."""
        for key in KEYS:
            store.pause(key, reason="r", by="ada")
        resumed = in_processes(self, place, "resume_many", colour, [{"keys": KEYS}] * PROCESSES)
        assert sorted(key for each in resumed for key in each) == KEYS
