"""A provider's events in a delivery log."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta

import attrs
import pytest

from ...classification.provider_event import EventKind
from ...errors import ConfigurationError, InvalidMessageError
from ...failure import ErrorGroup
from ...stores.deliveries import Delivery, DeliveryEvent, DeliveryFailure, DeliveryStatus, DeliveryStore
from .deliveries_samples import EVENTS, NOW, delivery, event
from .suite import Place, StoreSuite, needs

__all__ = ["DeliveryEvents"]

S = DeliveryStatus
K = EventKind
G = ErrorGroup
Open = Callable[[Place], DeliveryStore]


def applied(store: DeliveryStore, *events: DeliveryEvent) -> Delivery:
    """Apply events, and return what stands after the last."""
    stands = [store.apply(each) for each in events][-1]
    assert stands is not None
    return stands


class DeliveryEvents(StoreSuite[DeliveryStore]):
    """Late, repeated and shuffled events end in the same status."""

    def test_event_moves_the_status_and_leaves_its_facts(self, store: DeliveryStore) -> None:
        """When it was delivered and when it came back, why, and that the recipient complained and opted out."""
        sent = delivery(S.SENT_TO_PROVIDER, 2, provider="ses", provider_id="p-1")
        store.record(sent)
        seen = [applied(store, each).status for each in EVENTS]
        assert [S.SENT_TO_PROVIDER, S.DEFERRED, S.DEFERRED, S.DELIVERED, *[S.BOUNCED_PERMANENT] * 3] == seen
        after = {minutes: NOW + timedelta(minutes=minutes) for minutes in range(7)}
        expected = attrs.evolve(
            sent,
            status=S.BOUNCED_PERMANENT,
            told=S.BOUNCED_PERMANENT,
            delivered_at=after[3],
            bounced_at=after[4],
            complained_at=after[5],
            unsubscribed_at=after[6],
            failure=DeliveryFailure(
                status=S.BOUNCED_PERMANENT,
                at=after[4],
                error_class="own.permanent_recipient",
                error_group="permanent_recipient",
                error_code="450",
            ),
            event_ids=tuple(("ses", f"e-{number}") for number in range(1, 8)),
            updated_at=after[6],
        )
        assert expected == store.get("m")
        assert [expected] == list(store.with_status(S.BOUNCED_PERMANENT))
        assert {S.BOUNCED_PERMANENT: 1} == dict(store.counts())

    def test_events_in_any_order_and_number_end_in_the_same_record(self, store: DeliveryStore) -> None:
        """Also among our own reports; only the order in which the ids are remembered is that of their coming."""
        reports = [delivery(S.PROCESSING, 1), delivery(S.SENT_TO_PROVIDER, 2), delivery(S.UNKNOWN, 3)]
        records = list[Delivery]()
        for seed in range(12):
            order = random.Random(seed)
            steps: list[Delivery | DeliveryEvent] = [*reports, *EVENTS, *EVENTS, *order.choices(EVENTS, k=4)]
            order.shuffle(steps)
            for step in steps:
                named = attrs.evolve(step, message_id=f"m-{seed}")
                _ = store.record(named) if isinstance(named, Delivery) else store.apply(named)
            stands = store.get(f"m-{seed}")
            assert stands is not None
            records.append(attrs.evolve(stands, message_id="m", event_ids=tuple(sorted(stands.event_ids))))
        assert S.BOUNCED_PERMANENT is records[0].status
        assert [records[0]] * 12 == records

    def test_event_that_comes_46_times_is_applied_once(self, store: DeliveryStore) -> None:
        """Also when its copies differ in their instant."""
        store.record(delivery(S.SENT_TO_PROVIDER, 2))
        first = applied(store, event(K.DEFERRED, "e-1", minutes=1))
        for minutes in range(45):
            assert first == store.apply(event(K.DEFERRED, "e-1", minutes=minutes))
        assert (("ses", "e-1"),) == first.event_ids

    def test_events_are_told_apart_by_provider_and_id(self, store: DeliveryStore) -> None:
        """Two providers may give the same id, and one without an id is not remembered."""
        events = [event(K.ACCEPTED, "e-1"), event(K.DELIVERED, "e-1", provider="mailgun"), event(K.BOUNCED)]
        stands = applied(store, *events)
        assert (S.BOUNCED_PERMANENT, (("ses", "e-1"), ("mailgun", "e-1"))) == (stands.status, stands.event_ids)

    def test_last_hundred_events_are_remembered_and_a_forgotten_one_does_no_harm(self, store: DeliveryStore) -> None:
        """The record does not grow without an end."""
        first = event(K.DEFERRED, "e-0", group=G.THROTTLING)
        applied(store, first, event(K.DELIVERED, "d", minutes=1))
        for number in range(1, 101):
            store.apply(event(K.ENGAGED, f"e-{number}", minutes=number))
        stands = store.get("m")
        assert stands is not None
        assert [("ses", f"e-{number}") for number in range(1, 101)] == list(stands.event_ids)
        again = applied(store, first)
        assert attrs.evolve(stands, event_ids=again.event_ids) == again
        assert ("ses", "e-0") == again.event_ids[-1]

    @pytest.mark.parametrize("status", [status for status in S if status not in (S.SENT_TO_PROVIDER, S.DELIVERED)])
    def test_report_of_our_own_never_overrules_an_event(self, store: DeliveryStore, status: DeliveryStatus) -> None:
        """Whichever comes first, and whatever its version."""
        store.record(delivery(status, 9, "first"))
        assert S.DEFERRED is applied(store, event(K.DEFERRED, "e-1", "first")).status
        applied(store, event(K.DEFERRED, "e-1", "last"))
        assert S.DEFERRED is store.record(delivery(status, 9, "last")).status
        assert {S.DEFERRED: 2} == dict(store.counts())

    def test_bounce_is_transient_or_permanent_by_its_group(self, store: DeliveryStore) -> None:
        """What may pass is transient; what the provider has dropped is permanent."""
        for group in G:
            for kind in (K.BOUNCED, K.REJECTED):
                stands = applied(store, event(kind, "e", f"{kind} {group}", group=group))
                passes = group in (G.TEMPORARY_MAILBOX, G.TRANSIENT_INFRASTRUCTURE, G.THROTTLING) and kind is K.BOUNCED
                assert (S.BOUNCED_TRANSIENT if passes else S.BOUNCED_PERMANENT) is stands.status

    def test_event_of_a_message_never_reported_is_unexpected_until_it_is(self, store: DeliveryStore) -> None:
        """It can be listed, page by page; a report of our own that was overtaken ends that."""
        for name in "cab":
            assert applied(store, event(K.DELIVERED, "e", name, provider_id=f"p-{name}")).is_unexpected
        store.record(delivery(S.UNKNOWN, 0, "d"))
        assert ["a", "b"] == [each.message_id for each in store.unexpected(limit=2)]
        assert ["c"] == [each.message_id for each in store.unexpected(limit=2, after="b")]
        stands = store.record(delivery(S.SENT_TO_PROVIDER, 0, "b"))
        assert (S.DELIVERED, 0, "ses", "p-b") == (stands.status, stands.version, stands.provider, stands.provider_id)
        assert ["a", "c"] == [each.message_id for each in store.unexpected()]
        assert [] == list(store.unexpected(after="c"))

    def test_event_of_another_kind_changes_nothing(self, store: DeliveryStore) -> None:
        """Neither a record that is there nor one that is not."""
        assert store.apply(event(K.OTHER, "e-1")) is None
        assert dict(store.counts()) == {}
        stands = store.record(delivery(S.UNKNOWN, 3))
        assert stands == store.apply(event(K.OTHER, "e-1")) == store.get("m")

    def test_message_is_found_by_its_providers_id(self, store: DeliveryStore) -> None:
        """Of that provider, or of one that the record does not say; not of another, and not when several have it."""
        store.record(delivery(S.SENT_TO_PROVIDER, message_id="a", provider="ses", provider_id="p-1"))
        store.record(delivery(S.SENT_TO_PROVIDER, message_id="b", provider="mailgun", provider_id="p-1"))
        store.record(delivery(S.SENT_TO_PROVIDER, message_id="c", provider_id="p-2"))
        store.record(delivery(S.SENT_TO_PROVIDER, message_id="d", provider="ses", provider_id="ok"))
        store.record(delivery(S.SENT_TO_PROVIDER, message_id="e", provider_id="ok"))
        store.record(delivery(S.SENT_TO_PROVIDER, message_id="f", provider="ses"))
        asked = [
            ("ses", "p-1"),
            ("mailgun", "p-1"),
            ("ses", "p-2"),
            ("ses", "ok"),
            ("mailgun", "ok"),
            ("postmark", "p-1"),
        ]
        found = [store.by_provider_id(*each) for each in asked]
        assert ["a", "b", "c", None, "e", None] == [each and each.message_id for each in found]
        assert store.get("a") == found[0]
        assert [None, None] == [store.by_provider_id("ses", "p"), store.by_provider_id("ses", "P-1")]

    def test_message_is_found_by_the_id_that_an_event_brought_or_a_report_changed(self, store: DeliveryStore) -> None:
        """And no longer by the one before, or once it is purged."""
        applied(store, event(K.ACCEPTED, "e-1", provider_id="p-1"))
        found = store.by_provider_id("ses", "p-1")
        assert found == store.get("m") is not None
        store.record(delivery(S.SENT_TO_PROVIDER, 5, provider_id="p-2"))
        assert store.by_provider_id("ses", "p-1") is None
        assert store.by_provider_id("ses", "p-2") == store.get("m") is not None
        assert store.purge(NOW + timedelta(days=1)) == 1
        assert store.by_provider_id("ses", "p-2") is None

    def test_purge_takes_what_a_provider_told_of_whatever_its_status(self, store: DeliveryStore) -> None:
        """Retrykit has no more to do with it; what waits for another try of our own stays."""
        for name, kind in (("a", K.DEFERRED), ("b", K.BOUNCED), ("c", K.DELIVERED)):
            applied(store, event(kind, "e", name, group=G.THROTTLING))
        store.record(delivery(S.DEFERRED, message_id="own"))
        assert store.purge(NOW) == 0
        assert store.purge(NOW + timedelta(minutes=1)) == 3
        assert ["own"] == [each.message_id for each in store.with_status(S.DEFERRED)]
        stands = applied(store, event(K.ACCEPTED, "e", "a"))
        assert (S.SENT_TO_PROVIDER, None, 1) == (stands.status, stands.failure, len(stands.event_ids))

    @pytest.mark.parametrize("message_id", ["", "x" * 256, "\0", "\ud800"])
    def test_event_with_an_id_that_is_not_allowed_is_refused(self, store: DeliveryStore, message_id: str) -> None:
        """The same keys as everywhere, whatever its kind."""
        for kind in (K.DELIVERED, K.OTHER):
            with pytest.raises(InvalidMessageError):
                store.apply(event(kind, "e", message_id))
        assert dict(store.counts()) == {}

    def test_page_of_unexpected_messages_needs_a_limit(self, store: DeliveryStore) -> None:
        """At least one."""
        for limit in (0, -1, True):
            with pytest.raises(ConfigurationError):
                store.unexpected(limit=limit)

    @needs("reopen")
    def test_store_opened_again_finds_what_was_told(self, store: DeliveryStore, opened: Open, place: Place) -> None:
        """With all its facts, and it goes on from there."""
        stands = applied(store, *EVENTS)
        other = opened(place)
        assert stands == other.get("m") == other.apply(EVENTS[0])
        assert [stands] == list(other.unexpected())
        assert S.BOUNCED_PERMANENT is other.record(delivery(S.SENT_TO_PROVIDER, 3)).status
