"""Finding and counting dead letters by further fields, attributes, text and time."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import combinations
from typing import Any, Final

import pytest

from ...dead_letter import DeadLetter, DeadLetterState
from ...errors import ConfigurationError
from ...stores.dead_letter_query import DeadLetterQuery
from ...stores.dead_letters import DeadLetterStore
from .dead_letters_samples import DIED, letter, query_of
from .suite import StoreSuite, SuiteClock

__all__ = ["DeadLetterQueries"]

Q = DeadLetterQuery

FULL: Final = (
    letter(
        "a",
        recipient="ada@example.org",
        enhanced_code="5.2.2",
        stage="send",
        source="orders",
        fingerprint="v1:1",
        error_message="Straße voll",
        decision="all 5 attempts used",
        attributes={"tenant": "acme", "plan": "gold", "": ""},
    ),
    letter(
        "b",
        recipient="Ada@example.org",
        enhanced_code="5.2.2",
        stage="render",
        source="orders",
        fingerprint="v1:2",
        error_message="KeyError: 'first_name'",
        decision="never retried",
        attributes={"tenant": "acme", "plan": "gold "},
    ),
    letter("c", recipient="", stage="send", fingerprint="v1:1", decision="100% used\nup", attributes={"plan": "acme"}),
    letter("d", attributes={"Tenant": "acme"}),
)
"""Four letters that differ in what a query may ask for besides campaign, provider and class."""

EDGES: Final = [
    timedelta(milliseconds=millis)
    for second in (-90_000, -86_400, -3600, -60, 0, 1, 60, 3599, 3600, 86_400, 176_399)
    for millis in (second * 1000 - 1, second * 1000)
]
"""Instants at and just before the begin of a second, a minute, an hour and a day, counted from a midnight."""


def _found(store: DeadLetterStore, query: DeadLetterQuery) -> str:
    return "".join(each.message_id for each in store.search(query).letters)


def _edge(number: int) -> DeadLetter:
    fields: dict[str, Any] = {"campaign_id": ("spring", "autumn")[number % 2], "fingerprint": f"v1:{number % 3}"}
    return letter(f"m-{number}", dead_lettered_at=DIED + EDGES[number], **fields)


class DeadLetterQueries(StoreSuite[DeadLetterStore]):
    """What a query may ask for, alone and together."""

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            (Q(recipient="ada@example.org"), "a"),
            (Q(recipient=""), "c"),
            (Q(enhanced_code="5.2.2"), "ba"),
            (Q(stage="send"), "ca"),
            (Q(source="orders"), "ba"),
            (Q(fingerprint="v1:1"), "ca"),
            (Q(fingerprint="v1"), ""),
            (Q(attributes={"tenant": "acme"}), "ba"),
            (Q(attributes={"Tenant": "acme"}), "d"),
            (Q(attributes={"plan": "acme"}), "c"),
            (Q(attributes={"tenant": "Acme"}), ""),
            (Q(attributes={"plan": "gold"}), "a"),
            (Q(attributes={"tenant": "acme", "plan": "gold"}), "a"),
            (Q(attributes={"tenant": "acme", "plan": "acme"}), ""),
            (Q(attributes={"": ""}), "a"),
            (Q(attributes={"other": ""}), ""),
            (Q(stage="send", attributes={"plan": "acme"}, fingerprint="v1:1"), "c"),
            (Q(text="STRASSE"), "a"),
            (Q(text="first_name"), "b"),
            (Q(text="'First_Name'"), "b"),
            (Q(text="used"), "ca"),
            (Q(text="%"), "c"),
            (Q(text="_"), "b"),
            (Q(text="vollall"), ""),
            (Q(text="voll\nall"), ""),
            (Q(text="used\nUP"), "c"),
            (Q(text="used", source="orders", attributes={"tenant": "acme"}), "a"),
            (Q(text="used", message_id="b"), ""),
        ],
    )
    def test_search_by_what_else_a_letter_tells_gives_what_meets_it(
        self, store: DeadLetterStore, query: DeadLetterQuery, expected: str
    ) -> None:
        """Character by character, the text whatever its case; `count` and `top` count the same."""
        for each in FULL:
            store.put(each)
        assert expected == _found(store, query)
        assert len(expected) == store.count(query)
        assert len(expected) == sum(total for _, total in store.top("state", query=query))

    def test_window_takes_in_its_beginning_and_not_its_end(self, store: DeadLetterStore) -> None:
        """To the millisecond, wherever a minute, an hour or a day begins, and whatever else is asked for."""
        for number in range(len(EDGES)):
            store.put(_edge(number))
        letters = [_edge(number) for number in range(len(EDGES))]
        ends: list[datetime | None] = [None, *(DIED + edge for edge in EDGES[::3])]
        for since, until in [
            *combinations(sorted(filter(None, ends)), 2),
            *((at, None) for at in ends),
            (None, ends[3]),
        ]:
            for query in (Q(since=since, until=until), Q(since=since, until=until, campaign_id="spring")):
                expected = [each.message_id for each in letters if query.matches(each)]
                assert expected == [each.message_id for each in store.search(query).letters][::-1]
                assert len(expected) == store.count(query)
                assert len(expected) == sum(total for _, total in store.top("fingerprint", query=query))

    def test_window_of_letters_that_came_late_finds_them(self, store: DeadLetterStore) -> None:
        """The order in which letters were put need not be that in which they died."""
        for name, hours in (("a", 0), ("b", 50), ("c", 1), ("d", -50), ("e", 1)):
            store.put(letter(name, dead_lettered_at=DIED + timedelta(hours=hours), provider="ses"))
        window = {"since": DIED, "until": DIED + timedelta(hours=2)}
        assert _found(store, query_of(**window)) == "eca"
        assert _found(store, query_of(**window, provider="ses")) == "eca"
        page = store.search(query_of(**window), limit=2)
        assert ["a"] == [each.message_id for each in store.search(query_of(**window), cursor=page.cursor).letters]

    def test_top_of_a_window_follows_what_happens(self, store: DeadLetterStore) -> None:
        """Also to letters that died long ago."""
        for number in range(len(EDGES)):
            store.put(_edge(number))
        query = Q(until=DIED)
        assert [("quarantined", 9)] == [tuple(row) for row in store.top("state", query=query)]
        store.resolve("m-0#1")
        store.resolve("m-21#1")
        assert [("quarantined", 8), ("resolved", 1)] == [tuple(row) for row in store.top("state", query=query)]
        assert store.purge(DIED + EDGES[0] + timedelta(milliseconds=1)) == 1
        assert [("quarantined", 8)] == [tuple(row) for row in store.top("state", query=query)]
        assert (21, 1) == (store.count(), store.count(Q(state=DeadLetterState.RESOLVED)))

    def test_purge_takes_only_what_its_window_attributes_and_text_ask_for(
        self, store: DeadLetterStore, clock: SuiteClock
    ) -> None:
        """What was resolved before its letter came has neither attributes nor text, and died when it was resolved."""
        for each in FULL:
            store.put(each)
        store.resolve("early#1")
        later = clock.now() + timedelta(days=999)
        assert store.purge(later, query=Q(text="never")) == 1
        assert store.purge(later, query=Q(attributes={"tenant": "acme"})) == 1
        assert store.purge(later, query=Q(since=clock.now() + timedelta(days=1))) == 0
        assert store.purge(later, query=Q(until=DIED)) == 0
        assert _found(store, Q()) == "dc"
        assert store.put(letter("early", dead_lettered_at=DIED - timedelta(days=1))).state is DeadLetterState.RESOLVED
        store.resolve("another#1")
        window = Q(since=clock.now(), until=clock.now() + timedelta(milliseconds=1), state=DeadLetterState.RESOLVED)
        assert store.purge(later, query=window) == 0
        assert store.put(letter("another")).state is DeadLetterState.QUARANTINED

    def test_search_with_the_cursor_of_another_query_is_refused(self, store: DeadLetterStore) -> None:
        """It would go on in the middle of something else without a word."""
        for each in FULL:
            store.put(each)
        cursor = store.search(Q(stage="send"), limit=1).cursor
        assert cursor is not None
        assert ["a"] == [each.message_id for each in store.search(Q(stage="send"), cursor=cursor).letters]
        for query in (Q(), Q(stage="render"), Q(attributes={"stage": "send"}), Q(text="send")):
            with pytest.raises(ConfigurationError, match="another query"):
                store.search(query, cursor=cursor)
