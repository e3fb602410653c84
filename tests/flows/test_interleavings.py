"""Two processes at the same time: every order of their steps, with a death or a lapse anywhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from retrykit.backends import MemoryBackend
from retrykit.decision import DispositionKind
from retrykit.testing import ManualClock
from tests.flows.choices import Choose, every_choice
from tests.flows.crew import Crew, Process
from tests.flows.fleet import LEASE, Fleet, Stage
from tests.flows.test_crashes import SCRIPTS, every_script
from tests.flows.world import World

pytestmark = pytest.mark.unmeasured

MAIN = ["accepted", "temporary", "refused content", "reply lost", "request lost"]
MAIN_PAIRS = [("accepted", "reply lost"), ("temporary", "request lost"), ("reply lost", "request lost")]


def fleet() -> Fleet:
    """Return a fleet on a memory backend of its own."""
    clock = ManualClock()
    return Fleet(Stage(MemoryBackend(clock=clock), clock))


def weave(crew: Crew, choose: Choose, *, deaths: int = 0, lapses: int = 0, switches: int | None = None) -> None:
    """Let the processes of a crew run to their ends in an order that is chosen step by step.

    Args:
        crew: with its processes.
        choose: takes one of the moves that are possible.
        deaths: how many of the processes may die.
        lapses: how often time may pass until every lease has ended.
        switches: how often a process may be left standing while another makes a step; None: always.
    """
    last: Process | None = None
    while crew.processes:
        stays = switches == 0 and last in crew.processes
        movable = [last] if stays else crew.processes
        moves: list[Any] = [partial(crew.step, process) for process in movable]
        if deaths:
            moves += [partial(crew.lose, process) for process in movable]
        if lapses:
            moves.append(partial(crew.pass_time, LEASE))
        move = choose(moves)
        deaths -= move.func == crew.lose
        lapses -= move.func == crew.pass_time
        if move.func == crew.step:
            if switches is not None and last in crew.processes and move.args[0] is not last:
                switches -= 1
            last = move.args[0]
        move()


def two_copies(script: tuple[str, ...], ends: set[DispositionKind], **faults: int | None) -> int:
    """Let two workers handle two copies of one message in every order, and return how many there were."""

    def play(choose: Choose) -> None:
        here = World(fleet(), script)
        here.queue.append(here.message)
        crew = Crew(here.fleet)
        crew.take(here)
        crew.take(here)
        weave(crew, choose, **faults)  # type: ignore[arg-type]
        here.settle()
        assert here.check() in ends

    return every_choice(play)


@every_script
def test_two_copies_in_every_order_message_ends_in_one_place(
    script: tuple[str, ...], ends: set[DispositionKind]
) -> None:
    """Two workers have a copy each, and their steps come in every order."""
    assert two_copies(script, ends) > 150


@pytest.mark.soak
@every_script
def test_two_copies_and_a_lapse_in_every_order_message_ends_in_one_place(
    script: tuple[str, ...], ends: set[DispositionKind], soaking: bool
) -> None:
    """The leases end at any one moment, and whoever stood still goes on; one switch at most but in a soak."""
    assert two_copies(script, ends, lapses=1, switches=None if soaking else 1) > 100


@pytest.mark.soak
@pytest.mark.parametrize("name", MAIN)
def test_two_copies_and_a_death_in_every_order_message_ends_in_one_place(name: str, soaking: bool) -> None:
    """One of the workers dies before any of its steps, wherever the other stands; two switches at most but in a soak."""
    assert two_copies(*SCRIPTS[name], deaths=1, switches=None if soaking else 2) > 100


@pytest.mark.soak
@pytest.mark.parametrize("name", MAIN)
def test_two_copies_a_death_and_a_lapse_in_every_order_message_ends_in_one_place(name: str, soaking: bool) -> None:
    """A worker dies and the leases end, in either order; the workers come one after the other but in a soak."""
    assert two_copies(*SCRIPTS[name], deaths=1, lapses=1, switches=3 if soaking else 0) > 100


def two_messages(names: tuple[str, str], begin: Callable[[Crew, World, World], None], **faults: int | None) -> int:
    """Try two messages of one fleet, let processes go on in every order, and return how many there were.

    Args:
        names: what the provider does with each.
        begin: called an hour after the first try of both, to start the processes.
        faults: what may happen to them.
    """

    def play(choose: Choose) -> None:
        shared = fleet()
        worlds = [World(shared, SCRIPTS[name][0]) for name in names]
        for here in worlds:
            here.end(here.begin())
        shared.clock.advance("1h")
        crew = Crew(shared)
        begin(crew, *worlds)
        weave(crew, choose, **faults)  # type: ignore[arg-type]
        shared.settle()
        for name, here in zip(names, worlds, strict=True):
            assert here.check() in SCRIPTS[name][1]

    return every_choice(play)


def scheduler_and_reconciler(crew: Crew, first: World, second: World) -> None:
    """Start a scheduler whose batch holds both messages, and a reconciler that finds both."""
    del first, second
    crew.schedule()
    crew.reconcile()


def worker_and_reconciler(crew: Crew, first: World, second: World) -> None:
    """Start a worker with a copy of the first message, and a reconciler that finds both."""
    del second
    first.queue.append(first.message)
    crew.take(first)
    crew.reconcile()


def two_schedulers(crew: Crew, first: World, second: World) -> None:
    """Start two schedulers that want the same batch."""
    del first, second
    crew.schedule()
    crew.schedule()


def two_reconcilers(crew: Crew, first: World, second: World) -> None:
    """Start two reconcilers that find the same messages."""
    del first, second
    crew.reconcile()
    crew.reconcile()


PROCESSES = [scheduler_and_reconciler, worker_and_reconciler, two_schedulers, two_reconcilers]
every_pair = pytest.mark.parametrize("names", MAIN_PAIRS, ids="/".join)
all_processes = pytest.mark.parametrize("begin", PROCESSES, ids=[function.__name__ for function in PROCESSES])


@pytest.mark.soak
@every_pair
@all_processes
def test_two_messages_in_every_order_each_ends_in_one_place(
    names: tuple[str, str], begin: Callable[[Crew, World, World], None], soaking: bool
) -> None:
    """Two processes that hold two messages are woven into each other; three switches at most, eight in a soak."""
    assert two_messages(names, begin, switches=8 if soaking else 3) >= 4


@pytest.mark.soak
@every_pair
@all_processes
def test_two_messages_and_a_death_in_every_order_each_ends_in_one_place(
    names: tuple[str, str], begin: Callable[[Crew, World, World], None], soaking: bool
) -> None:
    """One of them dies anywhere, and in a soak the leases end anywhere; one switch at most, two in a soak."""
    faults = {"lapses": 1, "switches": 2} if soaking else {"switches": 1}
    assert two_messages(names, begin, deaths=1, **faults) >= 10
