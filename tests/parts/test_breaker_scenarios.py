"""Scenarios that other libraries publish, replayed against the breaker."""

from __future__ import annotations

import asyncio

import pytest

from retrykit.breaker import BreakerState, CircuitBreaker
from retrykit.events import BreakerChanged, Event
from retrykit.testing import ManualClock
from tests.parts.breaker_scenarios import OTHERWISE, SCENARIOS
from tests.parts.breakers import attempt, breaker, down, ours

ENDS = {"ok": lambda: None, "fail": down, "ignored": ours, "cancelled": asyncio.CancelledError}


class Replay:
    """A breaker and the calls of a scenario that are under way."""

    def __init__(self, settings: dict[str, object]) -> None:
        self.clock = ManualClock()
        self.heard: list[Event] = []
        self.guard: CircuitBreaker = breaker(
            self.clock, **{"failure_threshold": None, **settings}, on_event=[self.heard.append]
        )
        self.begun: dict[str, object] = {}

    def step(self, text: str) -> None:
        head, _, times = text.partition("*")
        guard = self.guard
        if head.startswith("+"):
            self.clock.advance(float(head))
        elif head in ("open", "half_open"):
            guard.open(0 if head == "half_open" else None)
            assert guard.state == head
        elif head == "reset":
            guard.reset()
        elif "=" in head:
            name, _, expected = head.partition("=")
            assert expected == self.seen(name), text
        elif head.startswith("begin"):
            self.begun[head.partition(":")[2]] = entered = guard.gate or guard.admit()
            assert entered is not None
        elif head.startswith("end"):
            _, number, how = head.split(":")
            self.end(self.begun.pop(number), how)
        else:
            for _ in range(int(times or 1)):
                error = None if head == "no" else ENDS[head]()
                assert (head != "no") is attempt(guard, error), text

    def end(self, entered, how: str) -> None:
        error = ENDS[how]()
        if error is not None:
            self.guard.failed(entered, error)
        elif entered.note is not None:
            entered.note()

    def seen(self, name: str) -> str:
        if name in ("calls", "failures"):
            return str(self.guard.counted[name == "failures"])
        if name in ("opened", "half_opened", "closed"):
            state = {"opened": BreakerState.OPEN, "half_opened": BreakerState.HALF_OPEN}.get(name, BreakerState.CLOSED)
            return str(sum(isinstance(event, BreakerChanged) and event.after is state for event in self.heard))
        value = getattr(self.guard, name)
        return f"{round(value, 6):g}" if name == "retry_after" else str(value)


@pytest.mark.parametrize("name", SCENARIOS)
def test_breaker_scenario_goes_as_published(name: str) -> None:
    """Every step of the scenario is let through, refused and counted as its source says."""
    settings, steps = SCENARIOS[name]
    replay = Replay(settings)
    for text in steps.split():
        replay.step(text)


def test_breaker_scenarios_that_do_not_fit_are_named_with_the_reason() -> None:
    """All 62 are either replayed or listed, and none is both."""
    others = [name for names in OTHERWISE.values() for name in names.split()]
    assert 62 == len(SCENARIOS) + len(others)
    assert set() == set(SCENARIOS) & set(others)
