"""Clients of a dead letter store that die before, during and after an operation."""

from __future__ import annotations

from datetime import timedelta

import attrs

from ...dead_letter import DeadLetterState
from ...stores.dead_letter_query import DeadLetterQuery
from ...stores.dead_letters import DeadLetterStore
from .breaking import TICKS, broken_at_each_step, call_cancelled, said_before_kill
from .dead_letters_samples import DIED, letter
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["DeadLetterCrashes"]

RESOLVED = DeadLetterQuery(state=DeadLetterState.RESOLVED)


def _is_sound(store: DeadLetterStore) -> bool:
    """Tell whether the letters that are found are those that are counted, in all, by state and by cause."""
    letters = store.search(limit=10_000).letters
    states = [each.state.value for each in letters]
    top = {str(state): total for state, total in store.top("state")}
    causes = [each.fingerprint for each in letters if each.fingerprint is not None]
    groups = {group.fingerprint: group.total for group in store.groups(limit=10_000).groups}
    return (
        store.count() == store.stats().total == len(letters)
        and top == {state: states.count(state) for state in states}
        and groups == {cause: causes.count(cause) for cause in causes}
    )


class DeadLetterCrashes(StoreSuite[DeadLetterStore]):
    """A letter is there or not, counted or not, and the store goes on."""

    def test_put_interrupted_in_the_middle_is_there_or_not(self, store: DeadLetterStore, clock: SuiteClock) -> None:
        """Never half, and may be repeated."""
        for done in broken_at_each_step(clock, lambda: store.put(letter())):
            assert store.get("m#1") in ([letter()] if done else [None, letter()])
            assert _is_sound(store)
        assert letter() == store.put(letter(error_message="again"))
        assert store.count() == 1

    def test_resolve_interrupted_in_the_middle_is_done_or_not(self, store: DeadLetterStore, clock: SuiteClock) -> None:
        """Of a letter that is there, and of one that comes later."""
        resolved = attrs.evolve(letter(), state=DeadLetterState.RESOLVED)
        store.put(letter())
        for done in broken_at_each_step(clock, lambda: store.resolve("m#1")):
            assert store.get("m#1") in ([resolved] if done else [letter(), resolved])
            assert _is_sound(store)
        for _ in broken_at_each_step(clock, lambda: store.resolve("later#1")):
            assert store.get("later#1") is None
            assert _is_sound(store)
        assert store.put(letter("later")).state is DeadLetterState.RESOLVED

    def test_purge_interrupted_in_the_middle_is_done_or_not(self, store: DeadLetterStore, clock: SuiteClock) -> None:
        """No letter is gone from one place and left in another."""
        for name in "abc":
            store.put(letter(name, fingerprint=name, attributes={"name": name}))
        for done in broken_at_each_step(clock, lambda: store.purge(DIED + timedelta(days=1), limit=2)):
            assert store.count() in ([1] if done else [3, 1])
            assert _is_sound(store)

    def test_reading_interrupted_in_the_middle_changes_nothing(self, store: DeadLetterStore, clock: SuiteClock) -> None:
        """The next reader gets the whole answer."""
        kept = store.put(letter(fingerprint="v1:x"))
        for call in (
            store.search,
            store.count,
            store.groups,
            store.stats,
            lambda: store.top("state"),
            lambda: store.get("m#1"),
            lambda: store.trend(DeadLetterQuery(since=DIED, until=DIED + timedelta(hours=1)), step="1h"),
        ):
            for _ in broken_at_each_step(clock, call):
                assert [kept] == list(store.search().letters)
                assert _is_sound(store)

    def test_annotate_interrupted_in_the_middle_is_done_or_not(self, store: DeadLetterStore, clock: SuiteClock) -> None:
        """All that was said, or nothing of it."""
        store.put(letter(fingerprint="v1:x"))
        for done in broken_at_each_step(clock, lambda: store.annotate("v1:x", by="ada", owner="o", note="n")):
            group = store.group("v1:x")
            assert group is not None
            said = (group.updated_by, group.owner, group.note)
            assert said in ([("ada", "o", "n")] if done else [(None, "", ""), ("ada", "o", "n")])

    @needs("async")
    def test_operation_cancelled_is_done_or_not_and_the_next_gets_its_own_answer(self, store: DeadLetterStore) -> None:
        """An answer that nobody waits for any more is not taken for that of the next operation."""
        before = store.put(letter("before"))
        for ticks in range(TICKS):
            own = letter(f"m-{ticks}")
            answer = call_cancelled(store, ticks, "put", own)
            assert before == store.get("before#1")
            assert store.get(own.id) in ([own] if answer else [None, own])
            assert store.put(own) == own
            call_cancelled(store, ticks, "resolve", own.id)
            assert list(store.search(DeadLetterQuery(message_id="before")).letters) == [before]
            store.resolve(own.id)
            purged = call_cancelled(store, ticks, "purge", DIED + timedelta(days=1), query=RESOLVED)
            left = store.count(RESOLVED)
            assert left in ([0] if purged else [0, 1])
            assert store.purge(DIED + timedelta(days=1), query=RESOLVED) == left
            page = call_cancelled(store, ticks, "search")
            assert store.count() == 1
            assert page in (None, store.search())
            assert _is_sound(store)

    @needs("reopen", "processes")
    def test_letters_of_killed_processes_are_there(self, store: DeadLetterStore, place: Place, colour: str) -> None:
        """Everything that was acknowledged, resolved letters as resolved, and the totals are right."""
        said = said_before_kill(self, place, "put_and_resolve_without_end", colour)
        for name in said:
            kept = store.get(f"{name}#1")
            assert kept is not None
            assert kept.state is DeadLetterState.RESOLVED
        assert _is_sound(store)
        assert letter("after") == store.put(letter("after"))
