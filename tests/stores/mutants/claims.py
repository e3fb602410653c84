"""Broken claim stores: who is granted what, when, and what is counted."""

from __future__ import annotations

from datetime import datetime, timedelta

import attrs

from retrykit.backends.memory import _Claims, _Shared
from retrykit.stores import (
    Claimed,
    ClaimRecord,
    ClaimState,
    ClaimStore,
    ClaimTerms,
    Done,
    InProgress,
    NotDue,
    PoisonRule,
    Unknown,
)
from retrykit.stores.claims import ClaimAnswer
from retrykit.testing.conformance import ClaimStoreSuite, Place


class Mutant(ClaimStoreSuite):
    broken: type[_Claims]

    def make_store(self, place: Place) -> ClaimStore:
        return self.broken(_Shared(place.clock))


class GrantsHeld(_Claims):
    def _claim(self, key: str, *args) -> ClaimAnswer:
        answer = super()._claim(key, *args)
        return Claimed(answer.record) if isinstance(answer, InProgress) else answer


class TestClaimThatIgnoresTheHolder(Mutant):
    broken = GrantsHeld
    caught_by = (
        "test_claim_of_a_held_key_is_in_progress_until_the_lease_ends",
        "test_operation_repeated_after_a_lost_answer_gives_it_again",
    )


