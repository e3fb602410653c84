"""Broken delivery logs."""

from __future__ import annotations

import attrs

from retrykit.backends.memory import _Deliveries, _Shared
from retrykit.machines.status import ACCEPTED, FINAL
from retrykit.stores import AsyncDeliveryStore, DeliveryStatus
from retrykit.testing.conformance import DeliveryStoreSuite
from retrykit.times import later
from tests.stores.mutants.breakages import gap, leaving_answers_behind, writing_later

LATTICE = "test_report_replaces_another_exactly_where_the_lattice_allows"


class Mutant(DeliveryStoreSuite):
    def make_store(self, place):
        return self.broken(_Shared(place.clock))


class LastWins(_Deliveries):
    def _record(self, delivery):
        self._rows.pop(delivery.message_id, None)
        return super()._record(delivery)


class TestLastWriterThatWins(Mutant):
    broken = LastWins
    caught_by = (
        LATTICE,
        "test_acceptance_is_never_forgotten",
        "test_report_repeated_changes_nothing",
        "test_any_sequence_of_operations_gives_what_the_model_gives",
    )


class EqualIsNewer(_Deliveries):
    def _record(self, delivery):
        old = self._rows.get(delivery.message_id)
        if old is not None and old.version == delivery.version and old.status not in ACCEPTED:
            self._rows[delivery.message_id] = attrs.evolve(old, version=old.version - 1)
        return super()._record(delivery)


class TestVersionThatReplacesItsEqual(Mutant):
    broken = EqualIsNewer
    caught_by = (LATTICE, "test_report_repeated_changes_nothing")


class NewerWins(_Deliveries):
    def _record(self, delivery):
        old = self._rows.get(delivery.message_id)
        if old is not None and delivery.version > old.version:
            del self._rows[delivery.message_id]
        return super()._record(delivery)


class TestAcceptanceThatANewerVersionUndoes(Mutant):
    broken = NewerWins
    caught_by = ("test_acceptance_is_never_forgotten",)


class OwnVersion(_Deliveries):
    def _record(self, delivery):
        stands = super()._record(delivery)
        if stands.status is delivery.status:
            self._rows[delivery.message_id] = stands = attrs.evolve(stands, version=delivery.version)
        return stands


class TestVersionThatGoesBack(Mutant):
    broken = OwnVersion
    caught_by = (LATTICE, "test_acceptance_is_never_forgotten")


class WithoutProvider(_Deliveries):
    def _record(self, delivery):
        stands = super()._record(delivery)
        if stands.updated_at == delivery.updated_at:
            stands = attrs.evolve(stands, provider=delivery.provider, provider_id=delivery.provider_id)
            self._rows[delivery.message_id] = stands
        return stands


class TestProviderThatIsForgotten(Mutant):
    broken = WithoutProvider
    caught_by = ("test_provider_and_its_id_are_kept_by_reports_that_do_not_know_them",)


class Slow(_Deliveries):
    def _record(self, delivery):
        new = delivery.after(self._get(delivery.message_id))
        gap()
        if new is not None:
            self._rows[delivery.message_id] = new
        return self._rows[delivery.message_id]


class TestReportThatReadsBeforeItWrites(Mutant):
    broken = Slow
    caught_by = ("test_many_threads_reporting_newer_versions_the_newest_stands",)


class CopyOnWrite(_Deliveries):
    def _record(self, delivery):
        rows = dict(self._rows)
        new = delivery.after(rows.get(delivery.message_id))
        gap()
        with self._shared.locked():
            self._rows = rows if new is None else {**rows, delivery.message_id: new}
            return self._rows[delivery.message_id]


class TestReportThatOverwritesAnothers(Mutant):
    broken = CopyOnWrite
    caught_by = ("test_many_threads_reporting_each_message_is_kept",)


class SlowPurge(_Deliveries):
    def _purge(self, before, limit):
        with self._shared.locked():
            old = [row.message_id for row in self._rows.values() if row.status in FINAL and row.updated_at < before]
        gap()
        for message_id in old[:limit]:
            self._rows.pop(message_id, None)
        return len(old[:limit])


