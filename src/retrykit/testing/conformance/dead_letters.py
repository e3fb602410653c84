"""The suite of the dead letter store's contract."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import attrs
import pytest

from ...dead_letter import DeadLetter, DeadLetterState
from ...errors import ConfigurationError
from ...message import Message
from ...stores.dead_letter_query import DeadLetterQuery
from ...stores.dead_letters import DeadLetterStore
from ...stores.deliveries import Delivery, DeliveryStatus
from .colours import Loop
from .dead_letters_changes import DeadLetterChanges
from .dead_letters_crashes import DeadLetterCrashes
from .dead_letters_groups import DeadLetterGroups
from .dead_letters_model import DeadLetterModel
from .dead_letters_queries import DeadLetterQueries
from .dead_letters_races import DeadLetterRaces
from .dead_letters_samples import DIED, LETTERS, full_letter, letter
from .dead_letters_search import DeadLetterSearch
from .dead_letters_values import DeadLetterValues
from .forks import DeadLetterForks
from .models import compare
from .suite import Fresh, Place, SuiteClock, all_opened_at, needs

__all__ = ["DeadLetterStoreSuite"]

Open = Callable[[Place], DeadLetterStore]

RESOLVED = DeadLetterQuery(state=DeadLetterState.RESOLVED)
QUARANTINED = DeadLetterQuery(state=DeadLetterState.QUARANTINED)


def _died(message_id: str, seconds: float) -> DeadLetter:
    return letter(message_id, campaign_id="spring", dead_lettered_at=DIED + timedelta(seconds=seconds))


class DeadLetterStoreSuite(
    DeadLetterSearch,
    DeadLetterQueries,
    DeadLetterGroups,
    DeadLetterChanges,
    DeadLetterCrashes,
    DeadLetterRaces,
    DeadLetterForks,
    DeadLetterValues,
):
    """Proves a `DeadLetterStore` or an `AsyncDeadLetterStore`."""

    contract = "dead_letters"

    def test_letter_comes_back_as_it_was_put(self, store: DeadLetterStore) -> None:
        """With its history, its payload and what a newer version added."""
        full = full_letter()
        assert full == store.put(full)
        assert full == store.get("m#3")
        assert [full] == list(store.search().letters)

    def test_get_of_an_unknown_id_is_none(self, store: DeadLetterStore) -> None:
        """A missing letter is no error."""
        store.put(letter())
        assert [store.get(letter_id) for letter_id in ("m#2", "m", "", "M#1", "m#1 ")] == [None] * 5

    def test_put_twice_is_one_letter_and_the_first_one_stays(self, store: DeadLetterStore) -> None:
        """A projection may be repeated after a lost answer, also when other letters came meanwhile."""
        first = letter(campaign_id="spring")
        store.put(first)
        store.put(letter("later"))
        assert first == store.put(letter(error_message="other", campaign_id="autumn"))
        assert first == store.get("m#1")
        assert [each.message_id for each in store.search().letters] == ["later", "m"]
        assert store.count() == 2
        assert [tuple(row) for row in store.top("campaign_id")] == [("spring", 1)]

    def test_two_generations_of_a_message_are_two_letters(self, store: DeadLetterStore) -> None:
        """Each death has its own evidence."""
        letters = [store.put(letter(generation=generation)) for generation in (1, 2)]
        assert letters[::-1] == list(store.search(DeadLetterQuery(message_id="m")).letters)
        assert store.count(DeadLetterQuery(message_id="m")) == 2

    @pytest.mark.parametrize("state", list(DeadLetterState))
    def test_resolve_marks_a_letter_of_any_state(self, store: DeadLetterStore, state: DeadLetterState) -> None:
        """Its message was sent after all; the rest of the evidence stays, and other letters do."""
        full, other = attrs.evolve(full_letter(), state=state), letter("other")
        store.put(full)
        store.put(other)
        store.resolve("m#3")
        assert attrs.evolve(full, state=DeadLetterState.RESOLVED) == store.get("m#3")
        assert other == store.get("other#1")
        assert (1, 1) == (store.count(RESOLVED), store.count(QUARANTINED))
        assert sorted(tuple(row) for row in store.top("state")) == [("quarantined", 1), ("resolved", 1)]

    def test_put_of_a_resolved_letter_does_not_take_it_back(self, store: DeadLetterStore) -> None:
        """However often either is repeated."""
        store.put(letter())
        resolved = attrs.evolve(letter(), state=DeadLetterState.RESOLVED)
        for _ in range(2):
            store.resolve("m#1")
            assert resolved == store.put(letter()) == store.get("m#1")
            assert [resolved] == list(store.search(RESOLVED).letters)
            assert (1, 0) == (store.count(RESOLVED), store.count(QUARANTINED))

    def test_resolve_before_the_letter_holds_when_it_comes(self, store: DeadLetterStore, clock: SuiteClock) -> None:
        """The confirmation overtook the projection; until then there is no letter to see."""
        store.resolve("m#1")
        store.resolve("m#1")
        assert (None, 0, []) == (store.get("m#1"), store.count(), list(store.search().letters))
        assert (0, []) == (store.count(RESOLVED), list(store.top("state")))
        clock.advance("1000d")
        store.put(letter("before"))
        resolved = attrs.evolve(letter(), state=DeadLetterState.RESOLVED)
        assert resolved == store.put(letter())
        assert resolved == store.put(letter()) == store.get("m#1")
        assert [each.message_id for each in store.search().letters] == ["m", "before"]
        assert (1, 1) == (store.count(RESOLVED), store.count(QUARANTINED))

    def test_resolve_before_the_letter_is_for_its_generation_alone(self, store: DeadLetterStore) -> None:
        """Another death of the message is another letter."""
        store.resolve("m#2")
        assert letter() == store.put(letter())
        assert store.put(letter(generation=2)).state is DeadLetterState.RESOLVED

    def test_purge_takes_what_died_before_an_instant_oldest_first(self, store: DeadLetterStore) -> None:
        """Not what died at it, whatever the order in which they were put; they are found and counted no more."""
        for message_id, seconds in (("c", 2.0), ("a", 0.0), ("e", 4.001), ("b", 1.0), ("d", 4.0)):
            store.put(_died(message_id, seconds))
        assert store.purge(DIED) == 0
        assert store.purge(DIED + timedelta(seconds=4), limit=2) == 2
        assert [each.message_id for each in store.search().letters] == ["d", "e", "c"]
        assert (None, 3, [("spring", 3)]) == (
            store.get("a#1"),
            store.count(),
            [tuple(r) for r in store.top("campaign_id")],
        )
        assert [1, 0] == [store.purge(DIED + timedelta(seconds=4), limit=2) for _ in range(2)]
        assert [each.message_id for each in store.search().letters] == ["d", "e"]
        assert store.count(DeadLetterQuery(message_id="d")) == 1

    def test_purge_takes_only_what_its_query_asks_for(self, store: DeadLetterStore) -> None:
        """For example what is resolved."""
        for each in LETTERS:
            store.put(each)
        store.resolve("a#1")
        store.resolve("c#1")
        later = DIED + timedelta(days=1)
        assert store.purge(later, query=DeadLetterQuery(state=DeadLetterState.RESOLVED, campaign_id="spring")) == 1
        assert store.purge(later, query=RESOLVED) == 1
        assert store.purge(later, query=DeadLetterQuery(message_id="b")) == 1
        assert [each.message_id for each in store.search().letters] == ["e", "d"]
        assert store.count() == 2

    def test_letter_put_again_after_its_purge_is_a_new_one(self, store: DeadLetterStore) -> None:
        """There is nothing left of it."""
        store.put(letter())
        store.put(letter("other"))
        store.resolve("m#1")
        assert store.purge(DIED + timedelta(days=1), query=RESOLVED) == 1
        assert letter() == store.put(letter())
        assert [each.message_id for each in store.search().letters] == ["m", "other"]

    def test_resolve_before_the_letter_is_forgotten_by_a_purge_of_what_is_resolved(
        self, store: DeadLetterStore, clock: SuiteClock
    ) -> None:
        """Counted from its last repetition; a purge of earlier instants or of other letters does not touch it."""
        store.resolve("m#1")
        clock.advance("10s")
        store.resolve("m#1")
        store.resolve("n#1")
        for before, query in (
            (clock.now(), DeadLetterQuery()),
            (clock.now() + timedelta(days=1), DeadLetterQuery(campaign_id="spring")),
            (clock.now() + timedelta(days=1), QUARANTINED),
        ):
            assert store.purge(before, query=query) == 0
        assert store.put(letter()).state is DeadLetterState.RESOLVED
        assert store.purge(clock.now() + timedelta(milliseconds=1), query=RESOLVED) == 1
        assert store.put(letter("n")).state is DeadLetterState.QUARANTINED

    def test_purge_before_a_naive_instant_is_refused(self, store: DeadLetterStore) -> None:
        """It could mean any zone, and evidence would be gone."""
        store.put(letter())
        with pytest.raises(ConfigurationError):
            store.purge(datetime(2030, 1, 1))  # noqa: DTZ001
        with pytest.raises(ConfigurationError):
            store.purge(DIED + timedelta(days=1), limit=0)
        assert store.count() == 1

    def test_purge_of_all_work_leaves_the_letters(self, place: Place, loop: Loop | None, clock: SuiteClock) -> None:
        """And a purge of the letters leaves the work, where one backend holds both."""
        with all_opened_at(self, place, loop) as stores:
            letters: DeadLetterStore = stores["dead_letters"]
            kept = letters.put(letter())
            if set(stores) == {"dead_letters"}:
                return

            def work() -> None:
                stores["claims"].confirm("m")
                stores["retries"].schedule(Message("m", 1), clock.now())
                report = Delivery(message_id="m", status=DeliveryStatus.DELIVERED, updated_at=clock.now())
                stores["deliveries"].record(report)

            work()
            later = clock.now() + timedelta(days=1)
            assert (1, 1) == (stores["claims"].purge(later), stores["deliveries"].purge(later))
            assert stores["retries"].cancel("m") is True
            assert [kept] == list(letters.search().letters)
            assert (kept, 1) == (letters.get("m#1"), letters.count())
            work()
            assert letters.purge(later) == 1
            assert stores["claims"].get("m") is not None
            assert stores["deliveries"].get("m") is not None
            assert stores["retries"].stats().waiting == 1

    @needs("reopen")
    def test_store_opened_again_finds_its_letters(self, store: DeadLetterStore, opened: Open, place: Place) -> None:
        """With their states, their order and what was resolved before its letter came."""
        for each in LETTERS:
            store.put(each)
        store.resolve("b#1")
        store.resolve("m#1")
        page = store.search(limit=2)
        other = opened(place)
        assert store.search() == other.search()
        assert [each.message_id for each in other.search(limit=9, cursor=page.cursor).letters] == ["c", "b", "a"]
        assert other.put(letter()).state is DeadLetterState.RESOLVED
        assert (6, 2) == (store.count(), store.count(RESOLVED))

    def test_any_sequence_of_operations_gives_what_the_model_gives(self, fresh: Fresh[DeadLetterStore]) -> None:
        """The memory store is the model."""
        compare(lambda: DeadLetterModel(fresh()), is_async=self.is_async)
