"""Broken claim stores: what came of a payload, and what is said of a lost worker."""

from __future__ import annotations

from datetime import datetime, timedelta

import attrs

from retrykit.backends.memory import _Claims, _Shared
from retrykit.decision import DispositionKind
from retrykit.failure import Outcome
from retrykit.machines import poison
from retrykit.stores import ClaimRecord, ClaimStore
from retrykit.stores.claims import ClaimAnswer, Claimed, ClaimTerms, Done, ReopenTerms, Suspect
from retrykit.testing.conformance import ClaimStoreSuite, Place
from tests.stores.mutants.breakages import gap


class Mutant(ClaimStoreSuite):
    broken: type[_Claims]

    def make_store(self, place: Place) -> ClaimStore:
        return self.broken(_Shared(place.clock))


class _Marking(_Claims):
    """A store that takes each change of the marks in hand."""

    def _kept(self, record: ClaimRecord, now: datetime) -> ClaimRecord:
        before, marks = self._records.get(record.key), dict(self._marks)
        kept = super()._kept(record, now)
        self.after(before, record, marks)
        return kept

    def after(self, before: ClaimRecord | None, record: ClaimRecord, marks: dict[str, poison.Marks]) -> None:
        """Change the marks once more; `marks` are those before."""


class Unmarked(_Marking):
    def after(self, before: ClaimRecord | None, record: ClaimRecord, marks: dict[str, poison.Marks]) -> None:
        self._marks = marks


class TestStoreWithoutMarks(Mutant):
    broken = Unmarked
    caught_by = (
        "test_three_internal_failures_of_a_payload_condemn_its_next_start",
        "test_message_that_failed_three_times_is_not_started_again",
        "test_lost_workers_of_a_payload_condemn_its_next_start",
        "test_failures_at_the_same_time_are_all_marked",
        "test_marks_of_any_payload_and_worker_are_kept_apart",
    )


