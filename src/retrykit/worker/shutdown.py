"""Graceful shutdown: take nothing new, finish what runs, give the rest back, leave in time.

The first signal makes the process quiet: it takes no new messages, and nothing begins to wait for longer than the process will live. What
runs may finish until the drain is over. What then still runs is given back as interrupted, which counts as no try: free where the
send had not begun, else unknown and to be verified. A second signal skips the rest of the drain. The process leaves with exit code 0, before
the platform would kill it; a kill would count against messages that did no harm. Where a store takes nothing back, that is logged with the
messages' names and raised, so that the exit code is 1.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterable, Callable, Generator, Iterable
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar, overload

from ..clock import Clock, SystemClock, current_clock
from ..dispatch import AsyncDispatcher, Dispatcher
from ..draining import Drain, current_drain, install, remove
from ..errors import ConfigurationError, HandBackError
from ..events import Listener, ShutdownChanged, emit, listeners_of
from ..open_claims import End, OpenClaim, follower_here
from ..times import Duration, plain, seconds
from .report import Entry, ShutdownReport, Tally
from .scopes import Loop, Scope, new_scope, running_loop, shielded
from .signals import Bell, Signals, check_signals, in_main_thread
from .taking import AsyncTaken, Taken

__all__ = ["GracefulShutdown"]

T = TypeVar("T")

AnyDispatcher: TypeAlias = Dispatcher[Any] | AsyncDispatcher[Any]

_GIVE: Final = 1 / 2
"""Of the reserve: giving back takes no longer."""
_LEAVE: Final = 3 / 4
"""Of the reserve: who has not left the block by then is made to."""
_GONE: Final = 7 / 8
"""Of the reserve: a worker, or a process that failed, which has not come to its end by then is made to."""
_PAUSES: Final = 4
"""How often a store that takes nothing back is asked, in the time for giving back."""
_LOOK: Final = 1.0
"""Seconds between two looks at the time, where nothing rings before."""
_GLANCE: Final = 0.02
"""The same, while the last messages are waited for."""

_log: Final = logging.getLogger("retrykit.worker")


class _Leave(SystemExit):
    """Raised in the main thread at the hard limit; the `with` block that it belongs to keeps it to itself."""


def _refuse_asynchronous(dispatcher: AnyDispatcher) -> None:
    if isinstance(dispatcher, AsyncDispatcher):
        raise ConfigurationError(f"{dispatcher!r} is asynchronous; use `async with GracefulShutdown(...)`")


class GracefulShutdown:
    """Lets a process stop without losing, repeating or blaming a message; for `with` and `async with`.

    Entered in the main thread it handles the signals until the block ends. Entered in another thread, or while another one is at work
    in this process, it shares that one's signals and drain, and with them its limit; where there is none, `request` starts it.

    Args:
        dispatchers: whose messages are given back at the hard limit. Messages that the main thread itself handles are given back
            without being named here.
        limit: seconds from the first signal until the block has ended and the process can leave, > 0: what the platform grants before it
            kills. What the program does after the block is its own.
        reserve: seconds at the end of `limit` that are kept for giving back and leaving; None: a sixth of it.
        signals: which signals ask for it; () for none, where a framework handles them and calls `request`.
        on_event: listeners, told of each step (`ShutdownChanged`).
        clock: where the time comes from; None: the clock in force.

    Raises:
        ConfigurationError: a value is not allowed.
        HandBackError: raised by the end of the block where not everything could be given back, unless another error leaves it.

    Example:
        >>> from retrykit import Dispatcher
        >>> from retrykit.backends import MemoryBackend
        >>> dispatcher = Dispatcher(lambda message, key: None, backend=MemoryBackend())
        >>> with GracefulShutdown(dispatcher, limit=30, signals=()) as stop:
        ...     for raw in stop.take([b'{"id": "m1"}', b'{"id": "m2"}']):
        ...         disposition = dispatcher.handle(raw)
        ...         stop.request()  # a signal would do the same
        >>> stop.report.reason, stop.report.taken, stop.report.finished
        ('request', 1, 1)
    """

    def __init__(
        self,
        *dispatchers: AnyDispatcher,
        limit: Duration = 30.0,
        reserve: Duration | None = None,
        signals: Iterable[int] = (signal.SIGTERM, signal.SIGINT),
        on_event: Iterable[Listener] = (),
        clock: Clock | None = None,
    ) -> None:
        self.limit: Final = seconds(limit, "limit", positive=True)
        self.reserve: Final = self.limit / 6 if reserve is None else seconds(reserve, "reserve", positive=True)
        if self.reserve >= self.limit:
            raise ConfigurationError(
                f"reserve is {plain(self.reserve)} s and limit {plain(self.limit)} s; the reserve is a part of the limit, and less than it"
            )
        self._dispatchers: Final = list[AnyDispatcher]()
        for dispatcher in dispatchers:
            self._add(dispatcher)
        self._listeners: Final = listeners_of(on_event)
        self._numbers: Final = check_signals(signals)
        self._clock: Final = clock
        self.tally: Final = Tally()
        self._bell: Final = Bell()
        self._told = 0
        self._waits: Final = set[Scope]()
        self._drain: Drain | None = None
        self._signals: Signals | None = None
        self._loop: Loop | None = None
        self._body: Scope | None = None
        self._thread: threading.Thread | None = None
        self._left: Final = threading.Event()
        self._quiet: Final = threading.Event()
        self._is_owner = False

    def cover(self, dispatcher: AnyDispatcher) -> None:
        """Give back the messages of another dispatcher as well.

        Raises:
            ConfigurationError: it is no dispatcher, or an asynchronous one in a block that is not.
        """
        if self._drain is not None and self._loop is None:
            _refuse_asynchronous(dispatcher)
        self._add(dispatcher)

    def _add(self, dispatcher: AnyDispatcher) -> None:
        if not isinstance(dispatcher, (Dispatcher, AsyncDispatcher)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{dispatcher!r} is no dispatcher; allowed are Dispatcher and AsyncDispatcher")
        if dispatcher not in self._dispatchers:
            self._dispatchers.append(dispatcher)

    @property
    def was_entered(self) -> bool:
        """Whether its block has begun; it has only one."""
        return self._drain is not None

    @property
    def requested(self) -> bool:
        """Whether the process is to stop."""
        has_come = self._signals is not None and self._signals.count > 0
        return has_come or (self._drain is not None and self._drain.is_requested)

    def request(self, reason: str = "request", *, at_once: bool = False) -> None:
        """Ask the process to stop; safe from every thread and from signal handlers.

        Args:
            reason: who asks, for the report; the first one counts.
            at_once: whether what runs is given back now, as for a second signal.
        """
        if self._drain is None:
            raise ConfigurationError("the shutdown has not been entered; use it as `with GracefulShutdown() as stop:`")
        self._drain.request(reason, at_once=at_once)

    def remaining(self) -> float:
        """Return the seconds that what runs still has; infinite before the process is to stop."""
        return float("inf") if self._drain is None else self._drain.remaining()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the process is to stop, at most `timeout` seconds, and tell whether it is."""
        self._quiet.wait(timeout)
        return self.requested

    async def wait_async(self, limit: float) -> bool:
        """Wait until the process is to stop, at most `limit` seconds, under asyncio or trio."""
        with self._until_quiet():
            await (self._clock or current_clock()).sleep_async(limit)
        return self.requested

    @property
    def report(self) -> ShutdownReport:
        """What was taken, finished and given back so far."""
        return self.tally.report("" if self._drain is None else self._drain.reason)

    @overload
    def take(self, source: AsyncIterable[T | None]) -> AsyncTaken[T]: ...

    @overload
    def take(self, source: Iterable[T | None]) -> Taken[T]: ...

    def take(self, source: Iterable[T | None] | AsyncIterable[T | None]) -> Taken[T] | AsyncTaken[T]:
        """Take from a source until the process is to stop, or the source ends.

        What was taken counts as finished when the loop comes for the next. A source that waits for ever is not noticed to be idle: let
        it give None when nothing has come for a second or so, which is not handed on. An asynchronous source is cancelled
        while it waits.

        Args:
            source: what a `for` or an `async for` could go over.
        """
        if isinstance(source, AsyncIterable):
            return AsyncTaken(source, self.tally, lambda: self.requested, self._until_quiet)
        return Taken(source, self.tally, lambda: self.requested)

    def __enter__(self) -> Self:
        """Begin to listen for signals."""
        for dispatcher in self._dispatchers:
            _refuse_asynchronous(dispatcher)
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Wait for what still runs until the drain is over, give back the rest, and let go of the signals."""
        assert self._thread is not None, "it was entered"
        self._left.set()
        self._bell.ring()
        self._thread.join()
        self._end()
        is_ours = isinstance(error, _Leave)
        self._check(None if is_ours else error)
        return is_ours

    async def __aenter__(self) -> Self:
        """Begin to listen for signals, as `__enter__`."""
        self._loop, self._body = running_loop(), new_scope()
        self._begin()
        self._body.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Wait for what still runs, as `__exit__`."""
        assert self._body is not None, "it was entered"
        is_ours = bool(self._body.__exit__(kind, error, traceback))
        self._left.set()
        self._bell.ring()
        try:
            with shielded(self.remaining() + self.reserve):
                while self._thread is not None and self._thread.is_alive():
                    await SystemClock().sleep_async(_GLANCE)
        finally:
            self._end()
        self._check(None if is_ours else error)
        return is_ours

    def _check(self, error: BaseException | None) -> None:
        stranded = self.report.stranded
        if stranded:
            self._leave_in_time("the process")  # a thread that waits for the same store may keep it
            if error is None:
                raise HandBackError(stranded) from None

    @contextlib.contextmanager
    def last_things(self) -> Generator[None]:
        """Leave by force where what is done after the block, in this one, lasts beyond the limit; for a worker."""
        over = self._leave_in_time("the worker")
        try:
            yield
        finally:
            over.set()

    def leave_behind(self, what: str, has_ended: Callable[[], bool], *, failed: bool) -> None:
        """Leave by force at the limit, if something that a worker has left behind has not ended by then: an event loop waits for it.

        Args:
            what: is named in the log.
            has_ended: tells whether it has.
            failed: whether the process is to exit with 1 then.
        """
        self._leave_in_time(what, has_ended, 1 if failed else 0)

    def _leave_in_time(
        self, what: str, has_ended: Callable[[], bool] = lambda: False, code: int = 0
    ) -> threading.Event:
        """Leave by force at the limit, unless the event is set that is returned, it has ended, or the process ends before."""
        over = threading.Event()

        def wait() -> None:
            if not over.wait(self.until_gone()) and not has_ended():
                self._exit(what, code)

        if self._signals is not None and self.requested:  # else the process is not ours to end
            run = partial(contextvars.copy_context().run, wait)
            threading.Thread(target=run, name="retrykit last things", daemon=True).start()
        return over

    def until_gone(self) -> float:
        """Return the seconds in which all has to have come to its end; infinite before the process is to stop."""
        return float("inf") if self._drain is None else max(0.0, self._drain.left() + self.reserve * _GONE)

    def _begin(self) -> None:
        if self._drain is not None:
            raise ConfigurationError("the shutdown was entered before; make a new GracefulShutdown for each block")
        shared = current_drain()
        self._is_owner = shared is None
        if shared is not None and self.limit - self.reserve < shared.length:
            _log.warning(
                "a shutdown with %s s for what runs is at work in this process, and the %s s of the one within it do not count",
                plain(shared.length),
                plain(round(self.limit - self.reserve, 3)),
            )
        self._drain = drain = shared or Drain(self.limit - self.reserve, self._clock)
        self._bell.open()
        drain.bells.append(self._bell.ring)
        if self._is_owner:
            install(drain)
        run = partial(contextvars.copy_context().run, self._watch, drain)
        self._thread = threading.Thread(target=run, name="retrykit shutdown", daemon=True)
        self._thread.start()
        if self._numbers and in_main_thread() and not drain.has_signals:
            drain.has_signals = True
            self._signals = Signals(self._numbers, self._bell)
            self._signals.install()
        if drain.is_requested:
            self._bell.ring()

    def _end(self) -> None:
        assert self._drain is not None, "it was entered"
        if self._signals is not None:
            self._signals.restore()
            self._drain.has_signals = False
        follower = follower_here.get()
        if isinstance(follower, Entry) and follower.tally is self.tally:  # a loop over `take` was left early
            follower_here.set(None)
        self._drain.bells.remove(self._bell.ring)
        if self._is_owner:
            remove(self._drain)
        self._bell.close()

    @contextlib.contextmanager
    def _until_quiet(self) -> Generator[None]:
        """Cancel what waits in this block when the process is to stop."""
        scope = new_scope()
        self._waits.add(scope)
        try:
            with scope:
                if self.requested:
                    scope.cancel()
                yield
        finally:
            self._waits.discard(scope)

    def _watch(self, drain: Drain) -> None:
        """Go through the steps, in a thread of its own."""
        while not drain.is_requested and not self._left.is_set():
            self._hear(drain, None)
        if not drain.is_requested:
            return
        self.tally.begin()
        self._quiet.set()
        drain.quiet.set()
        self._tell(
            "quiet",
            f"told to stop by {drain.reason}, takes nothing new and finishes within {plain(round(drain.remaining(), 1))} s",
        )
        if self._loop is not None:
            self._loop.call(self._end_waits)
        while drain.remaining() > 0 and not self._is_finished():
            self._hear(drain, min(drain.remaining(), _GLANCE if self._left.is_set() else _LOOK))
        if not self._is_finished() or self._open_claims():
            self._break_off()
        self.tally.end()
        self._tell("done", f"stopped: {self.report}")

    def _hear(self, drain: Drain, timeout: float | None) -> None:
        """Wait for the bell, and take in the signals that have come."""
        rings = self._bell.hear(timeout)
        if self._signals is not None:
            self._signals.take_in(rings)
            while self._told < self._signals.count:
                self._told += 1
                drain.request(self._signals.last, at_once=self._told > 1)

    def _is_finished(self) -> bool:
        return self._left.is_set() and not any(dispatcher.in_work for dispatcher in self._dispatchers)

    def _open_claims(self) -> list[OpenClaim]:
        return [opened for dispatcher in self._dispatchers for opened in dispatcher.open_claims]

    def _end_waits(self) -> None:
        for scope in tuple(self._waits):
            scope.cancel()

    def _break_off(self) -> None:
        """Give back what runs, end the block, and leave by force where that does not end it."""
        ends = time.monotonic() + self.reserve * _LEAVE
        self._tell("handing_back", "the time for what runs is over, it is given back")
        given, given_up = threading.Event(), threading.Event()
        giving = partial(contextvars.copy_context().run, self._hand_back, given, given_up)
        threading.Thread(target=giving, name="retrykit hand-back", daemon=True).start()
        given.wait(self.reserve * _GIVE)
        if self._body is not None and self._loop is not None:
            self._loop.call(self._body.cancel)
        while self._signals is not None and not self._left.wait(_GLANCE):  # else the process is not ours to end
            if self._loop is None:
                self._signals.interrupt(_Leave(0))
            if time.monotonic() > ends:
                self._left.set()
                self._exit("the main thread")
        given_up.set()
        self._strand()

    def _strand(self) -> None:
        """Take in what could not be given back, and say so."""
        before = len(self.report.stranded)
        claims = dict.fromkeys(self._adopted())
        if self._left.is_set():  # and with it the main thread, whose messages have the dispatchers of nobody
            claims.update(dict.fromkeys(self.tally.still_held()))
        for opened in claims:
            opened.ended(End.STRANDED)
        stranded = self.report.stranded[before:]
        if stranded:
            _log.error("%s", HandBackError(stranded))

    def _adopted(self) -> list[OpenClaim]:
        """Return the open claims, and count those that nobody has counted."""
        claims = self._open_claims()
        for opened in claims:
            if opened.follower is None:
                opened.follow(self.tally.adopt())
        return claims

    def _exit(self, what: str, code: int = 0) -> None:
        self._strand()
        self.tally.end()
        _log.warning("%s does not end by itself and is left behind", what)
        self._tell("done", f"stopped: {self.report}")
        os._exit(1 if self.report.stranded else code)

    def _hand_back(self, given: threading.Event, given_up: threading.Event) -> None:
        """Give back, again and again where a store takes it not."""
        while not given_up.is_set():
            self._adopted()
            try:
                for dispatcher in self._dispatchers:
                    if isinstance(dispatcher, Dispatcher):
                        dispatcher.hand_back()
                    else:
                        self._hand_back_in_loop(dispatcher)
            except Exception:  # noqa: BLE001 - whatever it is, the process still has to leave
                _log.exception("what still runs could not be given back, trying again")
            if not self._open_claims():
                given.set()
                return
            given_up.wait(self.reserve * _GIVE / _PAUSES)

    def _hand_back_in_loop(self, dispatcher: AsyncDispatcher[Any]) -> None:
        answers = SimpleQueue[Exception | None]()

        async def hand_back() -> None:
            try:
                await dispatcher.hand_back()
                answers.put(None)
            except Exception as error:  # noqa: BLE001 - raised in the thread that waits for it
                answers.put(error)

        assert self._loop is not None, "asynchronous dispatchers are refused elsewhere"
        self._loop.spawn(hand_back)
        error = answers.get()
        if error is not None:
            raise error

    def _tell(self, state: str, text: str) -> None:
        report = self.report
        _log.log(logging.WARNING if state == "handing_back" else logging.INFO, text)
        event = ShutdownChanged(
            at=(self._clock or current_clock()).now(),
            state=state,
            reason=report.reason,
            finished=report.finished,
            handed_back=len(report.handed_back) + len(report.unknown),
        )
        emit(self._listeners, event)
