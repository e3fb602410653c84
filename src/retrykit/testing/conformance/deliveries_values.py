"""Hostile keys and values in a delivery log."""

from __future__ import annotations

from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from ...classification.provider_event import EventKind
from ...stores.deliveries import Delivery, DeliveryEvent, DeliveryStatus, DeliveryStore
from ..strategies import any_text, instants, keys
from .deliveries_samples import NOW, delivery, event
from .hostile import KEYS, TEXTS, escaped
from .models import examples
from .suite import Fresh, StoreSuite, needs

__all__ = ["DeliveryValues"]

S = DeliveryStatus


class DeliveryValues(StoreSuite[DeliveryStore]):
    """Whatever a provider reports."""

    def test_hostile_keys_are_kept_apart(self, store: DeliveryStore) -> None:
        """Each has a record of its own, in the order of code points."""
        for key in KEYS:
            store.record(delivery(S.UNKNOWN, message_id=key, provider_id=key))
        assert sorted(KEYS) == [each.message_id for each in store.with_status(S.UNKNOWN)]
        for key in KEYS:
            assert delivery(S.UNKNOWN, message_id=key, provider_id=key) == store.get(key)
        assert dict(store.counts()) == {S.UNKNOWN: len(KEYS)}

    def test_hostile_keys_are_where_a_page_begins(self, store: DeliveryStore) -> None:
        """Page by page, whatever the last id was, and also after an id that is none."""
        names = sorted(KEYS)
        for key in names:
            store.record(delivery(S.UNKNOWN, message_id=key))
        for number, key in enumerate(names, 1):
            page = store.with_status(S.UNKNOWN, limit=2, after=key)
            assert names[number : number + 2] == [each.message_id for each in page]
        assert [each for each in names if each > "a\ud800"] == [
            each.message_id for each in store.with_status(S.UNKNOWN, after="a\ud800")
        ]
        assert names == [each.message_id for each in store.with_status(S.UNKNOWN, after="\0")]

    def test_hostile_text_in_values_comes_back_or_is_escaped(self, store: DeliveryStore) -> None:
        """It is never cut."""
        for number, text in enumerate(TEXTS):
            given_ = delivery(S.SENT_TO_PROVIDER, message_id=f"{number}", provider=text, provider_id=text)
            for stands in (store.record(given_), store.get(f"{number}"), store.record(given_)):
                assert escaped(given_) == escaped(stands)
                assert "\0" in text or given_ == stands

    def test_any_report_comes_back(self, fresh: Fresh[DeliveryStore]) -> None:
        """With escapes for what a store has no form for."""
        whole = "surrogates" in self.features

        @examples(at_most=20)
        @given(
            message_id=keys,
            status=st.sampled_from(S),
            version=st.integers(0, 2**53),
            texts=st.tuples(st.none() | any_text, st.none() | any_text),
            reported=instants,
        )
        def check(
            message_id: str,
            status: DeliveryStatus,
            version: int,
            texts: tuple[str | None, str | None],
            reported: datetime,
        ) -> None:
            provider, provider_id = texts
            given_ = Delivery(
                message_id=message_id,
                status=status,
                version=version,
                provider=provider,
                provider_id=provider_id,
                updated_at=reported,
            )
            with fresh() as (store, _):
                assert escaped(given_) == escaped(store.record(given_)) == escaped(store.get(message_id))
                assert not whole or given_ == store.get(message_id)
                assert escaped([given_]) == escaped(list(store.with_status(status)))

        check()

    def test_lone_surrogates_wedge_no_message(self, store: DeliveryStore) -> None:
        """A provider's id is no key: it may be written as escapes."""
        for status in (S.UNKNOWN, S.DELIVERED):
            store.record(delivery(status, provider="\udfff", provider_id="p \ud800"))
            stands = store.get("m")
            assert stands is not None
            assert (status, r"\udfff", r"p \ud800") == (
                stands.status,
                escaped(stands.provider),
                escaped(stands.provider_id),
            )

    @needs("surrogates")
    def test_lone_surrogates_come_back_as_they_were(self, store: DeliveryStore) -> None:
        """Not as escapes."""
        given_ = delivery(S.UNKNOWN, provider="\udfff", provider_id="p \ud800")
        assert given_ == store.record(given_) == store.get("m")

    @needs("megabyte")
    def test_provider_id_of_a_megabyte_is_kept(self, store: DeliveryStore) -> None:
        """A provider that answers with a web page does not stop anything."""
        given_ = delivery(S.UNKNOWN, provider_id="<html>\u20ac" * 150_000)
        assert given_ == store.record(given_) == store.get("m")

    def test_hostile_ids_of_providers_find_their_messages(self, store: DeliveryStore) -> None:
        """Whatever a provider calls a message: each its own, in a page of unexpected ones too."""
        for number, text in enumerate(TEXTS):
            store.apply(event(EventKind.DELIVERED, text, f"{number}", provider_id=text, provider=f"p{text}"))
        for number, text in enumerate(TEXTS):
            found = store.by_provider_id(f"p{text}", text)
            assert found is not None
            assert (f"{number}", 1) == (found.message_id, len(found.event_ids))
            again = store.apply(event(EventKind.DELIVERED, text, f"{number}", minutes=9, provider=f"p{text}"))
            assert escaped(found) == escaped(again)
        assert sorted(str(number) for number in range(len(TEXTS))) == [each.message_id for each in store.unexpected()]

    def test_hostile_text_in_an_event_comes_back_or_is_escaped(self, store: DeliveryStore) -> None:
        """Lone surrogates too: what a server said of a mailbox is no key."""
        for number, text in enumerate((*TEXTS, "\ud800", "<html>\u20ac" * 1000)):
            given_ = DeliveryEvent(
                message_id=f"{number}",
                kind=EventKind.BOUNCED,
                provider=text,
                provider_id=text,
                event_id=text,
                error_class=text,
                error_code=text,
                at=NOW,
            )
            stands = store.apply(given_)
            assert escaped(given_.to_delivery()) == escaped(stands) == escaped(store.get(f"{number}"))
            assert store.by_provider_id(text, text) is not None
