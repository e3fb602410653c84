"""Broken redrive stores."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import attrs

from retrykit.backends.memory import _Shared
from retrykit.backends.memory_redrives import Redrives
from retrykit.stores import AsyncRedriveStore, AuditEntry, Backend, RedriveJob, RedriveState, RedriveStore
from retrykit.stores.redrives import JobChange
from retrykit.testing.conformance import Place, RedriveStoreSuite
from tests.stores.mutants.breakages import gap, leaving_answers_behind, writing_later


class Mutant(RedriveStoreSuite):
    broken: type[Redrives]

    def make_store(self, place: Place) -> RedriveStore:
        return self.broken(_Shared(place.clock).locked)


class LastStarts(Redrives):
    def _start(self, job: RedriveJob) -> RedriveJob:
        known = self._known.pop(job.id, None)
        stands = super()._start(job)
        if stands.id != job.id and known is not None:
            self._known[job.id] = known
        return stands


class TestStartThatReplaces(Mutant):
    broken = LastStarts
    caught_by = (
        "test_start_twice_is_one_redrive_and_the_first_one_stays",
        "test_any_sequence_of_operations_gives_what_the_model_gives",
    )


class NoConflicts(Redrives):
    def _keep(self, before: RedriveJob | None, after: RedriveJob) -> RedriveJob:
        return super()._keep(after if before is None else before, after)


class TestStartBesideAnActiveRedrive(Mutant):
    broken = NoConflicts
    caught_by = (
        "test_start_beside_an_active_redrive_of_the_same_letters_is_refused",
        "test_many_threads_starting_redrives_of_a_group_one_is_active",
        "test_any_sequence_of_operations_gives_what_the_model_gives",
    )


class FreeResume(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        others = {key: each for key, each in self._known.items() if key != job_id}
        self._known = {key: each for key, each in self._known.items() if key == job_id}
        try:
            return super()._change(job_id, change)
        finally:
            self._known |= others


class TestResumeBesideAnActiveRedrive(Mutant):
    broken = FreeResume
    caught_by = (
        "test_resume_beside_an_active_redrive_of_the_same_letters_is_refused",
        "test_audit_holds_nothing_of_what_was_refused",
    )


class RunningAlone(Redrives):
    def _keep(self, before: RedriveJob | None, after: RedriveJob) -> RedriveJob:
        paused = {key: each for key, each in self._known.items() if each.state is RedriveState.PAUSED}
        for key in paused.keys() - {after.id}:
            del self._known[key]
        try:
            return super()._keep(before, after)
        finally:
            self._known = paused | self._known


class TestConflictsWithRunningRedrivesAlone(Mutant):
    broken = RunningAlone
    caught_by = (
        "test_start_beside_an_active_redrive_of_the_same_letters_is_refused",
        "test_resume_beside_an_active_redrive_of_the_same_letters_is_refused",
    )


class SameGroupAlone(Redrives):
    def _keep(self, before: RedriveJob | None, after: RedriveJob) -> RedriveJob:
        others = {key: each for key, each in self._known.items() if each.group != after.group}
        for key in others:
            del self._known[key]
        try:
            return super()._keep(before, after)
        finally:
            self._known = others | self._known


class TestConflictsOfTheSameGroupAlone(Mutant):
    broken = SameGroupAlone
    caught_by = (
        "test_start_beside_an_active_redrive_of_the_same_letters_is_refused",
        "test_start_beside_active_redrives_of_other_groups_is_kept",
        "test_many_threads_starting_redrives_of_one_and_of_several_groups_none_conflict",
    )


class OneForAll(Redrives):
    def _keep(self, before: RedriveJob | None, after: RedriveJob) -> RedriveJob:
        active = [each for each in self._known.values() if each.is_active and each.id != after.id]
        if active and after.is_active and (before is None or not before.is_active):
            return active[0]
        return super()._keep(before, after)


class TestOneRedriveForAllGroups(Mutant):
    broken = OneForAll
    caught_by = (
        "test_start_beside_active_redrives_of_other_groups_is_kept",
        "test_resume_beside_an_active_redrive_of_another_group_goes_on",
    )


class RoomForEveryChange(Redrives):
    def _keep(self, before: RedriveJob | None, after: RedriveJob) -> RedriveJob:
        active = [each for each in self._known.values() if each.is_active and each.id != after.id]
        return active[0] if before is not None and active else super()._keep(before, after)


class TestChangeThatLooksForRoomAgain(Mutant):
    broken = RoomForEveryChange
    caught_by = ("test_change_of_an_active_redrive_needs_no_room",)


class EndedNeedsRoom(Redrives):
    def _keep(self, before: RedriveJob | None, after: RedriveJob) -> RedriveJob:
        for each in self._known.values():
            if before is None and each.is_active and each.conflicts_with(after):
                return each
        return super()._keep(before, after)


class TestStartOfWhatHasEndedThatConflicts(Mutant):
    broken = EndedNeedsRoom
    caught_by = ("test_start_beside_one_that_has_ended_is_kept",)


class RefusedIsKept(Redrives):
    def _start(self, job: RedriveJob) -> RedriveJob:
        stands = super()._start(job)
        if stands.id != job.id:
            self._known[job.id] = attrs.evolve(job, state=RedriveState.STOPPED)
        return stands


class TestStartThatIsRefusedAndKept(Mutant):
    broken = RefusedIsKept
    caught_by = ("test_start_beside_an_active_redrive_of_the_same_letters_is_refused",)


class RefusedIsLogged(Redrives):
    def _start(self, job: RedriveJob) -> RedriveJob:
        for entry in job.history:
            self._entries[entry.key] = entry
        return super()._start(job)


class TestAuditOfWhatWasRefused(Mutant):
    broken = RefusedIsLogged
    caught_by = (
        "test_audit_holds_nothing_of_what_was_refused",
        "test_many_threads_starting_redrives_of_a_group_one_is_active",
    )


class OwnTime(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        return super()._change(job_id, lambda job, now: change(job, now.replace(microsecond=0)))


class TestChangeInWholeSeconds(Mutant):
    broken = OwnTime
    caught_by = ("test_change_is_made_to_what_stands_at_the_stores_time",)


class EndsEarly(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        return super()._change(job_id, lambda job, now: change(job, now + timedelta(milliseconds=1)))


class TestLeaseThatEndsAMillisecondEarly(Mutant):
    broken = EndsEarly
    caught_by = ("test_hold_is_granted_to_one_until_its_lease_ends",)


class Unwritten(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        with self._locked() as now:
            job = self._known.get(job_id)
            return None if job is None else change(job, now)


class TestChangeThatIsNotKept(Mutant):
    broken = Unwritten
    caught_by = ("test_change_is_made_to_what_stands_at_the_stores_time",)


class AnswersBefore(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        before = self._known.get(job_id)
        after = super()._change(job_id, change)
        return before if after is not None and after.id == job_id else after


class TestChangeThatAnswersWhatWasBefore(Mutant):
    broken = AnswersBefore
    caught_by = ("test_change_is_made_to_what_stands_at_the_stores_time",)


class MadeUp(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        for known in list(self._known.values()):
            if known.id.strip().casefold() == job_id.strip().casefold():
                return super()._change(known.id, change)
        return None


class TestIdsThatAreNormalised(Mutant):
    broken = MadeUp
    caught_by = ("test_hostile_ids_are_kept_apart",)


class Unfenced(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        after = super()._change(job_id, change)
        if after is not None and after.id == job_id and after.lease is not None:
            after = attrs.evolve(after, seq=1, lease=attrs.evolve(after.lease, token=1))
            self._known[job_id] = after
        return after


class TestTokenThatStartsAgain(Mutant):
    broken = Unfenced
    caught_by = ("test_late_holder_changes_nothing", "test_hold_is_granted_to_one_until_its_lease_ends")


class SlowStart(Redrives):
    def _start(self, job: RedriveJob) -> RedriveJob:
        with self._locked():
            for known in self._known.values():
                if known.id == job.id or (job.is_active and known.is_active and known.conflicts_with(job)):
                    return known
        gap()
        with self._locked():
            self._known[job.id] = job
            for entry in job.history:
                self._entries[entry.key] = entry
            return job


class TestStartThatReadsBeforeItWrites(Mutant):
    broken = SlowStart
    caught_by = (
        "test_many_threads_starting_redrives_of_a_group_one_is_active",
        "test_many_threads_starting_the_same_redrive_it_is_one",
        "test_many_threads_starting_redrives_of_one_and_of_several_groups_none_conflict",
    )


class SlowChange(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        with self._locked() as now:
            job = self._known.get(job_id)
        gap()
        with self._locked():
            return None if job is None else self._keep(job, change(job, now))


class TestChangeThatReadsBeforeItWrites(Mutant):
    broken = SlowChange
    caught_by = (
        "test_many_threads_changing_one_redrive_no_change_is_lost",
        "test_many_threads_holding_one_redrive_one_holds_it",
        "test_pause_racing_with_a_hold_nobody_holds_what_is_paused",
    )


class SlowResume(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        with self._locked() as now:
            job = self._known.get(job_id)
            after = None if job is None else change(job, now)
            others = [each for each in self._known.values() if each.is_active and after and each.conflicts_with(after)]
        if after is None or job is None:
            return None
        if others and after.is_active and not job.is_active:
            return others[0]
        gap()
        with self._locked():
            self._known[job_id] = after
            for entry in after.history:
                self._entries[entry.key] = entry
            return after


class TestResumeThatLooksBeforeItWrites(Mutant):
    broken = SlowResume
    caught_by = ("test_many_threads_resuming_redrives_of_a_group_one_is_active",)


class Oldest(Redrives):
    def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Sequence[RedriveJob]:
        return sorted(super()._jobs(active, limit, after), key=lambda job: (job.created_at, job.id))


class TestJobsOldestFirst(Mutant):
    broken = Oldest
    caught_by = ("test_jobs_come_latest_first_then_by_id",)


class Unordered(Redrives):
    def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Sequence[RedriveJob]:
        known = [job for job in self._known.values() if job.is_active or not active]
        known.sort(key=lambda job: -job.created_at.timestamp())
        return [job for job in known if after is None or job.position > after.position][:limit]


class TestJobsOfOneInstantInAnyOrder(Mutant):
    broken = Unordered
    caught_by = ("test_jobs_come_latest_first_then_by_id",)


class PagesByTime(Redrives):
    def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Sequence[RedriveJob]:
        known = super()._jobs(active, 10**9, None)
        return [job for job in known if after is None or job.created_at < after.created_at][:limit]

    def _audit(self, limit: int, after: AuditEntry | None) -> Sequence[AuditEntry]:
        return [entry for entry in super()._audit(10**9, None) if after is None or entry.at < after.at][:limit]


class TestPagesThatLeaveOutWhatIsEqualInTime(Mutant):
    broken = PagesByTime
    caught_by = ("test_jobs_come_latest_first_then_by_id", "test_audit_comes_latest_first_then_by_key")


class LimitBeforeState(Redrives):
    def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Sequence[RedriveJob]:
        return [job for job in super()._jobs(False, limit, after) if job.is_active or not active]


class TestPageOfActiveJobsThatIsCut(Mutant):
    broken = LimitBeforeState
    caught_by = ("test_active_jobs_are_those_that_run_or_are_paused",)


class RunningOnly(Redrives):
    def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Sequence[RedriveJob]:
        known = super()._jobs(active, limit, after)
        return [job for job in known if not active or job.state is RedriveState.RUNNING]


class TestActiveJobsWithoutThePausedOnes(Mutant):
    broken = RunningOnly
    caught_by = ("test_active_jobs_are_those_that_run_or_are_paused",)


class Bounded(Redrives):
    def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Sequence[RedriveJob]:
        return super()._jobs(active, min(limit, 20), after)

    def _audit(self, limit: int, after: AuditEntry | None) -> Sequence[AuditEntry]:
        return super()._audit(min(limit, 100), after)


class TestPagesOfABoundedSize(Mutant):
    broken = Bounded
    caught_by = (
        "test_jobs_gives_twenty_unless_asked_for_more",
        "test_audit_gives_a_hundred_unless_asked_for_more",
    )


class Forgetful(Redrives):
    def _start(self, job: RedriveJob) -> RedriveJob:
        stands = super()._start(job)
        if stands is job:
            self._known[job.id] = attrs.evolve(job, taken=(), watched=(), cursor=None)
        return stands


class TestRedriveWithoutWhatIsReserved(Mutant):
    broken = Forgetful
    caught_by = ("test_redrive_comes_back_as_it_was_started",)


class NoNotes(Redrives):
    def _note(self, entry: AuditEntry) -> None:
        with self._locked():
            self._entries.setdefault(f"{entry.at} {entry.subject}", entry)


class TestAuditOfOneEntryForEachSubjectAndInstant(Mutant):
    broken = NoNotes
    caught_by = ("test_note_repeated_is_one_entry", "test_many_threads_noting_each_entry_is_kept_once")


class DoubledNotes(Redrives):
    def _note(self, entry: AuditEntry) -> None:
        with self._locked():
            self._entries[f"{len(self._entries)}"] = entry


class TestNoteThatDoubles(Mutant):
    broken = DoubledNotes
    caught_by = (
        "test_note_repeated_is_one_entry",
        "test_many_threads_noting_each_entry_is_kept_once",
        "test_any_sequence_of_operations_gives_what_the_model_gives",
    )


class AuditInOrderOfArrival(Redrives):
    def _audit(self, limit: int, after: AuditEntry | None) -> Sequence[AuditEntry]:
        entries = list(self._entries.values())[::-1]
        return entries[0 if after is None else entries.index(after) + 1 :][:limit]


class TestAuditInTheOrderOfArrival(Mutant):
    broken = AuditInOrderOfArrival
    caught_by = (
        "test_audit_comes_latest_first_then_by_key",
        "test_audit_goes_on_after_an_entry_that_does_not_stand_in_it",
    )


class AuditOfStarts(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        entries = dict(self._entries)
        after = super()._change(job_id, change)
        self._entries = entries
        return after


class TestAuditWithoutWhatHappensToRedrives(Mutant):
    broken = AuditOfStarts
    caught_by = (
        "test_audit_holds_what_a_redrives_history_holds_from_the_same_moment_on",
        "test_any_sequence_of_operations_gives_what_the_model_gives",
    )


class AuditOfTheLast(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        entries = dict(self._entries)
        after = super()._change(job_id, change)
        for entry in () if after is None else after.history[-1:]:
            entries[entry.key] = entry
        self._entries = entries
        return after


class TestAuditOfTheLastOfSeveral(Mutant):
    broken = AuditOfTheLast
    caught_by = ("test_audit_holds_all_of_a_history_that_gained_several_entries_at_once",)


class TwoSteps(Redrives):
    def _start(self, job: RedriveJob) -> RedriveJob:
        stands = super()._start(attrs.evolve(job, history=()))
        with self._locked():
            if stands.id != job.id or stands.history:
                return stands
            self._known[job.id] = job
            for entry in job.history:
                self._entries[entry.key] = entry
            return job

    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        entries = dict(self._entries)
        after = super()._change(job_id, change)
        self._entries, new = entries, self._entries
        with self._locked():
            self._entries = new
        return after


class TestAuditThatIsWrittenAfterTheRedrive(Mutant):
    broken = TwoSteps
    caught_by = ("test_write_interrupted_in_the_middle_is_done_or_not",)


class BrokenByAnError(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        try:
            return super()._change(job_id, change)
        except ZeroDivisionError:
            del self._known[job_id]
            raise


class TestChangeThatFailsAndTakesTheRedriveAlong(Mutant):
    broken = BrokenByAnError
    caught_by = ("test_change_that_fails_changes_nothing",)


class Cutting(Redrives):
    def _start(self, job: RedriveJob) -> RedriveJob:
        return super()._start(attrs.evolve(job, root_cause=job.root_cause.partition("\0")[0][:65_535]))

    def _note(self, entry: AuditEntry) -> None:
        super()._note(attrs.evolve(entry, why=entry.why[:65_535]))


class TestTextThatIsCut(Mutant):
    broken = Cutting
    features = frozenset({"megabyte"})
    caught_by = ("test_hostile_text_comes_back_or_is_escaped", "test_redrive_of_a_megabyte_is_kept")


class Escaping(Redrives):
    def _start(self, job: RedriveJob) -> RedriveJob:
        return super()._start(attrs.evolve(job, note=job.note.encode("utf-8", "replace").decode()))


class TestTextWithQuestionMarks(Mutant):
    broken = Escaping
    features = frozenset({"surrogates"})
    caught_by = ("test_lone_surrogates_come_back_as_they_were", "test_hostile_text_comes_back_or_is_escaped")


class StepsOverlooked(Redrives):
    def _audit(self, limit: int, after: AuditEntry | None) -> Sequence[AuditEntry]:
        entries = sorted(super()._audit(10**9, None), key=lambda entry: (-entry.at.timestamp(), entry.key))
        begin = 0 if after is None else entries.index(after) + 1
        return entries[begin : begin + limit]


class TestAuditThatOverlooksSteps(Mutant):
    broken = StepsOverlooked
    caught_by = ("test_note_repeated_is_one_entry",)


class SimilarOwners(Redrives):
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        after = super()._change(job_id, change)
        if after is not None and after.lease is not None and after.id == job_id:
            owner = after.lease.owner.strip(".")
            self._known[job_id] = after = attrs.evolve(after, lease=attrs.evolve(after.lease, owner=owner))
        return after


class TestOwnersThatAreNormalised(Mutant):
    broken = SimilarOwners
    caught_by = ("test_hostile_owners_are_told_apart",)


class TestStoreOfOneProcess(Mutant):
    broken = Redrives
    features = frozenset({"fork", "reopen"})
    caught_by = (
        "test_store_used_before_a_fork_works_in_the_child_and_in_the_parent",
        "test_store_opened_again_finds_its_redrives",
    )


class TestCancelledOperationLeavesItsAnswer(RedriveStoreSuite):
    caught_by = ("test_operation_cancelled_is_done_or_not_and_the_next_gets_its_own_answer",)

    async def make_store(self, place: Place) -> AsyncRedriveStore:
        return leaving_answers_behind(AsyncRedriveStore, Redrives(_Shared(place.clock).locked))


class TestStartAnsweredBeforeItIsWritten(RedriveStoreSuite):
    features = frozenset({"reopen", "processes"})
    caught_by = ("test_redrives_of_killed_processes_are_there", "test_store_opened_again_finds_its_redrives")

    def make_store(self, place: Place) -> Backend:
        return writing_later(
            place, "redrives", {"_start": lambda job: job, "_note": lambda _: None}, ["_get", "_jobs", "_audit"]
        )
