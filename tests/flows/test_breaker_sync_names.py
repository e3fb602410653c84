"""Which breakers are shared: pauses, what is done by hand, registries, names; and how sharing is run."""

from __future__ import annotations

import asyncio
import threading

import pytest

from retrykit.backends import MemoryBackend
from retrykit.breaker import BreakerRegistry, BreakerState, CircuitBreaker
from retrykit.breaker_sync import AsyncBreakerSync, BreakerSync
from retrykit.errors import ConfigurationError
from retrykit.stores import as_async
from retrykit.testing import ImpatientClock
from tests.colours import both_loops
from tests.flows.breakers import RECOVERIES, SETTINGS, Process


def test_pause_of_a_provider_isolates_its_breakers_and_resuming_closes_them(fleet, any_stage):
    """Those of other names go on."""
    other = Process(any_stage, name="other")
    fleet.processes.append(other)
    circuits = any_stage.backend.circuits
    circuits.pause("provider:ses", reason="maintenance", by="ada")
    circuits.pause("campaign:other", reason="wrong template", by="ada")
    fleet.exchange(2)
    assert ["isolated"] * 3 + ["closed"] == fleet.states
    circuits.resume("provider:ses")
    fleet.exchange()
    assert ["closed"] * 4 == fleet.states


def test_pause_that_ends_closes_the_breakers(fleet, any_stage):
    """By the store's clock."""
    until = any_stage.clock.now().replace(second=3)
    any_stage.backend.circuits.pause("provider:ses", reason="r", by="ada", until=until)
    fleet.exchange(3)
    assert ["isolated"] * 3 == fleet.states
    fleet.exchange()
    assert ["closed"] * 3 == fleet.states


def test_breaker_reset_by_hand_during_a_pause_is_isolated_again(fleet, any_stage):
    """The pause is in force for all; it is resumed in the store."""
    any_stage.backend.circuits.pause("provider:ses", reason="r", by="ada")
    fleet.exchange()
    fleet.processes[0].breaker.reset()
    fleet.exchange()
    assert ["isolated"] * 3 == fleet.states


def test_breaker_isolated_by_hand_stays(fleet, any_stage):
    """Whatever the fleet finds, and also when a pause of its provider ends."""
    first, *others = fleet.processes
    first.breaker.isolate()
    others[0].trip()
    fleet.exchange(2)
    assert ["isolated", "open", "open"] == fleet.states
    any_stage.backend.circuits.reset("ses")
    fleet.exchange()
    assert ["isolated", "closed", "closed"] == fleet.states
    any_stage.backend.circuits.pause("provider:ses", reason="r", by="ada")
    fleet.exchange(2)
    any_stage.backend.circuits.resume("provider:ses")
    fleet.exchange()
    assert ["isolated", "closed", "closed"] == fleet.states
    first.breaker.reset()
    fleet.exchange()
    assert ["closed"] * 3 == fleet.states


def test_breaker_disabled_by_hand_stays(fleet):
    """It lets everything through, opens nothing, and takes no probe from the others."""
    first, *others = fleet.processes
    first.breaker.disable()
    assert {"failed"} == {first.call(works=False) for _ in range(20)}
    fleet.exchange()
    assert fleet.circuit() is None
    others[0].trip()
    fleet.wait(RECOVERIES[0] + 1)
    assert "disabled" == fleet.states[0]
    assert 1 == [process.call() for process in others].count("sent")


def test_breaker_let_go_of_while_the_circuit_is_open_opens(fleet, any_stage):
    """Paused or by hand, before or after it had opened: that the circuit is open is news to it, and it proves nothing."""
    _, second, third = fleet.processes
    third.trip()
    fleet.exchange()
    second.breaker.isolate()
    any_stage.backend.circuits.pause("provider:ses", reason="r", by="ada")
    fleet.exchange(2)
    any_stage.backend.circuits.resume("provider:ses")
    fleet.exchange()
    second.breaker.reset()
    fleet.exchange()
    assert ["open"] * 3 == fleet.states
    assert 1 == fleet.circuit().generation


def test_registry_that_makes_breakers_later_shares_them_from_then_on(any_stage):
    """A new one of a name whose circuit is open opens."""
    registries = [BreakerRegistry(clock=any_stage.clock, **SETTINGS) for _ in range(2)]
    here, there = (Process(any_stage, registry) for registry in registries)
    registries[0].get("later").open()
    here.exchange()
    there.exchange()
    later = registries[1].get("later")
    there.exchange()
    assert (BreakerState.OPEN, BreakerState.CLOSED) == (later.state, there.state)


