"""Broken circuit stores: opening, closing, what is reported, and what is kept."""

from __future__ import annotations

from datetime import timedelta

import attrs

from retrykit.backends.memory import _Circuits, _Shared
from retrykit.machines import circuit
from retrykit.stores import AsyncCircuitStore, Backend, Circuit
from retrykit.testing.conformance import CircuitStoreSuite, Place
from tests.stores.mutants.breakages import gap, leaving_answers_behind, writing_later
from tests.stores.mutants.circuits import Mutant

SECOND = timedelta(seconds=1)


class ReadsBeforeItTrips(_Circuits):
    def _trip(self, name, by, recovery):
        known = self._known.get(name)
        gap()
        if known is not None and known.is_open:
            return known
        with self._shared.locked() as now:
            return self._keep(circuit.trip(known, name, by=by, recovery=recovery, now=now))


class TestTripThatReadsBeforeItWrites(Mutant):
    broken = ReadsBeforeItTrips
    caught_by = ("test_many_threads_tripping_one_opens",)


class TripsAgain(_Circuits):
    def _trip(self, name, by, recovery):
        with self._shared.locked() as now:
            known = self._known.get(name) or Circuit(name=name, changed_at=now)
            return self._keep(circuit._opened(known, by, recovery, now))


class TestTripThatOpensAnOpenCircuit(Mutant):
    broken = TripsAgain
    caught_by = ("test_trip_of_an_open_circuit_leaves_it_as_it_is", "test_many_threads_tripping_one_opens")


class Prolongs(_Circuits):
    def _trip(self, name, by, recovery):
        opened = super()._trip(name, by, recovery)
        with self._shared.locked() as now:
            return self._keep(attrs.evolve(opened, open_until=now + recovery * SECOND))


class TestTripThatProlongsTheRecovery(Mutant):
    broken = Prolongs
    caught_by = ("test_trip_of_an_open_circuit_leaves_it_as_it_is",)


class LatestOpener(_Circuits):
    def _trip(self, name, by, recovery):
        return self._keep(attrs.evolve(super()._trip(name, by, recovery), by=by))


class TestTripThatNamesWhoCameLast(Mutant):
    broken = LatestOpener
    caught_by = ("test_trip_of_an_open_circuit_leaves_it_as_it_is",)


class DeletesWhenClosed(_Circuits):
    def _reset(self, name):
        closed = super()._reset(name)
        if closed:
            del self._known[name]
        return closed


class TestGenerationThatRestarts(Mutant):
    broken = DeletesWhenClosed
    caught_by = (
        "test_trip_after_a_closing_opens_the_next_generation",
        "test_close_closes_an_open_circuit",
        "test_probe_of_an_earlier_opening_changes_nothing",
    )


class SilentClose(_Circuits):
    def _reset(self, name):
        before = self._known.get(name)
        closed = super()._reset(name)
        if closed and before is not None:
            self._keep(attrs.evolve(self._known[name], generation=before.generation))
        return closed


class TestClosingThatNoGenerationTells(Mutant):
    broken = SilentClose
    caught_by = ("test_close_closes_an_open_circuit",)


class KeepsOpens(_Circuits):
    def _reset(self, name):
        before = self._known.get(name)
        closed = super()._reset(name)
        if closed and before is not None:
            self._keep(attrs.evolve(self._known[name], opens=before.opens))
        return closed


class TestClosingThatForgetsNoOpenings(Mutant):
    broken = KeepsOpens
    caught_by = ("test_trip_after_a_closing_opens_the_next_generation",)


class AlwaysClosed(_Circuits):
    def _reset(self, name):
        super()._reset(name)
        return True


class TestClosingThatIsAlwaysTrue(Mutant):
    broken = AlwaysClosed
    caught_by = ("test_close_of_what_is_not_open_is_false", "test_many_threads_closing_one_is_told_that_it_did")


class NeverCloses(_Circuits):
    def _reset(self, name):
        return name in self._known


class TestClosingThatDoesNothing(Mutant):
    broken = NeverCloses
    caught_by = ("test_close_closes_an_open_circuit",)


class ClosesWithGap(_Circuits):
    def _reset(self, name):
        known = self._known.get(name)
        gap()
        super()._reset(name)
        return known is not None and known.is_open


class TestClosingThatReadsBeforeItWrites(Mutant):
    broken = ClosesWithGap
    caught_by = ("test_many_threads_closing_one_is_told_that_it_did",)


