"""A breaker against a naive model of it: any order of calls, results, waits and hands on switches."""

from __future__ import annotations

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from retrykit.breaker import CircuitBreaker, failure_count, failure_rate
from retrykit.policy.backoff import delays
from retrykit.testing import ManualClock
from tests.parts.breakers import down, ours, refused

LADDER = (10.0, 20.0, 40.0)
TIMEOUT = 15.0

RULES: dict[str, dict[str, Any]] = {
    "streak": {"failure_threshold": 3},
    "calls": {"trip": failure_rate(0.5, window=6, minimum_calls=4)},
    "time": {"trip": failure_count(3, window="100s", minimum_calls=4)},
}


class Model:
    """The breaker as one would tell it: every result that counts is kept, and looked at anew each time."""

    def __init__(self, kind: str, probes: int, close_after: int) -> None:
        self.kind, self.probes, self.close_after = kind, probes, close_after
        self.state = "closed"
        self.era = 0
        self.results: list[tuple[float, bool]] = []
        self.opened = 0
        self.until = 0.0
        self.running: dict[int, float] = {}
        self.good = 0
        self.calls = 0

    def enter(self, state: str) -> None:
        self.state, self.era, self.results, self.running, self.good = state, self.era + 1, [], {}, 0
        if state == "closed":
            self.opened = 0

    def open(self, now: float, length: float | None = None) -> None:
        self.enter("open")
        self.until = now + (LADDER[min(self.opened, len(LADDER) - 1)] if length is None else length)
        self.opened += 1

    def look(self, now: float) -> None:
        if self.state == "open" and now >= self.until:
            self.enter("half_open")
        self.running = {call: began for call, began in self.running.items() if now < began + TIMEOUT}

    def begin(self, now: float) -> tuple[int, int] | None:
        self.look(now)
        if self.state in ("open", "isolated") or (self.state == "half_open" and len(self.running) >= self.probes):
            return None
        self.calls += 1
        if self.state == "half_open":
            self.running[self.calls] = now
        return self.era, self.calls

    def end(self, ticket: tuple[int, int], now: float, how: str) -> None:
        era, call = ticket
        if era != self.era or self.state == "disabled":
            return
        if self.state == "half_open":
            began = self.running.pop(call, None)
            if began is None or now >= began + TIMEOUT or how == "nothing":
                return
            if how == "bad":
                self.open(now)
            else:
                self.good += 1
                if self.good == self.close_after:
                    self.enter("closed")
        elif how != "nothing":
            self.results.append((now, how == "bad"))
            if how == "bad" and self.too_many(now):
                self.open(now)

    def counting(self, now: float) -> list[bool]:
        if self.kind == "streak":
            flags = [bad for _, bad in self.results]
            return flags[len(flags) - flags[::-1].index(False) :] if False in flags else flags
        if self.kind == "calls":
            return [bad for _, bad in self.results][-6:]
        return [bad for at, bad in self.results if at // 10 > now // 10 - 10]

    def too_many(self, now: float) -> bool:
        flags = self.counting(now)
        if self.kind == "streak":
            return len(flags) >= 3
        if self.kind == "calls":
            return len(flags) >= 4 and sum(flags) * 2 >= len(flags)
        return len(flags) >= 4 and sum(flags) >= 3


class BreakerMachine(RuleBasedStateMachine):
    """Does the same to both, and compares what can be seen."""

    @initialize(kind=st.sampled_from(sorted(RULES)), probes=st.integers(1, 3), close_after=st.integers(1, 3))
    def begin_anew(self, kind: str, probes: int, close_after: int) -> None:
        self.clock = ManualClock()
        self.guard = CircuitBreaker(
            "model",
            recovery_timeout=delays(*LADDER, jitter="none"),
            probes=probes,
            close_after=close_after,
            probe_timeout=TIMEOUT,
            clock=self.clock,
            **RULES[kind],
        )
        self.model = Model(kind, probes, close_after)
        self.inside: list[tuple[Any, tuple[int, int]]] = []
        self.refused = 0

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    def begin(self) -> tuple[Any, tuple[int, int]] | None:
        entered, ticket = self.guard.gate or self.guard.admit(), self.model.begin(self.now)
        assert (ticket is None) is (entered is None)
        if ticket is None:
            self.refused += 1
            refusal = self.guard.refusal()
            assert self.model.state == refusal.state
            return None
        return entered, ticket

    def end(self, call: tuple[Any, tuple[int, int]], how: str) -> None:
        entered, ticket = call
        self.model.end(ticket, self.now, {"ok": "good", "rejected": "good", "down": "bad"}.get(how, "nothing"))
        errors = {"rejected": refused(), "down": down(), "ours": ours(), "interrupted": KeyboardInterrupt()}
        if how != "ok":
            self.guard.failed(entered, errors[how])
        elif entered.note is not None:
            entered.note()

    HOW = st.sampled_from(["ok", "ok", "down", "down", "down", "rejected", "ours", "interrupted"])

    @rule(how=HOW, times=st.integers(1, 5))
    def calls(self, how: str, times: int) -> None:
        for _ in range(times):
            call = self.begin()
            if call is not None:
                self.end(call, how)

    @rule()
    def call_begins(self) -> None:
        assume(len(self.inside) < 8)
        call = self.begin()
        if call is not None:
            self.inside.append(call)

    @precondition(lambda self: bool(getattr(self, "inside", None)))
    @rule(data=st.data(), how=HOW)
    def call_ends(self, data: st.DataObject, how: str) -> None:
        place = data.draw(st.integers(0, len(self.inside) - 1))
        self.end(self.inside.pop(place), how)

    @rule(seconds=st.sampled_from([0.5, 3, 5, 10, 15, 20, 45, 101]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(switch=st.sampled_from(["isolate", "disable", "reset"]))
    def somebody_switches(self, switch: str) -> None:
        getattr(self.guard, switch)()
        self.model.enter({"isolate": "isolated", "disable": "disabled", "reset": "closed"}[switch])

    @rule(length=st.sampled_from([None, 0.0, 5.0, 33.0]))
    def others_open(self, length: float | None) -> None:
        self.model.look(self.now)
        assert self.model.state == self.guard.state
        self.guard.open(length)
        if self.model.state in ("closed", "half_open"):
            self.model.open(self.now, length)
        elif self.model.state == "open" and length is not None:
            self.model.until = self.now + length

    @precondition(lambda self: getattr(self, "looks", True))
    @invariant()
    def the_same_is_seen(self) -> None:
        if not hasattr(self, "guard"):
            return
        self.model.look(self.now)
        flags = self.model.counting(self.now)
        assert (self.model.state, (len(flags), sum(flags))) == (self.guard.state, self.guard.counted)
        assert self.refused == self.guard.rejected
        wait = self.guard.retry_after
        if self.model.state == "open":
            assert self.model.until - self.now == wait
        elif self.model.state == "half_open" and len(self.model.running) >= self.model.probes:
            assert min(self.model.running.values()) + TIMEOUT - self.now == wait
        else:
            assert (None if self.model.state == "isolated" else 0.0) == wait


class BlindBreakerMachine(BreakerMachine):
    """The same, but nobody looks between the steps: to look may not be what makes it right."""

    looks = False

    def teardown(self) -> None:
        self.looks = True
        if hasattr(self, "guard"):
            BreakerMachine.the_same_is_seen(self)


TestBreaker = BreakerMachine.TestCase
TestBlindBreaker = BlindBreakerMachine.TestCase