class TestPurgeThatCountsBeforeItDeletes(Mutant):
    broken = SlowPurge
    caught_by = ("test_many_threads_purging_each_record_is_counted_once",)


class FirstCome(_Deliveries):
    def _with_status(self, status, limit, after):
        rows = [row for row in self._rows.values() if row.status is status and row.message_id > after]
        return rows[:limit]


class TestPageInTheOrderOfReports(Mutant):
    broken = FirstCome
    caught_by = ("test_messages_of_a_status_come_in_the_order_of_their_ids_page_by_page",)


class Inclusive(_Deliveries):
    def _with_status(self, status, limit, after):
        rows = [row for row in self._rows.values() if row.status is status and row.message_id >= after]
        return sorted(rows, key=lambda row: row.message_id)[:limit]


class TestPageThatBeginsWithTheLastOne(Mutant):
    broken = Inclusive
    caught_by = ("test_hostile_keys_are_where_a_page_begins",)


class Utf16(_Deliveries):
    def _with_status(self, status, limit, after):
        return sorted(super()._with_status(status, 10_000, after), key=lambda row: row.message_id.encode("utf-16-be"))[
            :limit
        ]


class TestPageInTheOrderOfUtf16(Mutant):
    broken = Utf16
    caught_by = ("test_hostile_keys_are_kept_apart", "test_hostile_keys_are_where_a_page_begins")


class Stale(_Deliveries):
    def __init__(self, shared):
        super().__init__(shared)
        self._seen = {}

    def _record(self, delivery):
        stands = super()._record(delivery)
        self._seen.setdefault(stands.status, set()).add(stands.message_id)
        return stands

    def _with_status(self, status, limit, after):
        ids = sorted(message_id for message_id in self._seen.get(status, ()) if message_id > after)
        return [self._rows[message_id] for message_id in ids[:limit] if message_id in self._rows]


class TestPageThatKeepsWhatHasLeft(Mutant):
    broken = Stale
    caught_by = ("test_message_of_another_status_is_in_its_page_alone",)


class Zeros(_Deliveries):
    def _counts(self):
        return {**dict.fromkeys(DeliveryStatus, 0), **super()._counts()}


class TestCountsWithStatusesThatNoneHas(Mutant):
    broken = Zeros
    caught_by = ("test_counts_tell_how_many_messages_each_status_has",)


class CountingReports(_Deliveries):
    def __init__(self, shared):
        super().__init__(shared)
        self._total = {}

    def _record(self, delivery):
        stands = super()._record(delivery)
        self._total[stands.status] = self._total.get(stands.status, 0) + 1
        return stands

    def _counts(self):
        return dict(self._total)


class TestCountsOfReports(Mutant):
    broken = CountingReports
    caught_by = ("test_counts_tell_how_many_messages_each_status_has",)


class Purging(_Deliveries):
    def _purge(self, before, limit):
        with self._shared.locked():
            old = self.chosen(list(self._rows.values()), before)[:limit]
            for row in old:
                del self._rows[row.message_id]
            return len(old)


class OfAnyStatus(Purging):
    @staticmethod
    def chosen(rows, before):
        return sorted((row for row in rows if row.updated_at < before), key=lambda row: row.updated_at)


class TestPurgeOfWhatMayStillChange(Mutant):
    broken = OfAnyStatus
    caught_by = ("test_purge_takes_final_statuses_reported_before_an_instant_oldest_first",)


class OfTheInstant(Purging):
    @staticmethod
    def chosen(rows, before):
        old = (row for row in rows if row.updated_at <= before and row.status in FINAL)
        return sorted(old, key=lambda row: row.updated_at)


class TestPurgeOfTheInstantItself(Mutant):
    broken = OfTheInstant
    caught_by = ("test_purge_takes_final_statuses_reported_before_an_instant_oldest_first",)


class FirstComePurge(Purging):
    @staticmethod
    def chosen(rows, before):
        return [row for row in rows if row.updated_at < before and row.status in FINAL]


