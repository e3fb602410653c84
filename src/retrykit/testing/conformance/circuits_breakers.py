"""What the suite of the circuit store asks of circuits that breakers share: opening, closing, and what is reported."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from ...errors import ConfigurationError, InvalidMessageError
from ...stores.circuits import Circuit, CircuitStore
from .hostile import NO_COUNTS, NO_DURATIONS, NO_KEYS
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["CircuitBreakers", "known"]

Open = Callable[[Place], CircuitStore]


def known(store: CircuitStore, name: str = "ses") -> Circuit | None:
    """Return a circuit as the store lists it."""
    return next((circuit for circuit in store.circuits() if circuit.name == name), None)


class CircuitBreakers(StoreSuite[CircuitStore]):
    """One opens a circuit, and it is open for all."""

    def test_trip_opens_a_circuit_that_nobody_knows(self, store: CircuitStore, clock: SuiteClock) -> None:
        """With who did it, since when, and until when it is not to be probed."""
        circuit = store.trip("ses", by="me", recovery="1m")
        expected = Circuit(
            name="ses",
            generation=1,
            is_open=True,
            opens=1,
            open_until=clock.now() + timedelta(minutes=1),
            by="me",
            changed_at=clock.now(),
        )
        assert expected == circuit
        assert [expected] == list(store.circuits())

    def test_trip_of_an_open_circuit_leaves_it_as_it_is(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Whoever comes second, and who repeats it because the answer was lost, is told what stands."""
        first = store.trip("ses", by="me", recovery=60)
        for by, recovery in (("me", 60), ("other", 600)):
            clock.advance("50s")
            assert first == store.trip("ses", by=by, recovery=recovery)
        assert [first] == list(store.circuits())

    def test_trip_after_a_closing_opens_the_next_generation(self, store: CircuitStore, clock: SuiteClock) -> None:
        """A generation never comes again while the circuit is known, and its times begin anew."""
        for generation in (1, 3, 5):
            circuit = store.trip("ses", by="me", recovery=5)
            assert (generation, 1, clock.now()) == (circuit.generation, circuit.opens, circuit.changed_at)
            clock.advance("1s")
            assert store.reset("ses") is True
            closed = known(store)
            assert closed is not None
            assert (generation + 1, clock.now()) == (closed.generation, closed.changed_at)
            clock.advance("23h")

    def test_close_closes_an_open_circuit(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Who had opened it stays to be seen."""
        store.trip("ses", by="me", recovery=60)
        clock.advance("1s")
        assert store.reset("ses") is True
        assert Circuit(name="ses", generation=2, by="me", changed_at=clock.now()) == known(store)

    def test_close_of_what_is_not_open_is_false(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Nobody knows it, or a repeated closing: nothing changes."""
        assert store.reset("ses") is False
        assert list(store.circuits()) == []
        store.trip("ses", by="me", recovery=60)
        assert store.reset("ses") is True
        closed = known(store)
        clock.advance("1s")
        assert store.reset("ses") is False
        assert closed == known(store)

    def test_circuit_of_one_name_leaves_the_others(self, store: CircuitStore, clock: SuiteClock) -> None:
        """So do its closing, its probes and its reports."""
        others = [store.trip(name, by="me", recovery=5) for name in ("se", "ses2")]
        store.trip("ses", by="me", recovery=5)
        clock.advance("5s")
        assert store.lease_probe("ses", owner="p") is not None
        assert store.reset("ses") is True
        store.report("ses", instance="i", calls=2, failures=1, length=5)
        assert others == [known(store, name) for name in ("se", "ses2")]

    def test_circuits_come_in_the_order_of_their_names(self, store: CircuitStore) -> None:
        """The order of code points, open or not, whoever was first."""
        names = ["A", "a", "ab", "b", "ü", "\ufeff", "😀"]
        for name in reversed(names):
            store.trip(name, by="me", recovery=5)
        assert store.reset("ab") is True
        assert names == [circuit.name for circuit in store.circuits()]

    def test_report_counts_until_its_length_is_over(self, store: CircuitStore, clock: SuiteClock) -> None:
        """To the millisecond; a report of another shows what still counts."""
        reported = store.report("ses", instance="one", calls=10, failures=4, length="5s")
        assert (10, 4) == reported.counted
        assert (False, 0) == (reported.is_open, reported.generation)
        clock.advance("4999ms")
        assert (11, 5) == store.report("ses", instance="two", calls=1, failures=1, length="5s").counted
        clock.advance("1ms")
        assert (2, 2) == store.report("ses", instance="three", calls=1, failures=1, length="5s").counted

    def test_report_replaces_what_the_same_process_said_before(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Also with less, and also when it is repeated because the answer was lost."""
        store.report("ses", instance="other", calls=1, failures=1, length="1h")
        for calls, failures in ((10, 5), (12, 6), (12, 6), (3, 0), (0, 0)):
            clock.advance("1s")
            circuit = store.report("ses", instance="me", calls=calls, failures=failures, length="5s")
            assert (calls + 1, failures + 1) == circuit.counted
            assert circuit == known(store)
            ends = {each.instance: each.until for each in circuit.reports}
            assert clock.now() + timedelta(seconds=5) == ends["me"]

    def test_report_neither_opens_nor_closes(self, store: CircuitStore, clock: SuiteClock) -> None:
        """It says what was counted; what follows from that others decide."""
        opened = store.trip("ses", by="me", recovery=5)
        clock.advance("1s")
        circuit = store.report("ses", instance="me", calls=5, failures=5, length=5)
        assert (opened.generation, True, opened.open_until, opened.changed_at) == (
            circuit.generation,
            circuit.is_open,
            circuit.open_until,
            circuit.changed_at,
        )

    def test_reports_are_forgotten_when_the_circuit_opens_and_closes(self, store: CircuitStore) -> None:
        """What was counted before has done its work."""
        for change in (lambda: store.trip("ses", by="me", recovery=5), lambda: store.reset("ses")):
            store.report("ses", instance="me", calls=5, failures=5, length="1h")
            change()
            circuit = known(store)
            assert circuit is not None
            assert (0, 0) == circuit.counted

    def test_closed_circuit_is_forgotten_after_a_day(self, store: CircuitStore, clock: SuiteClock) -> None:
        """To the millisecond; afterwards it is as if it had never been."""
        store.trip("ses", by="me", recovery=5)
        store.reset("ses")
        closed = known(store)
        clock.advance("1d")
        assert closed == known(store) != None  # noqa: E711 - both, in one look
        clock.advance("1ms")
        assert list(store.circuits()) == []
        assert store.reset("ses") is False
        assert store.lease_probe("ses", owner="p") is None
        fresh = store.report("ses", instance="me", calls=1, failures=0, length=5)
        assert (0, None, clock.now()) == (fresh.generation, fresh.by, fresh.changed_at)

    def test_circuit_that_is_forgotten_opens_as_a_new_one(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Whether or not its record has been deleted meanwhile."""
        for name in ("ses", "other"):
            store.trip(name, by="me", recovery=5)
            store.reset(name)
        clock.advance("1d")
        clock.advance("1ms")
        for name in ("ses", "other"):
            circuit = store.trip(name, by="you", recovery=5)
            assert (1, 1, "you", clock.now()) == (circuit.generation, circuit.opens, circuit.by, circuit.changed_at)

    def test_open_circuit_is_never_forgotten(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Nor is a closed one of which something is reported."""
        opened = store.trip("ses", by="me", recovery=5)
        reported = store.report("other", instance="me", calls=1, failures=0, length="3d")
        clock.advance("2d")
        assert [reported, opened] == list(store.circuits())
        store.trip("third", by="me", recovery=5)
        assert [reported, opened] == list(store.circuits())[:2]
        clock.advance("1d")
        assert ["ses", "third"] == [circuit.name for circuit in store.circuits()]

    @pytest.mark.parametrize("name", NO_KEYS)
    def test_name_that_is_not_allowed_is_refused(self, store: CircuitStore, name: str) -> None:
        """By every operation, and nothing is kept."""
        for call in (
            lambda: store.trip(name, by="me", recovery=5),
            lambda: store.lease_probe(name, owner="p"),
            lambda: store.record_probe(name, 1, succeeded=True),
            lambda: store.reset(name),
            lambda: store.report(name, instance="me", calls=1, failures=0, length=5),
            lambda: store.report("ses", instance=name, calls=1, failures=0, length=5),
        ):
            with pytest.raises(InvalidMessageError):
                call()
        assert list(store.circuits()) == []

    def test_value_that_is_not_allowed_is_refused(self, store: CircuitStore, clock: SuiteClock) -> None:
        """Durations, numbers and counts that contradict each other; nothing changes."""
        opened = store.trip("ses", by="me", recovery=5)
        clock.advance("5s")
        for value in (*NO_DURATIONS, 0):
            for call in (
                lambda value=value: store.trip("new", by="me", recovery=value),
                lambda value=value: store.lease_probe("ses", owner="p", lease=value),
                lambda value=value: store.record_probe("ses", 1, succeeded=False, recovery=value),
                lambda value=value: store.report("new", instance="me", calls=1, failures=0, length=value),
            ):
                with pytest.raises(ConfigurationError):
                    call()
        for value in NO_COUNTS:
            for call in (
                lambda value=value: store.lease_probe("ses", owner="p", limit=value),
                lambda value=value: store.record_probe("ses", 1, succeeded=True, close_after=value),
            ):
                with pytest.raises(ConfigurationError):
                    call()
        for calls, failures in ((1, 2), (-1, -1), (1, -1), (0, 1)):
            with pytest.raises(ConfigurationError):
                store.report("new", instance="me", calls=calls, failures=failures, length=5)
        assert [opened] == list(store.circuits())

    @needs("reopen")
    def test_store_opened_again_finds_its_circuits(
        self, store: CircuitStore, opened: Open, place: Place, clock: SuiteClock
    ) -> None:
        """With probes and reports, and what one store object does the other sees."""
        store.trip("ses", by="me", recovery=5)
        clock.advance("5s")
        lease = store.lease_probe("ses", owner="p")
        assert lease is not None
        store.report("other", instance="me", calls=3, failures=1, length=5)
        other = opened(place)
        assert list(store.circuits()) == list(other.circuits())
        assert lease == other.lease_probe("ses", owner="p")
        assert other.lease_probe("ses", owner="q") is None
        closed = other.record_probe("ses", lease.token, succeeded=True)
        assert closed == known(store)
        assert store.record_probe("ses", lease.token, succeeded=True) is None
