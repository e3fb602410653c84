"""What the suite of the circuit store asks of probes: how many, for how long, and what their results do."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ...lease import Lease
from ...stores.circuits import Circuit, CircuitStore
from .circuits_breakers import known
from .suite import StoreSuite, SuiteClock

__all__ = ["CircuitProbes", "leased", "tripped"]


def tripped(store: CircuitStore, clock: SuiteClock, name: str = "ses") -> Circuit:
    """Return a circuit that may be probed now."""
    circuit = store.trip(name, by="me", recovery=5)
    clock.advance("5s")
    return circuit


def leased(store: CircuitStore, owner: str, *, limit: int = 1, lease: float = 30.0) -> Lease:
    """Return the lease of a probe that is granted."""
    granted = store.lease_probe("ses", owner=owner, limit=limit, lease=lease)
    assert granted is not None
    return granted


class CircuitProbes(StoreSuite[CircuitStore]):
    """Together no more than one process would let through."""

    def test_probe_is_leased_when_the_recovery_is_over(self, store: CircuitStore, clock: SuiteClock) -> None:
        """To the millisecond, never before; nothing changes until then."""
        circuit = store.trip("ses", by="me", recovery="1500ms")
        clock.advance("1499ms")
        assert store.lease_probe("ses", owner="p") is None
        assert circuit == known(store)
        clock.advance("1ms")
        lease = store.lease_probe("ses", owner="p", lease="10s")
        assert Lease("p", 1, clock.now() + timedelta(seconds=10)) == lease
        now = known(store)
        assert now is not None
        assert (True, 1, (lease,)) == (now.is_open, now.generation, now.probes)

    def test_probe_leaves_the_reports_of_its_circuit_alone(self, store: CircuitStore, clock: SuiteClock) -> None:
        """What was reported while it is open still counts when a probe is leased and given back."""
        tripped(store, clock)
        reported = store.report("ses", instance="me", calls=3, failures=2, length=60).reports
        lease = leased(store, "p")
        circuit = store.record_probe("ses", lease.token, succeeded=None)
        assert circuit is not None
        assert reported == circuit.reports

    def test_probe_of_a_circuit_that_is_not_open_is_none(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Nobody knows it, somebody only reported, or it is closed again: nothing changes."""
        assert store.lease_probe("ses", owner="p") is None
        assert list(store.circuits()) == []
        store.report("ses", instance="me", calls=1, failures=1, length=5)
        assert store.lease_probe("ses", owner="p") is None
        tripped(store, clock)
        store.reset("ses")
        before = known(store)
        assert store.lease_probe("ses", owner="p") is None
        assert before == known(store)

    @pytest.mark.parametrize("limit", [1, 3])
    def test_probes_on_their_way_are_never_more_than_the_limit(
        self, store: CircuitStore, clock: SuiteClock, limit: int
    ) -> None:
        """One that is given back makes room for one."""
        tripped(store, clock)
        leases = [store.lease_probe("ses", owner=f"p{n}", limit=limit) for n in range(limit + 2)]
        assert [n < limit for n in range(limit + 2)] == [lease is not None for lease in leases]
        tokens = [lease.token for lease in leases if lease is not None]
        assert sorted(set(tokens)) == tokens
        assert store.record_probe("ses", tokens[0], succeeded=None) is not None
        again = leased(store, "again", limit=limit)
        assert again.token > max(tokens)
        assert store.lease_probe("ses", owner="more", limit=limit) is None

    def test_same_owner_is_given_its_lease_again(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Its answer was lost: the deadline stays, and no second probe goes out."""
        tripped(store, clock)
        lease = leased(store, "p", limit=2)
        clock.advance("29999ms")
        assert lease == store.lease_probe("ses", owner="p", limit=1)
        assert leased(store, "q", limit=2) != lease
        assert store.lease_probe("ses", owner="r", limit=2) is None
        clock.advance("1ms")
        again = leased(store, "p", limit=2)
        assert again.token > lease.token

    def test_probe_that_does_not_come_back_is_given_to_another(self, store: CircuitStore, clock: SuiteClock) -> None:
        """When its lease ends, to the millisecond; its late result changes nothing."""
        tripped(store, clock)
        lost = leased(store, "p", lease=10)
        clock.advance("9999ms")
        assert store.lease_probe("ses", owner="q") is None
        clock.advance("1ms")
        before = known(store)
        for succeeded in (True, False, None):
            assert store.record_probe("ses", lost.token, succeeded=succeeded) is None
        assert before == known(store)
        lease = leased(store, "q")
        assert lease.token > lost.token
        assert store.record_probe("ses", lost.token, succeeded=True) is None
        assert store.record_probe("ses", lease.token, succeeded=True) is not None

    def test_result_counts_until_the_lease_ends(self, store: CircuitStore, clock: SuiteClock) -> None:
        """A millisecond before it does."""
        tripped(store, clock)
        lease = leased(store, "p", lease=10)
        clock.advance("9999ms")
        circuit = store.record_probe("ses", lease.token, succeeded=True)
        assert circuit is not None
        assert circuit.is_open is False

    def test_success_closes_the_circuit(self, store: CircuitStore, clock: SuiteClock) -> None:
        """For all: nothing of the opening is left but who opened it."""
        tripped(store, clock)
        lease, other = leased(store, "p", limit=2), leased(store, "q", limit=2)
        clock.advance("1s")
        expected = Circuit(name="ses", generation=2, by="me", changed_at=clock.now(), last_token=other.token)
        assert expected == store.record_probe("ses", lease.token, succeeded=True)
        assert expected == known(store)

    def test_circuit_closes_after_as_many_successes_as_were_asked_for(
        self, store: CircuitStore, clock: SuiteClock
    ) -> None:
        """Not before, and a probe that tells nothing is none of them."""
        tripped(store, clock)
        for succeeded, proofs in ((True, 1), (None, 1), (True, 2)):
            lease = leased(store, f"p{proofs}{succeeded}")
            circuit = store.record_probe("ses", lease.token, succeeded=succeeded, close_after=3)
            assert circuit is not None
            assert (True, proofs, (), 1) == (circuit.is_open, circuit.proofs, circuit.probes, circuit.generation)
        circuit = store.record_probe("ses", leased(store, "last").token, succeeded=True, close_after=3)
        assert circuit is not None
        assert (False, 0, 2) == (circuit.is_open, circuit.proofs, circuit.generation)

    def test_failure_opens_the_circuit_again(self, store: CircuitStore, clock: SuiteClock) -> None:
        """As the next generation, opened once more, for the time given; what had succeeded before counts no more."""
        tripped(store, clock)
        proved = leased(store, "p")
        store.record_probe("ses", proved.token, succeeded=True, close_after=2)
        lease = leased(store, "prober")
        clock.advance("1s")
        circuit = store.record_probe("ses", lease.token, succeeded=False, close_after=2, recovery="2m")
        expected = Circuit(
            name="ses",
            generation=2,
            is_open=True,
            opens=2,
            open_until=clock.now() + timedelta(minutes=2),
            by="prober",
            changed_at=clock.now(),
            last_token=lease.token,
        )
        assert expected == circuit == known(store)
        clock.advance("119999ms")
        assert store.lease_probe("ses", owner="q") is None
        clock.advance("1ms")
        assert leased(store, "q").token > lease.token

    def test_failure_of_one_probe_ends_the_others(self, store: CircuitStore, clock: SuiteClock) -> None:
        """A success that comes afterwards neither closes the circuit nor counts later."""
        tripped(store, clock)
        failing, slow = leased(store, "p", limit=2), leased(store, "q", limit=2)
        circuit = store.record_probe("ses", failing.token, succeeded=False, recovery=5)
        assert store.record_probe("ses", slow.token, succeeded=True) is None
        assert circuit == known(store)
        clock.advance("5s")
        fresh = leased(store, "r")
        assert fresh.token > slow.token
        assert store.record_probe("ses", slow.token, succeeded=True) is None
        assert store.record_probe("ses", fresh.token, succeeded=True) is not None

    @pytest.mark.parametrize("succeeded", [True, False, None])
    def test_result_that_is_repeated_changes_nothing(
        self, store: CircuitStore, clock: SuiteClock, succeeded: bool | None
    ) -> None:
        """Its answer was lost: a token is used once."""
        tripped(store, clock)
        lease = leased(store, "p")
        stands = store.record_probe("ses", lease.token, succeeded=succeeded, close_after=2)
        assert stands is not None
        for again in (succeeded, True, False, None):
            clock.advance("1s")
            assert store.record_probe("ses", lease.token, succeeded=again, close_after=2) is None
        assert stands == known(store)

    @pytest.mark.parametrize("token", [-1, 0, 2, 10**12])
    def test_token_that_was_never_given_changes_nothing(
        self, store: CircuitStore, clock: SuiteClock, token: int
    ) -> None:
        """Also that of another circuit, and where there is none at all."""
        assert store.record_probe("ses", 1, succeeded=False) is None
        assert list(store.circuits()) == []
        tripped(store, clock)
        lease = leased(store, "p")
        other = store.trip("other", by="me", recovery=5)
        before = known(store)
        assert store.record_probe("ses", token, succeeded=False) is None
        assert store.record_probe("other", lease.token, succeeded=True) is None
        assert [other, before] == list(store.circuits())

    def test_probe_of_an_earlier_opening_changes_nothing(self, store: CircuitStore, clock: SuiteClock) -> None:
        """The circuit was closed by hand meanwhile and opened again; tokens go on growing."""
        tripped(store, clock)
        late = leased(store, "p", lease=1000)
        store.reset("ses")
        assert store.record_probe("ses", late.token, succeeded=False) is None
        tripped(store, clock)
        lease = leased(store, "q")
        assert lease.token > late.token
        before = known(store)
        for succeeded in (True, False, None):
            assert store.record_probe("ses", late.token, succeeded=succeeded) is None
        assert before == known(store)
