"""Broken circuit stores."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import attrs

from retrykit.backends.memory import _Circuits, _Shared
from retrykit.stores import AsyncCircuitStore, Backend, CircuitStore, Pause
from retrykit.testing.conformance import CircuitStoreSuite, Place
from tests.stores.mutants.breakages import gap, leaving_answers_behind, writing_later


class Mutant(CircuitStoreSuite):
    broken: type[_Circuits]

    def make_store(self, place: Place) -> CircuitStore:
        return self.broken(_Shared(place.clock))


class EndIgnored(_Circuits):
    def _pauses(self) -> Sequence[Pause]:
        return sorted(self._rows.values(), key=lambda row: row.key)


class TestPauseThatNeverEnds(Mutant):
    broken = EndIgnored
    caught_by = ("test_pause_with_an_end_is_over_at_that_instant",)


class EndsEarly(_Circuits):
    def _pauses(self) -> Sequence[Pause]:
        return [row for row in super()._pauses() if row.until is None or (row.until - row.since).seconds < 1]


class TestPauseThatEndsEarly(Mutant):
    broken = EndsEarly
    caught_by = ("test_pause_with_an_end_is_over_at_that_instant",)


class FirstStays(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        return self._rows.get(key) or super()._pause(key, reason, by, until)


class TestPauseThatIsNotReplaced(Mutant):
    broken = FirstStays
    caught_by = ("test_pause_replaces_the_one_before",)


class Unordered(_Circuits):
    def _pauses(self) -> Sequence[Pause]:
        return list(reversed(super()._pauses()))


class TestPausesInAnyOrder(Mutant):
    broken = Unordered
    caught_by = ("test_pauses_come_in_the_order_of_their_keys",)


class Lost(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        rows = dict(self._rows)
        pause = super()._pause(key, reason, by, until)
        gap()
        self._rows = {**rows, key: pause}
        return pause


class TestPauseThatOverwritesAnothers(Mutant):
    broken = Lost
    caught_by = ("test_many_threads_pausing_each_pause_is_kept",)


class Nameless(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        self._rows[key] = attrs.evolve(super()._pause(key, reason, by, until), by="")
        return self._rows[key]


class TestPauseWithoutItsAuthor(Mutant):
    broken = Nameless
    caught_by = ("test_pause_holds_until_it_is_resumed",)


class AlwaysResumed(_Circuits):
    def _resume(self, key: str) -> bool:
        super()._resume(key)
        return True


class TestResumeThatIsAlwaysTrue(Mutant):
    broken = AlwaysResumed
    caught_by = ("test_resume_of_what_is_not_paused_is_false", "test_pause_with_an_end_is_over_at_that_instant")


class SlowResume(_Circuits):
    def _resume(self, key: str) -> bool:
        was = any(pause.key == key for pause in self._pauses())
        gap()
        super()._resume(key)
        return was


class TestResumeThatReadsBeforeItWrites(Mutant):
    broken = SlowResume
    caught_by = ("test_many_threads_resuming_each_pause_is_resumed_once",)


class Half(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        self._rows.pop(key, None)
        return super()._pause(key, reason, by, until)


class TestPauseThatDeletesBeforeItWrites(Mutant):
    broken = Half
    caught_by = ("test_pause_interrupted_in_the_middle_is_there_or_not",)


class Wide(_Circuits):
    def _resume(self, key: str) -> bool:
        kind = key.partition(":")[0]
        resumed = [_Circuits._resume(self, name) for name in list(self._rows) if name.startswith(kind)]
        return any(resumed)


class TestResumeOfOthersToo(Mutant):
    broken = Wide
    caught_by = ("test_pause_of_one_key_leaves_the_others",)


class Longest(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        old = self._rows.get(key)
        if until is not None and old is not None and (old.until is None or old.until > until):
            until = old.until
        return super()._pause(key, reason, by, until)


class TestPauseThatIsNeverShortened(Mutant):
    broken = Longest
    caught_by = ("test_pause_until_an_instant_that_has_come_is_over_at_once",)


class FirstEnd(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        old = self._rows.get(key)
        return super()._pause(key, reason, by, old.until if old is not None and until is not None else until)


class TestPauseThatIsNeverLonger(Mutant):
    broken = FirstEnd
    caught_by = (
        "test_pause_until_later_holds_until_the_later_end",
        "test_any_sequence_of_operations_gives_what_the_model_gives",
    )


class Utf16(_Circuits):
    def _pauses(self) -> Sequence[Pause]:
        return sorted(super()._pauses(), key=lambda row: row.key.encode("utf-16-be"))


class TestPausesInTheOrderOfUtf16(Mutant):
    broken = Utf16
    caught_by = ("test_hostile_keys_are_kept_apart",)


class Folded(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        for name in [name for name in self._rows if name.lower() == key.lower()]:
            del self._rows[name]
        return super()._pause(key, reason, by, until)


class TestKeysThatDifferInCaseAreOne(Mutant):
    broken = Folded
    caught_by = ("test_hostile_keys_are_kept_apart",)


class Cut(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        return super()._pause(key, reason.partition("\0")[0], by, until)


class TestReasonThatIsCutAtNul(Mutant):
    broken = Cut
    caught_by = ("test_hostile_text_in_values_comes_back_or_is_escaped",)


class Bounded(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        return super()._pause(key, reason[:65_535], by, until)


class TestReasonThatIsCutAtALimit(Mutant):
    broken = Bounded
    features = frozenset({"megabyte"})
    caught_by = ("test_reason_of_a_megabyte_is_kept",)


class Escaping(_Circuits):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        return super()._pause(key, reason.encode("utf-8", "replace").decode(), by, until)


class TestReasonWithQuestionMarks(Mutant):
    broken = Escaping
    features = frozenset({"surrogates"})
    caught_by = ("test_lone_surrogates_come_back_as_they_were", "test_lone_surrogates_wedge_nothing")


class TestStoreOfOneProcess(Mutant):
    broken = _Circuits
    features = frozenset({"fork", "reopen"})
    caught_by = (
        "test_store_used_before_a_fork_works_in_the_child_and_in_the_parent",
        "test_store_opened_again_finds_its_pauses",
    )


class TestCancelledOperationLeavesItsAnswer(CircuitStoreSuite):
    caught_by = ("test_operation_cancelled_is_done_or_not_and_the_next_gets_its_own_answer",)

    async def make_store(self, place: Place) -> AsyncCircuitStore:
        return leaving_answers_behind(AsyncCircuitStore, _Circuits(_Shared(place.clock)))


class TestPauseAnsweredBeforeItIsWritten(CircuitStoreSuite):
    features = frozenset({"reopen", "processes"})
    caught_by = ("test_pauses_of_killed_processes_are_there", "test_store_opened_again_finds_its_pauses")

    def make_store(self, place: Place) -> Backend:
        def answer(key: str, reason: str, by: str, until: datetime | None) -> Pause:
            return Pause(key=key, reason=reason, by=by, since=place.clock.now(), until=until)

        return writing_later(place, "circuits", {"_pause": answer}, ["_resume", "_pauses"])
