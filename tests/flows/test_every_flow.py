"""Every flow, from every state that a message may be found in: a process dies or is told to stop before any step of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import attrs
import pytest

from retrykit.backends import MemoryBackend
from retrykit.decision import DispositionKind
from retrykit.testing import ManualClock
from tests.flows.crew import Crew, Process
from tests.flows.fleet import LEASE, Fleet, Stage
from tests.flows.test_crashes import SCRIPTS
from tests.flows.world import World, WorldMaker

pytestmark = pytest.mark.unmeasured

K = DispositionKind

LONGEST = 20
"""More steps than any one flow has."""


@attrs.frozen
class Situation:
    """A state of a message, and the process that finds it there."""

    begin: Callable[[World, Crew], Process]
    script: tuple[str, ...] = ()
    options: dict[str, Any] = attrs.field(factory=dict)
    end: DispositionKind = K.SENT
    least: int = 2
    """The steps that the flow has at least."""


def another_copy(here: World, crew: Crew) -> Process:
    """Let a worker take one more copy."""
    here.queue.append(here.message)
    return crew.take(here)


def tried(later: float, begin: Callable[[World, Crew], Process]) -> Callable[[World, Crew], Process]:
    """Try the message once; the process begins so many seconds later."""

    def begin_later(here: World, crew: Crew) -> Process:
        here.end(here.begin())
        here.clock.advance(later)
        return begin(here, crew)

    return begin_later


def died(steps: int, begin: Callable[[World, Crew], Process], times: int = 1) -> Callable[[World, Crew], Process]:
    """Let workers die after so many steps, one after the other; the process begins when the lease has ended."""

    def begin_after(here: World, crew: Crew) -> Process:
        for _ in range(times):
            assert here.crash(steps)
            here.clock.advance(LEASE)
        return begin(here, crew)

    return begin_after


def take(here: World, crew: Crew) -> Process:
    """Let a worker take the copy in the queue."""
    return crew.take(here)


def take_paused(here: World, crew: Crew) -> Process:
    """Let a worker take a copy while the campaign is paused."""
    here.backend.circuits.pause("campaign:spring", reason="wrong prices", by="ada")
    return crew.take(here)


def take_beside_another(here: World, crew: Crew) -> Process:
    """Let a worker take a copy while another one stands in its send."""
    first = crew.take(here)
    while not here.fleet.is_sending(first.flow):
        crew.step(first)
    return another_copy(here, crew)


def schedule(here: World, crew: Crew) -> Process:
    """Let a scheduler begin."""
    return crew.schedule()


def schedule_refused(here: World, crew: Crew) -> Process:
    """Let a scheduler begin while the application's queue is down."""
    here.fleet.refusals = 1
    return crew.schedule()


def reconcile(here: World, crew: Crew) -> Process:
    """Let a reconciler begin."""
    return crew.reconcile()


HOUR, WEEK = 3600.0, 7 * 86400.0

SITUATIONS = {
    "paused": Situation(take_paused, least=5),
    "breaker open": Situation(take, ("breaker open",), least=7),
    "breaker open, waiting": Situation(tried(0, another_copy), ("breaker open",), least=3),
    "breaker open, due": Situation(tried(60, another_copy), ("breaker open", "breaker open"), least=7),
    "scheduler after an open breaker": Situation(tried(60, schedule), ("breaker open",), least=3),
    "another copy in its send": Situation(take_beside_another),
    "waiting": Situation(tried(0, another_copy), ("temporary",), least=3),
    "waiting, due": Situation(tried(HOUR, another_copy), ("temporary",), least=6),
    "unknown, waiting": Situation(tried(0, another_copy), ("reply lost",), least=3),
    "unknown, accepted": Situation(tried(HOUR, another_copy), ("reply lost",), least=5),
    "unknown, not accepted": Situation(tried(HOUR, another_copy), ("request lost",), least=10),
    "unknown, cannot tell": Situation(
        tried(HOUR, another_copy), ("reply lost",), {"lookups": ("cannot tell",)}, least=5
    ),
    "unknown, lookup down": Situation(tried(HOUR, another_copy), ("reply lost",), {"lookups": ("down",)}, least=5),
    "lost before the send": Situation(died(2, take), least=6),
    "lost in the send": Situation(died(5, take), least=6),
    "settled, its letter missing": Situation(died(6, take), ("refused",), end=K.HELD_FOR_REVIEW, least=3),
    "settled": Situation(tried(0, another_copy), least=1),
    "poison": Situation(died(9, take, times=3), (), {"kills": True}, K.DEAD_LETTERED, least=3),
    "scheduler": Situation(tried(HOUR, schedule), ("temporary",), least=3),
    "scheduler, queue down": Situation(tried(HOUR, schedule_refused), ("temporary",), least=3),
    "reconciler, accepted": Situation(tried(HOUR, reconcile), ("reply lost",), least=6),
    "reconciler, not accepted": Situation(tried(HOUR, reconcile), ("request lost",), least=6),
    "reconciler, cannot tell": Situation(
        tried(HOUR, reconcile), ("reply lost",), {"lookups": ("cannot tell",)}, least=6
    ),
    "reconciler, gives up": Situation(
        tried(WEEK, reconcile), ("request lost",), {"lookup": False}, K.HELD_FOR_REVIEW, least=4
    ),
    "reconciler, lost in the send": Situation(died(5, reconcile), least=6),
}
"""What the message looks like when a process comes to it."""


@pytest.mark.parametrize("fault", [Crew.lose, Crew.stop], ids=["dies", "is stopped"])
@pytest.mark.parametrize("name", SITUATIONS)
def test_process_ends_before_any_step_message_ends_in_one_place(
    world: WorldMaker, name: str, fault: Callable[[Crew, Process], None]
) -> None:
    """Whatever it had begun, the others bring the message to the same end."""
    situation = SITUATIONS[name]
    for steps in range(LONGEST):
        here = world(*situation.script, **situation.options)
        crew = Crew(here.fleet)
        process = situation.begin(here, crew)
        for _ in range(steps):
            if process in crew.processes:
                crew.step(process)
        is_cut_short = process in crew.processes
        if is_cut_short:
            fault(crew, process)
        while crew.processes:
            crew.step(crew.processes[0])
        here.backend.circuits.resume("campaign:spring")
        here.settle()
        assert here.check() is situation.end
        if not is_cut_short:
            assert steps >= situation.least
            return
    raise AssertionError("the flow has no end")


@pytest.mark.parametrize("name", ["temporary", "refused content", "reply lost", "request lost"])
def test_one_process_of_each_kind_dies_message_ends_in_one_place(name: str) -> None:
    """A worker dies before any step, then a reconciler before any of its own, then a scheduler, then another worker."""
    script, ends = SCRIPTS[name]
    for worker, reconciler, scheduler, second in product(range(2, 9), range(1, 8), range(3), range(1, 9, 3)):
        clock = ManualClock()
        here = World(Fleet(Stage(MemoryBackend(clock=clock), clock)), script)
        here.crash(worker)
        clock.advance(LEASE)
        here.fleet.begin(here.fleet.reconciling(), reconciler)
        clock.advance(LEASE)
        here.fleet.begin(here.fleet.scheduling(), scheduler)
        if here.queue:
            here.crash(second)
        here.settle()
        assert here.check() in ends
