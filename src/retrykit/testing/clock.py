"""A clock for tests."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime

from ..clock import use_clock
from ..times import Duration, later, seconds, utc

__all__ = ["ManualClock", "manual_clock"]


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