class TestPurgeInTheOrderOfReports(Mutant):
    broken = FirstComePurge
    caught_by = ("test_purge_takes_final_statuses_reported_before_an_instant_oldest_first",)


class Touching(_Deliveries):
    def _record(self, delivery):
        stands = super()._record(delivery)
        if stands.status is delivery.status:
            self._rows[delivery.message_id] = attrs.evolve(stands, updated_at=delivery.updated_at)
        return self._rows[delivery.message_id]


class TestRepeatedReportThatMakesYounger(Mutant):
    broken = Touching
    caught_by = ("test_purge_goes_by_the_last_report_that_counted", "test_report_repeated_changes_nothing")


class FirstInstant(_Deliveries):
    def _record(self, delivery):
        old = self._rows.get(delivery.message_id)
        stands = super()._record(delivery)
        if old is not None:
            self._rows[delivery.message_id] = stands = attrs.evolve(stands, updated_at=old.updated_at)
        return stands


class TestPurgeByTheFirstReport(Mutant):
    broken = FirstInstant
    caught_by = ("test_purge_goes_by_the_last_report_that_counted",)


class Remembering(_Deliveries):
    def _purge(self, before, limit):
        self._past = {**getattr(self, "_past", {}), **self._rows}
        return super()._purge(before, limit)

    def _record(self, delivery):
        past = getattr(self, "_past", {}).get(delivery.message_id)
        if past is not None:
            self._rows.setdefault(delivery.message_id, past)
        return super()._record(delivery)


class TestPurgeThatLeavesTheStatus(Mutant):
    broken = Remembering
    caught_by = ("test_report_after_a_purge_is_a_first_one",)


class Folding(_Deliveries):
    def _record(self, delivery):
        for message_id in list(self._rows):
            if message_id.casefold().strip() == delivery.message_id.casefold().strip() != message_id:
                del self._rows[message_id]
        return super()._record(delivery)


class TestIdsThatDifferInCaseAreOne(Mutant):
    broken = Folding
    caught_by = ("test_hostile_keys_are_kept_apart",)


class Cutting(_Deliveries):
    def _record(self, delivery):
        cut = delivery.provider_id and delivery.provider_id.partition("\0")[0]
        return super()._record(attrs.evolve(delivery, provider_id=cut))


class TestProviderIdThatIsCutAtNul(Mutant):
    broken = Cutting
    caught_by = ("test_hostile_text_in_values_comes_back_or_is_escaped",)


class Bounded(_Deliveries):
    def _record(self, delivery):
        return super()._record(attrs.evolve(delivery, provider_id=delivery.provider_id and delivery.provider_id[:999]))


class TestProviderIdThatIsCutAtALimit(Mutant):
    broken = Bounded
    features = frozenset({"megabyte"})
    caught_by = ("test_provider_id_of_a_megabyte_is_kept",)


class QuestionMarks(_Deliveries):
    def _record(self, delivery):
        known = delivery.provider_id and delivery.provider_id.encode("utf-8", "replace").decode()
        return super()._record(attrs.evolve(delivery, provider_id=known))


class TestSurrogatesThatBecomeQuestionMarks(Mutant):
    broken = QuestionMarks
    features = frozenset({"surrogates"})
    caught_by = ("test_lone_surrogates_wedge_no_message", "test_lone_surrogates_come_back_as_they_were")


class Half(_Deliveries):
    def _record(self, delivery):
        stored = self._rows.pop(delivery.message_id, None)
        with self._shared.locked():
            if stored is not None:
                self._rows[delivery.message_id] = stored
        return super()._record(delivery)

    def _purge(self, before, limit):
        return super()._purge(before, 1) + super()._purge(before, limit - 1)


class TestOperationsInTwoSteps(Mutant):
    broken = Half
    caught_by = (
        "test_report_interrupted_in_the_middle_stands_or_not",
        "test_purge_interrupted_in_the_middle_is_done_or_not",
    )


