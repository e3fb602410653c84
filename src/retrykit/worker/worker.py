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
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Unpack, cast

from .._steps import Steps, arun, do, run
from ..clock import current_clock
from ..dispatch import AsyncDispatcher, Dispatcher
from ..errors import (
    ConfigurationError,
    FingerprintMismatchError,
    HandBackError,
    InvalidMessageError,
    InvalidPayloadError,
    ProcessStoppingError,
    WorkerStuckError,
)
from ..message import receive
from ..open_claims import End
from ..times import plain
from .crews import HandlerCancelled, Job, TaskCrew, ThreadCrew
from .health import Health
from .isolation import AsyncIsolation, Isolation
from .options import WorkerOptions, checked
from .report import ShutdownReport
from .scopes import new_scope, running_loop, shielded
from .shutdown import GracefulShutdown
from .source import AsyncSource, Delivery, Source, check_source
from .trouble import Trouble

__all__ = ["AsyncWorker", "Worker"]

_GLANCE: Final = 0.1
"""Seconds for which the worker waits at most for one thing while it has others to look after."""
_KEEPS: Final = 6
"""How often claims are looked after in each lease."""
_LEAVE: Final = 0.5
"""Seconds for which threads may take to end."""

_NEVER: Final = InvalidMessageError, InvalidPayloadError, FingerprintMismatchError
"""What no worker will ever be able to take in."""
_STOPS: Final = "it is about to stop"

_log: Final = logging.getLogger("retrykit.worker")


