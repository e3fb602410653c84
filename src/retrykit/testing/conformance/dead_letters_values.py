"""Hostile keys and values in a dead letter store."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ...backends.memory import MemoryBackend
from ...dead_letter import DeadLetter, DeadLetterState
from ...message import receive
from ...stores.dead_letter_query import EQUAL_FIELDS, DeadLetterQuery
from ...stores.dead_letters import DeadLetterStore, Facet
from ..strategies import letters
from .dead_letters_samples import letter, query_of
from .hostile import KEYS, TEXTS, escaped
from .models import examples
from .suite import Fresh, StoreSuite, needs

__all__ = ["DeadLetterValues"]

TEXT_FACETS: Final[tuple[Facet, ...]] = ("campaign_id", "provider", "error_code")
"""The fields that hold an application's own text."""


def _with_text(message_id: str, text: str) -> DeadLetter:
    """Return a letter that holds a text wherever one may stand."""
    return letter(
        message_id,
        source=text,
        campaign_id=text,
        recipient=text,
        provider=text,
        error_code=text,
        enhanced_code=text,
        error_message=text,
        stage=text,
        decision=text,
        fingerprint=text,
        attributes={text: text},
        extra={f"x-{text}": [text]},
    )


def _as_it_is(value: object) -> Any:
    return value


def _pages(store: DeadLetterStore, query: DeadLetterQuery, limit: int) -> list[list[DeadLetter]]:
    pages, cursor = list[list[DeadLetter]](), None
    while True:
        page = store.search(query, limit=limit, cursor=cursor)
        pages.append(list(page.letters))
        cursor = page.cursor
        if cursor is None:
            return pages


