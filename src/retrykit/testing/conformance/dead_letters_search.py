"""Finding and counting dead letters."""

from __future__ import annotations

import sys
from typing import cast

import pytest

from ...dead_letter import DeadLetterState
from ...decision import DeadLetterReason
from ...errors import ConfigurationError
from ...failure import ErrorClass, ErrorGroup
from ...stores.dead_letter_query import DeadLetterQuery
from ...stores.dead_letters import DeadLetterPage, DeadLetterStore, Facet
from .dead_letters_samples import DIED, LETTERS, letter
from .suite import StoreSuite

__all__ = ["DeadLetterSearch"]

Q = DeadLetterQuery


def _found(store: DeadLetterStore, query: DeadLetterQuery = Q(), limit: int = 100, cursor: str | None = None) -> str:  # noqa: B008
    return "".join(each.message_id for each in store.search(query, limit=limit, cursor=cursor).letters)


def _put(store: DeadLetterStore) -> None:
    for each in LETTERS:
        store.put(each)


class DeadLetterSearch(StoreSuite[DeadLetterStore]):
    """Searches, pages, counts and tops."""

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            (Q(), "edcba"),
            (Q(message_id="b"), "b"),
            (Q(message_id="z"), ""),
            (Q(message_id="B"), ""),
            (Q(message_id=""), ""),
            (Q(campaign_id="spring"), "ba"),
            (Q(campaign_id="spring "), ""),
            (Q(provider="ses"), "eca"),
            (Q(error_class=ErrorClass.MAILBOX_FULL), "ea"),
            (Q(error_class="own"), "d"),
            (Q(error_group=ErrorGroup.TEMPORARY_MAILBOX), "eba"),
            (Q(error_group=ErrorGroup.INTERNAL), "dc"),
            (Q(error_code="451"), "b"),
            (Q(error_code=""), "e"),
            (Q(reason=DeadLetterReason.EXPIRED), "e"),
            (Q(state=DeadLetterState.DISCARDED), "d"),
            (Q(state=DeadLetterState.QUARANTINED, provider="ses", campaign_id="spring"), "a"),
            (Q(message_id="a", provider="ses"), "a"),
            (Q(message_id="a", provider="backup"), ""),
            (Q(provider="ses", campaign_id="winter"), ""),
            (Q(provider="' OR 1=1 --"), ""),
            (Q(provider="*"), ""),
            (Q(provider="%"), ""),
        ],
    )
    def test_search_gives_what_meets_every_condition_newest_first(
        self, store: DeadLetterStore, query: DeadLetterQuery, expected: str
    ) -> None:
        """And `count` counts the same."""
        _put(store)
        assert expected == _found(store, query)
        assert len(expected) == store.count(query)

    def test_search_gives_the_letter_put_last_first(self, store: DeadLetterStore) -> None:
        """Whenever it died: letters may come late."""
        for message_id, year in (("a", 2026), ("b", 2024), ("c", 2025)):
            store.put(letter(message_id, dead_lettered_at=DIED.replace(year=year)))
        assert _found(store) == "cba"

    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 100, sys.maxsize])
    def test_search_page_by_page_gives_every_letter_once(self, store: DeadLetterStore, limit: int) -> None:
        """The last page has no cursor, no page is empty, and letters that come meanwhile do not disturb."""
        _put(store)
        seen, cursor = "", None
        while True:
            page = store.search(limit=limit, cursor=cursor)
            assert 0 < len(page.letters) <= limit
            assert len(seen) < len(LETTERS)
            seen += "".join(each.message_id for each in page.letters)
            cursor = page.cursor
            if cursor is None:
                break
            store.put(letter(f"new {len(seen)}"))
        assert seen == "edcba"

    def test_search_page_by_page_keeps_the_query(self, store: DeadLetterStore) -> None:
        """A cursor goes on within the same conditions."""
        _put(store)
        page = store.search(Q(provider="ses"), limit=2)
        assert ["e", "c"] == [each.message_id for each in page.letters]
        assert _found(store, Q(provider="ses"), 2, page.cursor) == "a"

    def test_search_goes_on_when_letters_of_its_pages_are_gone_or_changed(self, store: DeadLetterStore) -> None:
        """A cursor that somebody kept leads to what comes after it."""
        _put(store)
        query = Q(state=DeadLetterState.QUARANTINED)
        page = store.search(query, limit=2)
        assert ["e", "c"] == [each.message_id for each in page.letters]
        store.resolve("c#1")
        store.resolve("b#1")
        assert _found(store, query, 2, page.cursor) == "a"
        assert store.purge(DIED.replace(year=2027), query=Q(message_id="c")) == 1
        assert _found(store, query, 2, page.cursor) == "a"
        store.purge(DIED.replace(year=2027))
        assert DeadLetterPage([], None) == store.search(query, cursor=page.cursor)

    def test_search_of_an_empty_store_is_an_empty_page(self, store: DeadLetterStore) -> None:
        """Nothing more either, and nothing to count."""
        page = store.search()
        assert ([], None) == (list(page.letters), page.cursor)
        assert store.count() == 0
        assert list(store.top("state")) == []

    @pytest.mark.parametrize("cursor", ["", "garbage", "x" * 999, "-1", "1 OR 1=1", "\0", "\ud800", "*"])
    def test_search_with_what_is_no_cursor_is_refused(self, store: DeadLetterStore, cursor: str) -> None:
        """It does not begin anew without a word."""
        _put(store)
        with pytest.raises(ConfigurationError):
            store.search(cursor=cursor)

    @pytest.mark.parametrize(
        ("facet", "expected"),
        [
            ("error_class", [("mailbox_full", 2), ("greylisted", 1), ("invalid_payload", 1), ("own", 1)]),
            ("error_group", [("temporary_mailbox", 3), ("internal", 2)]),
            ("error_code", [("", 1), ("451", 1), ("552", 1)]),
            ("provider", [("ses", 3), ("backup", 1)]),
            ("campaign_id", [("spring", 2), ("autumn", 1)]),
            ("reason", [("retries_exhausted", 3), ("expired", 1), ("invalid_payload", 1)]),
            ("state", [("quarantined", 4), ("discarded", 1)]),
        ],
    )
    def test_top_counts_the_values_of_a_field_most_frequent_first(
        self, store: DeadLetterStore, facet: Facet, expected: list[tuple[str, int]]
    ) -> None:
        """Ties are ordered by value; letters without the field are left out."""
        _put(store)
        top = store.top(facet)
        assert expected == [tuple(row) for row in top]
        assert {str} == {type(value) for value, _ in top}
        assert {int} == {type(total) for _, total in top}
        assert expected[:1] == [tuple(row) for row in store.top(facet, limit=1)]

    def test_top_orders_ties_by_value_as_code_points(self, store: DeadLetterStore) -> None:
        """The order is the same in every store."""
        names = ["A", "Z", "a", "a ", "b", "é", "ﬀ", "😀"]
        for name in reversed(names):
            store.put(letter(f"m {name}", campaign_id=name))
        assert [(name, 1) for name in names] == [tuple(row) for row in store.top("campaign_id")]
        assert [(name, 1) for name in names[:3]] == [tuple(row) for row in store.top("campaign_id", limit=3)]

    def test_top_counts_within_a_query(self, store: DeadLetterStore) -> None:
        """Which classes hit this campaign, and which this message?"""
        _put(store)
        top = store.top("error_class", query=Q(campaign_id="spring"))
        assert [("greylisted", 1), ("mailbox_full", 1)] == [tuple(row) for row in top]
        assert [("greylisted", 1)] == [tuple(row) for row in store.top("error_class", query=Q(message_id="b"))]
        assert list(store.top("error_class", query=Q(campaign_id="winter"))) == []

    def test_top_and_count_follow_what_happens(self, store: DeadLetterStore) -> None:
        """Totals that are kept beside the letters may not drift away from them."""
        _put(store)
        _put(store)
        store.resolve("a#1")
        store.resolve("a#1")
        assert [("quarantined", 3), ("discarded", 1), ("resolved", 1)] == [tuple(row) for row in store.top("state")]
        store.resolve("d#1")
        store.purge(DIED.replace(year=2027), query=Q(message_id="b"))
        assert [("quarantined", 2), ("resolved", 2)] == [tuple(row) for row in store.top("state")]
        assert (4, 1) == (store.count(), store.count(Q(campaign_id="spring")))

    @pytest.mark.parametrize("facet", ["", "recipient", "record", "state; DROP TABLE letters", "id", "message_id"])
    def test_top_by_another_field_is_refused(self, store: DeadLetterStore, facet: str) -> None:
        """The allowed ones are few."""
        with pytest.raises(ConfigurationError):
            store.top(cast("Facet", facet))

    @pytest.mark.parametrize("limit", [0, -1, True, 1.0, "1"])
    def test_limit_that_is_no_count_is_refused(self, store: DeadLetterStore, limit: int) -> None:
        """For pages and for tops."""
        for call in (lambda: store.search(limit=limit), lambda: store.top("state", limit=limit)):
            with pytest.raises(ConfigurationError):
                call()