class _WorkerFlow:
    """The one logic of both colours."""

    def __init__(self, source: Any, dispatcher: Any, options: WorkerOptions) -> None:
        given = checked(options)
        self._options: Final = given
        self._source: Final = source
        self._extend: Final[Callable[[Delivery], object] | None] = getattr(source, "extend", None)
        self._dispatcher: Final = dispatcher
        self._lease: Final[float] = dispatcher.lease
        self._limit: Final = given.time_limit or self._lease
        self._room: Final = given.concurrency + given.prefetch
        self._spare: Final = given.spare
        self._clock: Final = given.clock or current_clock()
        self._stop: Final = given.shutdown or GracefulShutdown(clock=given.clock)
        if self._stop.was_entered:
            raise ConfigurationError(
                f"shutdown is {self._stop!r}, which was entered before; give each worker one of its own"
            )
        self._stop.cover(dispatcher)
        self.health: Final = given.health or Health(clock=given.clock)
        """What is told of this worker."""
        self.health.unready("worker", "it has not begun")
        self._trouble: Final = Trouble("source", given, self.health)
        self._refusal: Final = Trouble("store", given, self.health)
        self._held: Final = dict[Job, None]()
        self._crew: ThreadCrew | TaskCrew | None = None
        self._extended = self._kept = self._clock.monotonic()
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

    def _begin(self, crew: ThreadCrew | TaskCrew) -> None:
        if self._crew is not None:
            raise ConfigurationError("the worker has run before; make a new Worker for each run")
        self._crew = crew

    def _work(self) -> Steps[None]:
        """Work; where something else than the end of the drain breaks that off, give back at once what runs."""
        try:
            yield from self._receive_and_settle()
        except BaseException as error:
            self._stop.request(type(error).__name__, at_once=True)
            raise

    def _receive_and_settle(self) -> Steps[None]:
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
        self.health.unready("worker", _STOPS)
        assert self._crew is not None, "it runs"
        for job in self._crew.take_back():
            yield from self._return(job, 0.0)
        while self._held and self._stop.remaining() > 0:
            self.health.beat("source")
            yield from self._look_after()
            yield from self._settle_ended(_GLANCE)
        self.health.end("source")

    def _receive(self, room: int) -> Steps[None]:
        wait = _GLANCE if self._held else self._options.wait  # what has ended meanwhile is settled soon
        try:
            received = _deliveries((yield from do(self._source.receive, room, min(wait, self._options.wait))))
        except Exception as error:  # noqa: BLE001 - whatever a queue's client raises
            self._has_trouble("gives nothing", error)
            return
        assert self._crew is not None, "it runs"
        wrong = Counter(type(each).__name__ for each in received if not isinstance(each, Delivery))
        for delivery in received:
            if not isinstance(delivery, Delivery):
                continue  # what else it gave is held, and not lost
            job = Job(delivery, self._stop.tally.took())
            self._held[job] = None
            self._crew.begin(job)
        if wrong:
            seen = ", ".join(f"{count} of type {name}" for name, count in wrong.items())
            allowed = "allowed are retrykit.worker.Delivery objects"
            self._has_trouble("gives what nobody can settle", TypeError(f"receive gave {seen}; {allowed}"))
        else:
            self._trouble.is_over()

    def _has_trouble(self, what: str, error: Exception) -> None:
        delay = self._trouble.failed(error)
        _log.warning("the source %s, asked again in %.1f s: %s: %s", what, delay, type(error).__name__, error)

    def _settle_ended(self, wait: float) -> Steps[None]:
        assert self._crew is not None, "it runs"
        ended: list[Job] = yield from do(cast("Callable[[float], list[Job]]", self._crew.ended), wait)
        for job in ended:
            yield from self._settle(job)

    def _settle(self, job: Job) -> Steps[None]:
        """Let go of a copy, or give it back where nothing was decided about it."""
        error = job.error
        if error is None:
            self._refusal.is_over()
            yield from self._let_go("ack", job)
        elif isinstance(error, _NEVER):
            _log.error("a copy is put aside, since no worker can take it in: %s", error)
            yield from self._let_go("reject", job)
        elif isinstance(error, ProcessStoppingError):  # nobody has begun it, and nothing more will be
            self._stop.request("the dispatcher has given all back")
            yield from self._return(job, 0.0)
        elif isinstance(error, HandlerCancelled):
            yield from self._settle_cancelled(job)
        elif isinstance(error, Exception):
            delay = self._refusal.failed(error)
            what = type(error).__name__
            _log.warning(
                "nothing was decided about %s, it comes again in %.1f s: %s: %s",
                self._name(job.delivery),
                delay,
                what,
                error,
            )
            yield from self._return(job, delay)
        else:
            _log.error(
                "the handler of %s ended with %s, and the worker stops", self._name(job.delivery), type(error).__name__
            )
            self._crash = error
            self._stop.request(type(error).__name__)
            yield from self._return(job, 0.0)

    def _settle_cancelled(self, job: Job) -> Steps[None]:
        """Give back the copy of a message whose handler was cancelled, for its time or by something else."""
        has_failed = job.entry.end is End.TIMED_OUT
        delay = self._limit if has_failed else 0.0 if self._stop.requested else self._period
        if has_failed:
            _log.error(
                "the handler of %s was cancelled after its time limit of %s s, and the message has failed",
                self._name(job.delivery),
                plain(self._limit),
            )
        elif not self._stop.requested:
            _log.warning("the handler of %s was cancelled, it comes again in %.1f s", self._name(job.delivery), delay)
        yield from self._return(job, delay)

    def _let_go(self, method: str, job: Job) -> Steps[None]:
        yield from self._tell_source(method, job.delivery)
        job.entry.ended(End.FINISHED)
        self._held.pop(job, None)

    def _return(self, job: Job, delay: float) -> Steps[None]:
        yield from self._tell_source("nack", job.delivery, delay)
        job.entry.ended(End.RETURNED)
        self._held.pop(job, None)

    def _name(self, delivery: Delivery) -> str:
        try:
            return repr(receive(delivery.raw, id=delivery.id, max_payload=sys.maxsize).id)
        except _NEVER:  # somebody has changed it meanwhile
            return "a message without a proper id"

    def _tell_source(self, method: str, delivery: Delivery, *args: object) -> Steps[None]:
        try:
            yield from do(getattr(self._source, method), delivery, *args)
        except Exception as error:  # noqa: BLE001 - the copy comes again, and its claim knows what became of it
            name, what = self._name(delivery), type(error).__name__
            _log.warning("the source takes no %s of %s, the copy comes again: %s: %s", method, name, what, error)

    def _look_after(self) -> Steps[None]:
        """Keep the copies that are held, and look for handlers that hang."""
        assert self._crew is not None, "it runs"
        now = self._clock.monotonic()
        if self._extend is not None and now - self._extended >= self._period:
            self._extended = now
            for job in tuple(self._held):
                yield from self._tell_source("extend", job.delivery)
        hanging = self._crew.leave_behind(self._limit + 2 * self._period, self._kept)
        self._hanging += len(hanging)
        if self._hanging > self._spare:
            stuck = WorkerStuckError(self._hanging, self._limit)
            _log.error("%s", stuck)
            self.health.dead(str(stuck))
            self._stop.request("stuck")
        else:
            self._crew.refill(len(hanging))
        for job in hanging:
            _log.error(
                "the handler of %s hangs for more than %s s and is left behind (%d hang, %d may)",
                self._name(job.delivery),
                plain(self._limit),
                self._hanging,
                self._spare,
            )
            yield from self._return(job, self._limit)

    def _keep(self) -> Steps[None]:
        """Look after the claims of what runs, once."""
        began = self._clock.monotonic()
        try:
            yield from do(self._dispatcher.keep, time_limit=self._limit)
        except Exception:  # noqa: BLE001 - this goes on, whatever a listener or a policy does
            _log.exception("what is being handled could not be looked after, trying again")
        self._kept = began
        self.health.beat("keeper")

    def _give_back(self) -> Steps[None]:
        """Settle what has ended meanwhile, and give the copies back that are still held, after their claims were."""
        for job in tuple(self._held):
            if job.has_ended:
                yield from self._settle(job)
            else:
                yield from self._return(job, 0.0)

    def _tell_end(self) -> None:
        self.health.end("keeper")
        self.health.end("source")
        self.health.unready("worker", _STOPS)

    def _result(self) -> ShutdownReport:
        if self._hanging > self._spare and self._crash is None:
            self._crash = WorkerStuckError(self._hanging, self._limit)
        if self._crash is not None:
            raise self._crash
        return self.report


