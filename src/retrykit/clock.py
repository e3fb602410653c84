"""Clocks: where the time comes from, and how a wait is waited.

Nothing in retrykit reads the time or sleeps except through a clock. `SystemClock` is real time, `ScaledClock` runs
faster than real time (demonstrations, rehearsals); tests use `retrykit.testing.ManualClock`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, Protocol, runtime_checkable

from .errors import ConfigurationError
from .times import from_millis

__all__ = ["Clock", "ScaledClock", "SystemClock", "current_clock", "current_monotonic", "use_clock"]


@runtime_checkable
class Clock(Protocol):
    """What retrykit asks of a clock. Subclass nothing: any object with these four methods is one."""

    def now(self) -> datetime:
        """Return the current instant, aware, in UTC, cut to the millisecond."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, for measuring spans in this process."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for `seconds` (>= 0) of this clock."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Suspend the calling task for `seconds` (>= 0) of this clock, under asyncio or trio."""
        ...


def in_trio() -> bool:
    """Tell whether the calling code runs under trio."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


async def _sleep_async(seconds: float) -> None:
    if in_trio():
        import trio

        await trio.sleep(seconds)
    else:
        import asyncio

        await asyncio.sleep(seconds)


class SystemClock:
    """Real time."""

    def now(self) -> datetime:
        """Return the system's time in UTC, cut to the millisecond."""
        return datetime.fromtimestamp(
            time.time_ns() // 1_000_000 / 1000, UTC
        )  # exact, and twice as fast as from_millis

    def monotonic(self) -> float:
        """Return `time.monotonic()`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep in real time."""
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Sleep in real time under asyncio or trio."""
        await _sleep_async(seconds)


class ScaledClock:
    """Time that runs `speed` times as fast as real time, from the moment the clock is made.

    Args:
        speed: seconds of this clock in one real second, > 0.
        epoch: the real instant (`time.time()`, seconds) at which this clock shows real time; default now. Processes
            that share it agree on the time.

    Example:
        >>> clock = ScaledClock(speed=1000)
        >>> clock.sleep(0.5)  # half a millisecond of real time
    """

    def __init__(self, speed: float, *, epoch: float | None = None) -> None:
        if not 0 < speed < 1e9:
            raise ConfigurationError(f"speed is {speed!r}; allowed is a number > 0 and < 1e9")
        self.speed: Final = speed
        self.epoch: Final = time.time() if epoch is None else epoch

    def now(self) -> datetime:
        """Return this clock's instant, cut to the millisecond."""
        return from_millis(int((self.epoch + (time.time() - self.epoch) * self.speed) * 1000))

    def monotonic(self) -> float:
        """Return scaled monotonic seconds."""
        return time.monotonic() * self.speed

    def sleep(self, seconds: float) -> None:
        """Sleep `seconds / speed` of real time."""
        time.sleep(seconds / self.speed)

    async def sleep_async(self, seconds: float) -> None:
        """Sleep `seconds / speed` of real time under asyncio or trio."""
        await _sleep_async(seconds / self.speed)


_SYSTEM: Final[Clock] = SystemClock()
_current: ContextVar[Clock] = ContextVar("retrykit.clock", default=_SYSTEM)


def current_clock() -> Clock:
    """Return the clock in force for the calling context: real time unless `use_clock` says otherwise."""
    return _current.get()


def current_monotonic() -> float:
    """Return the monotonic seconds of the clock in force; real ones cost no further call."""
    clock = _current.get()
    return time.monotonic() if clock is _SYSTEM else clock.monotonic()


@contextmanager
def use_clock(clock: Clock) -> Generator[Clock]:
    """Let everything in this context that was given no clock of its own use `clock`."""
    token = _current.set(clock)
    try:
        yield clock
    finally:
        _current.reset(token)
