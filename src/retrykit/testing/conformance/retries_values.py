"""Values: whatever a message holds comes back byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given

from ...message import Message, receive
from ...stores.retries import RetryStore
from ..strategies import messages
from .hostile import KEYS, TEXTS, sound_message
from .models import examples
from .retries_states import at, due, held, ids
from .suite import StoreSuite, SuiteClock, needs

__all__ = ["RetryValuesTests"]


class RetryValuesTests(StoreSuite[RetryStore]):
    """Hostile ids and values."""

    def test_hostile_ids_are_kept_apart(self, store: RetryStore) -> None:
        """Each has an entry of its own, and comes in the order of its code points."""
        for key in KEYS:
            store.schedule(Message(key, key), at(0))
        entries = due(store)
        assert sorted(KEYS) == ids(entries)
        assert all(entry.message.id == entry.message.payload for entry in entries)
        for key in KEYS[::2]:
            assert store.cancel(key) is True
        assert sorted(KEYS[1::2]) == [entry.message.id for entry in entries if store.ack(entry)]

    def test_hostile_text_in_values_comes_back(self, store: RetryStore) -> None:
        """As owner, in payloads, and as names and values of attributes."""
        for number, text in enumerate(TEXTS):
            message = Message(f"{number}", {text: text}, {text: text, "b": "", "a": text})
            store.schedule(message, at(0))
            (entry,) = due(store, owner=text)
            assert (message, text) == (entry.message, entry.lease.owner)
            assert store.extend(entry, lease=30) is not None

    def test_any_message_comes_back_as_it_was(self, store: RetryStore) -> None:
        """Body and attributes, whatever they hold."""
        whole = "surrogates" in self.features

        @examples(at_most=20 if self.is_async else None)
        @given(messages)
        def check(message: Message) -> None:
            message = message if whole else sound_message(message)
            store.cancel(message.id)
            store.schedule(message, at(-1))
            entry = held(store)
            assert message == entry.message
            assert store.ack(entry) is True

        check()

    def test_lone_surrogates_wedge_no_message(self, store: RetryStore) -> None:
        """A payload may bring them into attributes; a store may write them there as escapes."""
        message = receive(b'{"id": "m", "campaign_id": "spring \\ud800", "recipient": "\\udfff@example.org"}')
        store.schedule(message, at(0))
        (entry,) = due(store, owner="\ud800")
        assert ("m", message.body) == (entry.message.id, entry.message.body)
        assert store.release(entry) is True
        assert store.ack(held(store)) is True

    @needs("surrogates")
    def test_lone_surrogates_come_back_as_they_were(self, store: RetryStore) -> None:
        """In names and values of attributes, and in the name of the owner."""
        message = Message("m", {"\ud800": "\udfff"}, {"\ud800": "\udfff \ud800", "a": "\ud83d"})
        store.schedule(message, at(0))
        (entry,) = due(store, owner="\ud800")
        assert (message, "\ud800") == (entry.message, entry.lease.owner)

    def test_body_that_is_no_json_and_no_text_comes_back(self, store: RetryStore) -> None:
        """A message whose body is broken waits like any other."""
        bodies = [b"", b"\0", b"\xff\xfe", bytes(range(256)), b"{", b" {} "]
        for number, body in enumerate(bodies):
            store.schedule(Message(f"{number}", body), at(0))
        assert bodies == [entry.message.body for entry in due(store)]

    @needs("megabyte")
    @pytest.mark.parametrize("size", [1_000_000, 1_048_576, 2_000_000])
    def test_payload_of_a_megabyte_is_kept_byte_for_byte(self, store: RetryStore, clock: SuiteClock, size: int) -> None:
        """Also one that is larger than messages usually may be."""
        message = Message("large", bytes(range(256)) * (size // 256), {"text": "ü" * 100_000}, max_payload=size)
        store.schedule(message, at(0))
        assert message == held(store).message
        clock.advance("30s")
        assert message == held(store).message