class Unread(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        rule = attrs.evolve(terms.poison, failures=None)
        return super()._claim(key, fingerprint, owner, lease, attrs.evolve(terms, poison=rule))


class TestMarksThatNobodyReads(Mutant):
    broken = Unread
    caught_by = (
        "test_three_internal_failures_of_a_payload_condemn_its_next_start",
        "test_crash_that_a_claim_notices_counts_in_it",
        "test_failures_of_the_rule_are_obeyed",
    )


class ReadBefore(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        counted = len(self._marks.get(fingerprint or "", {}))
        enough = terms.poison.failures is not None and counted >= terms.poison.failures
        rule = terms.poison if enough else attrs.evolve(terms.poison, failures=None)
        return super()._claim(key, fingerprint, owner, lease, attrs.evolve(terms, poison=rule))


class TestCrashThatCountsAtTheNextClaimOnly(Mutant):
    broken = ReadBefore
    caught_by = ("test_crash_that_a_claim_notices_counts_in_it",)


class MarksOnSettleAlone(_Claims):
    def _cancel(self, key: str) -> ClaimRecord:
        marks = dict(self._marks)
        record = super()._cancel(key)
        self._marks = marks
        return record

    def _claim_unknown(self, key: str, owner: str, lease: float) -> ClaimRecord | None:
        marks = dict(self._marks)
        record = super()._claim_unknown(key, owner, lease)
        self._marks = marks
        return record


class TestCrashesThatOthersNotice(Mutant):
    broken = MarksOnSettleAlone
    caught_by = ("test_lost_workers_of_a_payload_condemn_its_next_start",)


class MarkPerHold(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        return super()._claim(key, fingerprint, owner.replace("/", "|"), lease, terms)


class TestMessagesOfOneProcessThatAreManyMarks(Mutant):
    broken = MarkPerHold
    caught_by = ("test_messages_lost_with_one_process_are_one_mark",)


class Unforgiving(_Marking):
    def after(self, before: ClaimRecord | None, record: ClaimRecord, marks: dict[str, poison.Marks]) -> None:
        if record.disposition is DispositionKind.SENT:
            self._marks = marks


class TestSentPayloadThatKeepsItsMarks(Mutant):
    broken = Unforgiving
    caught_by = ("test_payload_that_was_sent_begins_anew",)


class BearsRefusalsInMind(_Marking):
    def after(self, before: ClaimRecord | None, record: ClaimRecord, marks: dict[str, poison.Marks]) -> None:
        if record.attempts and record.attempts[-1].failure.outcome is Outcome.REJECTED:
            self._marks = marks


class TestRefusedPayloadThatKeepsItsMarks(Mutant):
    broken = BearsRefusalsInMind
    caught_by = ("test_payload_that_a_provider_refused_begins_anew",)


class ForgivesWhatItSettles(_Claims):
    def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> ClaimRecord:
        marks = dict(self._marks)
        record = super()._confirm(key, provider, provider_id)
        self._marks = marks
        return record


class TestConfirmedPayloadThatKeepsItsMarks(Mutant):
    broken = ForgivesWhatItSettles
    caught_by = ("test_payload_that_was_sent_begins_anew",)


class KeepsAtReopening(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        marks = dict(self._marks)
        record = super()._reopen(key, terms)
        self._marks = marks
        return record


class TestPayloadThatIsPutBackWithItsMarks(Mutant):
    broken = KeepsAtReopening
    caught_by = ("test_payload_of_a_letter_that_is_put_back_begins_anew",)


class KeepsTheReplaced(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        marks = dict(self._marks)
        record = super()._reopen(key, terms)
        self._marks = {name: kept for name, kept in marks.items() if name != record.fingerprint}
        return record


class TestReplacedPayloadThatKeepsItsMarks(Mutant):
    broken = KeepsTheReplaced
    caught_by = ("test_payload_of_a_letter_that_is_put_back_begins_anew",)


class ForgetsWheneverAsked(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        for fingerprint in (terms.fingerprint, *terms.replaced):
            self._marks.pop(fingerprint or "", None)
        return super()._reopen(key, terms)


class TestRepeatedReopeningThatForgetsAgain(Mutant):
    broken = ForgetsWheneverAsked
    caught_by = ("test_payload_replaced_before_begins_anew_when_the_record_is_gone",)


class Timeless(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        rule = attrs.evolve(terms.poison, window="100000d", failure_window="100000d")
        return super()._claim(key, fingerprint, owner, lease, attrs.evolve(terms, poison=rule))


class TestMarksWithoutAWindow(Mutant):
    broken = Timeless
    caught_by = (
        "test_marks_outside_of_the_window_do_not_count",
        "test_suspect_is_told_to_whoever_claims_it",
    )


class TheirTime(_Marking):
    def after(self, before: ClaimRecord | None, record: ClaimRecord, marks: dict[str, poison.Marks]) -> None:
        changed = self._marks.get(record.fingerprint or "", {})
        if len(changed) > len(marks.get(record.fingerprint or "", {})):
            told = record.attempts[-1]
            self._marks[record.fingerprint or ""] = {**changed, told.worker or "": told.failed_at}


class TestMarksAtTheTimeOfTheWorker(Mutant):
    broken = TheirTime
    caught_by = ("test_failures_are_marked_at_the_time_of_the_store",)


class EveryFailure(_Marking):
    def after(self, before: ClaimRecord | None, record: ClaimRecord, marks: dict[str, poison.Marks]) -> None:
        if record.fingerprint and record.attempts and (before is None or record.attempts != before.attempts):
            known = self._marks.get(record.fingerprint, {})
            latest = record.attempts[-1]
            self._marks[record.fingerprint] = {**known, latest.worker or "": latest.failed_at}


class TestFailuresOfTheProviderThatCount(Mutant):
    broken = EveryFailure
    caught_by = ("test_what_does_not_speak_against_a_payload_is_not_counted",)


class MarksRefused(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        stored = super()._settle(record, token, delay)
        if stored is None and record.fingerprint is not None:
            with self._shared.locked() as now:
                known = self._marks.get(record.fingerprint, {})
                self._marks[record.fingerprint] = {**known, f"refused {len(known)}": now}
        return stored


class TestRefusedSettlementThatLeavesAMark(Mutant):
    broken = MarksRefused
    caught_by = ("test_refused_and_repeated_settlements_leave_no_mark",)


class MarksAgain(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        before = self._records.get(record.key)
        stored = super()._settle(record, token, delay)
        if stored is not None and stored is before and record.fingerprint is not None:
            with self._shared.locked() as now:
                known = self._marks.get(record.fingerprint, {})
                self._marks[record.fingerprint] = {**known, f"again {len(known)}": now}
        return stored


class TestRepeatedSettlementThatLeavesAnotherMark(Mutant):
    broken = MarksAgain
    caught_by = ("test_refused_and_repeated_settlements_leave_no_mark",)


class KeepsTheOldest(_Marking):
    def after(self, before: ClaimRecord | None, record: ClaimRecord, marks: dict[str, poison.Marks]) -> None:
        known = marks.get(record.fingerprint or "", {})
        if len(known) == poison.MARKS_KEPT and self._marks.get(record.fingerprint or ""):
            self._marks[record.fingerprint or ""] = known


class TestOldestMarksThatAreKept(Mutant):
    broken = KeepsTheOldest
    caught_by = ("test_newest_marks_of_a_payload_are_kept",)


class NeverPurged(_Claims):
    def _purge(self, before: datetime, limit: int) -> int:
        marks = dict(self._marks)
        count = super()._purge(before, limit)
        self._marks = marks
        return count


class TestMarksThatAreNeverPurged(Mutant):
    broken = NeverPurged
    caught_by = ("test_purge_forgets_marks_from_before_the_instant",)


class PurgedAtOnce(_Claims):
    def _purge(self, before: datetime, limit: int) -> int:
        self._marks = {}
        return super()._purge(before, limit)


class TestMarksThatAreAllPurged(Mutant):
    broken = PurgedAtOnce
    caught_by = ("test_purge_forgets_marks_from_before_the_instant",)


class CutFingerprints(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        cut = fingerprint if fingerprint is None else fingerprint.rstrip("!").partition("\0")[0]
        return super()._claim(key, cut, owner, lease, terms)


class TestFingerprintsThatAreCut(Mutant):
    broken = CutFingerprints
    caught_by = ("test_marks_of_any_payload_and_worker_are_kept_apart",)


class OneRow(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        known = self._marks.get(record.fingerprint or "", {})  # read before the lock, written after it
        stored = super()._settle(record, token, delay)
        gap()
        if stored is not None and self._marks.get(record.fingerprint or ""):
            self._marks[record.fingerprint or ""] = {**known, (stored.attempts[-1].worker or ""): stored.opened_at}
        return stored


class TestMarksThatReplaceEachOther(Mutant):
    broken = OneRow
    caught_by = ("test_failures_at_the_same_time_are_all_marked",)


class Unsuspicious(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        answer = super()._claim(key, fingerprint, owner, lease, terms)
        return Claimed(answer.record) if isinstance(answer, Claimed) else answer


class TestSuspectsThatNobodyIsToldOf(Mutant):
    broken = Unsuspicious
    caught_by = ("test_suspect_is_told_to_whoever_claims_it",)


class GrantsToAnybody(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        return super()._claim(key, fingerprint, owner, lease, attrs.evolve(terms, suspects=True))


class TestSuspectsThatAreGrantedUnwanted(Mutant):
    broken = GrantsToAnybody
    caught_by = ("test_suspect_that_is_not_wanted_is_granted_to_nobody",)


class OverlooksTheCrash(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        before = self._records.get(key)
        answer = super()._claim(key, fingerprint, owner, lease, terms)
        if isinstance(answer, Suspect) and before is not None:
            self._records[key] = before
        return answer


class TestUnwantedSuspectsThatAreNotStored(Mutant):
    broken = OverlooksTheCrash
    caught_by = ("test_suspect_that_is_not_wanted_is_granted_to_nobody",)


class Speechless(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        return super()._claim(key, fingerprint, owner, lease, attrs.evolve(terms, lost=None))


class TestLastWordsThatAreForgotten(Mutant):
    broken = Speechless
    caught_by = (
        "test_crash_says_who_was_lost_since_when_and_how",
        "test_what_is_said_of_a_lost_worker_before_its_lease_ends_is_kept",
    )


class NoBeginning(_Claims):
    def _kept(self, record: ClaimRecord, now: datetime) -> ClaimRecord:
        if record.lease is not None:
            record = attrs.evolve(record, lease=attrs.evolve(record.lease, granted_at=now))
        return super()._kept(record, now)


class TestHoldThatBeginsAtEachRenewal(Mutant):
    broken = NoBeginning
    caught_by = (
        "test_crash_says_who_was_lost_since_when_and_how",
        "test_renew_moves_the_end_of_any_hold_and_nothing_else",
    )


class EndsTheLease(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        held = self._records.get(key)
        if terms.lost is not None and held is not None and held.lease is not None:
            over = held.lease.deadline - timedelta(seconds=lease)
            self._records[key] = attrs.evolve(held, lease=attrs.evolve(held.lease, deadline=over))
        return super()._claim(key, fingerprint, owner, lease, terms)


class TestHolderThatIsGivenUpOnHearsay(Mutant):
    broken = EndsTheLease
    caught_by = (
        "test_holder_that_was_said_to_be_lost_goes_on",
        "test_what_is_said_of_a_lost_worker_before_its_lease_ends_is_kept",
    )


class OneStarts(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        answer = super()._claim(key, fingerprint, owner, lease, terms)
        if isinstance(answer, Done) and answer.convicted:
            self._marks.pop(fingerprint or "", None)
        return answer


class TestConvictionThatUsesTheMarksUp(Mutant):
    broken = OneStarts
    caught_by = (
        "test_many_threads_claiming_a_condemned_payload_start_none",
        "test_three_internal_failures_of_a_payload_condemn_its_next_start",
    )
