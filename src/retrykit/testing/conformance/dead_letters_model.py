"""Any sequence of operations on a dead letter store, beside the memory store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ...backends.memory import MemoryBackend
from ...dead_letter import DeadLetter, DeadLetterState
from ...decision import DeadLetterReason
from ...failure import ErrorClass
from ...stores.dead_letter_groups import GroupOrder
from ...stores.dead_letter_query import DeadLetterQuery
from ...stores.dead_letters import FACETS, ORDERS, DeadLetterStore, Facet
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
    "stage": st.sampled_from([None, "send"]),
    "recipient": st.sampled_from([None, "ada@example.org"]),
    "enhanced_code": st.sampled_from([None, "5.2.2"]),
    "source": st.sampled_from([None, "orders"]),
    "fingerprint": st.sampled_from([None, "v1:a", "v1:b"]),
    "attributes": st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["", "x"]), max_size=2),
}
_texts: Final = ["mailbox full", "Straße", ""]
Drawn: TypeAlias = tuple[dict[str, Any], str, tuple[int, int]]
"""Fields of a query, which ends its window has, and where it begins and how long it is, in milliseconds from now."""

_asked: Final[dict[str, st.SearchStrategy[Any]]] = {
    "message_id": _names,
    **_fields,
    "text": st.sampled_from(["FULL", "ss", "é"]),
}
_queries: Final[st.SearchStrategy[Drawn]] = st.tuples(
    st.fixed_dictionaries(dict[str, st.SearchStrategy[Any]](), optional=_asked),
    st.sampled_from(["none", "since", "until", "both"]),
    st.tuples(st.integers(-8_000_000, 8_000_000), st.integers(1, 9_000_000)),
)
_ages: Final = st.sampled_from([0, 1, 59, 60, 3599, 3600, 7200, 86_400, 200_000])
"""Seconds since a death: many in one minute, and others in other hours and days."""


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
        self._put: list[str] = []

    @rule(
        name=_names,
        generation=st.integers(1, 2),
        fields=st.fixed_dictionaries(_fields),
        seconds=st.integers(-50, 50) | _ages.map(lambda age: -age),
        text=st.sampled_from(_texts),
    )
    def put(self, name: str, generation: int, fields: dict[str, Any], seconds: int, text: str) -> None:
        """Letters die in any order, no two of them at one instant."""
        self._clock.advance("1ms")
        died = self._clock.now() + timedelta(seconds=seconds)
        new = letter(name, generation, dead_lettered_at=died, error_message=text, decision=text[:4], **fields)
        assert self._store.put(new) == self._model.put(new)
        self._put.append(new.id)

    @rule(name=_names, generation=st.integers(1, 2))
    def resolve(self, name: str, generation: int) -> None:
        """Before or after the letter."""
        for store in (self._store, self._model):
            store.resolve(f"{name}#{generation}")

    @rule(
        name=_names,
        generation=st.integers(1, 2),
        change=st.sampled_from(sorted(CHANGES)),
        which=st.none() | st.integers(0, 9),
    )
    def change(self, name: str, generation: int, change: str, which: int | None) -> None:
        """By a person or a redrive, of a letter in any state: one of those that were put, or whichever it is."""
        letter_id = f"{name}#{generation}" if which is None or not self._put else self._put[which % len(self._put)]
        assert CHANGES[change](self._store, letter_id) == CHANGES[change](self._model, letter_id)
        assert self._store.get(letter_id) == self._model.get(letter_id)

    @rule(seconds=st.integers(-60, 60), query=_queries, limit=st.integers(1, 3))
    def purge(self, seconds: int, query: Drawn, limit: int) -> None:
        """Of some or of all."""
        asked = self._query(query)
        before = self._clock.now() + timedelta(seconds=seconds)
        answers = [store.purge(before, query=asked, limit=limit) for store in (self._store, self._model)]
        assert answers[0] == answers[1]

    @rule(query=_queries, limit=st.integers(1, 3))
    def search(self, query: Drawn, limit: int) -> None:
        """The first page."""
        asked = self._query(query)
        pages = [store.search(asked, limit=limit) for store in (self._store, self._model)]
        assert list(pages[0].letters) == list(pages[1].letters)
        assert (pages[0].cursor is None) is (pages[1].cursor is None)
        if pages[0].cursor is not None and pages[1].cursor is not None:
            self._cursors = asked, pages[0].cursor, pages[1].cursor

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
    def count(self, query: Drawn, facet: Facet, limit: int) -> None:
        """In all and by a field."""
        asked = self._query(query)
        assert self._store.count(asked) == self._model.count(asked)
        tops = [store.top(facet, query=asked, limit=limit) for store in (self._store, self._model)]
        assert [tuple(row) for row in tops[0]] == [tuple(row) for row in tops[1]]

    @rule(query=_queries, order=st.sampled_from(ORDERS), muted=st.booleans(), limit=st.integers(1, 2))
    def groups(self, query: Drawn, order: GroupOrder, muted: bool, limit: int) -> None:
        """A page and the one after it."""
        asked, cursor = self._query(query), None
        for _ in range(2):
            pages = [
                store.groups(asked, order=order, muted=muted, limit=limit, cursor=cursor)
                for store in (self._store, self._model)
            ]
            assert (list(pages[0].groups), pages[0].cursor is None) == (list(pages[1].groups), pages[1].cursor is None)
            cursor = pages[0].cursor

    @rule(name=st.sampled_from(["v1:a", "v1:b"]), note=_names, muted=st.sampled_from([None, True, False, 30, 90]))
    def annotate(self, name: str, note: str, muted: bool | int | None) -> None:
        """Of a group that is there or not, muted for some seconds or for good."""
        until = muted if muted is None or isinstance(muted, bool) else self._clock.now() + timedelta(seconds=muted)
        groups = [store.annotate(name, by="me", note=note, muted=until) for store in (self._store, self._model)]
        assert groups[0] == groups[1]

    @rule(query=_queries, step=st.sampled_from(["15m", "1h", "6h", "2d"]))
    def trend(self, query: Drawn, step: str) -> None:
        """Of the query's window."""
        asked = self._query((query[0], "both", query[2]))
        trends = [store.trend(asked, step=step) for store in (self._store, self._model)]
        assert (trends[0].start, list(trends[0].counts)) == (trends[1].start, list(trends[1].counts))

    @rule(seconds=st.sampled_from([1, 60]))
    def time_passes(self, seconds: int) -> None:
        """Early resolutions become old."""
        self._clock.advance(seconds)

    @invariant()
    def figures_are_those_of_the_model(self) -> None:
        """Depth and growth."""
        assert self._store.stats() == self._model.stats()

    @invariant()
    def letters_are_those_of_the_model(self) -> None:
        """All of them, in their order."""
        assert self._all(self._store) == self._all(self._model)

    def _query(self, drawn: Drawn) -> DeadLetterQuery:
        fields, ends, (start, length) = drawn
        since = self._clock.now() + timedelta(milliseconds=start)
        window = {"since": since, "until": since + timedelta(milliseconds=length)}
        return query_of(**fields, **{name: at for name, at in window.items() if ends in (name, "both")})

    def teardown(self) -> None:
        """Close the store."""
        self._opening.__exit__(None, None, None)

    @staticmethod
    def _all(store: DeadLetterStore) -> list[DeadLetter]:
        return list(store.search().letters)
