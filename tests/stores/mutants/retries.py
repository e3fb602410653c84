"""Broken retry stores: what is handed out when, and which entry replaces which."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count

import attrs

from retrykit.backends.memory import _Entry, _Retries, _Shared
from retrykit.lease import Lease
from retrykit.message import Message
from retrykit.stores import DueMessage, RetryStore
from retrykit.testing.conformance import Place, RetryStoreSuite
from tests.stores.mutants.breakages import gap


class Mutant(RetryStoreSuite):
    broken: type[_Retries]

    def make_store(self, place: Place) -> RetryStore:
        return self.broken(_Shared(place.clock))


def key_of(due: DueMessage) -> tuple[str, int]:
    return due.message.id, due.generation


class DueEarly(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        super()._schedule(message, due_at.replace(microsecond=0), generation, version)


class TestDueTimeInWholeSeconds(Mutant):
    broken = DueEarly
    caught_by = ("test_message_due_late_in_a_second_is_not_early",)


class HandsOutEarly(_Retries):
    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        millisecond = timedelta(milliseconds=1)
        kept = dict(self._entries)
        for key, entry in kept.items():
            if entry.lease is None and entry.due_at > datetime.min.replace(tzinfo=entry.due_at.tzinfo) + millisecond:
                self._entries[key] = attrs.evolve(entry, due_at=entry.due_at - millisecond)
        return super()._claim_due(limit, owner, lease)


class TestMessageThatIsDueAMillisecondEarly(Mutant):
    broken = HandsOutEarly
    caught_by = ("test_message_is_handed_out_from_its_due_time_on",)


class ReadThenWrite(_Retries):
    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        with self._shared.locked() as now:
            ready = sorted(
                (entry for entry in self._entries.values() if entry.ready_at <= now),
                key=lambda entry: (entry.ready_at, entry.message.id, entry.generation),
            )
        gap()
        claimed = []
        for entry in ready[:limit]:
            held = Lease.granted(owner, next(self._tokens), now, lease)
            with self._shared.locked():
                self._entries[entry.message.id, entry.generation] = attrs.evolve(entry, lease=held)
            claimed.append(
                DueMessage(message=entry.message, generation=entry.generation, due_at=entry.due_at, lease=held)
            )
        return sorted(claimed, key=lambda entry: (entry.due_at, entry.message.id, entry.generation))


class TestHandOutThatReadsThenWrites(Mutant):
    broken = ReadThenWrite
    caught_by = (
        "test_many_threads_taking_due_messages_each_is_handed_out_once",
        "test_many_threads_taking_over_lapsed_messages_each_is_handed_out_once",
    )


class Unfenced(_Retries):
    def _held(self, due: DueMessage) -> _Entry | None:
        entry = self._entries.get(key_of(due))
        return entry if entry is not None and entry.lease is not None else None


class TestAckWithoutTheToken(Mutant):
    broken = Unfenced
    caught_by = (
        "test_token_of_another_changes_nothing",
        "test_message_is_held_by_one_caller_until_its_lease_ends",
        "test_many_threads_taking_over_lapsed_messages_each_is_handed_out_once",
    )


class AcksWaiting(_Retries):
    def _ack(self, due: DueMessage) -> bool:
        entry = self._entries.get(key_of(due))
        if entry is not None and entry.lease is None:
            return bool(self._entries.pop(key_of(due)))
        return super()._ack(due)


class TestAckOfWhatWasTakenBack(Mutant):
    broken = AcksWaiting
    caught_by = (
        "test_schedule_takes_a_leased_entry_back_from_its_holder",
        "test_ack_with_an_old_token_after_the_entry_came_again_removes_nothing",
    )


class StrictLease(_Retries):
    def _held(self, due: DueMessage) -> _Entry | None:
        entry = super()._held(due)
        return entry if entry is not None and entry.lease.deadline > self._shared._clock.now() else None


class TestLapsedHolderThatIsShutOutTooSoon(Mutant):
    broken = StrictLease
    caught_by = (
        "test_ack_with_a_lease_that_ended_but_was_not_taken_removes_the_entry",
        "test_extend_with_a_lease_that_ended_but_was_not_taken_is_granted",
    )


class LosesLapsed(_Retries):
    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        return super()._claim_due(limit, owner, 1e9)


class TestMessageOfALostHolderThatIsLost(Mutant):
    broken = LosesLapsed
    caught_by = (
        "test_message_of_holders_that_are_lost_again_and_again_comes_again",
        "test_hand_out_whose_answer_was_lost_comes_again_when_its_lease_ends",
    )


class TakesThenGives(_Retries):
    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        claimed = super()._claim_due(limit, owner, lease)
        for due in claimed:
            del self._entries[key_of(due)]
        return claimed


class TestHandOutThatForgetsTheEntry(Mutant):
    broken = TakesThenGives
    caught_by = (
        "test_message_is_held_by_one_caller_until_its_lease_ends",
        "test_stats_tell_what_waits_what_is_leased_and_what_is_due",
    )


class Doubles(_Retries):
    def __init__(self, shared: _Shared) -> None:
        super().__init__(shared)
        self._copies = count(1000)

    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        if (message.id, generation) in self._entries:
            generation = next(self._copies)
        super()._schedule(message, due_at, generation, version)


class TestScheduleThatDoubles(Mutant):
    broken = Doubles
    caught_by = (
        "test_one_entry_for_each_message_and_generation",
        "test_schedule_repeated_after_a_lost_answer_changes_nothing",
    )


class OneGeneration(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        for key in [key for key in self._entries if key[0] == message.id and key[1] != generation]:
            del self._entries[key]
        super()._schedule(message, due_at, generation, version)


class TestGenerationsThatReplaceEachOther(Mutant):
    broken = OneGeneration
    caught_by = (
        "test_one_entry_for_each_message_and_generation",
        "test_version_of_one_generation_says_nothing_about_another",
    )


class LastWins(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        self._entries.pop((message.id, generation), None)
        super()._schedule(message, due_at, generation, version)


class TestOlderVersionThatReplaces(Mutant):
    broken = LastWins
    caught_by = (
        "test_older_or_equal_version_leaves_a_waiting_entry_alone",
        "test_many_threads_scheduling_the_newest_version_stays",
    )


class EqualReplaces(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        entry = self._entries.get((message.id, generation))
        if entry is not None and entry.version == version:
            del self._entries[message.id, generation]
        super()._schedule(message, due_at, generation, version)


class TestEqualVersionThatReplaces(Mutant):
    broken = EqualReplaces
    caught_by = ("test_older_or_equal_version_leaves_a_waiting_entry_alone",)


class FirstStays(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        if (message.id, generation) not in self._entries:
            super()._schedule(message, due_at, generation, version)


class TestNewerVersionThatIsDropped(Mutant):
    broken = FirstStays
    caught_by = (
        "test_newer_version_replaces_a_waiting_entry",
        "test_schedule_takes_a_leased_entry_back_from_its_holder",
    )


class KeepsEarliest(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        entry = self._entries.get((message.id, generation))
        super()._schedule(message, min(due_at, entry.due_at) if entry else due_at, generation, version)


class TestNewerVersionThatCannotDelay(Mutant):
    broken = KeepsEarliest
    caught_by = ("test_newer_version_replaces_a_waiting_entry",)


class HolderStays(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        entry = self._entries.get((message.id, generation))
        super()._schedule(message, due_at, generation, version)
        if entry is not None and entry.lease is not None:
            now = self._entries[message.id, generation]
            self._entries[message.id, generation] = attrs.evolve(now, lease=entry.lease)


class TestScheduleThatLeavesTheHolderItsHold(Mutant):
    broken = HolderStays
    caught_by = (
        "test_schedule_takes_a_leased_entry_back_from_its_holder",
        "test_schedule_takes_back_what_lapsed_as_well",
    )


class LastMessage(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        super()._schedule(message, due_at, generation, version)
        entry = self._entries[message.id, generation]
        self._entries[message.id, generation] = attrs.evolve(entry, message=message)


class TestOlderVersionThatReplacesTheMessage(Mutant):
    broken = LastMessage
    caught_by = (
        "test_older_or_equal_version_leaves_a_waiting_entry_alone",
        "test_schedule_takes_a_leased_entry_back_from_its_holder",
    )


class ForgetsVersion(_Retries):
    def _release(self, due: DueMessage, delay: float) -> bool:
        released = super()._release(due, delay)
        if released:
            self._entries[key_of(due)] = attrs.evolve(self._entries[key_of(due)], version=-1)
        return released


class TestReleaseThatForgetsTheVersion(Mutant):
    broken = ForgetsVersion
    caught_by = ("test_release_keeps_the_version",)


class Unordered(_Retries):
    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        return sorted(super()._claim_due(limit, owner, lease), key=lambda due: due.message.id)


class TestDueMessagesInAnyOrder(Mutant):
    broken = Unordered
    caught_by = ("test_due_messages_come_earliest_first_and_up_to_the_limit",)


class OrderedByLease(_Retries):
    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        ready = {key: entry.ready_at for key, entry in self._entries.items()}
        return sorted(super()._claim_due(limit, owner, lease), key=lambda due: ready[key_of(due)])


class TestDueMessagesInTheOrderOfTheirLeases(Mutant):
    broken = OrderedByLease
    caught_by = ("test_due_messages_come_earliest_first_also_after_a_lapsed_lease",)


class Ties(_Retries):
    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        claimed = super()._claim_due(limit, owner, lease)
        return sorted(claimed, key=lambda due: (due.due_at, due.message.id.casefold(), str(due.generation)))


class TestDueMessagesOfOneInstantInAnyOrder(Mutant):
    broken = Ties
    caught_by = ("test_due_messages_of_one_instant_come_by_id_and_generation",)


class NoLimit(_Retries):
    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        return super()._claim_due(10**9, owner, lease)


class TestLimitThatIsIgnored(Mutant):
    broken = NoLimit
    caught_by = ("test_due_messages_come_earliest_first_and_up_to_the_limit",)


class LeasesBeyondTheLimit(_Retries):
    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        return super()._claim_due(10**9, owner, lease)[:limit]


class TestHandOutThatLeasesMoreThanItGives(Mutant):
    broken = LeasesBeyondTheLimit
    caught_by = (
        "test_due_messages_come_earliest_first_and_up_to_the_limit",
        "test_many_threads_taking_due_messages_each_is_handed_out_once",
    )