class EndsEarly(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        return super()._claim(key, fingerprint, owner, max(lease - 0.001, 0.001), terms)


class TestLeaseThatEndsAMillisecondEarly(Mutant):
    broken = EndsEarly
    caught_by = ("test_claim_of_a_held_key_is_in_progress_until_the_lease_ends",)


class NeverEnds(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        return super()._claim(key, fingerprint, owner, 1e9, terms)


class TestLeaseThatNeverEnds(Mutant):
    broken = NeverEnds
    caught_by = ("test_lapsed_hold_is_a_crash_in_the_history_and_the_key_is_granted_again",)


class FixedLease(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        return super()._claim(key, fingerprint, owner, min(lease, 60), terms)


class TestLeaseThatCannotBeLong(Mutant):
    broken = FixedLease
    caught_by = ("test_lease_of_an_hour_is_an_hour",)


class WholeSeconds(_Claims):
    def _kept(self, record: ClaimRecord, now: datetime) -> ClaimRecord:
        if record.not_before is not None:
            record = attrs.evolve(record, not_before=record.not_before.replace(microsecond=0))
        return super()._kept(record, now)


class TestWaitInWholeSeconds(Mutant):
    broken = WholeSeconds
    caught_by = ("test_wait_that_began_late_in_a_second_is_no_shorter",)


class WholeSecondLeases(_Claims):
    def _claim(self, *args) -> ClaimAnswer:
        answer = super()._claim(*args)
        record = answer.record
        if isinstance(answer, Claimed) and record.lease.deadline.microsecond:
            lease = attrs.evolve(record.lease, deadline=record.lease.deadline.replace(microsecond=0))
            self._records[record.key] = attrs.evolve(record, lease=lease)
            return Claimed(self._records[record.key])
        return answer


class TestLeaseInWholeSeconds(Mutant):
    broken = WholeSecondLeases
    caught_by = ("test_lease_that_began_late_in_a_second_is_no_shorter",)


class Overflows(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        with self._shared.locked() as now:
            assert now + timedelta(seconds=delay)
        return super()._settle(record, token, delay)


class TestWaitThatOverflows(Mutant):
    broken = Overflows
    caught_by = ("test_lease_and_wait_beyond_the_calendar_end_with_it",)


class ZeroIsNone(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        return super()._settle(record, token, delay or 30.0)


class TestDelayOfZeroTakenForNone(Mutant):
    broken = ZeroIsNone
    caught_by = ("test_wait_of_zero_is_over_at_once",)


class EarlyRetry(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        answer = super()._claim(key, fingerprint, owner, lease, terms)
        with self._shared.locked() as now:
            early = isinstance(answer, NotDue) and answer.due_at - now < timedelta(seconds=1)
        return Claimed(answer.record) if early else answer


class TestRetryThatIsDueEarly(Mutant):
    broken = EarlyRetry
    caught_by = (
        "test_retry_waits_until_its_instant_and_no_shorter",
        "test_verification_waits_until_its_instant_and_no_shorter",
    )


class Resends(_Claims):
    def _claim(self, *args) -> ClaimAnswer:
        answer = super()._claim(*args)
        return Claimed(answer.record) if isinstance(answer, Unknown) else answer


class TestLapsedSendThatIsSentAgain(Mutant):
    broken = Resends
    caught_by = (
        "test_lapsed_send_is_unknown_and_has_one_verifier",
        "test_send_that_lapsed_is_verified_before_it_is_poison",
    )


class ForgetsDone(_Claims):
    def _claim(self, key: str, *args) -> ClaimAnswer:
        with self._shared.locked() as now:
            record = self._records.get(key)
            if record is not None and record.settled_at is not None and now - record.settled_at > timedelta(days=30):
                del self._records[key]
        return super()._claim(key, *args)


class TestResultThatExpires(Mutant):
    broken = ForgetsDone
    caught_by = ("test_sent_is_done_for_good",)


class ForgetsUnfinished(_Claims):
    def _claim(self, key: str, *args) -> ClaimAnswer:
        with self._shared.locked() as now:
            record = self._records.get(key)
            if record is not None and now - record.opened_at > timedelta(days=30):
                del self._records[key]
        return super()._claim(key, *args)


class TestRecordOfAnUnfinishedMessageThatExpires(Mutant):
    broken = ForgetsUnfinished
    caught_by = ("test_unfinished_message_is_kept_for_ever", "test_tokens_grow_from_hold_to_hold")


class SharedKeys(_Claims):
    def _claim(self, key: str, *args) -> ClaimAnswer:
        return super()._claim(key.strip().casefold(), *args)


class TestKeysThatAreNormalised(Mutant):
    broken = SharedKeys
    caught_by = ("test_hostile_keys_are_kept_apart", "test_claims_of_different_keys_are_independent")


class AnyPayload(_Claims):
    def _claim(self, key: str, fingerprint: str | None, *args) -> ClaimAnswer:
        return super()._claim(key, None, *args)


class TestFingerprintThatIsNotCompared(Mutant):
    broken = AnyPayload
    caught_by = ("test_claim_with_another_payload_is_refused_and_changes_nothing",)


class StoresBeforeItCompares(_Claims):
    def _claim(self, key: str, fingerprint: str | None, *args) -> ClaimAnswer:
        record = self._records.get(key)
        try:
            return super()._claim(key, fingerprint, *args)
        finally:
            if record is not None and record.state is ClaimState.DONE:
                self._records[key] = attrs.evolve(record, fingerprint=fingerprint)


class TestFingerprintThatIsReplaced(Mutant):
    broken = StoresBeforeItCompares
    caught_by = ("test_claim_with_another_payload_is_refused_and_changes_nothing",)


class NotAgain(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, *args) -> ClaimAnswer:
        held = self._records.get(key)
        answer = super()._claim(key, fingerprint, owner, *args)
        return InProgress(held, held.lease.deadline) if held is answer.record and held.lease else answer


class TestClaimThatCannotBeRepeated(Mutant):
    broken = NotAgain
    caught_by = ("test_claim_repeated_by_its_owner_is_granted_again",)


class Renewing(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        answer = super()._claim(key, fingerprint, owner, lease, terms)
        if isinstance(answer, Claimed):
            return Claimed(self._renew(key, answer.record.seq, lease))
        return answer


class TestRepeatedClaimThatMovesTheLease(Mutant):
    broken = Renewing
    caught_by = ("test_claim_repeated_by_its_owner_is_granted_again",)


class SameOwner(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, *args) -> ClaimAnswer:
        held = self._records.get(key)
        if held is not None and held.state is ClaimState.CLAIMED and held.lease.owner == owner:
            return Claimed(held)
        return super()._claim(key, fingerprint, owner, *args)


class TestOwnerThatNeverLosesItsHold(Mutant):
    broken = SameOwner
    caught_by = ("test_owner_that_comes_back_after_its_lease_is_a_new_holder",)


class NeverSending(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        return super()._claim(key, fingerprint, owner, lease, attrs.evolve(terms, sending=False))


class TestClaimThatForgetsThatItSends(Mutant):
    broken = NeverSending
    caught_by = ("test_claim_that_sends_at_once_is_unknown_when_its_holder_is_lost",)


class ForEver(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        return super()._claim(key, fingerprint, owner, lease, attrs.evolve(terms, ttl=None))


class TestSettledKeyThatCountsForEver(Mutant):
    broken = ForEver
    caught_by = ("test_settled_key_counts_for_its_time",)


class NoResult(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        return super()._settle(attrs.evolve(record, result=None), token, delay)


class TestResultThatIsLost(Mutant):
    broken = NoResult
    caught_by = ("test_result_is_kept_as_it_was_stored",)


class CrashIsAFlag(_Claims):
    def _claim(self, *args) -> ClaimAnswer:
        answer = super()._claim(*args)
        counters = attrs.evolve(answer.record.counters, crashed=min(answer.record.counters.crashed, 1))
        self._records[answer.record.key] = attrs.evolve(answer.record, counters=counters)
        return attrs.evolve(answer, record=self._records[answer.record.key])


class TestCrashThatIsAFlag(Mutant):
    broken = CrashIsAFlag
    caught_by = ("test_crashes_are_counted_one_by_one",)


class PoisonGoesOn(_Claims):
    def _claim(self, key: str, *args) -> ClaimAnswer:
        before = self._records.get(key)
        answer = super()._claim(key, *args)
        if isinstance(answer, Done) and answer.convicted:
            self._records[key] = before
        return answer


class TestPoisonThatIsNotStored(Mutant):
    broken = PoisonGoesOn
    caught_by = ("test_poison_is_settled_in_the_claim_itself", "test_many_threads_claiming_poison_one_convicts")


class OwnRule(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        return super()._claim(
            key, fingerprint, owner, lease, attrs.evolve(terms, poison=PoisonRule(limit=terms.poison.limit))
        )


class TestPoisonRuleWithoutItsWindow(Mutant):
    broken = OwnRule
    caught_by = ("test_poison_rule_is_that_of_the_caller",)


class NoHistory(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        return super()._settle(attrs.evolve(record, attempts=record.attempts[-1:]), token, delay)


class TestHistoryThatIsLost(Mutant):
    broken = NoHistory
    caught_by = ("test_history_stays_bounded", "test_unfinished_message_is_kept_for_ever")


class KnownFieldsOnly(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        return super()._settle(attrs.evolve(record, extra={}), token, delay)


class TestFieldsOfANewerVersionThatAreDropped(Mutant):
    broken = KnownFieldsOnly
    caught_by = ("test_fields_of_a_newer_version_are_kept",)
