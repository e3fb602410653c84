"""The adaptive throttle as a machine: how fast calls may be sent while the other side says "too many".

The rate falls at once when a call is throttled, and comes back along a cubic curve: quickly up to where it was refused,
carefully around it, then faster again. The constants are those of the AWS SDKs' adaptive retry mode, which took them from
CUBIC congestion control (RFC 9438). Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["Cubic", "RateClock", "Throttle", "TokenBucket"]

_SCALE: Final = 0.4
_BETA: Final = 0.7
_SMOOTHING: Final = 0.8
_BUCKET: Final = 0.5
_MIN_RATE: Final = 0.5
_MIN_CAPACITY: Final = 1.0
_RESOLUTION: Final = 1e-6


class Cubic:
    """The rate that is tried, in calls a second.

    Args:
        most: the rate at which it was throttled last.
        throttled_at: when that was, in monotonic seconds.
    """

    __slots__ = ("_climb", "_most", "_throttled_at")

    def __init__(self, most: float, throttled_at: float) -> None:
        self._throttled_at = throttled_at
        self._most = most
        self._climb = _climb(most)

    def succeeded(self, now: float) -> float:
        """Return the rate after a success."""
        return _SCALE * (now - self._throttled_at - self._climb) ** 3 + self._most

    def throttled(self, rate: float, now: float) -> float:
        """Return the rate after a call was throttled at `rate`."""
        self._most, self._throttled_at = rate, now
        self._climb = _climb(rate)
        return _BETA * rate


def _climb(most: float) -> float:
    """Return the seconds after which the curve is back at the rate that was refused."""
    return float((most * (1 - _BETA) / _SCALE) ** (1 / 3))


class RateClock:
    """Measures how many calls a second are made, smoothed over half seconds.

    Args:
        now: monotonic seconds.
    """

    __slots__ = ("_calls", "_since", "rate")

    def __init__(self, now: float) -> None:
        self._since = math.floor(now / _BUCKET) * _BUCKET
        self._calls = 0
        self.rate = 0.0

    def called(self, now: float) -> float:
        """Count a call and return the rate."""
        self._calls += 1
        bucket = math.floor(now / _BUCKET) * _BUCKET
        if bucket > self._since:
            current = self._calls / (bucket - self._since)
            self.rate = current * _SMOOTHING + self.rate * (1 - _SMOOTHING)
            self._calls = 0
            self._since = bucket
        return self.rate


class TokenBucket:
    """Hands out calls at a rate, and says how long to wait for the next one.

    Args:
        rate: calls a second, > 0.
        capacity: how many may be saved up.
        held: how many there are.
        now: monotonic seconds.
    """

    __slots__ = ("_at", "capacity", "held", "rate")

    def __init__(self, rate: float, capacity: float, held: float, now: float) -> None:
        self.rate = rate
        self.capacity = capacity
        self.held = held
        self._at = now

    def refill(self, now: float) -> None:
        """Take in what the time has brought."""
        if now > self._at:
            self.held = min(self.capacity, self.held + (now - self._at) * self.rate)
        self._at = now

    def wait(self, now: float) -> float:
        """Ask for a call; return 0 when it may be made, else the seconds after which to ask again.

        Nothing is taken while it has to wait, so that no caller is pushed behind others by a debt.
        """
        self.refill(now)
        wait = (1.0 - self.held) / self.rate
        if wait > _RESOLUTION:  # a shorter one is a matter of floats: added to the time of some clocks it is lost
            return wait
        self.held = max(0.0, self.held - 1.0)
        return 0.0


class Throttle:
    """The throttle of one provider; free until a call is throttled for the first time.

    Whoever shares it holds a lock around each method.

    Args:
        now: monotonic seconds.
    """

    __slots__ = ("_blocked_until", "_clock", "_cubic", "bucket", "is_active")

    def __init__(self, now: float) -> None:
        self._cubic = Cubic(0.0, 0.0)
        self._clock = RateClock(now)
        self._blocked_until = now
        self.bucket = TokenBucket(_MIN_RATE, _MIN_CAPACITY, 0.0, now)
        self.is_active = False

    @property
    def measured(self) -> float:
        """The rate of the calls so far, a second."""
        return self._clock.rate

    def wait(self, now: float) -> float:
        """Ask for a call; return 0 when it may be made, else the seconds after which to ask again."""
        if now < self._blocked_until:
            return self._blocked_until - now
        return self.bucket.wait(now) if self.is_active else 0.0

    def succeeded(self, now: float) -> None:
        """Take in that a call was not throttled."""
        measured = self._clock.called(now)
        self._set(self._cubic.succeeded(now), measured, now)

    def throttled(self, now: float, retry_after: float | None = None) -> None:
        """Take in that a call was throttled.

        Args:
            now: monotonic seconds.
            retry_after: what the other side asked for: no call is made before.
        """
        measured = self._clock.called(now)
        rate = min(measured, self.bucket.rate) if self.is_active else measured
        self.is_active = True
        self._set(self._cubic.throttled(rate, now), measured, now)
        if retry_after:
            self._blocked_until = max(self._blocked_until, now + retry_after)

    def _set(self, rate: float, measured: float, now: float) -> None:
        """Use a rate, at most twice what is measured."""
        self.bucket.refill(now)
        self.bucket.rate = max(min(rate, 2 * measured), _MIN_RATE)
        self.bucket.capacity = max(self.bucket.rate, _MIN_CAPACITY)
        self.bucket.held = min(self.bucket.held, self.bucket.capacity)
