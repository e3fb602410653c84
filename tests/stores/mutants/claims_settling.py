"""Broken claim stores: what becomes of a hold, what is found out and what is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import attrs

from retrykit.backends.memory import _Claims, _Shared
from retrykit.decision import DispositionKind
from retrykit.machines import claim as machine
from retrykit.stores import ClaimRecord, ClaimState, ClaimStore
from retrykit.stores.claims import ClaimAnswer
from retrykit.testing.conformance import ClaimStoreSuite, Place


def put(store: _Claims, record: ClaimRecord) -> ClaimRecord:
    """Store a record behind the back of the operations."""
    store._records[record.key] = record
    return record


class Mutant(ClaimStoreSuite):
    broken: type[_Claims]

    def make_store(self, place: Place) -> ClaimStore:
        return self.broken(_Shared(place.clock))


class Unfenced(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        stored = self._records.get(record.key)
        return super()._settle(record, token if stored is None else stored.seq, delay)


class TestSettlementWithoutTheToken(Mutant):
    broken = Unfenced
    caught_by = (
        "test_late_holder_is_refused_and_changes_nothing",
        "test_token_of_another_is_refused",
    )


class LastWins(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        stored = super()._settle(record, token, delay)
        if stored is None and record.key in self._records and self._records[record.key].seq == record.seq:
            self._records[record.key] = stored = record
        return stored


class TestStaleResultThatReplacesTheFinishedOne(Mutant):
    broken = LastWins
    caught_by = ("test_settle_repeated_with_another_decision_is_refused",)


class OneSettlement(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        stored = self._records.get(record.key)
        return None if stored is None or stored.seq != token else super()._settle(record, token, delay)


class TestSettlementThatCannotBeRepeated(Mutant):
    broken = OneSettlement
    caught_by = (
        "test_settle_repeated_after_a_lost_answer_gives_the_stored_record",
        "test_operation_repeated_after_a_lost_answer_gives_it_again",
    )


class SettlesUnheld(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        stored = self._records.get(record.key)
        if stored is not None and stored.lease is None and stored.seq == token:
            self._records[record.key] = record
            return record
        return super()._settle(record, token, delay)


class TestSettlementOfWhatNobodyHolds(Mutant):
    broken = SettlesUnheld
    caught_by = ("test_settle_of_what_nobody_holds_is_refused",)


class StrictLease(_Claims):
    def _is_over(self, key: str) -> bool:
        with self._shared.locked() as now:
            record = self._records.get(key)
            return record is not None and record.lease is not None and record.lease.is_over(now)

    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        return None if self._is_over(record.key) else super()._settle(record, token, delay)

    def _begin_send(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        return None if self._is_over(key) else super()._begin_send(key, token, lease)

    def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        return None if self._is_over(key) else super()._renew(key, token, lease)


class TestLapsedHolderThatIsShutOutTooSoon(Mutant):
    broken = StrictLease
    caught_by = (
        "test_settle_with_a_lease_that_ended_but_was_not_taken_is_stored",
        "test_begin_send_with_a_lease_that_ended_but_was_not_taken_is_granted",
        "test_renew_with_a_lease_that_ended_but_was_not_taken_is_granted",
    )


class BurnsAttempts(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        counters = attrs.evolve(record.counters, failed=record.counters.failed + record.counters.interrupted)
        return super()._settle(attrs.evolve(record, counters=counters), token, delay)


class TestInterruptionThatBurnsAnAttempt(Mutant):
    broken = BurnsAttempts
    caught_by = ("test_interrupted_holder_gives_back_what_it_had",)


class SendsUnfenced(_Claims):
    def _begin_send(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        return super()._begin_send(key, self._records[key].seq if key in self._records else token, lease)


class TestSendWithoutTheToken(Mutant):
    broken = SendsUnfenced
    caught_by = ("test_late_holder_is_refused_and_changes_nothing", "test_token_of_another_is_refused")


class SendsAnything(_Claims):
    def _begin_send(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        record = super()._renew(key, token, lease)
        return None if record is None else put(self, attrs.evolve(record, state=ClaimState.SENDING))


class TestSendOfWhatIsOnlyVerified(Mutant):
    broken = SendsAnything
    caught_by = ("test_begin_send_of_what_is_not_claimed_is_refused",)


class KeepsOldLease(_Claims):
    def _begin_send(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        held = self._records.get(key)
        record = super()._begin_send(key, token, lease)
        return record if record is None else put(self, attrs.evolve(record, lease=held.lease))


class TestSendThatKeepsTheOldLease(Mutant):
    broken = KeepsOldLease
    caught_by = ("test_begin_send_marks_the_send_and_moves_the_lease",)


class RenewsUnfenced(_Claims):
    def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        return super()._renew(key, self._records[key].seq if key in self._records else token, lease)


class TestRenewalWithoutTheToken(Mutant):
    broken = RenewsUnfenced
    caught_by = (
        "test_late_holder_is_refused_and_changes_nothing",
        "test_holder_racing_with_those_who_take_over_one_has_the_key",
    )


class RenewsOnlyClaimed(_Claims):
    def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        record = self._records.get(key)
        return None if record is None or record.state is not ClaimState.CLAIMED else super()._renew(key, token, lease)


class TestRenewalThatStopsInTheSend(Mutant):
    broken = RenewsOnlyClaimed
    caught_by = (
        "test_renewed_hold_outlasts_any_work",
        "test_renew_moves_the_end_of_any_hold_and_nothing_else",
        "test_renewed_send_is_not_unsettled",
    )


class NewToken(_Claims):
    def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        record = super()._renew(key, token, lease)
        if record is None:
            return None
        held = attrs.evolve(record.lease, token=record.seq + 1)
        return put(self, attrs.evolve(record, seq=record.seq + 1, lease=held))


class TestRenewalThatChangesTheToken(Mutant):
    broken = NewToken
    caught_by = ("test_renew_moves_the_end_of_any_hold_and_nothing_else", "test_renewed_hold_outlasts_any_work")


class AddsToTheLease(_Claims):
    def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        before = self._records.get(key)
        record = super()._renew(key, token, lease)
        if record is None:
            return None
        later = max(record.lease.deadline, before.lease.deadline)
        return put(self, attrs.evolve(record, lease=attrs.evolve(record.lease, deadline=later)))


class TestRenewalThatOnlyLengthens(Mutant):
    broken = AddsToTheLease
    caught_by = ("test_renew_moves_the_end_of_any_hold_and_nothing_else",)


class RestartsTokens(_Claims):
    def _claim(self, key: str, *args) -> ClaimAnswer:
        record = self._records.get(key)
        if record is not None and record.state is ClaimState.WAITING:
            self._records[key] = attrs.evolve(record, seq=0)
        return super()._claim(key, *args)


class TestTokensThatRestart(Mutant):
    broken = RestartsTokens
    caught_by = (
        "test_tokens_grow_from_hold_to_hold",
        "test_token_is_worth_nothing_once_the_hold_is_settled",
    )


class ConfirmsUnheld(_Claims):
    def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> ClaimRecord:
        record = self._records.get(key)
        return record if record and record.lease else super()._confirm(key, provider, provider_id)


class TestConfirmationThatGivesWayToAHolder(Mutant):
    broken = ConfirmsUnheld
    caught_by = (
        "test_confirm_makes_a_message_of_any_state_sent",
        "test_settlement_racing_with_a_confirmation_the_fact_stands",
    )


class ConfirmsOver(_Claims):
    def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> ClaimRecord:
        with self._shared.locked() as now:
            record = self._records.get(key) or ClaimRecord(key=key, opened_at=now)
            sent = machine.sent(record, provider=provider, provider_id=provider_id)
            self._records[key] = attrs.evolve(sent, settled_at=now)
            return self._records[key]


class TestConfirmationThatForgetsWhatWasKnown(Mutant):
    broken = ConfirmsOver
    caught_by = ("test_confirm_repeated_changes_nothing", "test_confirm_fills_in_what_was_not_known_yet")


class ConfirmsOnce(_Claims):
    def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> ClaimRecord:
        record = self._records.get(key)
        if record is not None and record.disposition is DispositionKind.SENT:
            return record
        return super()._confirm(key, provider, provider_id)


class TestConfirmationThatFillsNothingIn(Mutant):
    broken = ConfirmsOnce
    caught_by = ("test_confirm_fills_in_what_was_not_known_yet",)


class CancelsKnown(_Claims):
    def _cancel(self, key: str) -> ClaimRecord:
        with self._shared.locked() as now:
            record = machine.cancel(self._records.get(key), key, now=now)
            if key in self._records:
                self._records[key] = record
            return record


class TestCancellationOfANewKeyThatIsNotStored(Mutant):
    broken = CancelsKnown
    caught_by = ("test_cancel_discards_what_nobody_works_on",)


class CancelsAnything(_Claims):
    def _cancel(self, key: str) -> ClaimRecord:
        with self._shared.locked() as now:
            record = self._records.get(key)
            if record is not None:
                self._records[key] = attrs.evolve(record, state=ClaimState.FREE, lease=None)
            self._records[key] = machine.cancel(self._records.get(key), key, now=now)
            return self._records[key]


class TestCancellationOfWhatIsHeldOrSettled(Mutant):
    broken = CancelsAnything
    caught_by = ("test_cancel_leaves_alone_what_is_held_settled_or_may_have_been_sent",)


class TakesRunningSends(_Claims):
    def _claim_unknown(self, key: str, owner: str, lease: float) -> ClaimRecord | None:
        with self._shared.locked() as now:
            later = now + timedelta(seconds=30)
            return self._keep(machine.take_unknown(self._records.get(key), owner=owner, lease=lease, now=later), now)


class TestVerifierThatTakesARunningSend(Mutant):
    broken = TakesRunningSends
    caught_by = ("test_lapsed_send_is_unknown_and_has_one_verifier",)


class VerifiesOnce(_Claims):
    def _claim_unknown(self, key: str, owner: str, lease: float) -> ClaimRecord | None:
        record = self._records.get(key)
        with self._shared.locked() as now:
            if record is not None and not machine.is_unsettled(record, now):
                return None
        return super()._claim_unknown(key, owner, lease)


class TestVerificationThatCannotBeRepeated(Mutant):
    broken = VerifiesOnce
    caught_by = ("test_verification_repeated_by_its_owner_is_granted_again",)


class Unordered(_Claims):
    def _unsettled(self, limit: int) -> Sequence[str]:
        return sorted(super()._unsettled(10**9))[:limit]


class TestUnsettledInAnyOrder(Mutant):
    broken = Unordered
    caught_by = ("test_unsettled_gives_what_is_due_longest_due_first",)


class OffersCalls(_Claims):
    def _unsettled(self, limit: int) -> Sequence[str]:
        with self._shared.locked() as now:
            due = [key for key, each in self._records.items() if machine._may_be_found_out(each, now)]
        return due[:limit]


class TestUnsettledThatOffersCalls(Mutant):
    broken = OffersCalls
    caught_by = ("test_call_is_found_out_by_its_callers_and_never_offered",)


class Ties(_Claims):
    def _unsettled(self, limit: int) -> Sequence[str]:
        return sorted(super()._unsettled(10**9), key=str.casefold)[:limit]


class TestUnsettledOfOneInstantInAnyOrder(Mutant):
    broken = Ties
    caught_by = ("test_unsettled_of_equal_instants_is_ordered_by_key",)


class LosesOrphans(_Claims):
    def _unsettled(self, limit: int) -> Sequence[str]:
        records = [self._records[key] for key in super()._unsettled(10**9)]
        return [record.key for record in records if record.lease is None or record.state is ClaimState.SENDING][:limit]


class TestUnsettledThatLosesWhoseVerifierIsLost(Mutant):
    broken = LosesOrphans
    caught_by = ("test_unsettled_send_is_found_however_long_it_takes",)


class PurgesAnything(_Claims):
    def _purge(self, before: datetime, limit: int) -> int:
        with self._shared.locked():
            old = [key for key, record in self._records.items() if (record.settled_at or record.opened_at) < before]
            for key in old[:limit]:
                del self._records[key]
            return len(old[:limit])


class TestPurgeOfUnfinishedMessages(Mutant):
    broken = PurgesAnything
    caught_by = ("test_purge_before_an_instant_in_the_future_leaves_the_unfinished",)


class PurgesUpTo(_Claims):
    def _purge(self, before: datetime, limit: int) -> int:
        return super()._purge(before + timedelta(milliseconds=1), limit)


class TestPurgeOfWhatWasSettledAtTheInstant(Mutant):
    broken = PurgesUpTo
    caught_by = ("test_purge_deletes_what_was_settled_before_the_instant",)


class PurgesYoungest(_Claims):
    def _purge(self, before: datetime, limit: int) -> int:
        with self._shared.locked():
            old = [record for record in self._records.values() if machine.is_expired(record, before)]
            old.sort(key=lambda record: record.settled_at, reverse=True)
            for record in old[:limit]:
                del self._records[record.key]
            return len(old[:limit])


class TestPurgeOfTheYoungestFirst(Mutant):
    broken = PurgesYoungest
    caught_by = ("test_purge_deletes_what_was_settled_before_the_instant",)


class CutsText(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        return super()._settle(attrs.evolve(record, note=record.note.partition("\0")[0]), token, delay)


class TestTextThatEndsAtNUL(Mutant):
    broken = CutsText
    caught_by = ("test_hostile_text_in_values_comes_back",)


class ShortMessages(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        attempts = [
            attrs.evolve(
                attempt, failure=attrs.evolve(attempt.failure, error_message=attempt.failure.error_message[:65535])
            )
            for attempt in record.attempts
        ]
        return super()._settle(attrs.evolve(record, attempts=tuple(attempts)), token, delay)


class TestErrorMessageThatIsCut(Mutant):
    broken = ShortMessages
    features = frozenset({"megabyte"})
    caught_by = ("test_error_message_of_a_megabyte_is_settled",)


class ReplacesSurrogates(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, *args) -> ClaimAnswer:
        return super()._claim(key, fingerprint, owner.encode("utf-8", "replace").decode(), *args)


class TestSurrogatesThatAreReplaced(Mutant):
    broken = ReplacesSurrogates
    features = frozenset({"surrogates"})
    caught_by = ("test_lone_surrogates_come_back_as_they_were",)
