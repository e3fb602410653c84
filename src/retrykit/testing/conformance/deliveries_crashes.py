"""Clients of a delivery log that die before, during and after an operation."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from ...stores.deliveries import DeliveryStatus, DeliveryStore
from .breaking import TICKS, broken_at_each_step, call_cancelled, said_before_kill
from .deliveries_samples import EVENTS, NOW, delivery
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["DeliveryCrashes"]

S = DeliveryStatus


class DeliveryCrashes(StoreSuite[DeliveryStore]):
    """A report stands or not, and the log goes on."""

    def test_report_interrupted_in_the_middle_stands_or_not(self, store: DeliveryStore, clock: SuiteClock) -> None:
        """Never half: status, counts and pages agree, and it may be repeated."""
        before, after = delivery(S.UNKNOWN, 1), delivery(S.DELIVERED, 2, provider="ses", minutes=1)
        store.record(before)
        for done in broken_at_each_step(clock, lambda: store.record(after)):
            stands = store.get("m")
            assert stands in ([after] if done else [before, after])
            assert stands is not None
            assert {stands.status: 1} == dict(store.counts())
            assert [stands] == [each for status in S for each in store.with_status(status)]
        assert after == store.record(after)

    def test_first_report_interrupted_in_the_middle_stands_or_not(
        self, store: DeliveryStore, clock: SuiteClock
    ) -> None:
        """There is no record without a status."""
        first = delivery(S.PROCESSING)
        for done in broken_at_each_step(clock, lambda: store.record(first)):
            stands = store.get("m")
            assert stands in ([first] if done else [None, first])
            assert dict(store.counts()) == ({S.PROCESSING: 1} if stands else {})

    def test_purge_interrupted_in_the_middle_is_done_or_not(self, store: DeliveryStore, clock: SuiteClock) -> None:
        """No record is gone from one place and left in another."""
        for name in "abc":
            store.record(delivery(S.DELIVERED, message_id=name))
        for done in broken_at_each_step(clock, lambda: store.purge(NOW + timedelta(days=1), limit=2)):
            left = store.counts()[S.DELIVERED]
            assert left in ([1] if done else [3, 1])
            assert len(store.with_status(S.DELIVERED)) == left

    def test_reading_interrupted_in_the_middle_changes_nothing(self, store: DeliveryStore, clock: SuiteClock) -> None:
        """The next reader gets the whole answer."""
        stands = store.record(delivery(S.UNKNOWN))
        for call in (store.counts, lambda: store.get("m"), lambda: store.with_status(S.UNKNOWN)):
            for _ in broken_at_each_step(clock, call):
                assert stands == store.get("m")
                assert dict(store.counts()) == {S.UNKNOWN: 1}

    @needs("async")
    def test_operation_cancelled_is_done_or_not_and_the_next_gets_its_own_answer(self, store: DeliveryStore) -> None:
        """An answer that nobody waits for any more is not taken for that of the next operation."""
        before = store.record(delivery(S.UNKNOWN, message_id="before"))
        for ticks in range(TICKS):
            own = delivery(S.DELIVERED, message_id=f"m-{ticks}")
            answer = call_cancelled(store, ticks, "record", own)
            assert before == store.get("before")
            assert store.get(own.message_id) in ([own] if answer else [None, own])
            assert own == store.record(own)
            seen = call_cancelled(store, ticks, "get", own.message_id)
            assert {S.UNKNOWN: 1, S.DELIVERED: 1} == dict(store.counts())
            assert seen in (None, own)
            purged = call_cancelled(store, ticks, "purge", NOW + timedelta(days=1))
            assert before == store.get("before")
            left = store.counts().get(S.DELIVERED, 0)
            assert left in ([0] if purged else [0, 1])
            assert store.purge(NOW + timedelta(days=1)) == left

    @needs("reopen", "processes")
    def test_reports_of_killed_processes_are_there(self, store: DeliveryStore, place: Place, colour: str) -> None:
        """Everything that was acknowledged, and the log goes on."""
        said = said_before_kill(self, place, "report_without_end", colour)
        for name in said:
            stands = store.get(name)
            assert stands is not None
            assert stands.status is S.SENT_TO_PROVIDER
        counts = dict(store.counts())
        assert counts == {status: n for status in S if (n := len(store.with_status(status, limit=10_000)))}
        assert delivery(S.UNKNOWN) == store.record(delivery(S.UNKNOWN))

    def test_event_interrupted_in_the_middle_is_applied_or_not(self, store: DeliveryStore, clock: SuiteClock) -> None:
        """Never half: the status never shows without the facts, and the event may be applied again."""
        before = store.record(delivery(S.SENT_TO_PROVIDER, 2, provider="ses"))
        for each in EVENTS:
            after = each.to_delivery()
            assert after is not None
            whole = after.after(before) or before
            for done in broken_at_each_step(clock, partial(store.apply, each)):
                stands = store.get("m")
                assert stands in ([whole] if done else [before, whole])
                assert stands is not None
                assert {stands.status: 1} == dict(store.counts())
            before = whole
            assert whole == store.apply(each)

    @needs("reopen", "processes")
    def test_events_of_killed_processes_are_there(self, store: DeliveryStore, place: Place, colour: str) -> None:
        """Everything that was acknowledged, with its facts."""
        for name in said_before_kill(self, place, "apply_without_end", colour):
            stands = store.get(name)
            assert stands is not None
            assert (S.BOUNCED_PERMANENT, len(EVENTS)) == (stands.status, len(stands.event_ids))
        assert dict(store.counts()) == {
            status: n for status in S if (n := len(store.with_status(status, limit=10_000)))
        }