class StatusFirst(_Deliveries):
    def __init__(self, shared):
        super().__init__(shared)
        self._known = {}

    def _record(self, delivery):
        self._known.setdefault(delivery.message_id, delivery.status)
        stands = super()._record(delivery)
        self._known[delivery.message_id] = stands.status
        return stands

    def _counts(self):
        known = list(self._known.values())
        return {status: known.count(status) for status in known}


class TestCountBeforeTheReport(Mutant):
    broken = StatusFirst
    caught_by = ("test_first_report_interrupted_in_the_middle_stands_or_not",)


class TestLogOfOneProcess(Mutant):
    broken = _Deliveries
    features = frozenset({"fork", "reopen"})
    caught_by = (
        "test_store_used_before_a_fork_works_in_the_child_and_in_the_parent",
        "test_store_opened_again_finds_its_reports",
    )


class TestCancelledOperationLeavesItsAnswer(DeliveryStoreSuite):
    caught_by = ("test_operation_cancelled_is_done_or_not_and_the_next_gets_its_own_answer",)

    async def make_store(self, place):
        return leaving_answers_behind(AsyncDeliveryStore, _Deliveries(_Shared(place.clock)))


class TestReportAnsweredBeforeItIsWritten(DeliveryStoreSuite):
    features = frozenset({"reopen", "processes"})
    caught_by = ("test_reports_of_killed_processes_are_there",)

    def make_store(self, place):
        reads = ["_get", "_with_status", "_counts", "_purge"]
        return writing_later(place, "deliveries", {"_record": lambda delivery: delivery}, reads)


class EveryCopyCounts(_Deliveries):
    def __init__(self, shared):
        super().__init__(shared)
        self._came = {}

    def _record(self, delivery):
        came = self._came.setdefault(delivery.message_id, [])
        came += delivery.event_ids
        stands = attrs.evolve(super()._record(delivery), event_ids=tuple(came))
        self._rows[stands.message_id] = stands
        return stands


class TestEventThatCountsAtEachCopy(Mutant):
    broken = EveryCopyCounts
    caught_by = (
        "test_event_that_comes_46_times_is_applied_once",
        "test_many_threads_applying_shuffled_events_end_in_the_same_record",
        "test_events_in_any_order_and_number_end_in_the_same_record",
    )


class LastEvent(_Deliveries):
    def _record(self, delivery):
        stands = super()._record(delivery)
        if delivery.event_ids:
            stands = attrs.evolve(stands, status=delivery.status, told=delivery.told)
            self._rows[stands.message_id] = stands
        return stands


class TestEventThatComesLastWins(Mutant):
    broken = LastEvent
    caught_by = (
        "test_events_in_any_order_and_number_end_in_the_same_record",
        "test_event_moves_the_status_and_leaves_its_facts",
        "test_any_sequence_of_operations_gives_what_the_model_gives",
    )


class OwnFirst(_Deliveries):
    def _record(self, delivery):
        stands = super()._record(delivery)
        if delivery.version >= 0 and not delivery.is_accepted:
            self._rows[stands.message_id] = stands = attrs.evolve(stands, status=delivery.status)
        return stands


class TestReportThatOverrulesTheProvider(Mutant):
    broken = OwnFirst
    caught_by = ("test_report_of_our_own_never_overrules_an_event", "test_store_opened_again_finds_what_was_told")
    features = frozenset({"reopen"})


class ByIdAlone(_Deliveries):
    def _record(self, delivery):
        old = self._rows.get(delivery.message_id)
        seen = {event_id for _, event_id in old.event_ids} if old else set()
        if any(event_id in seen for _, event_id in delivery.event_ids):
            return old
        return super()._record(delivery)


class TestEventsOfTwoProvidersAreOne(Mutant):
    broken = ByIdAlone
    caught_by = ("test_events_are_told_apart_by_provider_and_id",)


class WithoutEnd(_Deliveries):
    def _record(self, delivery):
        old = self._rows.get(delivery.message_id)
        stands = super()._record(delivery)
        ids = dict.fromkeys((*(old.event_ids if old else ()), *delivery.event_ids))
        self._rows[stands.message_id] = stands = attrs.evolve(stands, event_ids=tuple(ids))
        return stands


