"""Processes that run at the same time on a fleet: each stands before a step, and makes it, dies or is told to stop."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from retrykit.message import Message
from retrykit.testing import Paused
from tests.flows.fleet import LEASE, Fleet
from tests.flows.world import WorkerKilledError, World


class ShutdownError(BaseException):
    """A worker is told to stop."""


class Process:
    """A worker with its copy of a message, a scheduler or a reconciler."""

    def __init__(self, flow: Paused[Any], world: World | None = None, copy: Message | None = None) -> None:
        self.flow = flow
        self.world = world
        self.copy = copy
        self.held_at: datetime | None = None
        """When it last took hold of its message; None as well once its loss was counted."""

    def is_over(self, now: datetime) -> bool:
        """Tell whether the lease of what it holds has ended."""
        return self.held_at is not None and self.held_at + timedelta(seconds=LEASE) <= now

    def is_lost(self) -> None:
        """Count the crash that others will see."""
        if self.world is not None and self.held_at is not None:
            self.world.crashes += 1
            self.held_at = None


class Crew:
    """The processes on a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.processes: list[Process] = []

    @property
    def workers(self) -> list[Process]:
        """Those that have a copy of a message."""
        return [process for process in self.processes if process.world is not None]

    def take(self, world: World) -> Process:
        """Let a worker take the first copy of a world."""
        copy = world.queue.pop(0)
        return self._join(Process(self.fleet.begin(world.handling(copy)), world, copy))

    def schedule(self) -> Process:
        """Let a scheduler begin a batch."""
        return self._join(Process(self.fleet.begin(self.fleet.scheduling())))

    def reconcile(self) -> Process:
        """Let a reconciler begin a run."""
        return self._join(Process(self.fleet.begin(self.fleet.reconciling())))

    def redrive(self) -> Process:
        """Let a runner of redrives begin a step on."""
        return self._join(Process(self.fleet.begin(self.fleet.redriving())))

    def _join(self, process: Process) -> Process:
        self.processes.append(process)
        return process

    def step(self, process: Process) -> None:
        """Let a process make one step."""
        assert process.flow.step is not None
        if getattr(process.flow.step.fn, "__name__", "") in ("claim", "begin_send"):
            process.held_at = self.fleet.clock.now()
        try:
            process.flow.make_step()
        except (WorkerKilledError, ShutdownError) as end:
            if isinstance(end, ShutdownError):
                process.held_at = None  # its last step was to give the message back
            self.lose(process)
            return
        if process.flow.done:
            self.processes.remove(process)
            if process.world is not None:
                process.world.end(process.flow)

    def stop(self, process: Process) -> None:
        """Tell a worker to stop; it may give back what it holds before it is gone, but not when it is asynchronous."""
        if self.fleet.drive is not None:
            self.lose(process)
            return
        try:
            process.flow.interrupt(ShutdownError())
        except ShutdownError:
            self.lose(process)

    def lose(self, process: Process) -> None:
        """End a process that will not go on; the copy it had is delivered again."""
        process.is_lost()
        self.processes.remove(process)
        if process.world is not None and process.copy is not None:
            process.world.queue.append(process.copy)

    def finish(self) -> None:
        """Let all go on to their ends, one after the other."""
        while self.processes:
            self.step(self.processes[0])

    def pass_time(self, seconds: float) -> None:
        """Move the clock; a send that would outlive its lease is cut off with its worker."""
        self.fleet.clock.advance(seconds)
        now = self.fleet.clock.now()
        for process in [process for process in self.processes if process.is_over(now)]:
            if self.fleet.is_sending(process.flow):
                self.lose(process)
            else:
                process.is_lost()
