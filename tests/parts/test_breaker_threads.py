"""Breakers and budgets under eight threads that are switched as often as Python can."""

from __future__ import annotations

import random
import smtplib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from retrykit import RetryBudget
from retrykit.breaker import BreakerRegistry, BreakerState, failure_rate
from retrykit.events import BreakerChanged, Event
from retrykit.testing import ManualClock
from tests.parts.breakers import attempt, breaker, down, refused

THREADS = 8


@pytest.fixture(autouse=True)
def restless() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """Let all threads begin `work` at the same moment; return what they gave, and raise what one raised."""
    start = threading.Barrier(THREADS)
    given: list[Any] = [None] * THREADS
    raised: list[BaseException] = []

    def run(number: int) -> None:
        try:
            start.wait(timeout=20)
            given[number] = work(number)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert [] == raised
    return given


@pytest.mark.parametrize("probes", [1, 3])
def test_half_open_race_lets_exactly_the_probes_through(probes: int) -> None:
    """Each time anew, of eight callers of the same moment; the rest are refused and counted."""
    clock = ManualClock()
    guard = breaker(clock, probes=probes, close_after=probes)
    for round_ in range(1, 41):
        guard.open()
        clock.advance(60)
        inside = [entered for entered in at_once(lambda _: guard.gate or guard.admit()) if entered is not None]
        assert (probes, round_ * (THREADS - probes)) == (len(inside), guard.rejected)
        at_once(lambda number, inside=inside: inside[number].note() if number < probes else None)
        assert BreakerState.CLOSED is guard.state


def test_half_open_race_between_failing_probes_opens_once() -> None:
    """Eight probes that fail at the same moment are one opening."""
    clock, heard = ManualClock(), list[Event]()
    guard = breaker(clock, probes=THREADS, close_after=THREADS, recovery_timeout=[60, 120], on_event=[heard.append])
    guard.open(0)
    inside = at_once(lambda _: guard.admit())
    at_once(lambda number: guard.failed(inside[number], down()))
    opened = [event for event in heard if isinstance(event, BreakerChanged) and event.after is BreakerState.OPEN]
    assert (BreakerState.OPEN, 2) == (guard.state, len(opened))
    assert 120 <= (guard.retry_after or 0) <= 132


@pytest.mark.parametrize("window", [10**6, "1h"], ids=["calls", "time"])
def test_counts_of_all_threads_are_exact(window: Any) -> None:
    """Successes that were counted without the lock, failures and rejected answers: none is lost, none counted twice."""
    guard = breaker(ManualClock(), trip=failure_rate(1, window=window, minimum_calls=10**6))
    rounds = 3000

    @guard
    def send(error: Exception | None) -> None:
        if error is not None:
            raise error

    def work(number: int) -> tuple[int, int]:
        draw = random.Random(number)
        failures = answers = 0
        for _ in range(rounds):
            kind = draw.random()
            error = down() if kind < 0.02 else refused() if kind < 0.04 else None
            try:
                send(error)
            except ConnectionRefusedError:
                failures += 1
            except smtplib.SMTPResponseException:
                answers += 1
            if kind > 0.99:
                _ = guard.counted
        return failures, answers

    given = at_once(work)
    assert (THREADS * rounds, sum(failures for failures, _ in given)) == guard.counted


def test_refusals_of_all_threads_are_exact() -> None:
    """Every refused call is counted."""
    guard = breaker()
    guard.isolate()
    assert [0] * THREADS == at_once(lambda _: sum(attempt(guard) for _ in range(1000)))
    assert THREADS * 1000 == guard.rejected


def test_probes_under_way_are_never_more_than_allowed() -> None:
    """While threads fail, succeed, are interrupted, and time goes by, at most so many probes of a generation run at once."""
    clock, probes = ManualClock(), 2
    guard = breaker(clock, probes=probes, close_after=3, recovery_timeout=[1], probe_timeout="1d")
    lock, running, seen = threading.Lock(), dict[int, int](), set[int]()

    def work(number: int) -> None:
        draw = random.Random(number)
        for _ in range(1500):
            entered = guard.gate or guard.admit()
            if entered is None:
                clock.advance(0.01)
                continue
            is_probe, generation = entered.permit.probe is not None, entered.permit.generation
            if is_probe:
                with lock:
                    running[generation] = running.get(generation, 0) + 1
                    seen.add(running[generation])
            kind = draw.random()
            if is_probe:
                with lock:
                    running[generation] -= (
                        1  # before the breaker is told, so that nobody is counted for longer than it runs
                    )
            if kind < 0.3:
                guard.failed(entered, down())
            elif kind < 0.4:
                guard.failed(entered, KeyboardInterrupt())
            elif entered.note is not None:
                entered.note()

    at_once(work)
    assert seen and seen <= set(range(1, probes + 1))
    for _ in range(3):
        clock.advance("1h")
        attempt(guard)
    assert BreakerState.CLOSED is guard.state


def test_registry_gives_all_threads_the_same_breaker() -> None:
    """One name, one breaker, however many ask for it first."""
    registry = BreakerRegistry()
    given = at_once(lambda _: [registry.get(f"host-{number}") for number in range(200)])
    assert all(each == given[0] for each in given)
    assert 200 == len(registry.all())


def test_budget_of_all_threads_is_exact() -> None:
    """What successes bring and retries cost adds up, although successes are counted without the lock."""
    budget = RetryBudget(capacity=100_000, per_success=0.1, floor=0, clock=ManualClock())
    for _ in range(50_000):
        budget.take()

    def work(number: int) -> int:
        taken = 0
        for turn in range(2000):
            assert budget.note is not None
            budget.note()
            if turn % 10 == number:
                taken += budget.take()
        return taken

    taken = sum(at_once(work))
    assert (THREADS * 200, 50_000 + THREADS * 200 - taken) == (taken, budget.tokens)
