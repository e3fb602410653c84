"""Several messages that share a backend, a clock, a scheduler and a reconciler, in either colour."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from retrykit import (
    EMAIL_MATRIX,
    AsyncDispatcher,
    AsyncRetryScheduler,
    Dispatcher,
    Message,
    PolicyMatrix,
    RetryScheduler,
)
from retrykit._steps import Steps
from retrykit.dead_letter_queue import DeadLetterQueue
from retrykit.delivery import NotAccepted, Sent
from retrykit.errors import RedriveConflictError
from retrykit.machines.redrive import RedriveState
from retrykit.policy import Rng
from retrykit.reconcile import AsyncReconciler, Reconciler, ReconcileReport
from retrykit.redrive import AsyncRedriver, Redriver
from retrykit.stores import AsyncBackend, Backend, as_async
from retrykit.testing import ManualClock, Paused, run_until
from retrykit.testing.harness import Drive

if TYPE_CHECKING:
    from tests.flows.world import World

LEASE = 120.0

T = TypeVar("T")


@attrs.frozen
class Stage:
    """A backend in one colour.

    `twin` and `drive` are its asynchronous form and what runs that to an end; None where the flows are synchronous.
    """

    backend: Backend
    clock: ManualClock
    twin: AsyncBackend | None = None
    drive: Drive | None = None

    @property
    def is_slow(self) -> bool:
        """Whether every step changes threads."""
        return self.backend.blocks and self.twin is not None


@contextmanager
def on_stage(backend: Backend, clock: ManualClock, drive: Drive | None) -> Iterator[Stage]:
    """Give the backend in the colour of `drive`, and close it at the end."""
    if drive is None:
        yield Stage(backend, clock)
        backend.close()
        return
    twin = as_async(backend)
    yield Stage(backend, clock, twin, drive)
    drive(twin.aclose())


class Fleet:
    """The processes around some messages, and the provider, which keeps every acceptance.

    Args:
        stage: the backend and the colour.
        matrix: the policy.
        lookup: whether the provider can be asked.
        rng: the jitter of the waits; None: none.
        batch: how many messages a scheduler takes at once.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        matrix: PolicyMatrix = EMAIL_MATRIX,
        lookup: bool = True,
        rng: Rng | None = None,
        batch: int = 100,
    ) -> None:
        self.backend, self.clock, self.drive = stage.backend, stage.clock, stage.drive
        self.worlds: dict[str, World] = {}
        self.acceptances: list[tuple[str, datetime]] = []
        self._runners = count(1)
        self.refusals = 0
        """How many publishes the application's queue refuses from now on."""
        options: dict[str, Any] = {"matrix": matrix, "lease": LEASE, "clock": stage.clock}
        timing: dict[str, Any] = {"lease": LEASE, "clock": stage.clock}
        self.dispatcher: Dispatcher[None] | AsyncDispatcher[None]
        self.scheduler: RetryScheduler | AsyncRetryScheduler
        self.reconciler: Reconciler | AsyncReconciler
        self.redriver: Redriver | AsyncRedriver
        self.bench = DeadLetterQueue(stage.backend, clock=stage.clock)
        if stage.twin is None:
            asked = self.lookup if lookup else None
            self.dispatcher = Dispatcher(
                self.send, backend=stage.backend, parse=self.parse, lookup=asked, rng=rng, **options
            )
            self.scheduler = RetryScheduler(stage.backend, self.publish, batch=batch, **timing)
            self.reconciler = Reconciler(stage.backend, lookup=asked, **options)
            self.redriver = Redriver(stage.backend, **timing)
        else:
            awaited = self.lookup_later if lookup else None
            self.dispatcher = AsyncDispatcher(
                self.send_later, backend=stage.twin, parse=self.parse, lookup=awaited, rng=rng, **options
            )
            self.scheduler = AsyncRetryScheduler(stage.twin, self.publish_later, batch=batch, **timing)
            self.reconciler = AsyncReconciler(stage.twin, lookup=awaited, **options)
            self.redriver = AsyncRedriver(stage.twin, **timing)

    def parse(self, message: Message) -> Message:
        """Parse, as the message's world says."""
        return self.worlds[message.id].parse(message)

    def send(self, message: Message, key: str) -> str:
        """Send, as the message's world says."""
        return self.worlds[key].send()

    async def send_later(self, message: Message, key: str) -> str:
        """Send, for the asynchronous dispatcher."""
        return self.send(message, key)

    def lookup(self, key: str) -> Sent | NotAccepted | None:
        """Tell whether the provider accepted a message."""
        return self.worlds[key].lookup()

    async def lookup_later(self, key: str) -> Sent | NotAccepted | None:
        """Tell whether the provider accepted a message, for the asynchronous flows."""
        return self.lookup(key)

    def publish(self, message: Message) -> None:
        """Put a copy into the queue of its world."""
        if self.refusals:
            self.refusals -= 1
            raise ConnectionRefusedError("the queue is down")
        self.worlds[message.id].queue.append(message)

    async def publish_later(self, message: Message) -> None:
        """Put a copy into the queue of its world, for the asynchronous scheduler."""
        self.publish(message)

    def begin(self, flow: Steps[T], steps: int = 0) -> Paused[T]:
        """Make the first steps of a flow and leave it standing."""
        return run_until(flow, steps, drive=self.drive)

    def scheduling(self) -> Steps[int]:
        """Return the flow of one batch of the scheduler."""
        return self.scheduler._run_once()

    def reconciling(self) -> Steps[ReconcileReport]:
        """Return the flow of one run of the reconciler."""
        return self.reconciler._run_once(100)

    def redriving(self) -> Steps[int]:
        """Return the flow of one step on with every redrive, by a runner of its own."""
        runner = copy.copy(self.redriver)
        runner._owner = f"runner {next(self._runners)}"
        return runner._run_once()

    def start_redrive(self, canary: int) -> None:
        """An operator has everything put back that waits, unless another redrive is active."""
        plan = self.bench.plan(everything=True)
        with suppress(RedriveConflictError):
            if plan.count:
                self.bench.redrive(plan, root_cause="repaired", by="ada", canary=canary)

    def is_sending(self, worker: Paused[Any]) -> bool:
        """Tell whether a worker is inside its send: it has to end before its lease does."""
        return worker.step is not None and worker.step.fn in (self.send, self.send_later)

    def settle(self) -> None:
        """Let everything run on without faults until nothing is left to do."""
        for _ in range(80 * len(self.worlds)):
            for world in self.worlds.values():
                world.empty_queue()
            if self.begin(self.reconciling()).finish() != ReconcileReport():
                for world in self.worlds.values():
                    world.look_at_log()
            if self.begin(self.scheduling()).finish():
                continue
            running = [job for job in self.backend.redrives.jobs(active=True) if job.state is RedriveState.RUNNING]
            if running:
                self.begin(self.redriving()).finish()
                if (
                    self.backend.redrives.get(running[0].id) == running[0]
                    or not self.backend.retries.stats().next_due_at
                ):
                    self.clock.advance(LEASE)
                    continue
            next_due = self.backend.retries.stats().next_due_at
            if next_due is None:
                return
            self.clock.move_to(max(next_due, self.clock.now()))
        raise AssertionError("it goes round for ever")