def _deliveries(answer: object) -> tuple[object, ...]:
    """Return what a source gave."""
    if isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        raise TypeError(f"receive gave {type(answer).__name__}; allowed is a list of Delivery objects, empty for none")
    return tuple(cast("Iterable[object]", answer))


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
        check_source(source, wants_async=False)
        super().__init__(source, dispatcher, options)
        dispatcher.isolate(Isolation())

    def run(self) -> ShutdownReport:
        """Work until the process is told to stop; in the main thread, or no signal reaches it.

        Returns:
            What was done.

        Raises:
            HandBackError: not everything could be given back before the process had to stop.
            WorkerStuckError: too many handlers hang.
            BaseException: what ended a handler, where it is no `Exception`.
            ConfigurationError: the worker has run before.
        """
        crew = ThreadCrew(
            lambda delivery: self._dispatcher.handle(delivery.raw, id=delivery.id),
            self._options.concurrency,
            self._clock,
        )
        self._begin(crew)
        ended = threading.Event()
        keep = partial(contextvars.copy_context().run, self._keep_on, ended)
        keeper = threading.Thread(target=keep, name="retrykit keeper", daemon=True)  # a store that hangs may hold it
        try:
            with self._stop:
                crew.open()
                keeper.start()
                run(self._work())
        except HandBackError as error:
            self._crash = self._crash or error
        finally:
            with self._stop.last_things():
                ended.set()
                run(self._give_back())
                crew.close(min(_LEAVE, self._stop.until_gone() / 2))
                if keeper.is_alive():
                    keeper.join(min(_GLANCE, self._stop.until_gone() / 2))
            self._tell_end()
        return self._result()

    def _keep_on(self, ended: threading.Event) -> None:
        while not ended.wait(self._period):
            run(self._keep())


class AsyncWorker(_WorkerFlow):
    """`Worker` for asynchronous callers: works in tasks, under asyncio or trio."""

    def __init__(self, source: AsyncSource, dispatcher: AsyncDispatcher[Any], **options: Unpack[WorkerOptions]) -> None:
        if not isinstance(dispatcher, AsyncDispatcher):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"the dispatcher is {dispatcher!r}; allowed is an AsyncDispatcher, or use Worker")
        check_source(source, wants_async=True)
        super().__init__(source, dispatcher, options)
        dispatcher.isolate(AsyncIsolation())

    async def run(self) -> ShutdownReport:
        """Work until the process is told to stop, as `Worker.run`; in the main task."""
        crew = TaskCrew(
            lambda delivery: self._dispatcher.handle(delivery.raw, id=delivery.id),
            self._options.concurrency,
            self._clock,
        )
        self._begin(crew)
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
        except HandBackError as error:
            self._crash = self._crash or error
        finally:
            crew.close()
            keeping.cancel()
            self._tell_end()
            with self._stop.last_things(), shielded(self._stop.reserve):
                await crew.ended(_GLANCE)
                await arun(self._give_back())
            if not crew.have_ended():
                failed = self._crash is not None or self._hanging > self._spare
                self._stop.leave_behind("a handler that takes no cancellation", crew.have_ended, failed=failed)
        return self._result()
