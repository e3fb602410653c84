"""Any order of what three processes with one circuit do, their exchanges interleaved step by step."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit.backends import MemoryBackend
from retrykit.errors import StoreUnavailableError
from retrykit.policy import delays
from retrykit.testing import ManualClock
from tests.flows.breakers import INTERVAL, PROBE_TIMEOUT, BreakerFleet
from tests.flows.fleet import Stage

pytestmark = pytest.mark.unmeasured

SIZE = 3
RECOVERIES = (1.5, 3, 6)
"""Short ones, so that what is drawn gets to the probes."""

CALM = round(RECOVERIES[-1] + PROBE_TIMEOUT) + 20
"""Rounds after which all is closed again, once nothing fails any more."""

who = st.integers(0, SIZE - 1)
operations = st.one_of(
    st.tuples(st.just("step"), who),
    st.tuples(st.just("step"), who),
    st.tuples(st.just("fail"), who),
    st.tuples(st.just("call"), who),
    st.tuples(st.just("begin"), who),
    st.tuples(st.just("succeed"), who),
    st.tuples(st.just("refute"), who),
    st.tuples(st.just("cancel"), who),
    st.tuples(st.just("wait"), st.integers(1, 300)),
    st.tuples(st.just("shut"), who),
)
rounds = st.lists(st.lists(operations, max_size=12), max_size=25)


class Schedule:
    """Three processes on a memory store, and what they have begun.

    Args:
        has_outages: whether the store may be shut for a process.
        options: of the breakers.
    """

    def __init__(self, *, has_outages=False, **options):
        self.clock = ManualClock()
        options = {"failure_threshold": 2, "recovery_timeout": delays(*RECOVERIES, jitter="none"), **options}
        self.fleet = BreakerFleet(Stage(MemoryBackend(clock=self.clock), self.clock), SIZE, **options)
        self.limit = options.get("probes", 1)
        self.has_outages = has_outages
        self.flows = {}
        self.begun = []  # process, pass
        self.leases = {}  # by token: generation, deadline
        self.finish_round()

    def finish_round(self):
        """Let every process come to the end of an exchange, begun in this round or not."""
        for number, process in enumerate(self.fleet.processes):
            try:
                self.step(number, to_the_end=True)
            except StoreUnavailableError:
                assert process.door.is_closed
        self.clock.advance(INTERVAL)

    def step(self, number, *, to_the_end=False):
        """Make one store call of a process's exchange, or all that are left."""
        flow = self.flows.pop(number, None) or self.fleet.processes[number].flow()
        while not flow.done:
            flow.make_step()
            self.note_leases()
            if not to_the_end:
                break
        if not flow.done:
            self.flows[number] = flow

    def note_leases(self):
        circuit = self.fleet.circuit()
        for lease in circuit.probes if circuit is not None else ():
            self.leases.setdefault(lease.token, (circuit.generation, lease.deadline))

    def do(self, kind, argument):
        """Carry out an operation."""
        if kind == "wait":
            self.clock.advance(argument / 1000)
            return
        process = self.fleet.processes[argument]
        if kind == "step":
            try:
                self.step(argument)
            except StoreUnavailableError:
                assert process.door.is_closed
        elif kind == "shut":
            process.door.is_closed = self.has_outages and not process.door.is_closed
        elif kind in ("call", "begin", "fail"):
            entered = process.begin()
            if entered is None:
                return
            if kind == "begin":
                self.begun.append((process, entered))
                self.check()
            else:
                (process.succeed if kind == "call" else process.fail)(entered)
        else:
            self.end(process, kind)

    def end(self, process, how):
        """End the longest call of a process."""
        mine = [each for each in self.begun if each[0] is process]
        if mine:
            self.begun.remove(mine[0])
            entered = mine[0][1]
            if how == "cancel":
                process.breaker.failed(entered, KeyboardInterrupt())
            else:
                (process.succeed if how == "succeed" else process.fail)(entered)

    def check(self):
        """No more probes of one opening are on their way than one breaker would let through."""
        tokens = [entered.permit.probe for _, entered in self.begun if entered.permit.probe is not None]
        if self.has_outages:
            return
        assert all(token > 0 for token in tokens), "a led breaker let a probe of its own through"
        live = Counter(self.leases[token][0] for token in tokens if self.leases[token][1] > self.clock.now())
        assert all(number <= self.limit for number in live.values()), live

    def calm_down(self):
        """Let nothing fail any more; what was begun never comes back."""
        self.fleet.close_door(closed=False)
        for _ in range(CALM):
            self.finish_round()
            self.fleet.calls()
        assert ["sent"] * SIZE == self.fleet.calls()
        assert ["closed"] * SIZE == self.fleet.states
        circuit = self.fleet.circuit()
        assert circuit is None or not circuit.is_open


@settings(deadline=None)
@given(rounds, st.integers(1, 2), st.integers(1, 2))
def test_any_schedule_lets_no_more_probes_through_than_one_breaker(script, probes, close_after):
    """And when nothing fails any more all end closed."""
    schedule = Schedule(probes=probes, close_after=close_after)
    for operations in script:
        for kind, argument in operations:
            schedule.do(kind, argument)
        schedule.finish_round()
    schedule.calm_down()


KINDS = "step step step step step step fail fail call begin begin succeed refute cancel wait shut".split()


@pytest.mark.soak
@pytest.mark.parametrize("has_outages", [False, True])
def test_long_random_schedules_hold_the_same(has_outages, scale):
    """5000 of each in a soak; a probe is on its way in many of them, and in some as many as are allowed."""
    seen: Counter[int] = Counter()
    for seed in range(scale(5000)):
        rng = Random(seed)
        probes = rng.choice([1, 2, 3])
        schedule = Schedule(has_outages=has_outages, probes=probes, close_after=rng.choice([1, 2]))
        for _ in range(rng.randrange(5, 40)):
            for _ in range(rng.randrange(15)):
                kind = rng.choice(KINDS)
                schedule.do(kind, rng.randrange(1, 300) if kind == "wait" else rng.randrange(SIZE))
                seen[sum(entered.permit.probe is not None for _, entered in schedule.begun)] += 1
            schedule.finish_round()
        schedule.calm_down()
    assert {0, 1, 2} <= seen.keys()


@settings(deadline=None)
@given(rounds, st.integers(1, 2), st.integers(1, 2))
def test_any_schedule_with_a_store_that_goes_away_leaves_no_breaker_stuck(script, probes, close_after):
    """For some of the processes or for all, and back."""
    schedule = Schedule(has_outages=True, probes=probes, close_after=close_after)
    for operations in script:
        for kind, argument in operations:
            schedule.do(kind, argument)
        schedule.finish_round()
    schedule.calm_down()
