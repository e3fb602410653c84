"""A process that ends when something broke that nobody caught, instead of limping on.

Python ends a process for an exception that leaves the main thread, and even then waits for the other threads. One that ends
any other thread, or a task, is printed; the process stays, does nothing, and looks alive. `exit_on_crash` makes each of these
the end: whoever was to be told before is told, clean-ups run within a limit, logs are flushed, and the process exits with a
status that is not zero, so that whoever supervises it starts another.

- **It ends once, and in time.** Clean-ups run one after the other, each in a thread of its own. One that raises is logged; one
  that hangs is left behind; a second crash meanwhile is reported and changes nothing.
- **Nothing happens until it is asked for**, and `uninstall` takes it back.
- **Ctrl-C and `sys.exit` are no crashes.** Nor is what asyncio tells of a connection, such as a client's failed handshake.
- **A forked child** that crashes ends as well, without the clean-ups: they belong to its parent.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar, cast

from .._steps import is_async
from ..errors import ConfigurationError
from ..times import Duration, plain, seconds

if TYPE_CHECKING:
    import asyncio

__all__ = ["ExitOnCrash", "exit_on_crash"]

Cleanup: TypeAlias = Callable[[], object]
F = TypeVar("F", bound=Cleanup)
T = TypeVar("T")

EX_SOFTWARE: Final = 70
"""An internal software error, in the words of sysexits.h."""

_RESERVE: Final = 0.2
"""The part of the limit that is kept for reporting at the beginning, and the part kept for flushing at the end."""

_GRACE: Final = 1.0
"""Seconds after the limit at which the process is ended even if none of its Python code can run any more."""

_NO_CRASH: Final = (KeyboardInterrupt, SystemExit)
_OF_A_CONNECTION: Final = ("transport", "protocol", "socket")

_logger: Final = logging.getLogger("retrykit.worker")
_installed: ExitOnCrash | None = None


class ExitOnCrash:
    """The hooks that `exit_on_crash` has installed. A block of it takes them away at its end.

    An error that leaves the block leaves the hooks where they are: if nobody catches it, it is a crash.
    """

    def __init__(self, cleanup: Iterable[Cleanup], limit: float, exit_code: int) -> None:
        self._cleanups: list[Cleanup] = []
        self._limit = limit
        self._exit_code = exit_code
        self._process = os.getpid()
        self._ends: dict[int, threading.Thread] = {}  # by process: a fork may come in the middle of a crash
        self._is_active = True
        for each in cleanup:
            self.add(each)
        self._excepthook, self._on_main = sys.excepthook, self._main_crashed
        self._threadhook, self._on_thread = threading.excepthook, self._thread_crashed
        self._unraisablehook, self._on_unraisable = sys.unraisablehook, self._unraisable

    def add(self, cleanup: F) -> F:
        """Run another clean-up, after those that there are.

        Args:
            cleanup: called without arguments, in a thread of its own.

        Returns:
            The clean-up, so that this can decorate it.

        Raises:
            ConfigurationError: it is no function, or would have to be awaited.
        """
        if not callable(cleanup) or is_async(cleanup):
            raise ConfigurationError(
                f"a clean-up is {cleanup!r}; allowed are functions without arguments that need not be awaited "
                "(one may call asyncio.run, or asyncio.run_coroutine_threadsafe on the loop that is running)"
            )
        self._cleanups.append(cleanup)
        return cleanup

    def watch(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Let what nobody caught in an event loop's tasks and callbacks be a crash.

        asyncio tells of a task's exception when the task is collected as garbage: soon where nobody holds it, never where
        somebody does. For a task that is held, use `watch_task`. A handler that the loop has is called first. The loop goes
        on while the clean-ups run, so that they can use it. Trio needs none of this: there every exception reaches the
        main thread.

        Args:
            loop: default the one that is running.

        Raises:
            RuntimeError: there is none.
        """
        import asyncio

        watched = loop or asyncio.get_running_loop()
        before = watched.get_exception_handler()

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            tell = partial(before, loop) if before is not None else loop.default_exception_handler
            error = context.get("exception")
            if error is None or not _is_crash(error) or any(key in context for key in _OF_A_CONNECTION):
                tell(context)
            else:
                self._crashed(_place(context), error, partial(tell, context))

        watched.set_exception_handler(handle)

    def watch_task(self, task: asyncio.Task[T]) -> asyncio.Task[T]:
        """Let an exception that ends a task be a crash at once, whoever holds the task or may look at it later.

        Args:
            task: one that is to run as long as the process, or to end well.

        Returns:
            The task.
        """
        task.add_done_callback(self._task_ended)
        return task

    def uninstall(self) -> None:
        """Put back the hooks that were there before. Where somebody has put others over them, they only pass on."""
        global _installed  # noqa: PLW0603 - the hooks are the process's
        self._is_active = False
        if sys.excepthook == self._on_main:
            sys.excepthook = self._excepthook
        if threading.excepthook == self._on_thread:
            threading.excepthook = self._threadhook
        if sys.unraisablehook == self._on_unraisable:
            sys.unraisablehook = self._unraisablehook
        if _installed is self:
            _installed = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, GeneratorExit) or not _is_crash(error):
            self.uninstall()

    def _install(self, unraisable: bool) -> None:
        sys.excepthook, threading.excepthook = self._on_main, self._on_thread
        if unraisable:
            sys.unraisablehook = self._on_unraisable

    # The four places where Python tells of what nobody caught.

    def _main_crashed(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        tell = partial(self._excepthook, kind, error, traceback)
        if not _is_crash(error):
            tell()
        else:
            self._crashed(f"thread {threading.current_thread().name!r}", error, tell, waits=True)

    def _thread_crashed(self, arguments: threading.ExceptHookArgs) -> None:
        tell = partial(self._threadhook, arguments)
        error = arguments.exc_value
        if error is None or isinstance(error, SystemExit):  # that is how a thread may end itself
            tell()
        else:
            name = arguments.thread.name if arguments.thread is not None else "unknown"
            self._crashed(f"thread {name!r}", error, tell, waits=True)

    def _unraisable(self, arguments: sys.UnraisableHookArgs) -> None:
        tell = partial(self._unraisablehook, arguments)
        error = arguments.exc_value
        if error is None or not _is_crash(error) or sys.is_finalizing():
            tell()
        else:  # it comes in the middle of anything, under locks that a clean-up may need: nobody waits here
            self._crashed(getattr(arguments.object, "__qualname__", type(arguments.object).__qualname__), error, tell)

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and _is_crash(error):
            self._crashed(
                f"task {task.get_name()!r}", error, partial(self._excepthook, type(error), error, error.__traceback__)
            )

    # What happens then.

    def _crashed(self, where: str, error: BaseException, tell: Callable[[], object], *, waits: bool = False) -> None:
        """Have whoever was there before told, and the process ended.

        Args:
            where: the place, as it is logged.
            error: what nobody caught.
            tell: calls the hook that was there before.
            waits: whether the calling thread is kept from going on.
        """
        if not self._is_active:
            tell()
            return
        told = threading.Event()
        what = f"{type(error).__qualname__} in {where}"
        # No daemon: a main thread that comes to its end meanwhile waits for it.
        end = threading.Thread(target=self._end, args=(what, told), name="retrykit-crash", daemon=False)
        first = self._ends.setdefault(os.getpid(), end)
        if first is end:
            if os.getpid() == self._process:  # a child would wait for its parent's timer, which it does not have
                with suppress(AttributeError, OSError, RuntimeError, ValueError):  # standard error may be no file
                    faulthandler.dump_traceback_later(self._limit + _GRACE, exit=True, file=sys.__stderr__ or 2)
            try:
                end.start()
            except RuntimeError:  # there are no more threads: it is done here
                _quietly(tell)
                told.set()
                self._end(what, told)
        _quietly(tell)
        told.set()
        if waits and (first is end or threading.current_thread() is threading.main_thread()):
            first.join()  # a later one of another thread goes: a clean-up may be waiting for that thread

    def _end(self, what: str, told: threading.Event) -> None:
        """Clean up, flush, exit."""
        try:
            deadline = time.monotonic() + self._limit
            reserve = self._limit * _RESERVE
            told.wait(reserve)
            cleanups = list(self._cleanups) if os.getpid() == self._process else []
            text = "%s was caught by nobody; exiting with status %d, clean-ups: %d"
            _bounded(partial(_logger.critical, text, what, self._exit_code, len(cleanups)), reserve)
            for number, cleanup in enumerate(cleanups):
                share = max(0.0, deadline - reserve - time.monotonic()) / (len(cleanups) - number)
                if not _bounded(partial(_clean, cleanup), share):
                    late = "the clean-up %r was not done within %s s and is left behind"
                    left = max(0.0, deadline - reserve - time.monotonic())
                    _bounded(partial(_logger.error, late, cleanup, plain(round(share, 3))), min(reserve, left))
            left = max(0.0, deadline - time.monotonic())
            _bounded(logging.shutdown, left / 2)
            _bounded(_flush, left / 2)
        finally:
            os._exit(self._exit_code)


def exit_on_crash(
    *, cleanup: Iterable[Cleanup] = (), limit: Duration = 5.0, exit_code: int = EX_SOFTWARE, unraisable: bool = True
) -> ExitOnCrash:
    """End the process when an exception that nobody caught ends its main thread, another thread or a watched task.

    From the call on, until `uninstall` or the end of its block, these are crashes: an exception that leaves the main
    thread (also out of `asyncio.run` and `trio.run`), that ends another thread, that Python can raise nowhere (in `__del__`
    or a weak reference's callback), that ends a task given to `watch_task`, or that a loop given to `watch` tells of.

    The hooks that were there before are called first and print or send what they always did. Then the clean-ups run, handlers of
    `logging` are flushed and closed, the standard streams are flushed, and the process exits by `os._exit`: other threads are not
    waited for, and what is registered with `atexit` does not run.

    Exceptions that somebody holds are no crashes, because nobody can know whether they will be looked at: those of a future of an
    executor, of a task that is awaited, of a listener (they are logged).

    Args:
        cleanup: functions without arguments, run in this order, each in a thread of its own. Keep them short: hand back
            what is held, close what others see as open.
        limit: how long all of it may take, > 0 seconds. A fifth is kept for flushing, and the clean-ups share the rest: one that
            hangs leaves the others their shares. A process in which no Python code can run any more is ended one second later,
            with its threads' tracebacks on standard error and status 1.
        exit_code: the status, from 1 to 255.
        unraisable: whether an exception that Python can raise nowhere is a crash. Some libraries have them in `__del__` at a
            normal end of the process: then say False.

    Returns:
        What takes it back; also a block.

    Raises:
        ConfigurationError: a value is not allowed, or it is installed already: `add` clean-ups to what that call gave.

    Example:
        >>> with exit_on_crash(cleanup=[lambda: print("handed back")], limit="3s") as crash:
        ...     close = crash.add(lambda: print("closed"))
    """
    global _installed  # noqa: PLW0603 - the hooks are the process's
    if _installed is not None:
        raise ConfigurationError(
            "exit_on_crash is installed already; add clean-ups to the handle that it returned, or uninstall it first"
        )
    if isinstance(exit_code, bool) or not isinstance(exit_code, int) or not 1 <= exit_code <= 255:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"exit_code is {exit_code!r}; allowed are whole numbers from 1 to 255")
    if callable(cleanup) or not isinstance(cleanup, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"cleanup is {cleanup!r}; allowed is a list of functions, for example [worker.close]")
    handle = ExitOnCrash(cleanup, seconds(limit, "limit", positive=True), exit_code)
    handle._install(unraisable)
    _installed = handle
    return handle