class DeadLetterValues(StoreSuite[DeadLetterStore]):
    """Whatever the evidence holds."""

    def test_hostile_keys_are_kept_apart(self, store: DeadLetterStore) -> None:
        """Each is a letter of its own, found by its message and resolved alone."""
        for key in KEYS:
            store.put(letter(key, error_message=key))
        assert len(KEYS) == store.count()
        for key in KEYS:
            assert [letter(key, error_message=key)] == list(store.search(DeadLetterQuery(message_id=key)).letters)
        for number, key in enumerate(KEYS, 1):
            store.resolve(f"{key}#1")
            assert number == store.count(DeadLetterQuery(state=DeadLetterState.RESOLVED))
            kept = store.get(f"{key}#1")
            assert kept is not None
            assert (key, DeadLetterState.RESOLVED) == (kept.message_id, kept.state)

    def test_hostile_text_in_values_comes_back_or_is_escaped(self, store: DeadLetterStore) -> None:
        """In every field; it is never cut."""
        for number, text in enumerate(TEXTS):
            given_ = _with_text(f"{number}", text)
            for kept in (store.put(given_), store.get(f"{number}#1")):
                assert escaped(given_) == escaped(kept)
                assert "\0" in text or given_ == kept

    def test_hostile_text_is_searched_and_counted_as_it_is(self, store: DeadLetterStore) -> None:
        """It finds its own letter and no other one, also where a text is the beginning of another."""
        for number, text in enumerate(TEXTS):
            store.put(_with_text(f"{number}", text))
        for number, text in enumerate(TEXTS):
            for field in TEXT_FACETS:
                query = query_of(**{field: text})
                assert [f"{number}"] == [each.message_id for each in store.search(query).letters]
                assert store.count(query) == 1
                assert [(escaped(text), 1)] == [(escaped(value), n) for value, n in store.top(field, query=query)]
        for field in TEXT_FACETS:
            top = store.top(field, limit=len(TEXTS) + 1)
            assert sorted(map(escaped, TEXTS)) == sorted(escaped(value) for value, _ in top)

    def test_text_too_long_for_an_index_is_kept_and_found(self, store: DeadLetterStore) -> None:
        """Wherever one may stand, also as the name of an attribute, and it is told from one that differs at its end."""
        long = "".join(
            hashlib.sha256(f"{number}".encode()).hexdigest() for number in range(400)
        )  # nothing makes it shorter
        texts = {f"{number}": f"{long}{number}" for number in range(2)}
        for message_id, text in texts.items():
            assert _with_text(message_id, text) == store.put(_with_text(message_id, text))
        for message_id, text in texts.items():
            for query in (
                *(query_of(**{field: text}) for field in TEXT_FACETS),
                DeadLetterQuery(attributes={text: text}),
            ):
                assert [message_id] == [each.message_id for each in store.search(query).letters]
        assert store.purge(letter().dead_lettered_at + timedelta(days=1)) == 2

    @pytest.mark.parametrize("body", [b"", b"\0", b"a\0b", b'{"a": "\\u0000"}', "ü\0".encode(), b"\xff\0\xfe", b"\r\n"])
    def test_payload_comes_back_byte_for_byte(self, store: DeadLetterStore, body: bytes) -> None:
        """It is what came in."""
        store.put(letter(original_payload=body))
        kept = store.get("m#1")
        assert kept is not None
        assert body == kept.original_payload

    def test_id_at_the_limit_is_told_from_its_neighbours(self, store: DeadLetterStore) -> None:
        """No character of it is cut, nor the number of the generation behind it."""
        names = ["😀" * 254 + last for last in "ab"]
        for name in names:
            for generation in (1, 2, 99):
                store.put(letter(name, generation))
        assert store.count() == 6
        store.resolve(f"{names[0]}#99")
        assert [99] == [
            each.generation for each in store.search(DeadLetterQuery(state=DeadLetterState.RESOLVED)).letters
        ]

    def test_any_letters_are_found_as_in_the_memory_store(self, fresh: Fresh[DeadLetterStore]) -> None:
        """Put, read, searched, paged and counted, whatever their fields hold."""
        same = _as_it_is if "surrogates" in self.features else escaped

        @examples(at_most=20)
        @given(st.lists(letters, max_size=4), st.data())
        def check(given_: list[DeadLetter], data: st.DataObject) -> None:
            with fresh() as (store, clock):
                model = MemoryBackend(clock=clock).dead_letters
                for each in given_:
                    kept = same(model.put(each))
                    assert kept == same(store.put(each)) == same(store.get(each.id))
                sample = data.draw(st.sampled_from(given_)) if given_ else letter()
                fields = {
                    name: getattr(sample, name)
                    for name in data.draw(st.sets(st.sampled_from(EQUAL_FIELDS), max_size=3))
                }
                names = data.draw(st.sets(st.sampled_from(sorted(sample.attributes)))) if sample.attributes else ()
                text = data.draw(st.sampled_from([None, sample.error_message or None, sample.decision.upper() or None]))
                since = data.draw(st.sampled_from([None, sample.dead_lettered_at]))
                attributes = {name: sample.attributes[name] for name in names}
                query = query_of(**fields, attributes=attributes, text=text, since=since)
                limit = data.draw(st.integers(1, 3))
                assert same(_pages(model, query, limit)) == same(_pages(store, query, limit))
                assert model.count(query) == store.count(query)

        check()

    def test_lone_surrogates_wedge_no_message(self, store: DeadLetterStore) -> None:
        """JSON may hold them, so they reach attributes and with them every field that is searched by."""
        message = receive(b'{"id": "m", "campaign_id": "spring \\ud800", "recipient": "\\udfff@example.org"}')
        given_ = letter(campaign_id=message.attributes["campaign_id"], attributes=message.attributes, provider="\ud800")
        assert escaped(given_) == escaped(store.put(given_)) == escaped(store.get("m#1")) == escaped(store.put(given_))
        assert store.count(DeadLetterQuery(campaign_id="spring \ud800")) == 1
        assert store.count(DeadLetterQuery(campaign_id="spring ?")) == 0
        assert store.count(DeadLetterQuery(campaign_id="spring ")) == 0
        store.resolve("m#\ud800")
        assert store.get("m#\ud800") is None
        store.resolve("m#1")
        assert store.count(DeadLetterQuery(provider="\ud800", state=DeadLetterState.RESOLVED)) == 1

    @needs("surrogates")
    def test_lone_surrogates_come_back_as_they_were(self, store: DeadLetterStore) -> None:
        """Not as escapes, wherever text may stand, and not taken for these in a search."""
        for number, text in enumerate(("\ud800", r"\ud800", "a\udfff")):
            given_ = _with_text(f"{number}", text)
            assert given_ == store.put(given_) == store.get(f"{number}#1")
            assert store.count(DeadLetterQuery(campaign_id=text)) == 1
            assert [(text, 1)] == [tuple(row) for row in store.top("provider", query=DeadLetterQuery(provider=text))]

    @needs("megabyte")
    @pytest.mark.parametrize("size", [1_000_000, 1_048_576])
    def test_payload_of_a_megabyte_is_kept_byte_for_byte(self, store: DeadLetterStore, size: int) -> None:
        """Text, and what is none."""
        bodies = [bytes(range(256)) * (size // 256), b'{"a": "' + b"x" * (size - 9) + b'"}']
        for number, body in enumerate(bodies):
            store.put(letter(f"{number}", original_payload=body))
            kept = store.get(f"{number}#1")
            assert kept is not None
            assert body == kept.original_payload
        assert bodies[::-1] == [each.original_payload for each in store.search().letters]
