"""Breakers' processes that die before, during and after an operation on a circuit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ...stores.circuits import Circuit, CircuitStore
from .breaking import TICKS, broken_at_each_step, call_cancelled, said_before_kill
from .circuits_breakers import known
from .circuits_probes import leased, tripped
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["CircuitBreakersCrashes"]

CHANGES: dict[str, Callable[[CircuitStore, int], object]] = {
    "trip": lambda store, _: store.trip("new", by="me", recovery=5),
    "lease_probe": lambda store, _: store.lease_probe("ses", owner="q", limit=2),
    "success": lambda store, token: store.record_probe("ses", token, succeeded=True),
    "failure": lambda store, token: store.record_probe("ses", token, succeeded=False),
    "nothing told": lambda store, token: store.record_probe("ses", token, succeeded=None),
    "reset": lambda store, _: store.reset("ses"),
    "report": lambda store, _: store.report("new", instance="me", calls=2, failures=1, length=5),
}
"""Each changes something, where a probe of "ses" is on its way under the token."""


class CircuitBreakersCrashes(StoreSuite[CircuitStore]):
    """A change is made or not, and the store goes on."""

    @pytest.mark.parametrize("change", CHANGES)
    def test_change_of_a_circuit_interrupted_in_the_middle_is_made_or_not(
        self, store: CircuitStore, clock: SuiteClock, change: str
    ) -> None:
        """Never half: a circuit is as before, or as afterwards."""
        tripped(store, clock)
        token = leased(store, "p").token
        seen = [list(store.circuits())]
        for _ in broken_at_each_step(clock, lambda: CHANGES[change](store, token)):
            circuits = list(store.circuits())
            if circuits != seen[-1]:
                seen.append(circuits)
        assert len(seen) == 2
        CHANGES[change](store, token)
        assert seen[-1] == list(store.circuits())

    def test_listing_circuits_interrupted_in_the_middle_changes_nothing(
        self, store: CircuitStore, clock: SuiteClock
    ) -> None:
        """The next reader gets the whole answer."""
        circuit = tripped(store, clock)
        for _ in broken_at_each_step(clock, store.circuits):
            assert [circuit] == list(store.circuits())

    @needs("async")
    def test_change_of_a_circuit_cancelled_is_made_or_not_and_the_next_gets_its_own_answer(
        self, store: CircuitStore, clock: SuiteClock
    ) -> None:
        """An answer that nobody waits for any more is not taken for that of the next operation."""
        for ticks in range(TICKS):
            name = f"circuit {ticks}"
            answer = call_cancelled(store, ticks, "trip", name, by="me", recovery=1)
            assert store.reset("nobody") is False
            assert known(store, name) == answer or answer is None
            assert store.trip(name, by="me", recovery=1).by == "me"
            clock.advance("1s")
            lease = call_cancelled(store, ticks, "lease_probe", name, owner="p")
            assert store.lease_probe("nobody", owner="p") is None
            again = store.lease_probe(name, owner="p")
            assert again is not None
            assert lease in (None, again)
            circuit = call_cancelled(store, ticks, "record_probe", name, again.token, succeeded=True)
            assert [] == [each for each in call_cancelled(store, ticks, "circuits") or () if each.name == "nobody"]
            repeated: Circuit | None = store.record_probe(name, again.token, succeeded=True)
            now = known(store, name)
            assert now is not None
            assert now in (circuit, repeated)[circuit is None :] or (circuit, repeated) == (None, None)
            assert (False, 2) == (now.is_open, now.generation)
            call_cancelled(store, ticks, "report", name, instance="i", calls=2, failures=1, length=5)
            reported = store.report(name, instance="j", calls=1, failures=0, length=5)
            assert reported.counted in ((1, 0), (3, 1))

    @needs("reopen", "processes")
    def test_circuits_of_killed_processes_are_there(
        self, store: CircuitStore, place: Place, colour: str, clock: SuiteClock
    ) -> None:
        """Everything that was acknowledged, and the store goes on."""
        said = said_before_kill(self, place, "trip_without_end", colour)
        circuits = {circuit.name: circuit for circuit in store.circuits()}
        assert {True} == {circuits[name].is_open for name in said}
        clock.advance("5s")
        assert store.lease_probe(said[0], owner="p") is not None
        assert [store.reset(name) for name in said[-20:]] == [True] * len(said[-20:])
