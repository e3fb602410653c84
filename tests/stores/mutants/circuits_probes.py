"""Broken circuit stores: who probes, and what probes find."""

from __future__ import annotations

from datetime import timedelta

import attrs

from retrykit.backends.memory import _Circuits
from retrykit.lease import Lease
from retrykit.machines import circuit
from tests.stores.mutants.breakages import gap
from tests.stores.mutants.circuits import Mutant

MILLISECOND = timedelta(milliseconds=1)


class ReadsBeforeItLeases(_Circuits):
    def _lease_probe(self, name, owner, limit, length):
        known = self._known.get(name)
        gap()
        with self._shared.locked() as now:
            changed, lease = circuit.lease_probe(known, owner=owner, limit=limit, length=length, now=now)
            if changed is not None:
                self._keep(changed)
            return lease


class TestLeaseThatReadsBeforeItWrites(Mutant):
    broken = ReadsBeforeItLeases
    caught_by = ("test_many_threads_leasing_never_more_than_the_limit_probe",)


class Early(_Circuits):
    def _lease_probe(self, name, owner, limit, length):
        known = self._known.get(name)
        if known is not None and known.is_open:
            self._known[name] = attrs.evolve(known, open_until=known.open_until - MILLISECOND)
        lease = super()._lease_probe(name, owner, limit, length)
        if known is not None and known.is_open:
            self._known[name] = attrs.evolve(self._known[name], open_until=known.open_until)
        return lease


class TestProbeThatIsEarly(Mutant):
    broken = Early
    caught_by = ("test_probe_is_leased_when_the_recovery_is_over",)


class OfClosedOnes(_Circuits):
    def _lease_probe(self, name, owner, limit, length):
        known = self._known.get(name)
        if known is None or known.is_open:
            return super()._lease_probe(name, owner, limit, length)
        with self._shared.locked() as now:
            return Lease.granted(owner, known.last_token + 1, now, length)


class TestProbeOfAClosedCircuit(Mutant):
    broken = OfClosedOnes
    caught_by = ("test_probe_of_a_circuit_that_is_not_open_is_none",)


class OneMore(_Circuits):
    def _lease_probe(self, name, owner, limit, length):
        return super()._lease_probe(name, owner, limit + 1, length)


class TestProbesAboveTheLimit(Mutant):
    broken = OneMore
    caught_by = ("test_probes_on_their_way_are_never_more_than_the_limit",)


class OnlyOne(_Circuits):
    def _lease_probe(self, name, owner, limit, length):
        return super()._lease_probe(name, owner, 1, length)


class TestProbesBelowTheLimit(Mutant):
    broken = OnlyOne
    caught_by = ("test_probes_on_their_way_are_never_more_than_the_limit",)


class Anew(_Circuits):
    def _lease_probe(self, name, owner, limit, length):
        known = self._known.get(name)
        if known is not None:
            self._known[name] = attrs.evolve(known, probes=tuple(p for p in known.probes if p.owner != owner))
        return super()._lease_probe(name, owner, limit, length)


class TestRepeatedRequestThatGetsAnotherLease(Mutant):
    broken = Anew
    caught_by = ("test_same_owner_is_given_its_lease_again",)


class Refused(_Circuits):
    def _lease_probe(self, name, owner, limit, length):
        known = self._known.get(name)
        if known is not None and any(p.owner == owner and not p.is_over(known.changed_at) for p in known.probes):
            return None
        return super()._lease_probe(name, owner, limit, length)


class TestRepeatedRequestThatIsRefused(Mutant):
    broken = Refused
    caught_by = ("test_same_owner_is_given_its_lease_again",)


class Stuck(_Circuits):
    def _lease_probe(self, name, owner, limit, length):
        known = self._known.get(name)
        if known is not None and known.probes and owner not in {each.owner for each in known.probes}:
            limit = limit - len(known.probes) if len(known.probes) < limit else 0
            if limit == 0:
                return None
        return super()._lease_probe(name, owner, limit, length)


class TestLostProbeThatIsNeverReplaced(Mutant):
    broken = Stuck
    caught_by = ("test_probe_that_does_not_come_back_is_given_to_another",)


class Renewed(_Circuits):
    def _lease_probe(self, name, owner, limit, length):
        lease = super()._lease_probe(name, owner, limit, length)
        if lease is None:
            return None
        with self._shared.locked() as now:
            known = self._known[name]
            renewed = lease.renewed(now, length)
            self._keep(attrs.evolve(known, probes=tuple(renewed if p == lease else p for p in known.probes)))
            return renewed


class TestRepeatedRequestThatMovesTheDeadline(Mutant):
    broken = Renewed
    caught_by = ("test_same_owner_is_given_its_lease_again",)


class SameTokens(_Circuits):
    def _lease_probe(self, name, owner, limit, length):
        known = self._known.get(name)
        if known is not None and not known.probes:
            self._known[name] = attrs.evolve(known, last_token=0)
        return super()._lease_probe(name, owner, limit, length)


class TestTokensThatStartAgain(Mutant):
    broken = SameTokens
    caught_by = (
        "test_failure_of_one_probe_ends_the_others",
        "test_probe_of_an_earlier_opening_changes_nothing",
    )


class _Recording(_Circuits):
    """Whose results are taken in by a function of its own."""

    def _record_probe(self, name, token, succeeded, close_after, recovery):
        with self._shared.locked() as now:
            changed = self.taken(self._known.get(name), token, succeeded, close_after, recovery, now)
            return None if changed is None else self._keep(changed)

    def taken(self, known, token, succeeded, close_after, recovery, now):
        return circuit.record_probe(
            known, token, succeeded=succeeded, close_after=close_after, recovery=recovery, now=now
        )


