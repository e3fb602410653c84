"""A schedule: many processes on many messages, in an order and with faults that a random generator draws."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from retrykit.backends import MemoryBackend
from retrykit.testing import ManualClock
from retrykit.testing.harness import Drive
from tests.flows.crew import Crew
from tests.flows.fleet import LEASE, Fleet, Stage, on_stage
from tests.flows.world import REPLIES, World

OUTCOMES = ["reply lost", "request lost", "refused connection", "bug", *REPLIES]

MOST = 8
"""Processes that run at the same time."""


class Schedule:
    """Plays actions on a fleet, then lets everything run on without faults.

    Args:
        fleet: with its worlds.
        rng: draws everything.
        redrives: whether operators put dead letters back.
    """

    def __init__(self, fleet: Fleet, rng: Random, *, redrives: bool = False) -> None:
        self.fleet = fleet
        self.rng = rng
        self.crew = Crew(fleet)
        self.worlds = list(fleet.worlds.values())
        self.doubles = 3 * len(self.worlds)
        """How many copies the application's queue may still repeat."""
        self.actions: dict[Callable[[], None], int] = {
            self.take: 30,
            self.step: 40,
            self.die: 6,
            self.stop: 2,
            self.double: 10,
            self.schedule: 8,
            self.reconcile: 5,
            self.refuse: 1,
            self.wait: 12,
            self.lapse: 4,
            self.jump: 2,
            self.pause: 1,
            self.resume: 3,
        }
        if redrives:
            self.actions |= {self.put_back: 8, self.redrive: 20}

    def play(self, actions: int) -> None:
        """Make so many actions, end every process, let the rest run on, and check every message."""
        weights = [weight * self.rng.choice([0, 1, 1, 4]) for weight in self.actions.values()]
        weights[:2] = self.actions[self.take], self.actions[self.step]
        for action in self.rng.choices(list(self.actions), weights, k=actions):
            action()
        while self.crew.processes:
            self.rng.choice([self.step, self.step, self.step, self.die])()
        self.resume()
        self.fleet.refusals = 0
        self.fleet.settle()
        for world in self.worlds:
            world.check()

    def take(self) -> None:
        """A worker takes any copy."""
        waiting = [world for world in self.worlds if world.queue]
        if waiting and len(self.crew.processes) < MOST:
            self.crew.take(self.rng.choice(waiting))

    def schedule(self) -> None:
        """A scheduler begins a batch."""
        if len(self.crew.processes) < MOST:
            self.crew.schedule()

    def reconcile(self) -> None:
        """A reconciler begins a run."""
        if len(self.crew.processes) < MOST:
            self.crew.reconcile()

    def put_back(self) -> None:
        """An operator has what died put back."""
        self.fleet.start_redrive(self.rng.choice([0, 1, 3]))

    def redrive(self) -> None:
        """A runner begins a step on."""
        if len(self.crew.processes) < MOST:
            self.crew.redrive()

    def step(self) -> None:
        """A process makes a step, or many while the others stand still."""
        if self.crew.processes:
            process = self.rng.choice(self.crew.processes)
            for _ in range(self.rng.choice([1, 1, 2, 5, 20])):
                if process in self.crew.processes:
                    self.crew.step(process)

    def die(self) -> None:
        """A process dies."""
        if self.crew.processes:
            self.crew.lose(self.rng.choice(self.crew.processes))

    def stop(self) -> None:
        """A worker is told to stop."""
        if self.crew.workers:
            self.crew.stop(self.rng.choice(self.crew.workers))

    def double(self) -> None:
        """The application's queue delivers a copy once more: one that a worker has, or one of long ago."""
        if self.doubles:
            self.doubles -= 1
            taken = [process.world for process in self.crew.workers if process.world is not None]
            world = self.rng.choice(self.rng.choice([taken or self.worlds, self.worlds]))
            world.queue.append(world.message)

    def refuse(self) -> None:
        """The application's queue is down for some publishes."""
        self.fleet.refusals = self.rng.randrange(4)

    def wait(self) -> None:
        """A little time passes."""
        self.crew.pass_time(self.rng.uniform(0.01, 20.0))

    def lapse(self) -> None:
        """Time passes until every lease has ended."""
        self.crew.pass_time(LEASE)

    def jump(self) -> None:
        """Much time passes."""
        self.crew.pass_time(self.rng.choice([900.0, 3600.0, 6 * 3600.0, 86400.0]))

    def pause(self) -> None:
        """An operator pauses the campaign."""
        self.fleet.backend.circuits.pause("campaign:spring", reason="wrong prices", by="ada")

    def resume(self) -> None:
        """An operator lets it go on."""
        self.fleet.backend.circuits.resume("campaign:spring")


def play(stage: Stage, seed: int, *, redrives: bool = False) -> Fleet:
    """Play the schedule of a seed on up to twenty messages; an assertion that fails names the seed."""
    rng = Random(seed)
    outcomes = OUTCOMES + (["refused", "bug"] * len(OUTCOMES) if redrives else [])  # many have to die
    fleet = Fleet(stage, rng=rng, batch=rng.choice([1, 3, 100]))
    for number in range(rng.choice([1, 2, 3, 5, 10, 20])):
        World(
            fleet,
            rng.choices(outcomes, k=rng.choice([0, 0, 1, 1, 2, 4, 9])),
            kills=rng.random() < 0.05,
            lookups=rng.choices(["cannot tell", "down", "truth"], k=rng.choice([0, 0, 1, 3])),
            key=f"{seed}-{number}",
        )
    try:
        Schedule(fleet, rng, redrives=redrives).play(rng.randint(20, 60) + 15 * len(fleet.worlds))
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, {len(fleet.worlds)} messages: {error}") from error
    return fleet


def play_in_memory(seed: int, drive: Drive | None = None, *, redrives: bool = False) -> Fleet:
    """Play the schedule of a seed on a memory backend of its own."""
    clock = ManualClock()
    with on_stage(MemoryBackend(clock=clock), clock, drive) as stage:
        return play(stage, seed, redrives=redrives)