class Prefixes(_Circuits):
    def _reset(self, name):
        closed = [super(Prefixes, self)._reset(each) for each in list(self._known) if each.startswith(name)]
        return any(closed)


class TestClosingOfOthersToo(Mutant):
    broken = Prefixes
    caught_by = ("test_circuit_of_one_name_leaves_the_others",)


class Adds(_Circuits):
    def _report(self, name, instance, calls, failures, length):
        own = [each for each in getattr(self._known.get(name), "reports", ()) if each.instance == instance]
        calls += sum(each.calls for each in own)
        return super()._report(name, instance, calls, failures + sum(each.failures for each in own), length)


class TestReportThatAddsInsteadOfReplacing(Mutant):
    broken = Adds
    caught_by = (
        "test_report_replaces_what_the_same_process_said_before",
        "test_many_threads_reporting_each_report_is_kept",
    )


class Grows(_Circuits):
    def _report(self, name, instance, calls, failures, length):
        known = getattr(self._known.get(name), "reports", ())
        largest = max((each.calls for each in known if each.instance == instance), default=0)
        return super()._report(name, instance, max(calls, largest), failures, length)


class TestReportThatNeverShrinks(Mutant):
    broken = Grows
    caught_by = ("test_report_replaces_what_the_same_process_said_before",)


class LosesReports(_Circuits):
    def _report(self, name, instance, calls, failures, length):
        known = self._known.get(name)
        gap()
        with self._shared.locked() as now:
            return self._keep(
                circuit.report(known, name, instance=instance, calls=calls, failures=failures, length=length, now=now)
            )


class TestReportThatReadsBeforeItWrites(Mutant):
    broken = LosesReports
    caught_by = ("test_many_threads_reporting_each_report_is_kept",)


class Lasting(_Circuits):
    def _report(self, name, instance, calls, failures, length):
        return super()._report(name, instance, calls, failures, length + 0.001)


class TestReportThatCountsTooLong(Mutant):
    broken = Lasting
    caught_by = ("test_report_counts_until_its_length_is_over",)


class Brief(_Circuits):
    def _report(self, name, instance, calls, failures, length):
        return super()._report(name, instance, calls, failures, max(0.001, length - 0.001))


class TestReportThatEndsEarly(Mutant):
    broken = Brief
    caught_by = ("test_report_counts_until_its_length_is_over",)


class OpensByReport(_Circuits):
    def _report(self, name, instance, calls, failures, length):
        reported = super()._report(name, instance, calls, failures, length)
        return reported if failures < calls else self._keep(attrs.evolve(reported, is_open=not reported.is_open))


class TestReportThatDecides(Mutant):
    broken = OpensByReport
    caught_by = ("test_report_neither_opens_nor_closes",)


class RemembersReports(_Circuits):
    def _trip(self, name, by, recovery):
        before = self._known.get(name)
        opened = super()._trip(name, by, recovery)
        return opened if before is None else self._keep(attrs.evolve(opened, reports=before.reports))


class TestOpeningThatKeepsReports(Mutant):
    broken = RemembersReports
    caught_by = ("test_reports_are_forgotten_when_the_circuit_opens_and_closes",)


class NeverForgets(_Circuits):
    def _circuits(self):
        return sorted(self._known.values(), key=lambda each: each.name)


class TestCircuitThatIsNeverForgotten(Mutant):
    broken = NeverForgets
    caught_by = ("test_closed_circuit_is_forgotten_after_a_day",)


class ForgetsEarly(_Circuits):
    def _circuits(self):
        with self._shared.locked() as now:
            late = now + timedelta(milliseconds=1)
            known = [each for each in self._known.values() if not circuit.is_forgotten(each, late)]
        return sorted(known, key=lambda each: each.name)


class TestCircuitThatIsForgottenEarly(Mutant):
    broken = ForgetsEarly
    caught_by = ("test_closed_circuit_is_forgotten_after_a_day",)


class ForgetsOpenOnes(_Circuits):
    def _trip(self, name, by, recovery):
        with self._shared.locked() as now:
            day = timedelta(days=1)
            self._known = {key: each for key, each in self._known.items() if now - each.changed_at <= day}
        return super()._trip(name, by, recovery)


class TestCircuitThatIsForgottenWhileItIsOpen(Mutant):
    broken = ForgetsOpenOnes
    caught_by = ("test_open_circuit_is_never_forgotten",)


