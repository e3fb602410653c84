"""Breakers that share a store, when the store or one of the processes is away."""

from __future__ import annotations

import logging

import pytest

from retrykit.breaker import BreakerState
from retrykit.errors import StoreUnavailableError
from tests.flows.breakers import INTERVAL, PROBE_TIMEOUT, RECOVERIES, BreakerFleet, Process

pytestmark = pytest.mark.unmeasured

MISSED = 5
"""Intervals after which a process acts on its own evidence."""


def fail_exchange(fleet, rounds=1):
    """Let each process try an exchange while the store is away."""
    for _ in range(rounds):
        for process in fleet.processes:
            with pytest.raises(StoreUnavailableError):
                process.exchange()
        fleet.stage.clock.advance(INTERVAL)


def test_store_that_goes_away_leaves_local_behaviour(half_open):
    """Five intervals later each process lets its own probes through, and closes by them."""
    fleet = half_open()
    fleet.close_door()
    fail_exchange(fleet, MISSED - 2)
    assert ["refused"] * 3 == fleet.calls()
    fail_exchange(fleet)
    assert ["sent"] * 3 == fleet.calls()
    assert ["closed"] * 3 == fleet.states


def test_breaker_opens_and_recovers_without_the_store(fleet):
    """By its own settings; the others do not hear of it."""
    fleet.close_door()
    first = fleet.processes[0]
    first.trip()
    fail_exchange(fleet, round(RECOVERIES[0]) - 1)
    assert ["open", "closed", "closed"] == fleet.states
    fail_exchange(fleet)
    assert "failed" == first.call(works=False)
    assert RECOVERIES[1] == first.breaker.retry_after
    fail_exchange(fleet, round(RECOVERIES[1]))
    assert "sent" == first.call()
    assert ["closed"] * 3 == fleet.states


def test_store_that_comes_back_is_told_what_opened_meanwhile(fleet):
    """And all open within one exchange."""
    fleet.exchange()
    fleet.close_door()
    fleet.processes[2].trip()
    fail_exchange(fleet, 3)
    fleet.close_door(closed=False)
    fleet.exchange(2)
    assert ["open"] * 3 == fleet.states
    circuit = fleet.circuit()
    assert RECOVERIES[0] - 3 * INTERVAL == (circuit.open_until - circuit.changed_at).total_seconds()


@pytest.mark.parametrize("proved", [(0,), (1, 2), (0, 1, 2)])
def test_store_that_comes_back_agrees_without_a_flap(any_stage, proved):
    """Who has closed by itself meanwhile does not open again: what it found holds for all."""
    changes = []
    fleet = BreakerFleet(any_stage, on_event=[lambda event: changes.append((event.before, event.after))])
    fleet.processes[0].trip()
    fleet.wait(RECOVERIES[0])
    fleet.close_door()
    fail_exchange(fleet, MISSED)
    assert ["sent"] * len(proved) == [fleet.processes[number].call() for number in proved]
    fleet.close_door(closed=False)
    changes.clear()
    fleet.exchange(4)
    assert ["closed"] * 3 == fleet.states
    assert fleet.circuit().is_open is False
    assert {after for _, after in changes} <= {"half_open", "closed"}
    assert 3 - len(proved) == [after for _, after in changes].count("closed")


def test_closing_leaves_what_a_breaker_that_is_closed_already_has_counted(half_open):
    """It had closed by itself, and saw failures since."""
    fleet = half_open()
    first = fleet.processes[0]
    fleet.wait(MISSED, without=(first,))
    assert ["sent", "failed", "failed"] == [first.call(works) for works in (True, False, False)]
    fleet.stage.backend.circuits.reset("ses")
    fleet.exchange()
    assert ["closed"] * 3 == fleet.states
    first.call(works=False)
    assert BreakerState.OPEN is first.state


def test_verdict_that_the_store_did_not_take_is_told_again(half_open):
    """It is not lost with the exchange that failed."""
    fleet = half_open()
    fleet.exchange()
    assert 1 == fleet.calls().count("sent")
    fleet.close_door()
    fail_exchange(fleet, 2)
    fleet.close_door(closed=False)
    fleet.exchange()
    assert fleet.circuit().is_open is False
    fleet.exchange()
    assert ["closed"] * 3 == fleet.states


def test_process_that_stops_exchanging_is_not_stuck_open(half_open):
    """It was led, and then it is not; the others go on without it."""
    fleet = half_open()
    gone, *others = fleet.processes
    fleet.wait(MISSED, without=(gone,))
    assert "sent" == gone.call()
    assert BreakerState.CLOSED is gone.state
    assert {process.state for process in others} <= {BreakerState.OPEN, BreakerState.HALF_OPEN}
    assert fleet.circuit().is_open is True