def test_registry_that_drops_a_breaker_and_makes_it_anew_opens_it_again(any_stage):
    """The new one has seen nothing of what the old one followed."""
    registry = BreakerRegistry(max_breakers=1, clock=any_stage.clock, **SETTINGS)
    process = Process(any_stage, registry)
    process.trip()
    process.exchange()
    registry.get("another")
    assert ["another"] == list(registry.all())
    process.exchange()
    again = registry.get("ses")
    assert BreakerState.CLOSED is again.state
    process.exchange()
    assert BreakerState.OPEN is again.state
    for _ in range(round(RECOVERIES[0])):
        any_stage.clock.advance(1)
        process.exchange()
    again.call(str)
    process.exchange()
    assert BreakerState.CLOSED is again.state


def test_registry_that_drops_a_breaker_with_a_probe_blocks_nobody(any_stage):
    """The lease lapses."""
    registry = BreakerRegistry(max_breakers=1, clock=any_stage.clock, **SETTINGS)
    dropping, other = Process(any_stage, registry), Process(any_stage)
    dropping.trip()
    for _ in range(round(RECOVERIES[0]) + 1):
        dropping.exchange()
        other.exchange()
        any_stage.clock.advance(1)
    assert dropping.begin() is not None
    registry.get("another")
    for _ in range(12):
        dropping.exchange()
        other.exchange()
        any_stage.clock.advance(1)
        if other.call() == "sent":
            break
    other.exchange()
    assert BreakerState.CLOSED is other.state


def test_breakers_of_one_name_are_refused():
    """They would overwrite what the other found; the same one twice is no mistake."""
    one, two = CircuitBreaker("ses"), CircuitBreaker("ses")
    with pytest.raises(ConfigurationError) as caught:
        BreakerSync([one, two], MemoryBackend())
    assert "two breakers are called 'ses'; give each circuit a name of its own" == str(caught.value)
    BreakerSync([one, one], MemoryBackend()).run_once()


@pytest.mark.parametrize("interval", [0, -1, "soon", None, float("nan")])
def test_interval_that_is_no_duration_is_refused(interval):
    """Named, for both colours."""
    for sync, backend in ((BreakerSync, MemoryBackend()), (AsyncBreakerSync, as_async(MemoryBackend()))):
        with pytest.raises(ConfigurationError, match=r"^interval is "):
            sync([], backend, interval=interval)


def test_store_of_the_other_colour_is_refused():
    """With what to use instead."""
    sync = BreakerSync([], as_async(MemoryBackend()))
    with pytest.raises(ConfigurationError, match=r"use the asynchronous twin"):
        sync.run_once()


def test_run_in_a_thread_exchanges_until_it_is_stopped():
    """Stopping it is safe from another thread."""
    backend = MemoryBackend()
    here, there = CircuitBreaker("ses"), CircuitBreaker("ses")
    opened = threading.Event()
    there._listeners = (lambda event: opened.set(),)
    syncs = [BreakerSync([breaker], backend, clock=ImpatientClock()) for breaker in (here, there)]
    threads = [threading.Thread(target=sync.run) for sync in syncs]
    for thread in threads:
        thread.start()
    here.open()
    assert opened.wait(30)
    for sync in syncs:
        sync.stop()
    for thread in threads:
        thread.join(30)
        assert thread.is_alive() is False
    assert "open" == there.state


@both_loops
def test_run_as_a_task_exchanges_until_it_is_stopped_or_cancelled(runner):
    """Under asyncio and trio."""
    clock = ImpatientClock()

    async def main():
        backend = as_async(MemoryBackend())
        here, there = CircuitBreaker("ses"), CircuitBreaker("ses")
        syncs = [AsyncBreakerSync([breaker], backend, clock=clock) for breaker in (here, there)]

        async def work():
            here.open()
            while there.state != "open":
                await clock.sleep_async(0)
            syncs[0].stop()

        if runner.__module__.startswith("trio"):
            import trio

            async with trio.open_nursery() as nursery:
                for sync in syncs:
                    nursery.start_soon(sync.run)
                await work()
                nursery.cancel_scope.cancel()
        else:
            tasks = [asyncio.ensure_future(sync.run()) for sync in syncs]
            await work()
            await tasks[0]
            tasks[1].cancel()
            with pytest.raises(asyncio.CancelledError):
                await tasks[1]
        return there.state

    assert "open" == runner(main)


def test_run_after_stop_ends_at_once():
    """Without a wait."""
    clock = ImpatientClock()
    sync = BreakerSync([], MemoryBackend(), clock=clock)
    sync.stop()
    sync.run()
    assert [] == clock.sleeps
