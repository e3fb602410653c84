"""Those who do a worker's work: threads, or tasks of an event loop.

A crew is told what to handle, and tells what has ended. It never waits for one that hangs: a thread cannot be stopped, so it is left
behind and another one takes its place; a task is cancelled first.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

from ..clock import Clock
from ..open_claims import follower_here
from .report import Entry
from .scopes import Loop, Scope, new_scope, running_loop
from .source import Delivery

__all__ = ["HandlerCancelled", "Job", "TaskCrew", "ThreadCrew"]


_GRACE: Final = 1.0
"""Seconds for which a handler may run on at least while its message cannot be failed."""
_SILENCE: Final = 10.0
"""Seconds after which nobody is trusted to look after claims any more: a store hangs, and handlers with it."""


class HandlerCancelled(Exception):  # noqa: N818 - no error: nobody raises it
    """Stands for what a handler raised that was cancelled."""


class Job:
    """One delivery, from when a worker has received it until it is settled."""

    __slots__ = ("began", "cancelled", "delivery", "entry", "error", "has_ended", "is_left_behind", "scope")

    def __init__(self, delivery: Delivery, entry: Entry) -> None:
        self.delivery = delivery
        self.entry = entry
        """Where it is counted."""
        self.began: float | None = None
        """When its handler began, in the clock's monotonic seconds."""
        self.error: BaseException | None = None
        """What its handler raised."""
        self.has_ended = False
        """Whether its handler has ended."""
        self.cancelled: float | None = None
        """When its handler was told to end, in the clock's monotonic seconds."""
        self.is_left_behind = False
        """Whether its handler is not waited for any more."""
        self.scope: Scope | None = None

    def is_late(self, now: float, kept: float, limit: float) -> bool:
        """Tell whether its handler has run for longer than `limit` seconds, and its message has failed by that.

        A message that nobody could fail, since a store is down, has as long again: what is left to its handler would not be counted.
        The time until `kept` counts, when claims were last looked after: where a process was held up, that comes first.
        """
        if self.began is None:
            return False
        if self.entry.opened is None:
            return now - self.began > limit
        seen = kept if now - kept < _SILENCE else now
        return seen - self.began > limit + max(limit, _GRACE)


