"""Backoffs: how long to wait before the n-th retry.

A backoff is plain data. `delay(n, rng)` draws the wait, `bounds(n)` gives the interval every draw lies in. The jitters
here only add: a wait is never shorter than its rung, so that a ladder in minutes stays one. Without a source of
randomness the wait is the rung itself.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, final

import attrs

from ..errors import ConfigurationError
from ..times import Duration, seconds

__all__ = ["Backoff", "BackoffLike", "Jitter", "Rng", "as_backoff", "constant", "delays", "exponential", "upward"]

MAX_DELAY: Final = 366 * 86400.0
"""Seconds; no wait is longer, whatever the formula says."""


class Rng(Protocol):
    """A source of randomness: `random.Random` and the `random` module both are one."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


@attrs.frozen
class Jitter:
    """A random addition to a wait."""

    name: str
    """ "none", "quarter" or "upward"."""
    share: float = 0.0
    """The share of the wait that "upward" adds at most."""

    def draw(self, wait: float, rng: Rng | None) -> float:
        """Return the wait with its random addition."""
        if rng is None or self.name == "none":
            return wait
        if self.name == "quarter":
            return wait + int(rng.random() * (_quarter(wait) + 1))
        return wait * (1 + self.share * rng.random())

    def bounds(self, wait: float) -> tuple[float, float]:
        """Return the smallest and the largest wait that `draw` can give."""
        if self.name == "none":
            return wait, wait
        if self.name == "quarter":
            return wait, wait + _quarter(wait)
        return wait, wait * (1 + self.share)


def _quarter(wait: float) -> int:
    """Return the largest addition of the plain form: a quarter of the wait in whole seconds, at least one."""
    return max(1, int(wait // 4))


def upward(share: float) -> Jitter:
    """Return a jitter that adds up to `share` of the wait, evenly distributed.

    Args:
        share: 0 to 1.

    Raises:
        ConfigurationError: `share` is outside 0 to 1.
    """
    if not 0 <= share <= 1:
        raise ConfigurationError(f"the share of upward() is {share!r}; allowed are numbers from 0 to 1")
    return Jitter("upward", float(share))


_NAMED: Final = {"none": Jitter("none"), "quarter": Jitter("quarter")}


def _jitter(value: Jitter | str) -> Jitter:
    if isinstance(value, Jitter):
        return value
    if value not in _NAMED:
        raise ConfigurationError(f"jitter is {value!r}; allowed are 'none', 'quarter' or upward(share)")
    return _NAMED[value]


class Backoff(abc.ABC):
    """How long to wait before each retry. Subclass it for a rule of your own, or pass any function of the number."""

    __slots__ = ()

    jitter: Jitter

    @abc.abstractmethod
    def rung(self, retry: int) -> float:
        """Return the wait in seconds before retry `retry` (from 1), without jitter."""

    @final
    def delay(self, retry: int, rng: Rng | None = None) -> float:
        """Draw the wait in seconds before a retry.

        Args:
            retry: the retry's number, from 1.
            rng: the source of randomness; None adds no jitter.
        """
        return min(self.jitter.draw(self.rung(retry), rng), MAX_DELAY)

    @final
    def bounds(self, retry: int) -> tuple[float, float]:
        """Return the smallest and the largest wait in seconds that `delay(retry)` can give."""
        low, high = self.jitter.bounds(self.rung(retry))
        return min(low, MAX_DELAY), min(high, MAX_DELAY)


@attrs.frozen
class _Delays(Backoff):
    rungs: tuple[float, ...]
    jitter: Jitter

    def rung(self, retry: int) -> float:
        return self.rungs[min(retry, len(self.rungs)) - 1]

    def __str__(self) -> str:
        return ", ".join(f"{rung:g}" for rung in self.rungs) + " s"


@attrs.frozen
class _Exponential(Backoff):
    base: float
    factor: float
    cap: float
    jitter: Jitter

    def rung(self, retry: int) -> float:
        if self.base == 0:
            return 0.0
        try:
            return min(self.cap, self.base * self.factor ** (retry - 1))
        except OverflowError:
            return self.cap

    def __str__(self) -> str:
        return f"{self.base:g} s x {self.factor:g}^n up to {self.cap:g} s"


@attrs.frozen
class _Function(Backoff):
    function: Callable[[int], float]
    jitter: Jitter

    def rung(self, retry: int) -> float:
        return seconds(self.function(retry), f"the delay that {self.function!r} gave for retry {retry}")

    def __str__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


def delays(*rungs: Duration, jitter: Jitter | str = upward(0.1)) -> Backoff:  # noqa: B008 - an immutable value
    """Return a ladder: the n-th retry waits for the n-th rung, later ones for the last.

    Args:
        rungs: at least one duration, >= 0.
        jitter: "none", "quarter" or `upward(share)`.

    Raises:
        ConfigurationError: no rung, or one that is not a duration.

    Example:
        >>> ladder = delays("1m", "5m", "15m")
        >>> ladder.delay(2), ladder.bounds(2)
        (300.0, (300.0, 330.0))
    """
    if not rungs:
        raise ConfigurationError("delays() needs at least one duration, for example delays('1m', '5m', '15m')")
    return _Delays(tuple(seconds(rung, "a rung of delays()") for rung in rungs), _jitter(jitter))


def constant(delay: Duration, *, jitter: Jitter | str = upward(0.1)) -> Backoff:  # noqa: B008 - an immutable value
    """Return a backoff that waits equally long before every retry.

    Args:
        delay: the wait, >= 0.
        jitter: "none", "quarter" or `upward(share)`.
    """
    return _Delays((seconds(delay, "the delay of constant()"),), _jitter(jitter))


def exponential(
    base: Duration,
    *,
    factor: float = 2.0,
    cap: Duration = "1d",
    jitter: Jitter | str = upward(0.1),  # noqa: B008 - an immutable value
) -> Backoff:
    """Return a backoff that grows: ``min(cap, base * factor ** (n - 1))``, then jitter.

    Args:
        base: the first wait, >= 0.
        factor: growth from one wait to the next, >= 1 and finite.
        cap: the longest wait before jitter, >= base.
        jitter: "none", "quarter" (a random whole number of seconds up to a quarter of the wait) or `upward(share)`.

    Raises:
        ConfigurationError: a value is outside its range.
    """
    first, most = seconds(base, "the base of exponential()"), seconds(cap, "the cap of exponential()")
    if not 1 <= factor < math.inf:
        raise ConfigurationError(f"the factor of exponential() is {factor!r}; allowed are finite numbers >= 1")
    if most < first:
        raise ConfigurationError(f"the cap of exponential() is {most:g} s, below its base of {first:g} s")
    return _Exponential(first, float(factor), most, _jitter(jitter))


BackoffLike: TypeAlias = Backoff | Sequence[Duration] | Callable[[int], float]
"""What may be given as a backoff: one of ours, a list of durations, or a function from retry number to seconds."""


def as_backoff(value: BackoffLike) -> Backoff:
    """Return `value` as a backoff.

    Raises:
        ConfigurationError: it is neither a backoff, a list of durations, nor a function.
    """
    if isinstance(value, Backoff):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return delays(*value)  # pyright: ignore[reportUnknownArgumentType]
    if callable(value):
        return _Function(value, _NAMED["none"])
    raise ConfigurationError(
        f"the backoff is {value!r}; allowed are delays(...), constant(...), exponential(...), "
        "a list of durations, or a function from the retry's number to seconds"
    )