class TestRecordThatGrowsWithoutAnEnd(Mutant):
    broken = WithoutEnd
    caught_by = ("test_last_hundred_events_are_remembered_and_a_forgotten_one_does_no_harm",)


class OnlyKnown(_Deliveries):
    def _record(self, delivery):
        if delivery.version < 0 and delivery.message_id not in self._rows:
            return None
        return super()._record(delivery)


class TestEventOfAnUnknownMessageThatIsDropped(Mutant):
    broken = OnlyKnown
    caught_by = ("test_event_of_a_message_never_reported_is_unexpected_until_it_is",)


class AlwaysUnexpected(_Deliveries):
    def _unexpected(self, limit, after):
        seen = self._first = {
            **{row.message_id: row.is_unexpected for row in self._rows.values()},
            **getattr(self, "_first", {}),
        }
        return self._page(lambda row: seen[row.message_id], limit, after)


class TestUnexpectedMessageThatStaysSo(Mutant):
    broken = AlwaysUnexpected
    caught_by = ("test_event_of_a_message_never_reported_is_unexpected_until_it_is",)


class AnyProvider(_Deliveries):
    def _by_provider_id(self, provider, provider_id):
        rows = [row for row in self._rows.values() if row.provider_id == provider_id]
        return rows[0] if len(rows) == 1 else None


class TestProviderIdOfAnybody(Mutant):
    broken = AnyProvider
    caught_by = ("test_message_is_found_by_its_providers_id",)


class FirstOfSeveral(_Deliveries):
    def _by_provider_id(self, provider, provider_id):
        rows = [row for row in self._rows.values() if (row.provider_id, row.provider) == (provider_id, provider)]
        rows += [row for row in self._rows.values() if (row.provider_id, row.provider) == (provider_id, None)]
        return rows[0] if rows else None


class TestProviderIdOfSeveralIsThatOfTheFirst(Mutant):
    broken = FirstOfSeveral
    caught_by = ("test_message_is_found_by_its_providers_id",)


class FirstId(_Deliveries):
    def _by_provider_id(self, provider, provider_id):
        self._ids = getattr(self, "_ids", {})
        for row in self._rows.values():
            self._ids.setdefault(row.provider_id, row.message_id)
        return self._rows.get(self._ids.get(provider_id))


class TestProviderIdThatHasChanged(Mutant):
    broken = FirstId
    caught_by = ("test_message_is_found_by_the_id_that_an_event_brought_or_a_report_changed",)


class FinalAlone(Purging):
    @staticmethod
    def chosen(rows, before):
        old = (row for row in rows if row.updated_at < before and row.status in FINAL)
        return sorted(old, key=lambda row: row.updated_at)


class TestPurgeThatLeavesWhatAProviderDefers(Mutant):
    broken = FinalAlone
    caught_by = ("test_purge_takes_what_a_provider_told_of_whatever_its_status",)


class FactsLeft(_Deliveries):
    def _purge(self, before, limit):
        rows = dict(self._rows)
        purged = super()._purge(before, limit)
        self._left = {name: row for name, row in rows.items() if name not in self._rows}
        return purged

    def _record(self, delivery):
        past = getattr(self, "_left", {}).get(delivery.message_id)
        stands = super()._record(delivery)
        if past is not None:
            self._rows[stands.message_id] = stands = attrs.evolve(stands, failure=past.failure)
        return stands


class TestPurgeThatLeavesFacts(Mutant):
    broken = FactsLeft
    caught_by = ("test_purge_takes_what_a_provider_told_of_whatever_its_status",)


class FactsLater(_Deliveries):
    def _record(self, delivery):
        old = self._rows.get(delivery.message_id)
        if old is not None and delivery.version < 0:
            self._rows[old.message_id] = attrs.evolve(old, status=delivery.status, told=delivery.told)
            with self._shared.locked():
                self._rows[old.message_id] = old
        return super()._record(delivery)