def test_led_process_before_five_intervals_is_still_led(half_open):
    """To the interval."""
    fleet = half_open()
    gone = fleet.processes[0]
    fleet.exchange()
    fleet.stage.clock.advance(MISSED - 1 - 0.001)
    gone.breaker.verdicts()
    assert "refused" == gone.call()
    fleet.stage.clock.advance("1ms")
    assert "sent" == gone.call()


def test_process_that_was_half_open_by_itself_before_its_first_exchange_is_not_stuck(any_stage):
    """There is no circuit that somebody could lead it by: its own probes go on."""
    process = Process(any_stage)
    process.trip()
    any_stage.clock.advance(RECOVERIES[0])
    assert BreakerState.HALF_OPEN is process.state
    lost = process.begin()
    for _ in range(round(PROBE_TIMEOUT)):
        process.exchange()
        assert "refused" == process.call()
        any_stage.clock.advance(INTERVAL)
    assert lost is not None
    assert "failed" == process.call(works=False)
    process.exchange()
    assert 1 == next(iter(any_stage.backend.circuits.circuits())).generation


@pytest.mark.parametrize("moment", ["opens", "probes", "has proved", "has failed", "has closed by itself"])
def test_process_that_dies_in_an_exchange_leaves_no_circuit_stuck(any_stage, moment):
    """Before any of its steps: the others agree and close in the end."""
    for steps in range(12):
        fleet = BreakerFleet(any_stage)
        dying, *others = fleet.processes
        dying.trip()
        if moment != "opens":
            fleet.wait(RECOVERIES[0])
        if moment.startswith("has closed"):
            fleet.wait(MISSED, without=(dying,))
            assert "sent" == dying.call()
        elif moment.startswith("has"):
            dying.exchange()
            assert {"has proved": "sent", "has failed": "failed"}[moment] == dying.call(moment == "has proved")
        flow = dying.flow()
        for _ in range(steps):
            if flow.done:
                break
            flow.make_step()
        is_over = flow.done
        fleet.processes = others
        fleet.stage.clock.advance(INTERVAL)
        for _ in range(round(RECOVERIES[1] + PROBE_TIMEOUT + 2 * len(others))):
            fleet.exchange()
            if ["closed"] * 2 != fleet.states:
                fleet.calls()
        assert ["closed"] * 2 == fleet.states
        assert fleet.circuit() is None or fleet.circuit().is_open is False
        any_stage.clock.advance("25h")
        if is_over:
            break
    else:
        pytest.fail("the exchange has more steps than were tried")


def test_process_that_stalls_in_an_exchange_goes_on_with_old_news(half_open):
    """It read the circuits before they closed and opened again: what it then does harms nobody."""
    fleet = half_open()
    stalled, *others = fleet.processes
    for steps in range(1, 5):
        flow = stalled.flow()
        for _ in range(steps):
            if not flow.done:
                flow.make_step()
        fleet.processes = others
        fleet.exchange(2)
        fleet.calls()
        fleet.exchange(2)
        flow.finish()
        fleet.processes = [stalled, *others]
        for _ in range(round(PROBE_TIMEOUT) + 6):
            fleet.exchange()
            fleet.calls()
        assert ["closed"] * 3 == fleet.states
        assert fleet.circuit().is_open is False
        others[0].trip()
        fleet.wait(RECOVERIES[0])


def test_failing_exchanges_are_logged_once_each_and_nothing_else(stage, caplog, monkeypatch):
    """Of `run`; it goes on, and a store that works is not mentioned."""
    process = Process(stage)
    caplog.set_level(logging.DEBUG, "retrykit")
    rounds = iter([False, True, True, False])

    def after_interval(seconds):
        assert INTERVAL == seconds
        try:
            process.door.is_closed = next(rounds)
        except StopIteration:
            process.sync.stop()

    async def after_interval_async(seconds):
        after_interval(seconds)

    monkeypatch.setattr(stage.clock, "sleep", after_interval)
    monkeypatch.setattr(stage.clock, "sleep_async", after_interval_async)
    done = process.sync.run()
    if stage.drive is not None:
        stage.drive(done)
    message = "circuits are not shared now, trying again: the store is away"
    assert [("retrykit.breaker", logging.WARNING, message)] * 2 == caplog.record_tuples


def test_error_of_another_kind_ends_run(stage, monkeypatch):
    """It is a mistake that somebody has to see."""
    process = Process(stage)

    def broken():
        raise ZeroDivisionError

    monkeypatch.setattr(process.door, "circuits", broken, raising=False)
    with pytest.raises(ZeroDivisionError):
        stage.drive(process.sync.run()) if stage.drive is not None else process.sync.run()
