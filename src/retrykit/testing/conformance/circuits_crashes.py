"""Clients of a circuit store that die before, during and after an operation."""

from __future__ import annotations

from ...stores.circuits import CircuitStore
from .breaking import TICKS, broken_at_each_step, call_cancelled, said_before_kill
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["CircuitCrashes"]


class CircuitCrashes(StoreSuite[CircuitStore]):
    """A pause is there or not, and the store goes on."""

    def test_pause_interrupted_in_the_middle_is_there_or_not(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Never half, and the one before stands until then."""
        first = store.pause("provider:ses", reason="first", by="ada")
        for done in broken_at_each_step(clock, lambda: store.pause("provider:ses", reason="second", by="bob")):
            (pause,) = store.pauses()
            assert pause.reason in ({"second"} if done else {first.reason, "second"})
            assert pause.by == {"first": "ada", "second": "bob"}[pause.reason]

    def test_resume_interrupted_in_the_middle_is_done_or_not(self, store: CircuitStore, clock: SuiteClock) -> None:
        """And may be repeated."""
        pause = store.pause("provider:ses", reason="r", by="ada")
        for done in broken_at_each_step(clock, lambda: store.resume("provider:ses")):
            assert list(store.pauses()) in ([[]] if done else [[pause], []])
        assert store.resume("provider:ses") is False

    def test_reading_interrupted_in_the_middle_changes_nothing(self, store: CircuitStore, clock: SuiteClock) -> None:
        """The next reader gets the whole answer."""
        pause = store.pause("provider:ses", reason="r", by="ada")
        for _ in broken_at_each_step(clock, store.pauses):
            assert [pause] == list(store.pauses())

    @needs("async")
    def test_operation_cancelled_is_done_or_not_and_the_next_gets_its_own_answer(self, store: CircuitStore) -> None:
        """An answer that nobody waits for any more is not taken for that of the next operation."""
        before = store.pause("tenant:before", reason="r", by="ada")
        for ticks in range(TICKS):
            key = f"campaign:{ticks}"
            answer = call_cancelled(store, ticks, "pause", key, reason="r", by="ada")
            assert store.resume("tenant:nobody") is False
            here = [pause for pause in store.pauses() if pause.key == key]
            assert here in ([[answer]] if answer else [[], [pause for pause in here if pause.by == "ada"]])
            resumed = call_cancelled(store, ticks, "resume", key)
            assert before in store.pauses()
            assert store.resume(key) in ([False] if resumed is not None else [True, False])
            seen = call_cancelled(store, ticks, "pauses")
            assert [before] == list(store.pauses()) == list(seen or [before])

    @needs("reopen", "processes")
    def test_pauses_of_killed_processes_are_there(self, store: CircuitStore, place: Place, colour: str) -> None:
        """Everything that was acknowledged, and the store goes on."""
        said = said_before_kill(self, place, "pause_without_end", colour)
        assert set(said) <= {pause.key for pause in store.pauses()}
        assert [store.resume(key) for key in said] == [True] * len(said)
        assert store.pause("tenant:after", reason="r", by="ada") in store.pauses()
