"""The dead letter store's contract, the same for every backend and colour."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import attrs
import pytest

from retrykit.dead_letter import DeadLetter, DeadLetterState, dead_letter_id
from retrykit.decision import DeadLetterReason
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, ErrorGroup
from retrykit.stores import DeadLetterPage, DeadLetterQuery

E = ErrorClass


def letter(message_id="m", generation=1, **fields):
    return DeadLetter(
        **{
            "id": dead_letter_id(message_id, generation),
            "message_id": message_id,
            "generation": generation,
            "error_class": E.MAILBOX_FULL,
            "reason": DeadLetterReason.RETRIES_EXHAUSTED,
            "attempt_count": 4,
            "last_failed_at": datetime(2026, 1, 1, tzinfo=UTC),
            "dead_lettered_at": datetime(2026, 1, 1, tzinfo=UTC),
            "original_payload": b"\xff not JSON",
        }
        | fields
    )


def put(backend, *letters):
    for each in letters:
        backend.dead_letters.put(each)


def found(backend, query=DeadLetterQuery(), **options):  # noqa: B008 - an immutable value
    """Return the message ids of one page."""
    return [each.message_id for each in backend.dead_letters.search(query, **options).letters]


def test_letter_comes_back_as_it_was_put(backend):
    """With its history, its payload and what a newer version added."""
    full = letter(
        source="orders",
        campaign_id="spring",
        recipient="ada@example.org",
        provider="ses",
        error_code="552",
        enhanced_code="5.2.2",
        error_message="mailbox full",
        stage="send",
        first_failed_at=datetime(2025, 12, 31, tzinfo=UTC),
        fingerprint="v1:abc",
        redrive_count=2,
        attributes={"tenant": "acme"},
        extra={"mood": [1, None]},
    )
    assert full == backend.dead_letters.put(full)
    assert full == backend.dead_letters.get("m#1")


def test_get_of_an_unknown_id_is_none(backend):
    """A missing letter is no error."""
    assert backend.dead_letters.get("m#1") is None


def test_put_twice_is_one_letter_and_the_first_one_stays(backend):
    """A projection may be repeated after a lost answer."""
    first = letter()
    put(backend, first)
    assert first == backend.dead_letters.put(letter(error_message="other"))
    assert backend.dead_letters.count() == 1
    assert found(backend) == ["m"]


def test_two_generations_of_a_message_are_two_letters(backend):
    """Each death has its own evidence."""
    put(backend, letter(generation=1), letter(generation=2))
    assert (["m", "m"], 2) == (found(backend), backend.dead_letters.count(DeadLetterQuery(message_id="m")))


def test_resolve_marks_the_letter_and_a_repeated_put_does_not_take_it_back(backend):
    """Its message was sent after all."""
    put(backend, letter())
    backend.dead_letters.resolve("m#1")
    backend.dead_letters.resolve("m#1")
    resolved = attrs.evolve(letter(), state=DeadLetterState.RESOLVED)
    assert resolved == backend.dead_letters.get("m#1")
    assert resolved == backend.dead_letters.put(letter())
    assert [resolved] == list(backend.dead_letters.search(DeadLetterQuery(state=DeadLetterState.RESOLVED)).letters)
    assert backend.dead_letters.count(DeadLetterQuery(state=DeadLetterState.QUARANTINED)) == 0


def test_resolve_before_the_letter_holds_when_it_comes(backend):
    """The confirmation overtook the projection; until then there is no letter to see."""
    backend.dead_letters.resolve("m#1")
    assert (None, 0, []) == (backend.dead_letters.get("m#1"), backend.dead_letters.count(), found(backend))
    assert list(backend.dead_letters.top("state")) == []
    put(backend, letter("before"))
    assert backend.dead_letters.put(letter()).state is DeadLetterState.RESOLVED
    assert backend.dead_letters.get("m#1").state is DeadLetterState.RESOLVED
    assert found(backend) == ["m", "before"]


LETTERS = [
    letter("a", campaign_id="spring", provider="ses", error_code="552"),
    letter("b", campaign_id="spring", provider="backup", error_class=E.GREYLISTED, error_code="451"),
    letter(
        "c",
        campaign_id="autumn",
        provider="ses",
        error_class=E.INVALID_PAYLOAD,
        reason=DeadLetterReason.INVALID_PAYLOAD,
    ),
    letter("d", error_class=ErrorClass("own", group=ErrorGroup.INTERNAL), state=DeadLetterState.DISCARDED),
    letter("e", provider="ses", error_code="", reason=DeadLetterReason.EXPIRED),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (DeadLetterQuery(), "edcba"),
        (DeadLetterQuery(message_id="b"), "b"),
        (DeadLetterQuery(message_id="z"), ""),
        (DeadLetterQuery(campaign_id="spring"), "ba"),
        (DeadLetterQuery(provider="ses"), "eca"),
        (DeadLetterQuery(error_class=E.MAILBOX_FULL), "ea"),
        (DeadLetterQuery(error_class="own"), "d"),
        (DeadLetterQuery(error_group=ErrorGroup.TEMPORARY_MAILBOX), "eba"),
        (DeadLetterQuery(error_group=ErrorGroup.INTERNAL), "dc"),
        (DeadLetterQuery(error_code="451"), "b"),
        (DeadLetterQuery(error_code=""), "e"),
        (DeadLetterQuery(reason=DeadLetterReason.EXPIRED), "e"),
        (DeadLetterQuery(state=DeadLetterState.DISCARDED), "d"),
        (DeadLetterQuery(state=DeadLetterState.QUARANTINED, provider="ses", campaign_id="spring"), "a"),
        (DeadLetterQuery(provider="ses", campaign_id="winter"), ""),
        (DeadLetterQuery(provider="' OR 1=1 --"), ""),
    ],
)
def test_search_gives_what_meets_every_condition_newest_first(backend, query, expected):
    """And `count` counts the same."""
    put(backend, *LETTERS)
    assert list(expected) == found(backend, query)
    assert len(expected) == backend.dead_letters.count(query)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 100, sys.maxsize])
def test_search_page_by_page_gives_every_letter_once(backend, limit):
    """The last page has no cursor, and letters that come meanwhile do not disturb."""
    put(backend, *LETTERS)
    seen, cursor = [], None
    while True:
        page = backend.dead_letters.search(limit=limit, cursor=cursor)
        assert 0 < len(page.letters) <= limit
        seen += [each.message_id for each in page.letters]
        cursor = page.cursor
        if cursor is None:
            break
        put(backend, letter(f"new {len(seen)}"))
    assert list("edcba") == seen


def test_search_page_by_page_keeps_the_query(backend):
    """A cursor goes on within the same conditions."""
    put(backend, *LETTERS)
    query = DeadLetterQuery(provider="ses")
    page = backend.dead_letters.search(query, limit=2)
    assert ["e", "c"] == [each.message_id for each in page.letters]
    assert ["a"] == found(backend, query, limit=2, cursor=page.cursor)


def test_search_of_an_empty_store_is_an_empty_page(backend):
    """Nothing more either."""
    assert DeadLetterPage([], None) == backend.dead_letters.search()
    assert backend.dead_letters.count() == 0


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "garbage", "before-", "before-x", "before--1", "before-1.5", "after-1", "before-\u0663", "before-\u00b2"),
        *("1", "x" * 99, "before-" + "9" * 19, "before-1 OR 1=1"),
    ],
)
def test_search_with_a_cursor_of_another_kind_is_refused(backend, cursor):
    """Garbage is named, shortened, and never reaches the store."""
    put(backend, *LETTERS)
    with pytest.raises(ConfigurationError) as caught:
        backend.dead_letters.search(cursor=cursor)
    assert f"the cursor is {cursor[:40]!r}; allowed is the cursor of the page before" == str(caught.value)


def test_search_with_a_cursor_beyond_the_end_is_an_empty_page(backend):
    """A cursor that was passed on the command line may be old."""
    put(backend, *LETTERS)
    assert found(backend, cursor="before-0") == []
    assert found(backend, cursor="before-" + "9" * 18) == list("edcba")


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
def test_top_counts_the_values_of_a_field_most_frequent_first(backend, facet, expected):
    """Ties are ordered by value; letters without the field are left out."""
    put(backend, *LETTERS)
    top = backend.dead_letters.top(facet)
    assert expected == [tuple(row) for row in top]
    assert {str} == {type(value) for value, _ in top}
    assert expected[:1] == [tuple(row) for row in backend.dead_letters.top(facet, limit=1)]


def test_top_counts_within_a_query(backend):
    """Which classes hit this campaign?"""
    put(backend, *LETTERS)
    top = backend.dead_letters.top("error_class", query=DeadLetterQuery(campaign_id="spring"))
    assert [("greylisted", 1), ("mailbox_full", 1)] == [tuple(row) for row in top]


@pytest.mark.parametrize("facet", ["", "recipient", "record", "state; DROP TABLE retrykit_dead_letters", "id"])
def test_top_by_another_field_is_refused(backend, facet):
    """The error says what letters can be counted by."""
    with pytest.raises(ConfigurationError) as caught:
        backend.dead_letters.top(facet)
    assert str(caught.value) == (
        f"letters cannot be counted by {facet!r}; allowed are error_class, error_group, error_code, provider, "
        "campaign_id, reason, state"
    )


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "1"])
def test_limit_that_is_no_count_is_refused(backend, limit):
    """For pages and for tops."""
    for call in (
        lambda: backend.dead_letters.search(limit=limit),
        lambda: backend.dead_letters.top("state", limit=limit),
    ):
        with pytest.raises(ConfigurationError, match=r"^limit is .*; allowed are whole numbers >= 1$"):
            call()


def test_query_conditions_are_the_fields_given():
    """None is no condition, the empty text is one."""
    query = DeadLetterQuery(message_id="", error_class=E.MAILBOX_FULL, state=DeadLetterState.RESOLVED)
    assert query.conditions() == {"message_id": "", "error_class": "mailbox_full", "state": "resolved"}
    assert DeadLetterQuery().conditions() == {}