class Resumes(_Circuits):
    def _trip(self, name, by, recovery):
        with self._shared.locked() as now:
            known = self._known.get(name) or Circuit(name=name, changed_at=now)
            return self._keep(known if known.is_open else circuit._opened(known, by, recovery, now))


class TestCircuitThatGoesOnAfterItWasForgotten(Mutant):
    broken = Resumes
    caught_by = ("test_circuit_that_is_forgotten_opens_as_a_new_one",)


class AnyOrder(_Circuits):
    def _circuits(self):
        return list(reversed(super()._circuits()))


class TestCircuitsInAnyOrder(Mutant):
    broken = AnyOrder
    caught_by = ("test_circuits_come_in_the_order_of_their_names", "test_hostile_names_of_circuits_are_kept_apart")


class Utf16Names(_Circuits):
    def _circuits(self):
        return sorted(super()._circuits(), key=lambda each: each.name.encode("utf-16-be"))


class TestCircuitsInTheOrderOfUtf16(Mutant):
    broken = Utf16Names
    caught_by = ("test_circuits_come_in_the_order_of_their_names",)


class OpenOnly(_Circuits):
    def _circuits(self):
        return [each for each in super()._circuits() if each.is_open]


class TestCircuitsThatTellNoClosing(Mutant):
    broken = OpenOnly
    caught_by = ("test_close_closes_an_open_circuit", "test_closed_circuit_is_forgotten_after_a_day")


class FoldedNames(_Circuits):
    def _trip(self, name, by, recovery):
        for key in [key for key in self._known if key.lower() == name.lower() and key != name]:
            del self._known[key]
        return super()._trip(name, by, recovery)


class TestNamesThatDifferInCaseAreOne(Mutant):
    broken = FoldedNames
    caught_by = ("test_circuits_come_in_the_order_of_their_names", "test_hostile_names_of_circuits_are_kept_apart")


class CutNames(_Circuits):
    def _trip(self, name, by, recovery):
        return super()._trip(name, by.partition("\0")[0], recovery)


class TestOpenerThatIsCutAtNul(Mutant):
    broken = CutNames
    caught_by = ("test_hostile_text_of_who_did_it_comes_back_or_is_escaped",)


class SmallNumbers(_Circuits):
    def _report(self, name, instance, calls, failures, length):
        return super()._report(name, instance, calls & 0xFFFFFFFF, failures & 0xFFFFFFFF, length)


class TestNumbersOf32Bits(Mutant):
    broken = SmallNumbers
    caught_by = ("test_large_numbers_come_back",)


class SharedReports(_Circuits):
    def _report(self, name, instance, calls, failures, length):
        return super()._report(name, instance.strip(), calls, failures, length)


class TestProcessesThatDifferInSpaceAreOne(Mutant):
    broken = SharedReports
    caught_by = ("test_hostile_names_of_processes_are_kept_apart",)


class InTwoSteps(_Circuits):
    def _trip(self, name, by, recovery):
        with self._shared.locked() as now:
            opened = circuit.trip(self._known.get(name), name, by="", recovery=recovery, now=now)
            self._keep(opened)
        with self._shared.locked():
            return self._keep(attrs.evolve(opened, by=by))


class TestTripInTwoSteps(Mutant):
    broken = InTwoSteps
    caught_by = ("test_change_of_a_circuit_interrupted_in_the_middle_is_made_or_not",)


class TestCircuitsOfOneProcess(Mutant):
    broken = _Circuits
    features = frozenset({"reopen"})
    caught_by = ("test_store_opened_again_finds_its_circuits",)


class TestCancelledChangeLeavesItsAnswer(CircuitStoreSuite):
    caught_by = ("test_change_of_a_circuit_cancelled_is_made_or_not_and_the_next_gets_its_own_answer",)

    async def make_store(self, place: Place) -> AsyncCircuitStore:
        return leaving_answers_behind(AsyncCircuitStore, _Circuits(_Shared(place.clock)))


class TestOpeningAnsweredBeforeItIsWritten(CircuitStoreSuite):
    features = frozenset({"reopen", "processes"})
    caught_by = ("test_circuits_of_killed_processes_are_there",)

    def make_store(self, place: Place) -> Backend:
        def answer(name, by, recovery):
            return circuit.trip(None, name, by=by, recovery=recovery, now=place.clock.now())

        return writing_later(place, "circuits", {"_trip": answer}, ["_reset", "_circuits"])
