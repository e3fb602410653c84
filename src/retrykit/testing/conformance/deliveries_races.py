"""Many clients of a delivery log at once."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import timedelta

import attrs

from ...codec import JSON
from ...stores.deliveries import DeliveryStatus, DeliveryStore
from .child import in_processes
from .deliveries_samples import EVENTS, NOW, delivery
from .races import PROCESSES, THREADS, in_threads
from .suite import Place, StoreSuite, needs

__all__ = ["DeliveryRaces"]

S = DeliveryStatus
NAMES = [f"m-{number:02}" for number in range(20)]
REPORTS = [
    (S.PENDING, 0),
    (S.PROCESSING, 1),
    (S.DEFERRED, 2),
    (S.UNKNOWN, 3),
    (S.SENT_TO_PROVIDER, 4),
    (S.FAILED_INTERNAL, 9),
]
"""Ends in `sent_to_provider` of version 9 or 4, in whatever order they come."""


class DeliveryRaces(StoreSuite[DeliveryStore]):
    """A status never moves backwards, and no message is lost."""

    def test_many_threads_reporting_in_any_order_end_in_the_same_status(self, store: DeliveryStore) -> None:
        """What one of them saw to be accepted stays so for all."""

        def work(number: int) -> None:
            order = random.Random(number)
            for name in NAMES:
                for status, version in order.sample(REPORTS, len(REPORTS)):
                    was = store.get(name)
                    store.record(delivery(status, version, name))
                    seen = store.get(name)
                    assert seen is not None
                    assert was is None or was.status is not S.SENT_TO_PROVIDER or seen.status is S.SENT_TO_PROVIDER

        in_threads(work, 4)
        assert {S.SENT_TO_PROVIDER: len(NAMES)} == dict(store.counts())
        assert NAMES == [each.message_id for each in store.with_status(S.SENT_TO_PROVIDER)]

    def test_many_threads_reporting_newer_versions_the_newest_stands(self, store: DeliveryStore) -> None:
        """No older report that was under way overwrites it."""

        def work(number: int) -> None:
            newest = -1
            for round_ in range(20):
                version = round_ * THREADS + number
                told = store.record(delivery(S.DEFERRED, version, provider_id=f"p-{version}"))
                stands = store.get("m")
                assert stands is not None
                assert stands.version >= told.version >= max(newest, version)
                newest = stands.version

        in_threads(work)
        last = 20 * THREADS - 1
        assert delivery(S.DEFERRED, last, provider_id=f"p-{last}") == store.get("m")

    def test_many_threads_reporting_each_message_is_kept(self, store: DeliveryStore) -> None:
        """None overwrites another's."""
        in_threads(lambda number: [store.record(delivery(S.DEFERRED, message_id=f"{number} {name}")) for name in NAMES])
        assert {S.DEFERRED: THREADS * len(NAMES)} == dict(store.counts())

    def test_many_threads_purging_each_record_is_counted_once(self, store: DeliveryStore) -> None:
        """The answers add up to what there was."""
        for name in NAMES:
            store.record(delivery(S.DELIVERED, message_id=name))

        def work(_: int) -> int:
            return sum(store.purge(NOW + timedelta(days=1), limit=2) for _ in range(len(NAMES)))

        assert sum(in_threads(work, 4)) == len(NAMES)
        assert dict(store.counts()) == {}

    @needs("processes")
    def test_many_processes_reporting_in_any_order_end_in_the_same_status(
        self, store: DeliveryStore, place: Place, colour: str
    ) -> None:
        """Each sees it at its end."""
        reports: list[JSON] = [[status.value, version] for status, version in REPORTS]
        orders = [reports[number:] + reports[:number] for number in range(PROCESSES)]
        work: list[Mapping[str, JSON]] = [{"names": NAMES, "reports": order} for order in orders]
        answers = in_processes(self, place, "report_many", colour, work)
        assert [[S.SENT_TO_PROVIDER.value] * len(NAMES)] * PROCESSES == answers
        assert {S.SENT_TO_PROVIDER: len(NAMES)} == dict(store.counts())

    def test_many_threads_applying_shuffled_events_end_in_the_same_record(self, store: DeliveryStore) -> None:
        """Each event counts once, and none is lost."""

        def work(number: int) -> None:
            order = random.Random(number)
            for name in NAMES:
                for each in order.sample(EVENTS, len(EVENTS)):
                    store.apply(attrs.evolve(each, message_id=name))
                    store.record(delivery(S.UNKNOWN, 1, name))

        in_threads(work, 4)
        self.assert_settled(store)

    @needs("processes")
    def test_many_processes_applying_shuffled_events_end_in_the_same_record(
        self, store: DeliveryStore, place: Place, colour: str
    ) -> None:
        """Copies of one webhook that several servers got."""
        work: list[Mapping[str, JSON]] = [
            {"names": NAMES, "events": [each.to_dict() for each in random.Random(n).sample(EVENTS, len(EVENTS))]}
            for n in range(PROCESSES)
        ]
        answers = in_processes(self, place, "apply_many", colour, work)
        assert [[S.BOUNCED_PERMANENT.value] * len(NAMES)] * PROCESSES == answers
        in_threads(lambda _: [store.record(delivery(S.UNKNOWN, 1, name)) for name in NAMES], 2)
        self.assert_settled(store)

    def assert_settled(self, store: DeliveryStore) -> None:
        """Check that all events of all messages have counted once."""
        ids = {("ses", each.event_id) for each in EVENTS}
        records = [store.get(name) for name in NAMES]
        assert {S.BOUNCED_PERMANENT: len(NAMES)} == dict(store.counts())
        assert [(ids, len(ids))] * len(NAMES) == [
            (set(each.event_ids), len(each.event_ids)) if each else None for each in records
        ]
        plain = [each and attrs.evolve(each, message_id="m", event_ids=()) for each in records]
        assert [plain[0]] * len(NAMES) == plain
