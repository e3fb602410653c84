"""Windows: which of the latest calls count, and when there are too many failures among them.

Each keeps running sums, so that a result costs the same whatever the size of the window. Successes may be told in one go: a
breaker counts them without a lock, and tells the window when a failure comes.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

import attrs

from ..checks import whole
from ..errors import ConfigurationError
from ..times import Duration, plain, seconds

__all__ = ["Consecutive", "Counts", "FailureCount", "FailureRate", "Trip", "Window", "failure_count", "failure_rate"]

_BUCKETS = 10

_MINIMUM = 20
"""Calls without which no share of failures is told, unless said otherwise."""


class Counts(Protocol):
    """How many calls there were, and how many of them failed."""

    @property
    def calls(self) -> int:
        """How many results there are."""
        ...

    @property
    def failures(self) -> int:
        """How many of them failed."""
        ...


class Window(Counts, Protocol):
    """The results that count."""

    def succeeded(self, count: int, now: float) -> None:
        """Take in successes, all of the same instant."""
        ...

    def failed(self, now: float) -> None:
        """Take in a failure."""
        ...

    def at(self, now: float) -> None:
        """Let go of what is too old."""
        ...


class Streak:
    """The failures since the latest success."""

    __slots__ = ("calls", "failures")

    def __init__(self) -> None:
        self.calls = 0
        self.failures = 0

    def succeeded(self, count: int, now: float) -> None:
        """Begin anew."""
        if count:
            self.calls = self.failures = 0

    def failed(self, now: float) -> None:
        """Count one more."""
        self.calls += 1
        self.failures += 1

    def at(self, now: float) -> None:
        """Do nothing: a streak has no age."""


class CallWindow:
    """The latest `size` results, kept as runs of equal ones."""

    __slots__ = ("_runs", "_size", "calls", "failures")

    def __init__(self, size: int) -> None:
        self._size = size
        self._runs: deque[list[int]] = deque()  # [1 for failures or 0, how many]
        self.calls = 0
        self.failures = 0

    def succeeded(self, count: int, now: float) -> None:
        """Take in successes."""
        self._add(0, min(count, self._size))

    def failed(self, now: float) -> None:
        """Take in a failure."""
        self._add(1, 1)

    def at(self, now: float) -> None:
        """Do nothing: results leave when others come."""

    def _add(self, failed: int, count: int) -> None:
        if not count:
            return
        runs = self._runs
        if runs and runs[-1][0] == failed:
            runs[-1][1] += count
        else:
            runs.append([failed, count])
        self.calls += count
        self.failures += failed * count
        while self.calls > self._size:
            kind, length = runs[0]
            gone = min(length, self.calls - self._size)
            self.calls -= gone
            self.failures -= kind * gone
            if gone == length:
                runs.popleft()
            else:
                runs[0][1] -= gone


class TimeWindow:
    """The results of the latest `length` seconds, in ten buckets."""

    __slots__ = ("_buckets", "_width", "calls", "failures")

    def __init__(self, length: float) -> None:
        self._width = length / _BUCKETS
        self._buckets: deque[list[int]] = deque()  # [number, calls, failures]
        self.calls = 0
        self.failures = 0

    def succeeded(self, count: int, now: float) -> None:
        """Take in successes."""
        self._add(count, 0, now)

    def failed(self, now: float) -> None:
        """Take in a failure."""
        self._add(1, 1, now)

    def at(self, now: float) -> None:
        """Let go of the buckets that are too old."""
        oldest = self.number(now) - _BUCKETS
        while self._buckets and self._buckets[0][0] <= oldest:
            _, calls, failures = self._buckets.popleft()
            self.calls -= calls
            self.failures -= failures

    def ends(self, now: float) -> float:
        """Return when the bucket of an instant ends."""
        return (self.number(now) + 1) * self._width

    def number(self, now: float) -> int:
        """Return the number of the bucket of an instant."""
        return int(now // self._width)

    def _add(self, calls: int, failures: int, now: float) -> None:
        self.at(now)
        number = self.number(now)
        if self._buckets and self._buckets[-1][0] >= number:  # clocks that go back count into the latest
            bucket = self._buckets[-1]
            bucket[1] += calls
            bucket[2] += failures
        else:
            self._buckets.append([number, calls, failures])
        self.calls += calls
        self.failures += failures


class Trip(Protocol):
    """When a breaker opens."""

    @property
    def length(self) -> float | None:
        """The seconds for which a result counts; None where that is not a matter of time."""
        ...

    @property
    def every_success(self) -> bool:
        """Whether every success counts; False where one only ends a streak."""
        ...

    def window(self) -> Window:
        """Return an empty window."""
        ...

    def is_met(self, window: Counts) -> bool:
        """Tell whether there are too many failures; asked after each of them."""
        ...


@attrs.frozen
class Consecutive:
    """So many failures one after the other."""

    threshold: int

    length = None
    every_success = False

    def window(self) -> Window:
        """Return an empty window."""
        return Streak()

    def is_met(self, window: Counts) -> bool:
        """Tell whether the streak is long enough."""
        return window.failures >= self.threshold

    def __str__(self) -> str:
        return f"{self.threshold} failures in a row"


@attrs.frozen
class FailureRate:
    """A share of the latest calls."""

    rate: float
    calls: int | None
    length: float | None
    minimum_calls: int

    every_success = True

    def window(self) -> Window:
        """Return an empty window."""
        return _window(self.calls, self.length)

    def is_met(self, window: Counts) -> bool:
        """Tell whether the share is reached, and there are enough calls to tell."""
        return window.calls >= self.minimum_calls and window.failures / window.calls >= self.rate

    def __str__(self) -> str:
        return f"{self.rate:.0%} failures of {_of(self.calls, self.length)}, at least {self.minimum_calls} calls"


@attrs.frozen
class FailureCount:
    """So many failures among the latest calls."""

    failures: int
    calls: int | None
    length: float | None
    minimum_calls: int

    every_success = True

    def window(self) -> Window:
        """Return an empty window."""
        return _window(self.calls, self.length)

    def is_met(self, window: Counts) -> bool:
        """Tell whether there are as many failures, and enough calls."""
        return window.failures >= self.failures and window.calls >= self.minimum_calls

    def __str__(self) -> str:
        return f"{self.failures} failures of {_of(self.calls, self.length)}"


def _window(calls: int | None, length: float | None) -> Window:
    return CallWindow(calls) if calls is not None else TimeWindow(length or 0.0)


def _of(calls: int | None, length: float | None) -> str:
    return f"the latest {calls} calls" if calls is not None else f"the latest {plain(length or 0.0)} s"


def failure_rate(rate: float, *, window: int | Duration = 100, minimum_calls: int | None = None) -> Trip:
    """Open when a share of the latest calls failed.

    Args:
        rate: the share, above 0 and at most 1; it is enough to reach it.
        window: which calls: a whole number for so many, text such as "60s" or a timedelta for those of a time.
        minimum_calls: with fewer results nothing is told, >= 1; not above a window of calls; default 20, or a smaller window.

    Raises:
        ConfigurationError: a value is not allowed, or they contradict each other.

    Example:
        >>> print(failure_rate(0.5, window="60s"))
        50% failures of the latest 60 s, at least 20 calls
    """
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate <= 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"rate is {rate!r}; allowed are numbers above 0 and at most 1")
    if minimum_calls is None:
        minimum_calls = min(_MINIMUM, window) if isinstance(window, int) and window > 0 else _MINIMUM
    calls, length = _checked_window(window, minimum_calls, "minimum_calls")
    return FailureRate(rate, calls, length, minimum_calls)


def failure_count(failures: int, *, window: int | Duration = 100, minimum_calls: int = 1) -> Trip:
    """Open when so many of the latest calls failed.

    Args:
        failures: how many, >= 1; not above a window of calls.
        window: which calls, as for `failure_rate`.
        minimum_calls: with fewer results nothing is told, >= 1; not above a window of calls.

    Raises:
        ConfigurationError: a value is not allowed, or they contradict each other.
    """
    _checked_window(window, failures, "failures")
    calls, length = _checked_window(window, minimum_calls, "minimum_calls")
    return FailureCount(failures, calls, length, minimum_calls)


def _checked_window(window: int | Duration, least: int, name: str) -> tuple[int | None, float | None]:
    whole(least, name)
    if isinstance(window, (bool, float)):
        raise ConfigurationError(
            f"window is {window!r}; allowed is a whole number of calls, or a time as text or timedelta, such as '60s'"
        )
    if not isinstance(window, int):
        return None, seconds(window, "window", positive=True)
    if least > whole(window, "window"):
        raise ConfigurationError(f"{name} is {least} and the window has {window} calls only: that is never reached")
    return window, None