def _is_crash(error: BaseException) -> bool:
    """Tell whether it is more than a wish to end: trio and task groups wrap a Ctrl-C in a group."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_crash, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return not isinstance(error, _NO_CRASH)


def _place(context: Mapping[str, Any]) -> str:
    """Name the task that a loop tells of, or the loop."""
    task = context.get("task") or context.get("future")
    if task is not None and hasattr(task, "get_name"):
        return f"task {task.get_name()!r}"
    return "the event loop"


def _quietly(tell: Callable[[], object]) -> None:
    """Call a hook that was there before; one that fails must not keep the process alive."""
    try:
        tell()
    except BaseException as error:  # noqa: BLE001 - as above
        with suppress(Exception):
            sys.__excepthook__(type(error), error, error.__traceback__)


def _bounded(step: Callable[[], object], limit: float) -> bool:
    """Do a step in a thread of its own; tell whether it was done in time."""
    thread = threading.Thread(target=_quietly, args=(step,), name="retrykit-crash-step", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads: done here, bounded by faulthandler alone
        _quietly(step)
        return True
    thread.join(limit)
    return not thread.is_alive()


def _clean(cleanup: Cleanup) -> None:
    try:
        cleanup()
    except BaseException:
        _logger.exception("the clean-up %r failed", cleanup)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
