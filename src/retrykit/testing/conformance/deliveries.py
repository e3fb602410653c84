"""The suite of the delivery log's contract."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import cast

import pytest

from ...errors import ConfigurationError, InvalidMessageError
from ...machines.status import FINAL, Standing, combined, told_with
from ...stores.deliveries import Delivery, DeliveryStatus, DeliveryStore
from .deliveries_crashes import DeliveryCrashes
from .deliveries_events import DeliveryEvents
from .deliveries_model import DeliveryModel
from .deliveries_races import DeliveryRaces
from .deliveries_samples import NOW, delivery
from .deliveries_times import DeliveryTimes
from .deliveries_values import DeliveryValues
from .forks import DeliveryForks
from .models import compare
from .suite import Fresh, Place, needs

__all__ = ["DeliveryStoreSuite"]

Open = Callable[[Place], DeliveryStore]

S = DeliveryStatus


class DeliveryStoreSuite(DeliveryEvents, DeliveryTimes, DeliveryCrashes, DeliveryRaces, DeliveryForks, DeliveryValues):
    """Proves a `DeliveryStore` or an `AsyncDeliveryStore`."""

    contract = "deliveries"

    def test_first_report_stands_as_it_is(self, store: DeliveryStore) -> None:
        """Whatever it says."""
        for status in S:
            first = delivery(status, 4, status.value, provider="ses", provider_id="p-1")
            assert first == store.record(first) == store.get(status.value)

    def test_get_of_a_message_without_a_report_is_none(self, store: DeliveryStore) -> None:
        """A missing message is no error."""
        store.record(delivery(S.UNKNOWN))
        assert [store.get(message_id) for message_id in ("M", "m ", "n")] == [None] * 3

    @pytest.mark.parametrize("current", list(S))
    def test_report_replaces_another_exactly_where_the_lattice_allows(
        self, store: DeliveryStore, current: DeliveryStatus
    ) -> None:
        """Every status after every other, from an older, an equal and a newer version."""
        for new in S:
            for version in (1, 2, 3):
                message_id = f"{new.value} {version}"
                before = delivery(current, 2, message_id)
                store.record(before)
                stands = store.record(delivery(new, version, message_id, minutes=1))
                expected = combined(Standing(current, 2, told_with(current)), Standing(new, version, told_with(new)))
                counts = expected != Standing(current, 2, told_with(current))
                assert delivery(expected.status, expected.version, message_id, minutes=counts) == stands
                assert stands == store.get(message_id)

    def test_report_repeated_changes_nothing(self, store: DeliveryStore) -> None:
        """A projection may be repeated after a lost answer, also late."""
        first, second = delivery(S.DEFERRED, 2), delivery(S.PROCESSING, 3)
        assert first == store.record(first)
        assert first == store.record(delivery(S.DEFERRED, 2, minutes=5))
        store.record(second)
        assert second == store.record(first) == store.record(second)

    def test_acceptance_is_never_forgotten(self, store: DeliveryStore) -> None:
        """A late failure of any version does not undo what the provider took, and the delivery follows."""
        reports = (S.UNKNOWN, 3), (S.SENT_TO_PROVIDER, 2), (S.FAILED_INTERNAL, 9)
        seen = [store.record(delivery(status, version)) for status, version in reports]
        assert [(S.UNKNOWN, 3), (S.SENT_TO_PROVIDER, 3), (S.SENT_TO_PROVIDER, 9)] == [
            (each.status, each.version) for each in seen
        ]
        for status, version in ((S.DELIVERED, 0), (S.SENT_TO_PROVIDER, 9), (S.BOUNCED_PERMANENT, 10)):
            assert store.record(delivery(status, version)).status is S.DELIVERED

    def test_provider_and_its_id_are_kept_by_reports_that_do_not_know_them(self, store: DeliveryStore) -> None:
        """The delivery event need not repeat who took the message."""
        store.record(delivery(S.SENT_TO_PROVIDER, 2, provider="ses", provider_id="p-1"))
        expected = delivery(S.DELIVERED, 2, minutes=9, provider="ses", provider_id="p-1")
        assert expected == store.record(delivery(S.DELIVERED, 1, minutes=9))
        assert expected == store.get("m")

    def test_instant_of_a_report_is_in_utc_to_the_millisecond(self, store: DeliveryStore) -> None:
        """As it comes back."""
        reported = datetime(2026, 1, 1, 5, 0, 0, 1999, timezone(timedelta(hours=2)))
        stands = store.record(Delivery(message_id="m", status=S.UNKNOWN, updated_at=reported))
        assert datetime(2026, 1, 1, 3, 0, 0, 1000, UTC) == stands.updated_at
        assert stands == store.get("m")

    def test_messages_of_a_status_come_in_the_order_of_their_ids_page_by_page(self, store: DeliveryStore) -> None:
        """The last id of a page is where the next begins."""
        names = ["Z", "a", "a ", "b", "ü", "😀"]
        for name in reversed(names):
            store.record(delivery(S.UNKNOWN, message_id=name))
        store.record(delivery(S.DEFERRED, message_id="aa"))
        seen, after = list[str](), ""
        while page := store.with_status(S.UNKNOWN, limit=2, after=after):
            assert len(page) == 2
            seen += [each.message_id for each in page]
            after = seen[-1]
        assert names == seen
        assert [delivery(S.DEFERRED, message_id="aa")] == list(store.with_status(cast("DeliveryStatus", "deferred")))

    def test_message_of_another_status_is_in_its_page_alone(self, store: DeliveryStore) -> None:
        """It has left the one of its status before."""
        store.record(delivery(S.PROCESSING, 1))
        store.record(delivery(S.DEFERRED, 2))
        store.record(delivery(S.PROCESSING, 1))
        pages = {status: len(store.with_status(status)) for status in S}
        assert {**dict.fromkeys(S, 0), S.DEFERRED: 1} == pages

    def test_counts_tell_how_many_messages_each_status_has(self, store: DeliveryStore) -> None:
        """A status that none has is left out."""
        assert dict(store.counts()) == {}
        for message_id in "abc":
            store.record(delivery(S.DEFERRED, message_id=message_id))
        store.record(delivery(S.DELIVERED, message_id="a"))
        store.record(delivery(S.DELIVERED, message_id="a"))
        counts = store.counts()
        assert {S.DEFERRED: 2, S.DELIVERED: 1} == dict(counts)
        assert {S} == {type(status) for status in counts}

    def test_purge_takes_final_statuses_reported_before_an_instant_oldest_first(self, store: DeliveryStore) -> None:
        """Not what was reported at it, and nothing that may still change."""
        for status in S:
            store.record(delivery(status, message_id=status.value))
        for message_id, minutes in (("c", 3), ("b", 2), ("a", 1)):
            store.record(delivery(S.DELIVERED, message_id=message_id, minutes=minutes))
        assert store.purge(NOW) == 0
        assert store.purge(NOW + timedelta(milliseconds=1)) == len(FINAL)
        assert {status: 1 for status in S if status not in FINAL} | {S.DELIVERED: 3} == dict(store.counts())
        assert store.purge(NOW + timedelta(minutes=3), limit=1) == 1
        assert ["b", "c"] == [each.message_id for each in store.with_status(S.DELIVERED)]
        assert [1, 0] == [store.purge(NOW + timedelta(minutes=3)) for _ in range(2)]
        assert (None, 1) == (store.get("b"), store.counts()[S.DELIVERED])

    def test_purge_goes_by_the_last_report_that_counted(self, store: DeliveryStore) -> None:
        """An old one that came late makes nothing older, and a repeated one nothing younger."""
        store.record(delivery(S.SENT_TO_PROVIDER, message_id="a"))
        store.record(delivery(S.DELIVERED, message_id="a", minutes=5))
        store.record(delivery(S.DELIVERED, message_id="b"))
        store.record(delivery(S.DELIVERED, message_id="b", minutes=9))
        store.record(delivery(S.SENT_TO_PROVIDER, message_id="a"))
        assert store.purge(NOW + timedelta(minutes=5)) == 1
        assert ["a"] == [each.message_id for each in store.with_status(S.DELIVERED)]

    def test_report_after_a_purge_is_a_first_one(self, store: DeliveryStore) -> None:
        """There is nothing left of what stood."""
        store.record(delivery(S.DELIVERED, 9, provider="ses"))
        assert store.purge(NOW + timedelta(days=1)) == 1
        assert delivery(S.PENDING) == store.record(delivery(S.PENDING))

    @pytest.mark.parametrize("message_id", ["", "x" * 256, "\0", "\ud800"])
    def test_id_that_is_not_allowed_is_refused(self, store: DeliveryStore, message_id: str) -> None:
        """The same keys as everywhere."""
        calls: list[Callable[[], object]] = [
            lambda: store.record(delivery(S.UNKNOWN, message_id=message_id)),
            lambda: store.get(message_id),
        ]
        for call in calls:
            with pytest.raises(InvalidMessageError):
                call()
        assert dict(store.counts()) == {}

    def test_argument_that_is_not_allowed_is_refused(self, store: DeliveryStore) -> None:
        """A status is one of nine, a limit at least one, an instant aware."""
        store.record(delivery(S.DELIVERED))
        calls: list[Callable[[], object]] = [
            lambda: store.with_status(cast("DeliveryStatus", "lost")),
            lambda: store.with_status(S.DELIVERED, limit=0),
            lambda: store.purge(NOW + timedelta(days=1), limit=0),
            lambda: store.purge(datetime(2030, 1, 1)),  # noqa: DTZ001
        ]
        for call in calls:
            with pytest.raises(ConfigurationError):
                call()
        assert dict(store.counts()) == {S.DELIVERED: 1}

    @needs("reopen")
    def test_store_opened_again_finds_its_reports(self, store: DeliveryStore, opened: Open, place: Place) -> None:
        """And takes no report that those do not allow."""
        stands = store.record(delivery(S.DELIVERED, 3, provider="ses", provider_id="p-1", minutes=1))
        other = opened(place)
        assert stands == other.get("m") == other.record(delivery(S.UNKNOWN, 2))
        assert [stands] == list(other.with_status(S.DELIVERED))
        assert dict(other.counts()) == dict(store.counts()) == {S.DELIVERED: 1}

    def test_any_sequence_of_operations_gives_what_the_model_gives(self, fresh: Fresh[DeliveryStore]) -> None:
        """The memory store is the model."""
        compare(lambda: DeliveryModel(fresh()), is_async=self.is_async)
