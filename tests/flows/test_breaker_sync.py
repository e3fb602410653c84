"""Breakers of several processes that share one store act as one."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from retrykit.breaker import BreakerState, failure_count, failure_rate
from tests.flows.breakers import INTERVAL, PROBE_TIMEOUT, RECOVERIES, BreakerFleet, Process


def test_breaker_that_opens_opens_all_within_one_exchange(fleet):
    """And all may be called again at the same instant, as the one that opened."""
    first, *others = fleet.processes
    fleet.exchange()
    first.trip()
    assert ["open", "closed", "closed"] == fleet.states
    fleet.exchange()
    assert ["open"] * 3 == fleet.states
    assert ["refused"] * 3 == fleet.calls()
    assert {first.breaker.retry_after} == {process.breaker.retry_after for process in others}
    assert RECOVERIES[0] - INTERVAL == first.breaker.retry_after


def test_breakers_that_open_at_once_open_one_circuit(fleet):
    """Its generation grows once, and it is open for as long as the first says."""
    for process in fleet.processes:
        process.trip()
        fleet.stage.clock.advance(1)
    fleet.exchange(3)
    assert (1, 1) == (fleet.circuit().generation, fleet.circuit().opens)
    assert RECOVERIES[0] - 6 * INTERVAL == fleet.processes[0].breaker.retry_after
    assert 1 == len({process.breaker.retry_after for process in fleet.processes})


def test_process_that_starts_later_opens_at_its_first_exchange(fleet):
    """It has not seen a failure itself."""
    fleet.processes[0].trip()
    fleet.exchange()
    late = Process(fleet.stage)
    late.exchange()
    assert BreakerState.OPEN is late.state


def test_old_closing_does_not_close_what_a_new_process_found(fleet):
    """It has opened before its first exchange; that the circuit once was closed is no news."""
    fleet.processes[0].trip()
    fleet.exchange()
    fleet.stage.backend.circuits.reset("ses")
    fleet.exchange(2)
    late = Process(fleet.stage)
    late.trip()
    late.exchange()
    assert BreakerState.OPEN is late.state
    fleet.exchange()
    assert ["open"] * 3 == fleet.states


def test_led_breakers_do_not_recover_by_themselves(half_open):
    """No call goes out that the store did not allow, however long it takes."""
    fleet = half_open()
    fleet.stage.clock.advance(INTERVAL)
    assert ["refused"] * 3 == fleet.calls()
    assert ["open"] * 3 == fleet.states


@pytest.mark.parametrize("probes", [1, 2, 4])
def test_half_open_circuit_lets_so_many_probes_through_the_whole_fleet(half_open, probes):
    """Exactly, while none of them has come back."""
    fleet = half_open(probes=probes, size=5)
    entered = []
    for _ in range(round(PROBE_TIMEOUT) - 1):
        fleet.exchange()
        entered += [each for process in fleet.processes for _ in range(3) if (each := process.begin()) is not None]
    assert probes == len(entered)


def test_success_of_a_probe_closes_all_within_one_exchange(half_open):
    """The one that probed, too; all failures are forgotten."""
    fleet = half_open()
    fleet.exchange()
    assert ["refused", "refused", "sent"] == sorted(fleet.calls())
    fleet.exchange(2)
    assert ["closed"] * 3 == fleet.states
    assert ["sent"] * 3 == fleet.calls()
    assert (False, 2) == (fleet.circuit().is_open, fleet.circuit().generation)


def test_circuit_closes_after_as_many_successes_of_the_fleet_as_one_breaker_asks_for(half_open):
    """Whoever probes."""
    fleet = half_open(close_after=3)
    results: Counter[str] = Counter()
    while "closed" not in fleet.states:
        fleet.exchange()
        results.update(fleet.calls() if "closed" not in fleet.states else ())
    fleet.exchange()
    assert ["closed"] * 3 == fleet.states
    assert (3, 2) == (results["sent"], fleet.circuit().generation)


def test_failure_of_a_probe_reopens_all_with_a_grown_recovery(half_open):
    """It grows with every opening of the fleet, whichever process probes."""
    fleet = half_open()
    for opens, recovery in ((2, RECOVERIES[1]), (3, RECOVERIES[2])):
        fleet.exchange()
        prober = next(process for process in fleet.processes[::-1] if process.state is BreakerState.HALF_OPEN)
        assert "failed" == prober.call(works=False)
        fleet.exchange()
        assert ["open"] * 3 == fleet.states
        circuit = fleet.circuit()
        assert (opens, opens) == (circuit.opens, circuit.generation)
        assert recovery == (circuit.open_until - circuit.changed_at).total_seconds()
        assert "refused" == prober.call()
        fleet.processes.append(fleet.processes.pop(0))  # another one asks first next time
        fleet.wait(recovery - INTERVAL)
        assert ["open"] * 3 == fleet.states


def test_probe_that_is_lost_is_given_to_another_after_its_timeout(half_open):
    """Not before; its late success closes nothing."""
    fleet = half_open()
    fleet.exchange()
    (lost,) = [process for process in fleet.processes if (entered := process.begin()) is not None and entered]
    fleet.wait(PROBE_TIMEOUT - 2 * INTERVAL)
    assert ["refused"] * 3 == fleet.calls()
    fleet.exchange(2, without=(lost,))
    assert 1 == fleet.calls().count("sent")
    fleet.exchange(2)
    assert ["closed"] * 3 == fleet.states


def test_late_result_of_a_lost_probe_changes_nothing(half_open):
    """Neither a success nor a failure."""
    for finish in (Process.succeed, Process.fail):
        fleet = half_open()
        fleet.exchange()
        lost = next(process for process in fleet.processes if process.state is BreakerState.HALF_OPEN)
        entered = lost.begin()
        fleet.wait(PROBE_TIMEOUT, without=(lost,))
        generation = fleet.circuit().generation
        finish(lost, entered)
        fleet.exchange()
        assert (True, generation) == (fleet.circuit().is_open, fleet.circuit().generation)
        fleet.stage.backend.circuits.reset("ses")
        fleet.exchange()


def test_cancelled_probe_makes_room_for_the_next(half_open):
    """It tells nothing about the other side."""
    fleet = half_open()
    fleet.exchange()
    prober = next(process for process in fleet.processes if process.state is BreakerState.HALF_OPEN)
    entered = prober.begin()
    prober.breaker.failed(entered, KeyboardInterrupt())
    fleet.exchange()
    assert 1 == fleet.calls().count("sent")


def test_probe_that_nobody_uses_goes_round(half_open):
    """A process without calls does not keep it from one that has some."""
    fleet = half_open(size=4)
    busy = fleet.processes[2]
    exchanges = 0
    while busy.call() == "refused":
        fleet.exchange()
        exchanges += 1
    assert exchanges <= 2 * len(fleet.processes)
    fleet.exchange(2)
    assert ["closed"] * 4 == fleet.states


def test_sums_of_the_fleet_open_a_rate_breaker(any_stage):
    """No process alone has enough calls to tell."""
    fleet = BreakerFleet(any_stage, failure_threshold=None, trip=failure_rate(0.5, window=100, minimum_calls=20))
    for process in fleet.processes:
        for works in (True, False) * 4:
            process.call(works)
    assert ["closed"] * 3 == fleet.states
    fleet.exchange(2)
    assert ["open"] * 3 == fleet.states
    assert 1 == fleet.circuit().generation


def test_sums_of_the_fleet_below_the_rate_open_nothing(any_stage):
    """And repeated reports of one process do not add up."""
    fleet = BreakerFleet(any_stage, failure_threshold=None, trip=failure_count(7, window="10m"))
    for process in fleet.processes:
        process.call(works=False)
        process.call(works=False)
    fleet.exchange(20)
    assert ["closed"] * 3 == fleet.states
    assert (6, 6) == fleet.circuit().counted
    fleet.processes[1].call(works=False)
    fleet.exchange(2)
    assert ["open"] * 3 == fleet.states


def test_counts_of_a_process_that_is_gone_are_forgotten(any_stage):
    """After five intervals without a word."""
    fleet = BreakerFleet(any_stage, failure_threshold=None, trip=failure_count(4, window="10m"))
    gone, *others = fleet.processes
    for _ in range(3):
        gone.call(works=False)
    fleet.exchange()
    fleet.wait(5, without=(gone,))
    others[0].call(works=False)
    fleet.exchange(2, without=(gone,))
    assert ["closed"] * 3 == fleet.states


def test_breaker_opened_and_closed_again_counts_anew(half_open):
    """What was reported before the opening does not open it again."""
    fleet = half_open(failure_threshold=None, trip=failure_count(3, window="10m"))
    fleet.exchange()
    fleet.calls()
    fleet.exchange(2)
    assert ["closed"] * 3 == fleet.states
    fleet.processes[0].call(works=False)
    fleet.exchange(5)
    assert ["closed"] * 3 == fleet.states


def test_circuit_that_was_forgotten_is_followed_again(fleet, any_stage):
    """Its generations begin anew, and nobody takes them for old ones."""
    for _ in range(2):
        for _ in range(3):
            fleet.processes[0].trip()
            fleet.exchange()
            any_stage.backend.circuits.reset("ses")
            fleet.exchange()
        assert ["closed"] * 3 == fleet.states
        any_stage.clock.advance("25h")


def test_store_that_lost_everything_is_told_again(fleet, any_stage):
    """Also where the generation is the same as before."""
    any_stage.backend.circuits.trip("ses", by="somebody", recovery=60)
    fleet.exchange()
    any_stage.backend.circuits.reset("ses")
    any_stage.clock.advance("25h")
    any_stage.backend.circuits.trip("ses", by="somebody", recovery=60)
    fleet.exchange()
    assert ["open"] * 3 == fleet.states


def test_circuit_closed_by_hand_closes_all(fleet, any_stage):
    """Within one exchange; so does one breaker that is closed by hand, once the recovery is over."""
    fleet.processes[0].trip()
    fleet.exchange()
    any_stage.backend.circuits.reset("ses")
    fleet.exchange()
    assert ["closed"] * 3 == fleet.states
    fleet.processes[0].trip()
    fleet.exchange()
    fleet.processes[1].breaker.reset()
    fleet.exchange()
    assert ["open", "closed", "open"] == fleet.states
    fleet.wait(RECOVERIES[0] + 3)
    assert ["closed"] * 3 == fleet.states


def test_clock_of_a_process_that_differs_from_the_stores_does_not_matter(half_open, any_stage):
    """What is open, what may be probed and what counts is decided by the store's clock."""
    for seconds in (-3600, 3600):
        fleet = half_open()
        skewed = fleet.processes[1]
        skewed.sync._clock = Skewed(any_stage.clock, seconds)
        fleet.exchange(2)
        assert skewed.breaker.retry_after <= RECOVERIES[0]
        fleet.processes = [skewed]
        fleet.exchange(2)
        assert "sent" == skewed.call()
        fleet.exchange(2)
        assert BreakerState.CLOSED is skewed.state
        assert fleet.circuit().is_open is False


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_opening_followed_by_another_clock_is_no_longer_than_it_is(any_stage, seconds):
    """So that a process that is left alone goes on by its own clock in time."""
    first, skewed = Process(any_stage), Process(any_stage)
    skewed.sync._clock = Skewed(any_stage.clock, seconds)
    first.trip()
    first.exchange()
    skewed.exchange()
    assert BreakerState.OPEN is skewed.breaker._machine.state
    assert {-3600: RECOVERIES[0], 3600: 0.0}[seconds] == skewed.breaker.retry_after


class Skewed:
    """A clock that is ahead of another, or behind it."""

    def __init__(self, clock, seconds):
        self._clock, self._seconds = clock, seconds

    def now(self):
        return self._clock.now() + timedelta(seconds=self._seconds)

    def monotonic(self):
        return self._clock.monotonic() + self._seconds
