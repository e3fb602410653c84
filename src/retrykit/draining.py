"""The drain of this process: what waits have to know of a shutdown.

A process that was told to stop finishes what runs until a deadline. A wait that would outlive it is not begun, and one that has begun
is cut short: whoever waited says when the work is due instead, and it goes to the retry queue. There is one drain in a process,
since there is one process to stop: `retrykit.worker.GracefulShutdown` installs it, and only code that is about to wait looks at it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from .clock import Clock, SystemClock, current_clock

__all__ = ["Drain", "Stop", "current_drain", "install", "outlasts_drain", "remove", "sleep", "sleep_async"]

_GLANCE: Final = 0.1
"""Seconds between two looks, in an asynchronous wait or one that a stop ends as well, at whether the drain has begun."""


class Stop(Protocol):
    """Says when everything is to stop; a `threading.Event` is one."""

    def is_set(self) -> bool:
        """Tell whether everything is to stop."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it, at most `timeout` seconds, and tell whether everything is to stop."""
        ...


class Drain:
    """A shutdown, before and after it was asked for.

    Args:
        length: seconds from the moment it is asked for until nothing may run any more, >= 0.
        clock: where the time comes from; None: the clock in force.
    """

    def __init__(self, length: float, clock: Clock | None = None) -> None:
        self.length: Final = length
        self.clock: Final = clock or current_clock()
        self.quiet: Final = threading.Event()
        """Set soon after it was asked for; waits end with it."""
        self.bells: Final = list[Callable[[], object]]()
        """Called when it is asked for, each time; they take no lock."""
        self.reason = ""
        """Who asked for it first."""
        self.has_signals = False
        """Whether signals ask for it."""
        self._ends: float | None = None

    @property
    def is_requested(self) -> bool:
        """Whether it was asked for."""
        return self._ends is not None

    def request(self, reason: str, *, at_once: bool = False) -> None:
        """Ask for it, once or more often; `at_once`: nothing may run any more from now on. It takes no lock."""
        now = self.clock.monotonic()
        if self._ends is None:
            self.reason, self._ends = reason, now + self.length
        if at_once:
            self._ends = min(self._ends, now)
        for ring in self.bells:
            ring()

    def left(self) -> float:
        """Return the seconds until nothing may run any more: infinite before it was asked for, < 0 when that is over."""
        return math.inf if self._ends is None else self._ends - self.clock.monotonic()

    def remaining(self) -> float:
        """Return the seconds that are left for what runs: infinite before it was asked for, then >= 0."""
        return max(0.0, self.left())


_drain: Drain | None = None


def install(drain: Drain) -> None:
    """Let the waits of this process look at a drain."""
    global _drain  # noqa: PLW0603 - one process, one drain
    _drain = drain


def remove(drain: Drain) -> None:
    """Forget a drain, if it is the one that is installed."""
    global _drain  # noqa: PLW0603
    if _drain is drain:
        _drain = None


def current_drain() -> Drain | None:
    """Return the drain of this process, or None where nobody has installed one."""
    return _drain


def outlasts_drain(wait: float) -> bool:
    """Tell whether a wait of so many seconds from now on would outlive the drain."""
    drain = _drain
    return drain is not None and wait > 0 and wait > drain.remaining()


def sleep(clock: Clock, seconds: float, stop: Stop | None = None) -> float:
    """Wait, unless that would outlive the drain; a wait that has begun when the drain begins is cut short likewise.

    Args:
        clock: whose seconds they are; waits by another clock than the system's are begun or not, and never cut short.
        seconds: how long, >= 0.
        stop: ends the wait as well.

    Returns:
        The seconds that were not waited: 0 unless the drain or the stop came in between.
    """
    drain = _drain
    if drain is None and stop is None:
        clock.sleep(seconds)
        return 0.0
    if outlasts_drain(seconds) or (stop is not None and stop.is_set()):
        return seconds
    if type(clock) is not SystemClock:
        clock.sleep(seconds)
        return 0.0
    left = seconds
    if drain is not None and not drain.is_requested:
        left = _until_asked(drain, stop, left)
        if outlasts_drain(left) or (stop is not None and stop.is_set()):
            return left
    if stop is not None:
        ends = time.monotonic() + left
        return max(0.0, ends - time.monotonic()) if stop.wait(left) else 0.0
    if left:
        clock.sleep(left)
    return 0.0


def _until_asked(drain: Drain, stop: Stop | None, seconds: float) -> float:
    """Wait until the drain begins or everything is to stop; return the seconds that are left."""
    ends = time.monotonic() + seconds
    if stop is None:
        drain.quiet.wait(seconds)
    else:  # nobody can wait for two things at once
        while not drain.is_requested and (left := ends - time.monotonic()) > 0 and not stop.wait(min(left, _GLANCE)):
            pass
    return max(0.0, ends - time.monotonic())


async def sleep_async(clock: Clock, seconds: float, stop: Stop | None = None) -> float:
    """Wait, as `sleep`, under asyncio or trio."""
    if _drain is None and stop is None:
        await clock.sleep_async(seconds)
        return 0.0
    glance = _GLANCE if type(clock) is SystemClock else math.inf
    left = seconds
    while left > 0:
        if outlasts_drain(left) or (stop is not None and stop.is_set()):
            return left
        began = clock.monotonic()
        await clock.sleep_async(min(left, glance))
        left = left - max(min(left, glance), clock.monotonic() - began)
    return 0.0
