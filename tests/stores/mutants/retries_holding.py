"""Broken retry stores: what becomes of a hold, what a message holds, and what is left after races and crashes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count

import attrs

from retrykit.backends import MemoryBackend
from retrykit.backends.memory import _Entry, _Retries, _Shared
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.backends.sqlite.retries import Retries
from retrykit.message import Message
from retrykit.stores import AsyncRetryStore, DueMessage, RetryStats, RetryStore
from retrykit.testing.conformance import Place, RetryStoreSuite
from retrykit.times import later
from tests.stores.mutants.breakages import gap, leaving_answers_behind, writing_later


class Mutant(RetryStoreSuite):
    broken: type[_Retries]

    def make_store(self, place: Place) -> RetryStore:
        return self.broken(_Shared(place.clock))


def key_of(due: DueMessage) -> tuple[str, int]:
    return due.message.id, due.generation


class RestartsTokens(_Retries):
    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        if not self._entries or all(entry.lease is None for entry in self._entries.values()):
            self._tokens = count(1)
        return super()._claim_due(limit, owner, lease)


class TestTokensThatRestart(Mutant):
    broken = RestartsTokens
    caught_by = (
        "test_ack_with_an_old_token_after_the_entry_came_again_removes_nothing",
        "test_cancelled_message_may_be_scheduled_again",
        "test_release_makes_the_entry_due_again_after_its_delay",
    )


class ReleasesNow(_Retries):
    def _release(self, due: DueMessage, delay: float) -> bool:
        return super()._release(due, 0.0)


class TestReleaseWithoutItsDelay(Mutant):
    broken = ReleasesNow
    caught_by = ("test_release_makes_the_entry_due_again_after_its_delay",)


class ZeroIsNone(_Retries):
    def _release(self, due: DueMessage, delay: float) -> bool:
        return super()._release(due, delay or 30.0)


class TestDelayOfZeroTakenForNone(Mutant):
    broken = ZeroIsNone
    caught_by = ("test_release_without_a_delay_makes_the_entry_due_now",)


class CountsFromDue(_Retries):
    def _release(self, due: DueMessage, delay: float) -> bool:
        with self._shared.locked():
            entry = self._held(due)
            if entry is not None:
                at = later(entry.due_at, delay)
                self._entries[key_of(due)] = attrs.evolve(entry, lease=None, due_at=at)
            return entry is not None


class TestReleaseThatCountsFromTheDueTime(Mutant):
    broken = CountsFromDue
    caught_by = ("test_release_makes_the_entry_due_again_after_its_delay",)


class Overflows(_Retries):
    def _release(self, due: DueMessage, delay: float) -> bool:
        assert due.due_at + timedelta(seconds=delay)
        return super()._release(due, delay)


class TestDelayThatOverflows(Mutant):
    broken = Overflows
    caught_by = ("test_release_and_lease_beyond_the_calendar_end_with_it",)


class NewToken(_Retries):
    def _extend(self, due: DueMessage, lease: float) -> DueMessage | None:
        extended = super()._extend(due, lease)
        if extended is None:
            return None
        held = attrs.evolve(extended.lease, token=next(self._tokens))
        self._entries[key_of(due)] = attrs.evolve(self._entries[key_of(due)], lease=held)
        return attrs.evolve(extended, lease=held)


class TestExtensionThatChangesTheToken(Mutant):
    broken = NewToken
    caught_by = (
        "test_extended_hold_outlasts_any_work",
        "test_ack_release_and_extend_repeated_after_a_lost_answer_change_nothing",
    )


class AddsToTheLease(_Retries):
    def _extend(self, due: DueMessage, lease: float) -> DueMessage | None:
        with self._shared.locked():
            entry = self._held(due)
            if entry is None:
                return None
            held = entry.lease.renewed(entry.lease.deadline, lease)
            self._entries[key_of(due)] = attrs.evolve(entry, lease=held)
            return attrs.evolve(due, lease=held)


class TestExtensionThatAddsUp(Mutant):
    broken = AddsToTheLease
    caught_by = (
        "test_extend_moves_the_end_of_the_hold_and_nothing_else",
        "test_ack_release_and_extend_repeated_after_a_lost_answer_change_nothing",
    )


class AnswersOnly(_Retries):
    def _extend(self, due: DueMessage, lease: float) -> DueMessage | None:
        before = self._entries.get(key_of(due))
        extended = super()._extend(due, lease)
        if extended is not None:
            self._entries[key_of(due)] = before
        return extended


class TestExtensionThatIsNotStored(Mutant):
    broken = AnswersOnly
    caught_by = ("test_extended_hold_outlasts_any_work",)


class CancelsWaiting(_Retries):
    def _cancel(self, message_id: str) -> bool:
        keys = [key for key, entry in self._entries.items() if key[0] == message_id and entry.lease is None]
        return bool([self._entries.pop(key) for key in keys])


class TestCancellationThatLeavesWhatIsLeased(Mutant):
    broken = CancelsWaiting
    caught_by = ("test_cancel_removes_all_generations_of_a_message_and_no_other",)


class CancelsFirst(_Retries):
    def _cancel(self, message_id: str) -> bool:
        return self._entries.pop((message_id, 1), None) is not None


class TestCancellationOfOneGeneration(Mutant):
    broken = CancelsFirst
    caught_by = ("test_cancel_removes_all_generations_of_a_message_and_no_other",)


class CancelsPrefix(_Retries):
    def _cancel(self, message_id: str) -> bool:
        keys = [key for key in self._entries if f"{key[0]}:{key[1]}".startswith(f"{message_id}:")]
        return bool([self._entries.pop(key) for key in keys])


class TestCancellationByPrefix(Mutant):
    broken = CancelsPrefix
    caught_by = ("test_cancel_removes_all_generations_of_a_message_and_no_other",)


class CountsLeasedAsGone(_Retries):
    def _stats(self) -> RetryStats:
        stats = super()._stats()
        with self._shared.locked() as now:
            waiting = [entry for entry in self._entries.values() if entry.lease is None]
        return attrs.evolve(stats, due=sum(entry.due_at <= now for entry in waiting))


class TestStatsWithoutWhatLapsed(Mutant):
    broken = CountsLeasedAsGone
    caught_by = ("test_stats_tell_what_waits_what_is_leased_and_what_is_due",)


class TextOnly(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        body = message.body.decode("utf-8", "replace").encode()
        text = Message(message.id, body, message.attributes, max_payload=10**9)
        super()._schedule(text, due_at, generation, version)


class TestBodyTakenForText(Mutant):
    broken = TextOnly
    caught_by = ("test_body_that_is_no_json_and_no_text_comes_back",)


class CutsBodies(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        cut = Message(message.id, message.body[: 2**20], message.attributes)
        super()._schedule(cut, due_at, generation, version)


class TestBodyThatIsCut(Mutant):
    broken = CutsBodies
    features = frozenset({"megabyte"})
    caught_by = ("test_payload_of_a_megabyte_is_kept_byte_for_byte",)


class NoEmptyAttributes(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        attributes = {name: value for name, value in message.attributes.items() if name and value}
        super()._schedule(Message(message.id, message.body, attributes), due_at, generation, version)


class TestEmptyAttributesThatAreDropped(Mutant):
    broken = NoEmptyAttributes
    caught_by = ("test_hostile_text_in_values_comes_back",)


class ReplacesSurrogates(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        attributes = {name: value.encode("utf-8", "replace").decode() for name, value in message.attributes.items()}
        super()._schedule(Message(message.id, message.body, attributes), due_at, generation, version)


class TestSurrogatesThatAreReplaced(Mutant):
    broken = ReplacesSurrogates
    features = frozenset({"surrogates"})
    caught_by = ("test_lone_surrogates_come_back_as_they_were",)


class ClearsThenWrites(_Retries):
    def _release(self, due: DueMessage, delay: float) -> bool:
        entry = self._held(due)
        if entry is None:
            return False
        del self._entries[key_of(due)]
        with self._shared.locked() as now:
            self._entries[key_of(due)] = attrs.evolve(entry, lease=None, due_at=later(now, delay))
            return True


class TestReleaseInTwoSteps(Mutant):
    broken = ClearsThenWrites
    caught_by = ("test_operation_interrupted_in_the_middle_happened_or_not",)


class ChecksThenSchedules(_Retries):
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        with self._shared.locked():
            entry = self._entries.get((message.id, generation))
        if entry is None or version > entry.version:
            gap()
            new = _Entry(message=message, generation=generation, version=version, due_at=due_at)
            self._entries[message.id, generation] = new


class TestScheduleThatReadsThenWrites(Mutant):
    broken = ChecksThenSchedules
    caught_by = ("test_many_threads_scheduling_the_newest_version_stays",)


class ChecksThenExtends(_Retries):
    def _extend(self, due: DueMessage, lease: float) -> DueMessage | None:
        with self._shared.locked() as now:
            entry = self._held(due)
        gap()
        if entry is None:
            return None
        held = due.lease.renewed(now, lease)
        self._entries[key_of(due)] = attrs.evolve(entry, lease=held)
        return attrs.evolve(due, lease=held)


class TestExtensionThatReadsThenWrites(Mutant):
    broken = ChecksThenExtends
    caught_by = ("test_holder_racing_with_those_who_take_over_one_has_the_entry",)


class ChecksThenAcks(_Retries):
    def _ack(self, due: DueMessage) -> bool:
        with self._shared.locked():
            entry = self._held(due)
        gap()
        self._entries.pop(key_of(due), None)
        return entry is not None


class TestAckThatReadsThenWrites(Mutant):
    broken = ChecksThenAcks
    caught_by = ("test_many_threads_acking_one_hold_one_is_told_that_it_did",)


class TestAnswerOfACancelledOperation(RetryStoreSuite):
    caught_by = ("test_operation_cancelled_in_the_middle_happened_or_not",)

    async def make_store(self, place: Place) -> AsyncRetryStore:
        return leaving_answers_behind(AsyncRetryStore, MemoryBackend(clock=place.clock).retries)


class TestMemoryThatClaimsToBeShared(RetryStoreSuite):
    features = frozenset({"processes", "reopen"})
    caught_by = (
        "test_many_processes_taking_due_messages_each_is_handed_out_once",
        "test_store_opened_again_finds_every_entry",
    )

    def make_store(self, place: Place) -> RetryStore:
        return MemoryBackend(clock=place.clock).retries


class TestScheduleThatIsAnsweredBeforeItIsWritten(RetryStoreSuite):
    features = frozenset({"processes", "reopen"})
    caught_by = ("test_killed_process_loses_nothing_that_was_answered",)

    def make_store(self, place: Place) -> SQLiteBackend:
        return writing_later(place, "retries", {"_ack": lambda due: True}, ())


class OwnTokens(Retries):
    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        with self._database.writing() as (db, _):
            self.token = getattr(self, "token", 0)
            db.execute("UPDATE retrykit_schema SET token = ?", (self.token,))
        self.token += 1
        return super()._claim_due(limit, owner, lease)


class TestTokensThatRestartWithTheStore(RetryStoreSuite):
    features = frozenset({"reopen"})
    caught_by = ("test_tokens_do_not_restart_in_an_empty_store_opened_again",)

    def make_store(self, place: Place) -> SQLiteBackend:
        backend = SQLiteBackend(place.folder / "store.db", clock=place.clock, synchronous="normal")
        backend.retries = OwnTokens(backend.retries._database)
        return backend