class ThreadCrew:
    """Threads that handle deliveries.

    Args:
        handle: handles one.
        size: how many at once.
        clock: by which they are timed.
    """

    def __init__(self, handle: Callable[[Delivery], object], size: int, clock: Clock) -> None:
        self._handle: Final = handle
        self._size: Final = size
        self._clock: Final = clock
        self._waiting: Final = SimpleQueue[Job | None]()
        self._ended: Final = SimpleQueue[Job]()
        self._lock: Final = threading.Lock()
        self._running: Final = dict[Job, threading.Thread]()
        self._threads: Final = set[threading.Thread]()
        self._started = 0

    def open(self) -> None:
        """Start the threads."""
        for _ in range(self._size):
            self._start()

    def _start(self) -> None:
        self._started += 1
        run = partial(contextvars.copy_context().run, self._run)
        # A daemon, since one that hangs must not keep the process; all others are joined.
        thread = threading.Thread(target=run, name=f"retrykit worker {self._started}", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _run(self) -> None:
        while (job := self._waiting.get()) is not None:
            with self._lock:
                job.began = self._clock.monotonic()
                self._running[job] = threading.current_thread()
            follower_here.set(job.entry)
            try:
                self._handle(job.delivery)
            except BaseException as error:  # noqa: BLE001 - the worker decides what it means
                job.error = error
            with self._lock:
                if job.is_left_behind:  # another thread has this one's place
                    return
                del self._running[job]
                job.has_ended = True
            self._ended.put(job)

    def begin(self, job: Job) -> None:
        """Handle a job as soon as somebody is free."""
        self._waiting.put(job)

    def ended(self, wait: float) -> list[Job]:
        """Return the jobs that have ended since the last time; wait up to so many seconds for one."""
        ended = list[Job]()
        try:
            ended.append(self._ended.get(timeout=wait) if wait > 0 else self._ended.get_nowait())
            while True:
                ended.append(self._ended.get_nowait())
        except Empty:
            return ended

    def take_back(self) -> list[Job]:
        """Return the jobs that nobody has begun; they are not begun any more."""
        taken = list[Job]()
        try:
            while True:
                job = self._waiting.get_nowait()
                if job is not None:
                    taken.append(job)
        except Empty:
            return taken

    def leave_behind(self, limit: float, kept: float) -> list[Job]:
        """Return the jobs that have run for longer than `limit` seconds, as `Job.is_late` has it, and wait for them no more."""
        now = self._clock.monotonic()
        with self._lock:
            late = [job for job in self._running if job.is_late(now, kept, limit)]
            for job in late:
                job.is_left_behind = True
                self._threads.discard(self._running.pop(job))
        return late

    def refill(self, count: int) -> None:
        """Let others take the places of so many that were left behind."""
        for _ in range(count):
            self._start()

    def close(self, wait: float) -> None:
        """Let the threads end; who is at work for longer than `wait` seconds is left alone."""
        self.take_back()
        for _ in self._threads:
            self._waiting.put(None)
        ends = time.monotonic() + wait
        for thread in tuple(self._threads):
            thread.join(max(0.0, ends - time.monotonic()))


class TaskCrew:
    """Tasks that handle deliveries, under asyncio or trio; made in the loop.

    Args:
        handle: handles one.
        size: how many at once.
        clock: by which they are timed.
    """

    def __init__(self, handle: Callable[[Delivery], Awaitable[object]], size: int, clock: Clock) -> None:
        self._handle: Final = handle
        self._size: Final = size
        self._clock: Final = clock
        self._loop: Final[Loop] = running_loop()
        self._waiting: Final = deque[Job]()
        self._ended: Final = list[Job]()
        self._running: Final = set[Job]()
        self._left_behind: Final = set[Job]()
        self._sleeper: Scope | None = None

    def begin(self, job: Job) -> None:
        """Handle a job as soon as there is room."""
        self._waiting.append(job)
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._size:
            job = self._waiting.popleft()
            job.began, job.scope = self._clock.monotonic(), new_scope()
            self._running.add(job)
            self._loop.spawn(partial(self._run, job, job.scope))

    async def _run(self, job: Job, scope: Scope) -> None:
        follower_here.set(job.entry)
        is_through = False
        try:
            with scope:
                await self._handle(job.delivery)
                is_through = True
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - the worker decides what it means
            job.error = error
        finally:  # also where something else than its scope has cancelled it
            if not is_through and job.error is None:
                job.error = HandlerCancelled()
            if job.is_left_behind:
                self._left_behind.discard(job)
            else:
                job.has_ended = True
                self._running.discard(job)
                self._ended.append(job)
                self._fill()
                self.wake()

    def wake(self) -> None:
        """End the wait of `ended`."""
        if self._sleeper is not None:
            self._sleeper.cancel()

    async def ended(self, wait: float) -> list[Job]:
        """Return the jobs that have ended since the last time; wait up to so many seconds for one."""
        if wait > 0 and not self._ended:
            with new_scope() as self._sleeper:
                await self._clock.sleep_async(wait)
            self._sleeper = None
        ended = self._ended[:]
        self._ended.clear()
        return ended

    def take_back(self) -> list[Job]:
        """Return the jobs that nobody has begun; they are not begun any more."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def leave_behind(self, limit: float, kept: float) -> list[Job]:
        """Cancel the jobs that have run for longer than `limit` seconds, as `Job.is_late` has it; return those that have not ended as long after that."""
        now = self._clock.monotonic()
        for job in self._running:
            if job.cancelled is None and job.is_late(now, kept, limit):
                assert job.scope is not None, "it has begun"
                job.cancelled = now
                job.scope.cancel()
        hanging = [job for job in self._running if job.cancelled is not None and job.cancelled < now - limit]
        for job in hanging:
            job.is_left_behind = True
            self._running.discard(job)
            self._left_behind.add(job)
        return hanging

    def have_ended(self) -> bool:
        """Tell whether all tasks have: one that takes no cancellation keeps its loop from being closed."""
        return not self._running and not self._left_behind

    def refill(self, _count: int) -> None:
        """Let others take the places of those that were left behind."""
        self._fill()

    def close(self) -> None:
        """Cancel what is at work."""
        for job in tuple(self._running):
            assert job.scope is not None, "it has begun"
            job.scope.cancel()
