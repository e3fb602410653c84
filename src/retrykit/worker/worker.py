"""A worker: takes messages from a source, has them handled by a dispatcher, many at once, and stops without losing any.

- **It holds no more than it was told to.** What it has received and not settled is bounded; while a store or the source is down it
  receives nothing, and asks again after growing, jittered waits.
- **A copy is acked after its message was handled**, and goes back where nothing was decided. What no worker will ever be able to take in is
  put aside by the source.
- **Leases are renewed while handlers run**, also while the process drains, and no longer than the time limit of a message allows.
- **A handler that hangs costs one place, not the worker.** Its message has failed; a task is cancelled, a thread is left behind and
  another one takes its place. When too many hang the worker gives back what it can and raises, so that the process ends and is replaced.
- **When the process is told to stop**, what nobody has begun goes back to the source, and the rest is as in `GracefulShutdown`.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Unpack, cast

from .._steps import Steps, arun, do, is_async, run
from ..clock import current_clock
from ..dispatch import AsyncDispatcher, Dispatcher
from ..errors import (
    ConfigurationError,
    FingerprintMismatchError,
    InvalidMessageError,
    ProcessStoppingError,
    WorkerStuckError,
)
from ..times import plain
from .crews import Job, TaskCrew, ThreadCrew
from .health import Health
from .isolation import AsyncIsolation, Isolation
from .options import WorkerOptions, checked
from .report import ShutdownReport
from .scopes import new_scope, running_loop
from .shutdown import GracefulShutdown
from .source import AsyncSource, Delivery, Source
from .trouble import Trouble

__all__ = ["AsyncWorker", "Worker"]

_GLANCE: Final = 0.1
"""Seconds for which the worker waits at most for one thing while it has others to look after."""
_KEEPS: Final = 6
"""How often claims are looked after in each lease."""
_METHODS: Final = "receive ack nack reject"

_log: Final = logging.getLogger("retrykit.worker")


class _WorkerFlow:
    """The one logic of both colours."""

    def __init__(self, source: Any, dispatcher: Any, options: WorkerOptions) -> None:
        given = checked(options)
        self._options: Final = given
        for name in _METHODS.split():
            if not callable(getattr(source, name, None)):
                raise ConfigurationError(f"the source is {source!r}, which has no {name}; see retrykit.worker.Source")
        self._source: Final = source
        self._extend: Final[Callable[[Delivery], object] | None] = getattr(source, "extend", None)
        self._dispatcher: Final = dispatcher
        self._lease: Final[float] = dispatcher.lease
        self._limit: Final = given.time_limit or self._lease
        self._room: Final = given.concurrency + given.prefetch
        self._spare: Final = given.spare
        self._clock: Final = given.clock or current_clock()
        self._stop: Final = given.shutdown or GracefulShutdown(clock=given.clock)
        self._stop.cover(dispatcher)
        self.health: Final = given.health or Health(clock=given.clock)
        """What is told of this worker."""
        self._trouble: Final = Trouble("source", given, self.health)
        self._refusal: Final = Trouble("store", given, self.health)
        self._held: Final = dict[Delivery, Job]()
        self._crew: ThreadCrew | TaskCrew | None = None
        self._extended = self._clock.monotonic()
        self._hanging = 0
        self._crash: BaseException | None = None

    def stop(self, *, at_once: bool = False) -> None:
        """Ask the worker to stop, as a signal does; safe from every thread and from signal handlers.

        Args:
            at_once: whether what runs is given back now, as for a second signal.

        Raises:
            ConfigurationError: it does not run yet.
        """
        self._stop.request(at_once=at_once)

    @property
    def report(self) -> ShutdownReport:
        """What was taken, finished and given back so far."""
        return self._stop.report

    @property
    def _period(self) -> float:
        return min(1.0, self._lease / _KEEPS, self._limit / _KEEPS)

    def _work(self) -> Steps[None]:
        """Receive and settle until the process is to stop; then settle until nothing is left, or the drain is over."""
        self.health.ready("worker")
        while not self._stop.requested:
            self.health.beat("source")
            yield from self._look_after()
            room = self._room - len(self._held)
            pause = max(self._trouble.left, self._refusal.left)
            if room <= 0 or pause:
                yield from self._settle_ended(min(_GLANCE, pause or _GLANCE))
                continue
            yield from self._receive(room)
            yield from self._settle_ended(0.0)
        self.health.unready("worker", "it is about to stop")
        assert self._crew is not None, "it runs"
        for job in self._crew.take_back():
            yield from self._nack(job, 0.0)
            self._stop.tally.returned()
        while self._held and self._stop.remaining() > 0:
            self.health.beat("source")
            yield from self._look_after()
            yield from self._settle_ended(_GLANCE)
        self.health.end("source")

    def _receive(self, room: int) -> Steps[None]:
        wait = _GLANCE if self._held else self._options.wait  # what has ended meanwhile is settled soon
        try:
            answer: Sequence[Delivery] = yield from do(self._source.receive, room, min(wait, self._options.wait))
            received = tuple(answer)
        except Exception as error:  # noqa: BLE001 - whatever a queue's client raises
            delay = self._trouble.failed(error)
            _log.warning("the source gives nothing, asked again in %.1f s: %s: %s", delay, type(error).__name__, error)
            return
        self._trouble.is_over()
        for delivery in received:
            job = Job(delivery)
            self._held[delivery] = job
            self._stop.tally.took()
            assert self._crew is not None, "it runs"
            self._crew.begin(job)

    def _settle_ended(self, wait: float) -> Steps[None]:
        assert self._crew is not None, "it runs"
        ended: list[Job] = yield from do(cast("Callable[[float], list[Job]]", self._crew.ended), wait)
        for job in ended:
            yield from self._settle(job)

    def _settle(self, job: Job) -> Steps[None]:
        """Let go of a copy, or give it back where nothing was decided about it."""
        error, delivery = job.error, job.delivery
        if error is None:
            self._refusal.is_over()
            yield from self._tell_source("ack", delivery)
            self._stop.tally.finished()
        elif isinstance(error, (InvalidMessageError, FingerprintMismatchError)):
            _log.error("a copy is put aside, since no worker can take it in: %s", error)
            yield from self._tell_source("reject", delivery)
            self._stop.tally.finished()
        elif isinstance(error, ProcessStoppingError):  # nobody has begun it, and nothing more will be
            self._stop.request("the dispatcher has given all back")
            yield from self._tell_source("nack", delivery, 0.0)
            self._stop.tally.returned()
        elif isinstance(error, Exception):
            delay = self._refusal.failed(error)
            _log.warning(
                "nothing was decided about a message, it comes again in %.1f s: %s: %s",
                delay,
                type(error).__name__,
                error,
            )
            yield from self._tell_source("nack", delivery, delay)
        else:
            _log.error("a handler ended with %s, and the worker stops", type(error).__name__)
            self._crash = error
            self._stop.request(type(error).__name__)
            yield from self._tell_source("nack", delivery, 0.0)
        self._held.pop(delivery, None)

    def _nack(self, job: Job, delay: float) -> Steps[None]:
        yield from self._tell_source("nack", job.delivery, delay)
        self._held.pop(job.delivery, None)

    def _tell_source(self, method: str, *args: object) -> Steps[None]:
        try:
            yield from do(getattr(self._source, method), *args)
        except Exception as error:  # noqa: BLE001 - the copy comes again, and its claim knows what became of it
            _log.warning("the source takes no %s, the copy comes again: %s: %s", method, type(error).__name__, error)

    def _look_after(self) -> Steps[None]:
        """Keep the copies that are held, and look for handlers that hang."""
        assert self._crew is not None, "it runs"
        now = self._clock.monotonic()
        if self._extend is not None and now - self._extended >= self._period:
            self._extended = now
            for delivery in tuple(self._held):
                yield from self._tell_source("extend", delivery)
        for job in self._crew.leave_behind(self._limit + 2 * self._period):
            self._hanging += 1
            _log.error(
                "a handler hangs for more than %s s and is left behind (%d of %d)",
                plain(self._limit),
                self._hanging,
                self._spare,
            )
            yield from self._nack(job, self._limit)
        if self._hanging > self._spare and self._crash is None:
            self._crash = WorkerStuckError(self._hanging, self._limit)
            self.health.dead(str(self._crash))
            self._stop.request("stuck")

    def _keep(self) -> Steps[None]:
        """Look after the claims of what runs, once."""
        try:
            yield from do(self._dispatcher.keep, time_limit=self._limit)
        except Exception:  # noqa: BLE001 - this goes on, whatever a listener or a policy does
            _log.exception("what is being handled could not be looked after, trying again")
        self.health.beat("keeper")

    def _give_back(self) -> Steps[None]:
        """Give the copies back that are still held, after their claims were."""
        for job in tuple(self._held.values()):
            yield from self._nack(job, 0.0)

    def _end(self) -> ShutdownReport:
        self.health.end("keeper")
        self.health.end("source")
        if self._crash is not None:
            raise self._crash
        return self.report


class Worker(_WorkerFlow):
    """Works on the messages of a source, in threads.

    Args:
        source: the application's queue; called only from the thread that calls `run`.
        dispatcher: handles each message; suspects run alone. Where a process has several, give them one `Isolation`.
        options: see `WorkerOptions`.

    Raises:
        ConfigurationError: a value is not allowed.

    Example:
        >>> from retrykit.backends import MemoryBackend
        >>> from retrykit.worker import QueueSource
        >>> def send(message, key):
        ...     worker.stop()  # a signal would do the same
        >>> dispatcher = Dispatcher(send, backend=MemoryBackend())
        >>> worker = Worker(QueueSource([b'{"id": "m1"}']), dispatcher, concurrency=1)
        >>> worker.run().finished
        1
    """

    def __init__(self, source: Source, dispatcher: Dispatcher[Any], **options: Unpack[WorkerOptions]) -> None:
        if not isinstance(dispatcher, Dispatcher):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"the dispatcher is {dispatcher!r}; allowed is a Dispatcher, or use AsyncWorker")
        if is_async(getattr(source, "receive", None)):
            raise ConfigurationError(f"the source is the asynchronous {source!r}; use AsyncWorker for it")
        super().__init__(source, dispatcher, options)
        dispatcher.isolate(Isolation())

    def run(self) -> ShutdownReport:
        """Work until the process is told to stop; in the main thread, or no signal reaches it.

        Returns:
            What was done.

        Raises:
            WorkerStuckError: too many handlers hang.
            BaseException: what ended a handler, where it is no `Exception`.
        """
        self._crew = crew = ThreadCrew(
            lambda delivery: self._dispatcher.handle(delivery.raw, id=delivery.id),
            self._options.concurrency,
            self._clock,
        )
        ended = threading.Event()
        keep = partial(contextvars.copy_context().run, self._keep_on, ended)
        keeper = threading.Thread(target=keep, name="retrykit keeper", daemon=True)  # a store that hangs may hold it
        try:
            with self._stop:
                crew.open()
                keeper.start()
                run(self._work())
            run(self._give_back())
        finally:
            ended.set()
            crew.close()
            keeper.join(_GLANCE)
        return self._end()

    def _keep_on(self, ended: threading.Event) -> None:
        while not ended.wait(self._period):
            run(self._keep())


class AsyncWorker(_WorkerFlow):
    """`Worker` for asynchronous callers: works in tasks, under asyncio or trio."""

    def __init__(self, source: AsyncSource, dispatcher: AsyncDispatcher[Any], **options: Unpack[WorkerOptions]) -> None:
        if not isinstance(dispatcher, AsyncDispatcher):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"the dispatcher is {dispatcher!r}; allowed is an AsyncDispatcher, or use Worker")
        super().__init__(source, dispatcher, options)
        dispatcher.isolate(AsyncIsolation())

    async def run(self) -> ShutdownReport:
        """Work until the process is told to stop, as `Worker.run`; in the main task."""
        self._crew = crew = TaskCrew(
            lambda delivery: self._dispatcher.handle(delivery.raw, id=delivery.id),
            self._options.concurrency,
            self._clock,
        )
        keeping = new_scope()

        async def keep_on() -> None:
            with keeping:
                while True:
                    await self._clock.sleep_async(self._period)
                    await arun(self._keep())

        try:
            async with self._stop:
                running_loop().spawn(keep_on)
                await arun(self._work())
            crew.close()
            await crew.ended(_GLANCE)
            await arun(self._give_back())
        finally:
            crew.close()
            keeping.cancel()
        return self._end()
