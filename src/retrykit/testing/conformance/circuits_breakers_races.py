"""Many processes' breakers on one circuit at once."""

from __future__ import annotations

from ...codec import JSON
from ...lease import Lease
from ...stores.circuits import CircuitStore
from .child import in_processes
from .circuits_breakers import known
from .circuits_probes import leased, tripped
from .races import PROCESSES, THREADS, in_threads
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["CircuitBreakersRaces"]

_NAMES = [f"breaker {number:02}" for number in range(15)]


class CircuitBreakersRaces(StoreSuite[CircuitStore]):
    """One opens, no more than the limit probe, each result counts once."""

    def test_many_threads_tripping_one_opens(self, store: CircuitStore) -> None:
        """The generation grows once, and all are told who it was."""
        for name in _NAMES:

            def work(number: int, name: str = name) -> object:
                return store.trip(name, by=f"thread {number}", recovery=5 + number)

            answers = in_threads(work)
            assert [known(store, name)] * THREADS == answers
        assert {(1, 1, True)} == {(each.generation, each.opens, each.is_open) for each in store.circuits()}

    def test_many_threads_leasing_never_more_than_the_limit_probe(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Each lease has a token of its own, also where the one before lapsed."""
        tripped(store, clock)
        tokens: list[int] = []
        for limit in (1, 3, 2, 1) * 4:

            def work(number: int, limit: int = limit) -> Lease | None:
                return store.lease_probe("ses", owner=f"thread {number}", limit=limit)

            leases = in_threads(work)
            granted = [lease.token for lease in leases if lease is not None]
            assert limit == len(granted)
            tokens += sorted(granted)
            clock.advance("30s")
        assert sorted(set(tokens)) == tokens

    def test_many_threads_giving_back_one_probe_it_counts_once(self, store: CircuitStore, clock: SuiteClock) -> None:
        """All have the same token."""
        tripped(store, clock)
        for turn in range(1, 16):
            token = leased(store, f"turn {turn}").token

            def work(_: int, token: int = token) -> bool:
                return store.record_probe("ses", token, succeeded=True, close_after=1000) is not None

            assert in_threads(work).count(True) == 1
            circuit = known(store)
            assert circuit is not None
            assert (turn, ()) == (circuit.proofs, circuit.probes)

    def test_many_threads_probing_without_an_end_no_more_than_the_limit_are_on_their_way(
        self, store: CircuitStore, clock: SuiteClock
    ) -> None:
        """Whatever they find; each result is taken once."""
        tripped(store, clock)

        def work(number: int) -> int:
            taken = 0
            for turn in range(15):
                lease = store.lease_probe("ses", owner=f"{number} {turn}", limit=2)
                circuit = known(store)
                assert circuit is not None
                assert len(circuit.probes) <= 2
                if lease is not None:
                    done = store.record_probe("ses", lease.token, succeeded=True, close_after=10_000)
                    assert done is not None
                    taken += 1
            return taken

        taken = sum(in_threads(work, 4))
        circuit = known(store)
        assert circuit is not None
        assert (taken, taken, 1) == (circuit.proofs, circuit.last_token, circuit.generation)

    def test_success_racing_with_failure_both_are_told_what_holds(self, store: CircuitStore, clock: SuiteClock) -> None:
        """The first decides; the other comes too late."""
        for generation in range(15):
            store.trip("ses", by="me", recovery=1)
            clock.advance("1s")
            leases = [leased(store, f"{generation} {n}", limit=2) for n in range(2)]
            before = known(store)
            assert before is not None

            def work(number: int, leases: list[int] = [each.token for each in leases]) -> object:  # noqa: B006
                return store.record_probe("ses", leases[number], succeeded=not number, recovery=1)

            answers = in_threads(work, 2)
            after = known(store)
            assert after is not None
            assert before.generation + 1 == after.generation
            assert [after] == [answer for answer in answers if answer is not None]
            assert answers[0 if after.is_open else 1] is None
            clock.advance("1s")

    def test_many_threads_closing_one_is_told_that_it_did(self, store: CircuitStore) -> None:
        """The generation grows once."""
        for name in _NAMES:
            store.trip(name, by="me", recovery=5)
        closed = in_threads(lambda _: [name for name in _NAMES if store.reset(name)])
        assert _NAMES == sorted(name for each in closed for name in each)
        assert {2} == {circuit.generation for circuit in store.circuits()}

    def test_many_threads_reporting_each_report_is_kept(self, store: CircuitStore) -> None:
        """None overwrites another's, and none counts twice."""

        def work(number: int) -> None:
            for calls in range(1, 16):
                circuit = store.report("ses", instance=f"thread {number}", calls=calls, failures=1, length=60)
                assert calls in [each.calls for each in circuit.reports if each.instance == f"thread {number}"]

        in_threads(work)
        circuit = known(store)
        assert circuit is not None
        assert (15 * THREADS, THREADS) == circuit.counted

    @needs("processes")
    def test_many_processes_tripping_and_probing_act_as_one(
        self, store: CircuitStore, place: Place, colour: str, clock: SuiteClock
    ) -> None:
        """Each circuit opens once, and as many probe as one process would let through."""
        for name in _NAMES[::2]:
            store.trip(name, by="me", recovery=1)
        clock.advance("1s")
        work: list[dict[str, JSON]] = [
            {"names": [*_NAMES], "by": f"process {number}", "limit": 2} for number in range(PROCESSES)
        ]
        answers = in_processes(self, place, "trip_and_probe_many", colour, work)
        circuits = {circuit.name: circuit for circuit in store.circuits()}
        assert {1} == {circuit.generation for circuit in circuits.values()}
        for position, name in enumerate(_NAMES):
            openers = {answer["openers"][name] for answer in answers}
            tokens = sorted(answer["tokens"][name] for answer in answers if name in answer["tokens"])
            assert {circuits[name].by} == openers
            assert ([] if position % 2 else [1, 2]) == tokens
