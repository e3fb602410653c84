"""Broken claim stores: what is put back into circulation, and what becomes of old copies and old holders."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import attrs

from retrykit.backends.memory import _Claims, _Shared
from retrykit.decision import DispositionKind
from retrykit.machines import claim as machine
from retrykit.stores import ClaimRecord, ClaimState, ClaimStore, ReopenTerms
from retrykit.stores.claims import ClaimAnswer, Claimed, Counters, Done, Replaced
from retrykit.testing.conformance import ClaimStoreSuite, Place
from tests.stores.mutants.breakages import gap


class Mutant(ClaimStoreSuite):
    broken: type[_Claims]

    def make_store(self, place: Place) -> ClaimStore:
        return self.broken(_Shared(place.clock))


class Changed(_Claims):
    """Changes what a reopening comes to, where it did something."""

    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        raise NotImplementedError

    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        before = self._records.get(key)
        after = super()._reopen(key, terms)
        if after is not before:
            self._records[key] = after = self.changed(before, after)
        return after


class SameGeneration(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        return attrs.evolve(after, generation=after.generation - 1)


class TestReopenedMessageOfTheOldGeneration(Mutant):
    broken = SameGeneration
    caught_by = (
        "test_dead_message_is_put_back_as_the_next_generation",
        "test_message_whose_record_was_purged_is_put_back_from_its_letter",
        "test_reopen_repeated_after_a_lost_answer_changes_nothing",
    )


class FirstGeneration(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        return attrs.evolve(after, generation=2)


class TestReopenedMessageIsAlwaysTheSecondGeneration(Mutant):
    broken = FirstGeneration
    caught_by = (
        "test_message_whose_record_was_purged_is_put_back_from_its_letter",
        "test_reopen_repeated_after_a_lost_answer_changes_nothing",
    )


class OldCounters(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        return attrs.evolve(after, counters=Counters() if before is None else before.counters)


class TestCountersThatGoOn(Mutant):
    broken = OldCounters
    caught_by = (
        "test_dead_message_is_put_back_as_the_next_generation",
        "test_workers_lost_before_are_not_counted_against_the_reopened_message",
        "test_any_sequence_of_operations_is_answered_as_by_the_memory_store",
    )


class CountsAllCrashes(_Claims):
    def _claim(self, key: str, *args) -> ClaimAnswer:
        record = self._records.get(key)
        if record is not None and record.redriven_from is not None and record.state is not ClaimState.DONE:
            attempts = tuple(attrs.evolve(each, generation=record.generation) for each in record.attempts)
            self._records[key] = attrs.evolve(record, attempts=attempts)
        return super()._claim(key, *args)


class TestPoisonForWhatItWasBefore(Mutant):
    broken = CountsAllCrashes
    caught_by = ("test_workers_lost_before_are_not_counted_against_the_reopened_message",)


class WithoutHistory(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        return attrs.evolve(after, attempts=())


class TestReopenedMessageWithoutItsHistory(Mutant):
    broken = WithoutHistory
    caught_by = (
        "test_dead_message_is_put_back_as_the_next_generation",
        "test_workers_lost_before_are_not_counted_against_the_reopened_message",
    )


class WithoutExtra(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        return attrs.evolve(after, extra={})


class TestReopenedMessageWithoutTheFieldsOfANewerVersion(Mutant):
    broken = WithoutExtra
    caught_by = ("test_fields_of_a_newer_version_are_kept_when_a_message_is_reopened",)


class Restarted(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        return attrs.evolve(after, seq=0)


class TestTokenThatStartsAgain(Mutant):
    broken = Restarted
    caught_by = ("test_dead_message_is_put_back_as_the_next_generation", "test_holder_from_before_is_refused")


class Waiting(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        due = after.opened_at + timedelta(seconds=1)
        return attrs.evolve(after, not_before=due)


class TestReopenedMessageThatWaits(Mutant):
    broken = Waiting
    caught_by = (
        "test_dead_message_is_put_back_as_the_next_generation",
        "test_message_that_may_have_been_sent_is_found_out_about_first",
    )


class SendsUnsure(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        return attrs.evolve(after, state=ClaimState.FREE)


class TestReopenedMessageThatMayHaveBeenSentIsSent(Mutant):
    broken = SendsUnsure
    caught_by = (
        "test_message_that_may_have_been_sent_is_found_out_about_first",
        "test_operation_interrupted_in_the_middle_happened_or_not",
    )


class NeverSure(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        return super()._reopen(key, attrs.evolve(terms, not_sent=False))


class TestWordThatItWasNotSentIsIgnored(Mutant):
    broken = NeverSure
    caught_by = ("test_message_that_somebody_knows_was_not_sent_is_tried_again",)


class AlsoSent(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        record = self._records.get(key)
        if record is not None and record.disposition is DispositionKind.SENT:
            self._records[key] = attrs.evolve(record, disposition=DispositionKind.DEAD_LETTERED)
        return super()._reopen(key, terms)


class TestReopenOfWhatWasSent(Mutant):
    broken = AlsoSent
    caught_by = (
        "test_reopen_of_what_was_sent_or_is_in_circulation_changes_nothing",
        "test_reopened_message_that_was_sent_is_not_put_back_again",
        "test_reopen_racing_with_a_confirmation_a_sent_message_is_not_in_circulation",
    )


class AlsoInCirculation(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        record = self._records.get(key)
        if record is not None and record.lease is None and record.state in (ClaimState.FREE, ClaimState.WAITING):
            terms = attrs.evolve(terms, generation=max(terms.generation, record.generation))
            self._records[key] = attrs.evolve(record, state=ClaimState.DONE)
        return super()._reopen(key, terms)


class TestReopenOfWhatIsInCirculation(Mutant):
    broken = AlsoInCirculation
    caught_by = (
        "test_reopen_of_what_was_sent_or_is_in_circulation_changes_nothing",
        "test_reopen_repeated_after_a_lost_answer_changes_nothing",
        "test_operation_repeated_after_a_lost_answer_gives_it_again",
        "test_many_threads_reopening_one_generation_is_begun",
    )


class TakesFromHolders(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        record = self._records.get(key)
        if record is not None and record.lease is not None:
            self._records[key] = attrs.evolve(record, lease=None, state=ClaimState.DONE)
        return super()._reopen(key, terms)


class TestReopenOfWhatSomebodyHolds(Mutant):
    broken = TakesFromHolders
    caught_by = ("test_reopen_of_what_was_sent_or_is_in_circulation_changes_nothing",)


class AnyLetter(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        record = self._records.get(key)
        if record is not None:
            terms = attrs.evolve(terms, generation=max(terms.generation, record.generation))
        return super()._reopen(key, terms)


class TestReopenFromALetterOfAnEarlierDeath(Mutant):
    broken = AnyLetter
    caught_by = ("test_reopen_repeated_after_a_lost_answer_changes_nothing",)


class OnlyKnown(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        if key not in self._records:
            with self._shared.locked() as now:
                return ClaimRecord(key=key, opened_at=now)
        return super()._reopen(key, terms)


class TestReopenOfWhatWasPurgedIsLost(Mutant):
    broken = OnlyKnown
    caught_by = (
        "test_message_whose_record_was_purged_is_put_back_from_its_letter",
        "test_many_threads_reopening_one_generation_is_begun",
    )


class OnlyDead(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        record = self._records.get(key)
        if record is not None and record.disposition is DispositionKind.DISCARDED:
            return record
        return super()._reopen(key, terms)


class TestReopenOfDeadLettersAlone(Mutant):
    broken = OnlyDead
    caught_by = ("test_reopen_repeated_after_a_lost_answer_changes_nothing",)


class ForgetsLetter(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        return attrs.evolve(after, redriven_from=None)


class TestReopenedMessageThatDoesNotTellItsLetter(Mutant):
    broken = ForgetsLetter
    caught_by = ("test_dead_message_is_put_back_as_the_next_generation",)


class ForgetsReplaced(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        return attrs.evolve(after, replaced=())


class TestReplacedPayloadThatIsForgotten(Mutant):
    broken = ForgetsReplaced
    caught_by = (
        "test_copy_with_a_payload_that_was_replaced_is_answered_so",
        "test_payload_may_be_mended_more_than_once",
        "test_reopen_with_edits_interrupted_in_the_middle_happened_or_not",
    )


class LatestReplaced(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        return attrs.evolve(after, replaced=after.replaced[-1:])


class TestReplacedPayloadThatIsForgottenWithTheNext(Mutant):
    broken = LatestReplaced
    caught_by = ("test_payload_may_be_mended_more_than_once",)


class OldPayload(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        return after if before is None else attrs.evolve(after, fingerprint=before.fingerprint)


class TestMendedPayloadThatIsNotTaken(Mutant):
    broken = OldPayload
    caught_by = (
        "test_copy_with_a_payload_that_was_replaced_is_answered_so",
        "test_payload_may_be_mended_more_than_once",
    )


class SendsOldCopies(_Claims):
    def _claim(self, key: str, fingerprint: str | None, *args) -> ClaimAnswer:
        answer = super()._claim(key, fingerprint, *args)
        return super()._claim(key, None, *args) if isinstance(answer, Replaced) else answer


class TestOldCopyThatIsGranted(Mutant):
    broken = SendsOldCopies
    caught_by = ("test_copy_with_a_payload_that_was_replaced_is_answered_so",)


class OldCopiesAreDone(_Claims):
    def _claim(self, key: str, fingerprint: str | None, *args) -> ClaimAnswer:
        answer = super()._claim(key, fingerprint, *args)
        return Done(answer.record) if isinstance(answer, Replaced) else answer


class TestOldCopyThatIsAnsweredDone(Mutant):
    broken = OldCopiesAreDone
    caught_by = ("test_copy_with_a_payload_that_was_replaced_is_answered_so",)


class AnyOtherIsReplaced(_Claims):
    def _claim(self, key: str, fingerprint: str | None, *args) -> ClaimAnswer:
        record = self._records.get(key)
        if record is not None and record.replaced and fingerprint not in (None, record.fingerprint):
            return Replaced(record)
        return super()._claim(key, fingerprint, *args)


class TestAnyOtherPayloadIsTakenForAnOldOne(Mutant):
    broken = AnyOtherIsReplaced
    caught_by = ("test_copy_with_a_payload_that_was_replaced_is_answered_so",)


class PurgesReopened(Changed):
    def changed(self, before: ClaimRecord | None, after: ClaimRecord) -> ClaimRecord:
        return attrs.evolve(after, settled_at=after.opened_at)

    def _purge(self, *args) -> int:
        gone = [key for key, record in self._records.items() if record.settled_at and record.redriven_from]
        for key in gone:
            del self._records[key]
        return len(gone) + super()._purge(*args)


class TestReopenedMessageThatIsPurged(Mutant):
    broken = PurgesReopened
    caught_by = ("test_reopened_message_is_not_purged",)


class Unlisted(_Claims):
    def _unsettled(self, limit: int):
        return [key for key in super()._unsettled(limit) if self._records[key].redriven_from is None]


class TestReopenedMessageThatNobodyIsToldOf(Mutant):
    broken = Unlisted
    caught_by = (
        "test_message_that_may_have_been_sent_is_found_out_about_first",
        "test_reopened_message_is_not_purged",
    )


class SlowReopen(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        with self._shared.locked() as now:
            record = self._records.get(key)
        gap()
        with self._shared.locked():
            current = self._records.get(key)
            self._records[key] = machine.reopen(record, key, terms, now=now)
            if current is not record:
                self._records[key] = attrs.evolve(self._records[key], seq=(current.seq if current else 0) + 1)
            return self._records[key]


class TestReopenThatReadsBeforeItWrites(Mutant):
    broken = SlowReopen
    caught_by = (
        "test_many_threads_reopening_one_generation_is_begun",
        "test_reopening_racing_with_claims_one_is_granted",
        "test_reopen_racing_with_a_confirmation_a_sent_message_is_not_in_circulation",
    )


class Half(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        record = self._records.get(key)
        if record is not None and record.state is ClaimState.DONE and record.disposition is not DispositionKind.SENT:
            self._records[key] = attrs.evolve(record, generation=terms.generation, replaced=terms.replaced)
        return super()._reopen(key, terms)


class TestReopenInTwoSteps(Mutant):
    broken = Half
    caught_by = ("test_reopen_with_edits_interrupted_in_the_middle_happened_or_not",)


class NoAnswer(_Claims):
    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        before = self._records.get(key)
        return before or super()._reopen(key, terms)


class TestReopenThatDoesNothing(Mutant):
    broken = NoAnswer
    caught_by = (
        "test_dead_message_is_put_back_as_the_next_generation",
        "test_reopened_message_that_waits_is_confirmed_and_cancelled_like_any_other",
    )


class UnsureForGood(_Claims):
    def _claim(self, *args) -> ClaimAnswer:
        answer = super()._claim(*args)
        if not isinstance(answer, Claimed) or answer.record.redriven_from is None:
            return answer
        self._records[answer.record.key] = record = attrs.evolve(answer.record, redriven_from=None)
        return Claimed(record)


class TestClaimThatForgetsTheLetter(Mutant):
    broken = UnsureForGood
    caught_by = (
        "test_dead_message_is_put_back_as_the_next_generation",
        "test_any_sequence_of_operations_is_answered_as_by_the_memory_store",
    )


class TimelessLast(_Claims):
    def _unsettled(self, limit: int) -> Sequence[str]:
        keys = super()._unsettled(10**9)
        return sorted(keys, key=lambda key: not (self._records[key].lease or self._records[key].not_before))[:limit]


class TestReopenedMessageThatIsLookedAtLast(Mutant):
    broken = TimelessLast
    caught_by = ("test_reopened_message_that_may_have_been_sent_is_the_first_to_be_looked_at",)