class AcceptsLate(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        if known is not None:
            later = now + timedelta(days=1)
            known = attrs.evolve(known, probes=tuple(attrs.evolve(each, deadline=later) for each in known.probes))
        return super().taken(known, token, succeeded, close_after, recovery, now)


class TestLapsedProbeThatIsAccepted(Mutant):
    broken = AcceptsLate
    caught_by = ("test_probe_that_does_not_come_back_is_given_to_another",)


class RefusesEarly(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        if known is not None:
            probes = tuple(attrs.evolve(each, deadline=each.deadline - MILLISECOND) for each in known.probes)
            known = attrs.evolve(known, probes=probes)
        return super().taken(known, token, succeeded, close_after, recovery, now)


class TestResultThatIsRefusedEarly(Mutant):
    broken = RefusesEarly
    caught_by = ("test_result_counts_until_the_lease_ends",)


class Twice(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        changed = super().taken(known, token, succeeded, close_after, recovery, now)
        return changed if changed is None or not changed.is_open else attrs.evolve(changed, probes=known.probes)


class TestTokenThatIsAcceptedTwice(Mutant):
    broken = Twice
    caught_by = (
        "test_result_that_is_repeated_changes_nothing",
        "test_many_threads_giving_back_one_probe_it_counts_once",
    )


class AnyToken(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        if known is not None and known.probes and token not in {each.token for each in known.probes}:
            token = known.probes[0].token
        return super().taken(known, token, succeeded, close_after, recovery, now)


class TestResultWithoutATokenCheck(Mutant):
    broken = AnyToken
    caught_by = ("test_token_that_was_never_given_changes_nothing", "test_failure_of_one_probe_ends_the_others")


class NeverEnough(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        return super().taken(known, token, succeeded, 10**9, recovery, now)


class TestSuccessThatForgetsToClose(Mutant):
    broken = NeverEnough
    caught_by = (
        "test_success_closes_the_circuit",
        "test_circuit_closes_after_as_many_successes_as_were_asked_for",
    )


class AtOnce(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        return super().taken(known, token, succeeded, 1, recovery, now)


class TestSuccessThatClosesTooEarly(Mutant):
    broken = AtOnce
    caught_by = ("test_circuit_closes_after_as_many_successes_as_were_asked_for",)


class NothingIsSuccess(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        return super().taken(known, token, succeeded is not False, close_after, recovery, now)


class TestProbeThatTellsNothingCounts(Mutant):
    broken = NothingIsSuccess
    caught_by = (
        "test_circuit_closes_after_as_many_successes_as_were_asked_for",
        "test_probes_on_their_way_are_never_more_than_the_limit",
    )


class NothingIsFailure(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        return super().taken(known, token, succeeded is True, close_after, recovery, now)


class TestProbeThatTellsNothingRefutes(Mutant):
    broken = NothingIsFailure
    caught_by = ("test_circuit_closes_after_as_many_successes_as_were_asked_for",)


class FailureIgnored(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        return super().taken(known, token, succeeded or None, close_after, recovery, now)


class TestFailureThatDoesNotReopen(Mutant):
    broken = FailureIgnored
    caught_by = ("test_failure_opens_the_circuit_again",)


class SameGeneration(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        changed = super().taken(known, token, succeeded, close_after, recovery, now)
        return changed if succeeded is not False or changed is None else attrs.evolve(changed, generation=1)


class TestReopeningThatNoGenerationTells(Mutant):
    broken = SameGeneration
    caught_by = ("test_failure_opens_the_circuit_again",)


class KeepsProofs(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        changed = super().taken(known, token, succeeded, close_after, recovery, now)
        return changed if succeeded is not False or changed is None else attrs.evolve(changed, proofs=known.proofs)


class TestReopeningThatKeepsSuccesses(Mutant):
    broken = KeepsProofs
    caught_by = ("test_failure_opens_the_circuit_again",)


class KeepsProbes(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        changed = super().taken(known, token, succeeded, close_after, recovery, now)
        if succeeded is not False or changed is None:
            return changed
        return attrs.evolve(changed, probes=tuple(each for each in known.probes if each.token != token))


class TestReopeningThatKeepsProbes(Mutant):
    broken = KeepsProbes
    caught_by = ("test_failure_of_one_probe_ends_the_others",)


class RecordsWithGap(_Recording):
    def _record_probe(self, name, token, succeeded, close_after, recovery):
        known = self._known.get(name)
        gap()
        with self._shared.locked() as now:
            changed = self.taken(known, token, succeeded, close_after, recovery, now)
            return None if changed is None else self._keep(changed)


class TestResultThatReadsBeforeItWrites(Mutant):
    broken = RecordsWithGap
    caught_by = (
        "test_many_threads_giving_back_one_probe_it_counts_once",
        "test_success_racing_with_failure_both_are_told_what_holds",
    )


class MakesUp(_Recording):
    def taken(self, known, token, succeeded, close_after, recovery, now):
        if known is None:
            return circuit.trip(None, "ses", by="nobody", recovery=recovery, now=now)
        return super().taken(known, token, succeeded, close_after, recovery, now)


class TestResultThatMakesACircuitUp(Mutant):
    broken = MakesUp
    caught_by = ("test_token_that_was_never_given_changes_nothing",)


class LosesReports(_Circuits):
    def _lease_probe(self, name, owner, limit, length):
        lease = super()._lease_probe(name, owner, limit, length)
        known = self._known.get(name)
        if lease is not None and known is not None and known.reports:
            self._keep(attrs.evolve(known, reports=()))
        return lease


class TestProbeThatLosesReports(Mutant):
    broken = LosesReports
    caught_by = ("test_probe_leaves_the_reports_of_its_circuit_alone",)
