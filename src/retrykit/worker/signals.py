"""The signals that tell a process to stop, and who had them before.

A handler here does next to nothing: it counts the signal and rings a bell, and another thread does the rest. Where nobody else in the process
asks for it, that thread also hears of a signal that the main thread is too busy to handle, or has just missed before it began to
wait. Whoever had the signal before is still called, as gunicorn and Celery need; only the handlers of Python itself, asyncio and trio
are not, since theirs break off what is to be finished.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final, TypeAlias

from ..errors import ConfigurationError

__all__ = ["Bell", "Signals", "check_signals", "in_main_thread"]

_Handler: TypeAlias = Any
"""What `signal.signal` gives and takes: a function, a number, or None."""

_BREAK_OFF: Final = frozenset({"signal", "_signal", "asyncio", "trio"})
"""The packages whose handlers raise or cancel."""


def in_main_thread() -> bool:
    """Tell whether signals can be handled from here."""
    return threading.current_thread() is threading.main_thread()


def check_signals(signals: Iterable[int]) -> tuple[signal.Signals, ...]:
    """Return the signals.

    Raises:
        ConfigurationError: one of them is none, or cannot be handled.
    """
    try:
        numbers = tuple(signals)
        checked = tuple(signal.Signals(number) for number in numbers)
    except (TypeError, ValueError):
        numbers, checked = (), (signal.SIGKILL,)
    if not all(type(number) in {int, signal.Signals} for number in numbers):  # True is no SIGHUP, and 15.0 no SIGTERM
        checked = (signal.SIGKILL,)
    if signal.SIGKILL in checked or signal.SIGSTOP in checked:
        raise ConfigurationError(
            f"signals is {signals!r}; allowed are signals that can be handled, for example (signal.SIGTERM, signal.SIGINT)"
        )
    return checked


class Bell:
    """Wakes a thread; may be rung in a signal handler, since it takes no lock."""

    def open(self) -> None:
        """Make it ready to be rung."""
        self._hears, self._rings = socket.socketpair()
        self._rings.setblocking(False)

    def fileno(self) -> int:
        """Return where a number may be written to ring it."""
        return self._rings.fileno()

    def ring(self) -> None:
        """Wake the thread, or let it not sleep the next time."""
        with contextlib.suppress(OSError):  # many rings wait, or nobody hears any more
            self._rings.send(b"\0")

    def hear(self, timeout: float | None) -> bytes:
        """Wait to be woken, at most `timeout` seconds; return the numbers of the rings."""
        try:
            self._hears.settimeout(timeout)
            return self._hears.recv(4096)
        except (TimeoutError, BlockingIOError):
            return b""
        except OSError:  # it was closed: whoever waited for the thread was broken off
            time.sleep(timeout or 0.0)
            return b""

    def close(self) -> None:
        """Free it; it is not rung any more."""
        self._hears.close()
        self._rings.close()


class Signals:
    """Our handlers, from `install` to `restore`; both are called in the main thread.

    Args:
        numbers: the signals.
        bell: rung by each of them.
    """

    def __init__(self, numbers: tuple[signal.Signals, ...], bell: Bell) -> None:
        self._bell: Final = bell
        self._numbers: Final = numbers
        self._before: Final = dict[int, _Handler]()
        self._is_leaving = False
        self._leave: BaseException | None = None
        self._handled = 0
        self._heard = 0
        self._last: int = signal.SIGTERM

    def install(self) -> None:
        """Put our handlers in place."""
        global _installed  # noqa: PLW0603 - one process, one owner of its signals
        _installed = weakref.ref(self)
        others = signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        if others != -1:  # an event loop's
            signal.set_wakeup_fd(others, warn_on_full_buffer=False)
        for number in self._numbers:
            self._before[number] = signal.signal(number, self._handle)

    @property
    def count(self) -> int:
        """How many signals came."""
        return max(self._handled, self._heard)

    @property
    def last(self) -> str:
        """The name of the latest one."""
        return signal.Signals(self._last).name

    def take_in(self, rings: bytes) -> None:
        """Count the signals among the rings of the bell: the main thread may not have handled them."""
        ours = [number for number in rings if number in self._numbers]
        if ours:
            self._heard += len(ours)
            self._last = ours[-1]

    def restore(self) -> None:
        """Put the earlier handlers back, unless somebody has replaced ours meanwhile."""
        current = signal.set_wakeup_fd(-1)
        if current != self._bell.fileno():
            signal.set_wakeup_fd(current, warn_on_full_buffer=False)
        for number, before in self._before.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before.clear()

    def interrupt(self, error: BaseException) -> None:
        """Raise `error` in the main thread, out of whatever it waits for, once; called from another thread until that has left."""
        if not self._is_leaving:
            self._is_leaving, self._leave = True, error
        if self._leave is not None:  # it may have missed the signal before it began to wait
            signal.pthread_kill(threading.main_thread().ident or 0, self._numbers[0])

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._leave is not None:
            leave, self._leave = self._leave, None
            raise leave
        self._handled, self._last = self._handled + 1, number
        self._bell.ring()
        before = self._before.get(number)
        if callable(before) and not isinstance(before, signal.Handlers) and _module_of(before) not in _BREAK_OFF:
            before(number, frame)


_installed: Callable[[], Signals | None] = lambda: None  # noqa: E731 - until there are some


def _forked() -> None:
    """Give a forked child its signals back: it has no thread that listens, and its bell is its parent's."""
    signals = _installed()
    if signals is not None:
        signals.restore()


os.register_at_fork(after_in_child=_forked)


def _module_of(handler: Any) -> str:
    while isinstance(handler, functools.partial):
        handler = handler.func
    return str(getattr(handler, "__module__", "") or "").partition(".")[0]
