"""Broken signal stores."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from retrykit.backends.memory import MemoryBackend, _Shared
from retrykit.backends.memory_signals import MemorySignals
from retrykit.stores import AsyncSignalStore, Backend, Signals, SignalStore
from retrykit.stores.signals import SignalChange
from retrykit.testing.conformance import Place, SignalStoreSuite
from tests.stores.mutants.breakages import gap, leaving_answers_behind, writing_later


class Mutant(SignalStoreSuite):
    broken: type[MemorySignals]

    def make_store(self, place: Place) -> SignalStore:
        return self.broken(_Shared(place.clock).locked)


class Slow(MemorySignals):
    def _change(self, name: str, change: SignalChange) -> Signals:
        with self._locked() as now:
            changed = change(self._known.get(name), now)
        gap()
        with self._locked():
            self._known[name] = changed
            return changed


class TestChangeThatReadsBeforeItWrites(Mutant):
    broken = Slow
    caught_by = ("test_many_threads_changing_one_record_no_change_is_lost",)


class Unwritten(MemorySignals):
    def _change(self, name: str, change: SignalChange) -> Signals:
        with self._locked() as now:
            return change(self._known.get(name), now)


class TestChangeThatIsNotKept(Mutant):
    broken = Unwritten
    caught_by = (
        "test_record_comes_back_as_it_was_changed_to",
        "test_any_sequence_of_operations_gives_what_the_model_gives",
    )


class AnswersBefore(MemorySignals):
    def _change(self, name: str, change: SignalChange) -> Signals:
        before = self._known.get(name)
        after = super()._change(name, change)
        return before or after


class TestChangeThatAnswersWhatWasBefore(Mutant):
    broken = AnswersBefore
    caught_by = ("test_change_is_made_to_what_stands_at_the_stores_time",)


class OtherTime(MemorySignals):
    def _change(self, name: str, change: SignalChange) -> Signals:
        return super()._change(name, lambda known, now: change(known, now + timedelta(milliseconds=1)))


class TestChangeAtAnotherTime(Mutant):
    broken = OtherTime
    caught_by = ("test_change_is_made_to_what_stands_at_the_stores_time",)


class Swallows(MemorySignals):
    def _change(self, name: str, change: SignalChange) -> Signals:
        try:
            return super()._change(name, change)
        except ZeroDivisionError:
            return Signals(name=name)


class TestChangeWhoseErrorIsLost(Mutant):
    broken = Swallows
    caught_by = ("test_change_that_raises_changes_nothing",)


class Begins(MemorySignals):
    def _change(self, name: str, change: SignalChange) -> Signals:
        known = self._known.setdefault(name, Signals(name=name))
        return super()._change(name, lambda _, now: change(None if known == Signals(name=name) else known, now))


class TestRecordThatIsThereBeforeItsChange(Mutant):
    broken = Begins
    caught_by = ("test_change_that_raises_changes_nothing",)


class Normalised(MemorySignals):
    def _change(self, name: str, change: SignalChange) -> Signals:
        return super()._change(name.strip().casefold(), change)

    def _get(self, name: str) -> Signals | None:
        return super()._get(name.strip().casefold())


class TestNamesThatAreNormalised(Mutant):
    broken = Normalised
    caught_by = ("test_hostile_names_are_kept_apart",)


class MendsAll(MemorySignals):
    def _mend(self, name: str) -> bool:
        with self._locked():
            return self._known.pop(name, None) is not None


class TestMendThatTakesAwayWhatCanBeRead(Mutant):
    broken = MendsAll
    caught_by = (
        "test_record_that_can_be_read_is_not_mended",
        "test_any_sequence_of_operations_gives_what_the_model_gives",
    )


class MendsByMaking(MemorySignals):
    def _mend(self, name: str) -> bool:
        with self._locked():
            self._known.setdefault(name, Signals(name=name))
            return False


class TestMendThatMakesARecord(Mutant):
    broken = MendsByMaking
    caught_by = ("test_record_that_can_be_read_is_not_mended",)


class NamesInside(MemorySignals):
    def _names(self) -> Sequence[str]:
        with self._locked():
            return [each.name for each in self._known.values()]


class TestNamesThatStandInTheRecords(Mutant):
    broken = NamesInside
    caught_by = ("test_names_of_all_records_are_listed_in_order",)


class NamesAsked(MemorySignals):
    def _get(self, name: str) -> Signals | None:
        self._asked = {*getattr(self, "_asked", ()), name}
        return super()._get(name)

    def _names(self) -> Sequence[str]:
        return [*{*super()._names(), *getattr(self, "_asked", ())}]


class TestNamesOfWhatWasOnlyAskedFor(Mutant):
    broken = NamesAsked
    caught_by = ("test_names_of_all_records_are_listed_in_order",)


class NamesTwice(MemorySignals):
    def _change(self, name: str, change: SignalChange) -> Signals:
        self._written = [*getattr(self, "_written", ()), name]
        return super()._change(name, change)

    def _names(self) -> Sequence[str]:
        return getattr(self, "_written", [])


class TestNamesOnceForEachChange(Mutant):
    broken = NamesTwice
    caught_by = ("test_names_of_all_records_are_listed_in_order",)


class TestAnswersOfCancelledOperations(SignalStoreSuite):
    caught_by = ("test_operation_cancelled_is_done_or_not_and_the_next_gets_its_own_answer",)

    async def make_store(self, place: Place) -> AsyncSignalStore:
        return leaving_answers_behind(AsyncSignalStore, MemoryBackend(clock=place.clock).signals)


class TestAcknowledgedBeforeItIsWritten(SignalStoreSuite):
    features = frozenset({"reopen", "processes"})
    caught_by = ("test_signals_of_killed_processes_are_there",)

    def make_store(self, place: Place) -> Backend:
        return writing_later(place, "signals", {"_change": lambda name, _: Signals(name=name)}, ["_get"])
