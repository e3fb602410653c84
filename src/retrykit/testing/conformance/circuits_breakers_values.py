"""Hostile names and values in circuits that breakers share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ...message import MAX_ID_LENGTH
from ...stores.circuits import CircuitStore
from ..strategies import any_text, keys
from .circuits_breakers import known
from .hostile import KEYS, TEXTS, escaped
from .models import examples
from .suite import Fresh, StoreSuite, SuiteClock

__all__ = ["CircuitBreakersValues"]


class CircuitBreakersValues(StoreSuite[CircuitStore]):
    """Whatever a breaker or a process is called."""

    def test_hostile_names_of_circuits_are_kept_apart(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Each is a circuit of its own, in the order of code points."""
        names = sorted(KEYS)
        for name in names:
            store.trip(name, by=name, recovery=5)
        assert [(name, name) for name in names] == [(each.name, each.by) for each in store.circuits()]
        clock.advance("5s")
        for name in names:
            lease = store.lease_probe(name, owner=name)
            assert lease is not None
            assert (name, 1) == (lease.owner, lease.token)
            circuit = store.record_probe(name, lease.token, succeeded=False)
            assert circuit is not None
            assert (name, 2) == (circuit.by, circuit.generation)
            assert store.reset(name) is True
        assert {(3, False)} == {(each.generation, each.is_open) for each in store.circuits()}

    def test_hostile_names_of_processes_are_kept_apart(self, store: CircuitStore) -> None:
        """Each has a report of its own."""
        for calls, instance in enumerate(KEYS, 1):
            store.report("ses", instance=instance, calls=calls, failures=0, length=60)
        circuit = known(store)
        assert circuit is not None
        assert {key: calls for calls, key in enumerate(KEYS, 1)} == {
            each.instance: each.calls for each in circuit.reports
        }

    def test_hostile_text_of_who_did_it_comes_back_or_is_escaped(self, store: CircuitStore, clock: SuiteClock) -> None:
        """It is never cut, and an owner is told from every other."""
        for number, text in enumerate((*TEXTS, "who \ud800")):
            name = f"circuit {number}"
            for circuit in (store.trip(name, by=text, recovery=1), known(store, name)):
                assert circuit is not None
                assert escaped(text) == escaped(circuit.by)
            clock.advance("1s")
            lease = store.lease_probe(name, owner=text)
            assert lease is not None
            assert lease == store.lease_probe(name, owner=text)
            assert store.lease_probe(name, owner=f"{text}.") is None

    def test_large_numbers_come_back(self, store: CircuitStore) -> None:
        """A busy process."""
        circuit = store.report("ses", instance="x" * MAX_ID_LENGTH, calls=2**53, failures=2**53 - 1, length=60)
        assert (2**53, 2**53 - 1) == circuit.counted
        assert circuit == known(store)

    def test_any_circuit_comes_back(self, fresh: Fresh[CircuitStore]) -> None:
        """With escapes for what a store has no form for."""

        @examples(at_most=20)
        @given(
            name=keys, instance=keys, by=any_text, owner=any_text, counts=st.lists(st.integers(0, 10**9), max_size=3)
        )
        def check(name: str, instance: str, by: str, owner: str, counts: list[int]) -> None:
            with fresh() as (store, clock):
                opened = store.trip(name, by=by, recovery=1)
                assert escaped(by) == escaped(opened.by)
                assert [escaped(opened)] == escaped(list(store.circuits()))
                clock.advance("1s")
                lease = store.lease_probe(name, owner=owner)
                assert lease is not None
                assert escaped(owner) == escaped(lease.owner)
                for calls in counts:
                    circuit = store.report(name, instance=instance, calls=calls, failures=0, length=1)
                    assert (calls, 0) == circuit.counted
                    assert [escaped(circuit)] == escaped(list(store.circuits()))
                refuted = store.record_probe(name, lease.token, succeeded=False, recovery=1)
                assert refuted is not None
                assert [escaped(refuted)] == escaped(list(store.circuits()))

        check()
