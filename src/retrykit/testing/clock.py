"""Clocks for tests: one that stands still until it is moved, and one that does not wait."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime

from ..clock import SystemClock, use_clock
from ..times import Duration, later, seconds, utc

__all__ = ["ImpatientClock", "ManualClock", "manual_clock", "no_waiting"]


class ManualClock:
    """A clock that stands still until it is moved; sleeping moves it.

    Args:
        start: the first instant, aware.

    Example:
        >>> clock = ManualClock()
        >>> before = clock.now()
        >>> clock.advance("15m")
        >>> (clock.now() - before).total_seconds(), clock.sleeps
        (900.0, [])
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = utc(start, "start")
        self._lock = threading.Lock()
        self.sleeps: list[float] = []
        """The seconds of every sleep so far."""

    def now(self) -> datetime:
        """Return the instant it stands at."""
        return self._now

    def monotonic(self) -> float:
        """Return seconds since the epoch of the instant it stands at."""
        return self._now.timestamp()

    def advance(self, duration: Duration) -> None:
        """Move forward."""
        with self._lock:
            self._now = later(self._now, seconds(duration))

    def move_to(self, instant: datetime) -> None:
        """Move to an instant; also back, as real clocks do."""
        with self._lock:
            self._now = utc(instant)

    def sleep(self, seconds: float) -> None:
        """Move forward by `seconds` at once."""
        self.sleeps.append(seconds)
        self.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Move forward by `seconds` at once."""
        self.sleep(seconds)


@contextmanager
def manual_clock() -> Generator[ManualClock]:
    """Let everything in this context that was given no clock of its own use a `ManualClock`."""
    with use_clock(ManualClock()) as clock:
        assert isinstance(clock, ManualClock)
        yield clock


class ImpatientClock(SystemClock):
    """Real time, but every wait ends at once; others get their turn meanwhile.

    Example:
        >>> clock = ImpatientClock()
        >>> clock.sleep(3600)
        >>> clock.sleeps
        [3600]
    """

    def __init__(self) -> None:
        self.sleeps: list[float] = []
        """The seconds of every sleep so far."""

    def sleep(self, seconds: float) -> None:
        """Note the wait and return, once other threads could run."""
        self.sleeps.append(seconds)
        super().sleep(0)

    async def sleep_async(self, seconds: float) -> None:
        """Note the wait and return, once other tasks could run."""
        self.sleeps.append(seconds)
        await super().sleep_async(0)


@contextmanager
def no_waiting() -> Generator[ImpatientClock]:
    """Let every wait end at once, of everything in this context that was given no clock of its own.

    Time stays the real one: what is due later is not due before. Where that has to pass as well, use `manual_clock`.

    Example:
        >>> from retrykit import retry
        >>> from retrykit.testing import no_waiting
        >>> calls = []
        >>> @retry(on=OSError, attempts=3)
        ... def flaky():
        ...     calls.append(1)
        ...     if len(calls) < 3:
        ...         raise OSError("down")
        >>> with no_waiting() as clock:
        ...     flaky()
        >>> len(calls), len(clock.sleeps)
        (3, 2)
    """
    with use_clock(ImpatientClock()) as clock:
        assert isinstance(clock, ImpatientClock)
        yield clock