class TestStatusBeforeItsFacts(Mutant):
    broken = FactsLater
    caught_by = ("test_event_interrupted_in_the_middle_is_applied_or_not",)


class CuttingIds(_Deliveries):
    def _by_provider_id(self, provider, provider_id):
        return super()._by_provider_id(provider.partition("\0")[0], provider_id.partition("\0")[0])


class TestProviderIdThatIsLookedUpToNul(Mutant):
    broken = CuttingIds
    caught_by = ("test_hostile_ids_of_providers_find_their_messages",)


class TestSlowEvents(Mutant):
    broken = Slow
    caught_by = ("test_many_threads_applying_shuffled_events_end_in_the_same_record",)


class TestEventAnsweredBeforeItIsWritten(DeliveryStoreSuite):
    features = frozenset({"reopen", "processes"})
    caught_by = ("test_events_of_killed_processes_are_there",)

    def make_store(self, place):
        reads = ["_get", "_with_status", "_counts", "_purge"]
        return writing_later(place, "deliveries", {"_record": lambda delivery: delivery}, reads)


class Unsorted(_Deliveries):
    def _updated_between(self, start, end, status, limit, after):
        begin = (start, "") if after is None else max((start, ""), (after.updated_at, after.message_id))
        rows = [row for row in self._rows.values() if row.status is status and row.updated_at < end]
        return [row for row in rows if (row.updated_at, row.message_id) > begin][:limit]


class TestTimesInTheOrderOfReports(Mutant):
    broken = Unsorted
    caught_by = ("test_updated_between_gives_the_longest_silent_first_page_by_page",)


class ByInstantAlone(_Deliveries):
    def _updated_between(self, start, end, status, limit, after):
        found = super()._updated_between(start, end, status, 1_000_000, None)
        return [row for row in found if after is None or row.updated_at > after.updated_at][:limit]


class TestPageThatLosesItsInstant(Mutant):
    broken = ByInstantAlone
    caught_by = ("test_updated_between_gives_the_longest_silent_first_page_by_page",)


class Closed(_Deliveries):
    def _updated_between(self, start, end, status, limit, after):
        return super()._updated_between(start, later(end, 0.001), status, limit, after)


class TestWindowWithItsEnd(Mutant):
    broken = Closed
    caught_by = ("test_updated_between_includes_its_start_and_not_its_end",)


class AnyStatus(_Deliveries):
    def _updated_between(self, start, end, status, limit, after):
        found = [
            row
            for each in DeliveryStatus
            for row in super(AnyStatus, self)._updated_between(start, end, each, limit, after)
        ]
        return sorted(found, key=lambda row: (row.updated_at, row.message_id))[:limit]


class TestWindowOfAnyStatus(Mutant):
    broken = AnyStatus
    caught_by = ("test_updated_between_goes_by_the_latest_news_of_the_status_that_stands",)


class BySkipping(_Deliveries):
    def _updated_between(self, start, end, status, limit, after):
        found = list(super()._updated_between(start, end, status, 1_000_000, None))
        begin = 0 if after is None else 1 + next((n for n, row in enumerate(found) if row == after), len(found))
        return found[begin : begin + limit]


class TestPageThatNeedsTheLastOne(Mutant):
    broken = BySkipping
    caught_by = ("test_updated_between_goes_on_when_the_last_of_a_page_has_gone",)


class Wandering(_Deliveries):
    def _move_bookmark(self, source, to):
        self._bookmarks[source] = to
        return to


class TestBookmarkThatGoesBack(Mutant):
    broken = Wandering
    caught_by = ("test_bookmark_never_goes_back", "test_any_sequence_of_operations_gives_what_the_model_gives")


class OneBookmark(_Deliveries):
    def _move_bookmark(self, source, to):
        return super()._move_bookmark(source.lower(), to)

    def _bookmark(self, source):
        return super()._bookmark(source.lower())


class TestBookmarkOfSeveralSources(Mutant):
    broken = OneBookmark
    caught_by = ("test_bookmark_stands_where_it_was_moved_last",)
