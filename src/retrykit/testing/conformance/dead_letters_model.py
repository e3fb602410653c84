"""Any sequence of operations on a dead letter store, beside the memory store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ...backends.memory import MemoryBackend
from ...dead_letter import DeadLetter, DeadLetterState
from ...decision import DeadLetterReason
from ...failure import ErrorClass
from ...stores.dead_letter_query import DeadLetterQuery
from ...stores.dead_letters import FACETS, DeadLetterStore, Facet
from .dead_letters_samples import CHANGES, letter, query_of
from .suite import SuiteClock

__all__ = ["DeadLetterModel"]

_names = st.sampled_from(["a", "b", "c", "ä"])
_fields: Final[dict[str, st.SearchStrategy[Any]]] = {
    "campaign_id": st.sampled_from([None, "", "spring", "Spring"]),
    "provider": st.sampled_from([None, "ses"]),
    "error_class": st.sampled_from([ErrorClass.MAILBOX_FULL, ErrorClass.GREYLISTED, ErrorClass.INVALID_PAYLOAD]),
    "error_code": st.sampled_from([None, "451", "552"]),
    "reason": st.sampled_from([DeadLetterReason.EXPIRED, DeadLetterReason.INVALID_PAYLOAD]),
    "state": st.sampled_from(DeadLetterState),
}
_queries = st.fixed_dictionaries({}, optional={"message_id": _names, **_fields}).map(lambda given: query_of(**given))


class DeadLetterModel(RuleBasedStateMachine):
    """The store under test and the memory store, on the same clock.

    Args:
        opening: gives an empty store and its clock.
    """

    def __init__(self, opening: AbstractContextManager[tuple[DeadLetterStore, SuiteClock]]) -> None:
        super().__init__()
        self._opening = opening
        self._store, self._clock = opening.__enter__()
        self._model = MemoryBackend(clock=self._clock).dead_letters
        self._cursors: tuple[DeadLetterQuery, str, str] | None = None

    @rule(
        name=_names, generation=st.integers(1, 2), fields=st.fixed_dictionaries(_fields), seconds=st.integers(-50, 50)
    )
    def put(self, name: str, generation: int, fields: dict[str, Any], seconds: int) -> None:
        """Letters die in any order, no two of them at one instant."""
        self._clock.advance("1ms")
        died = self._clock.now() + timedelta(seconds=seconds)
        new = letter(name, generation, dead_lettered_at=died, **fields)
        assert self._store.put(new) == self._model.put(new)

    @rule(name=_names, generation=st.integers(1, 2))
    def resolve(self, name: str, generation: int) -> None:
        """Before or after the letter."""
        for store in (self._store, self._model):
            store.resolve(f"{name}#{generation}")

    @rule(name=_names, generation=st.integers(1, 2), change=st.sampled_from(sorted(CHANGES)))
    def change(self, name: str, generation: int, change: str) -> None:
        """By a person or a redrive, of a letter in any state."""
        letter_id = f"{name}#{generation}"
        assert CHANGES[change](self._store, letter_id) == CHANGES[change](self._model, letter_id)

    @rule(seconds=st.integers(-60, 60), query=_queries, limit=st.integers(1, 3))
    def purge(self, seconds: int, query: DeadLetterQuery, limit: int) -> None:
        """Of some or of all."""
        before = self._clock.now() + timedelta(seconds=seconds)
        answers = [store.purge(before, query=query, limit=limit) for store in (self._store, self._model)]
        assert answers[0] == answers[1]

    @rule(query=_queries, limit=st.integers(1, 3))
    def search(self, query: DeadLetterQuery, limit: int) -> None:
        """The first page."""
        pages = [store.search(query, limit=limit) for store in (self._store, self._model)]
        assert list(pages[0].letters) == list(pages[1].letters)
        assert (pages[0].cursor is None) is (pages[1].cursor is None)
        if pages[0].cursor is not None and pages[1].cursor is not None:
            self._cursors = query, pages[0].cursor, pages[1].cursor

    @rule(limit=st.integers(1, 3))
    def search_on(self, limit: int) -> None:
        """The page after the one that had a cursor last, whatever happened since."""
        if self._cursors is not None:
            query, *cursors = self._cursors
            pages = [
                store.search(query, limit=limit, cursor=cursor)
                for store, cursor in zip((self._store, self._model), cursors, strict=True)
            ]
            assert list(pages[0].letters) == list(pages[1].letters)

    @rule(query=_queries, facet=st.sampled_from(FACETS), limit=st.integers(1, 4))
    def count(self, query: DeadLetterQuery, facet: Facet, limit: int) -> None:
        """In all and by a field."""
        assert self._store.count(query) == self._model.count(query)
        tops = [store.top(facet, query=query, limit=limit) for store in (self._store, self._model)]
        assert [tuple(row) for row in tops[0]] == [tuple(row) for row in tops[1]]

    @rule(seconds=st.sampled_from([1, 60]))
    def time_passes(self, seconds: int) -> None:
        """Early resolutions become old."""
        self._clock.advance(seconds)

    @invariant()
    def letters_are_those_of_the_model(self) -> None:
        """All of them, in their order."""
        assert self._all(self._store) == self._all(self._model)

    def teardown(self) -> None:
        """Close the store."""
        self._opening.__exit__(None, None, None)

    @staticmethod
    def _all(store: DeadLetterStore) -> list[DeadLetter]:
        return list(store.search().letters)
