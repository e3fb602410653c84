"""Backoffs: how long to wait before the n-th retry.

A backoff is plain data: a formula that gives the rung, and a jitter that spreads it, so that what failed together does
not come back together. `delay(n, rng)` draws the wait, `bounds(n)` gives the interval that every draw lies in. Without a
source of randomness the wait is the rung itself.

For queues the jitter is "quarter" or `upward(share)`, which only add: a wait is never shorter than its rung. "full" and
"equal" fall below it; they are for calls that wait in the process, where spreading matters more than any one wait.
"""

from __future__ import annotations

import abc
import math
import sys
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, final

import attrs

from ..errors import ConfigurationError
from ..times import Duration, plain, seconds

__all__ = [
    "MAX_DELAY",
    "Backoff",
    "BackoffLike",
    "Jitter",
    "Rng",
    "as_backoff",
    "as_jitter",
    "constant",
    "decorrelated",
    "delays",
    "exponential",
    "fit",
    "formula",
    "linear",
    "plus_minus",
    "upward",
]

MAX_DELAY: Final = 366 * 86400.0
"""Seconds; no wait is longer, whatever the formula says."""


class Rng(Protocol):
    """A source of randomness: `random.Random` and the `random` module both are one."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


@attrs.frozen
class Jitter:
    """How a wait is spread. Take one of the named ones, `plus_minus(share)` or `upward(share)`.

    A draw is evenly distributed from `low` to `low + spread` times the wait; "quarter" adds whole seconds instead.
    """

    name: str
    """ "none", "full", "equal", "quarter", "plus_minus" or "upward"."""
    low: float = 1.0
    """The smallest share of the wait."""
    spread: float = 0.0
    """The largest share less the smallest."""

    def draw(self, wait: float, rng: Rng | None) -> float:
        """Return the wait, spread; without a source of randomness as it is."""
        if rng is None or self.name == "none":
            return wait
        if self.name == "quarter":
            return wait + int(rng.random() * (_quarter(wait) + 1))
        return wait * (self.low + self.spread * rng.random())

    def bounds(self, wait: float) -> tuple[float, float]:
        """Return the smallest and the largest wait that `draw` can give."""
        if self.name == "quarter":
            return wait, wait + _quarter(wait)
        return wait * self.low, wait * (self.low + self.spread)

    @property
    def only_adds(self) -> bool:
        """Whether no draw is shorter than the wait."""
        return self.low >= 1

    def __str__(self) -> str:
        """Return what stands behind the formula in a table."""
        if self.name == "quarter":
            return "+ up to a quarter"
        if self.name == "upward":
            return f"+ up to {plain(self.spread * 100)}%"
        if self.name == "plus_minus":
            return f"+/- {plain(self.spread * 50)}%"
        return {"none": "", "full": "full jitter", "equal": "equal jitter"}[self.name]


def _quarter(wait: float) -> int:
    """Return the largest addition of the plain form: a quarter of the wait in whole seconds, at least one."""
    return max(1, int(wait // 4))


_NAMED: Final = {
    "none": Jitter("none"),
    "full": Jitter("full", 0.0, 1.0),
    "equal": Jitter("equal", 0.5, 0.5),
    "quarter": Jitter("quarter"),
}


def upward(share: float) -> Jitter:
    """Return a jitter that adds up to `share` of the wait.

    Args:
        share: 0 to 1.

    Raises:
        ConfigurationError: `share` is outside 0 to 1.
    """
    return Jitter("upward", 1.0, _share(share, "upward"))


def plus_minus(share: float) -> Jitter:
    """Return a jitter that adds or takes away up to `share` of the wait.

    Args:
        share: 0 to 1.

    Raises:
        ConfigurationError: `share` is outside 0 to 1.
    """
    number = _share(share, "plus_minus")
    return Jitter("plus_minus", 1.0 - number, 2.0 * number)


def _share(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ConfigurationError(f"the share of {name}() is {value!r}; allowed are numbers from 0 to 1")
    return float(value)


def as_jitter(value: Jitter | str) -> Jitter:
    """Return a jitter, also by its name.

    Raises:
        ConfigurationError: there is none of that name.
    """
    if isinstance(value, Jitter):
        return value
    if not isinstance(value, str) or value not in _NAMED:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"jitter is {value!r}; allowed are {', '.join(map(repr, _NAMED))}, plus_minus(share) and upward(share)"
        )
    return _NAMED[value]


class Backoff(abc.ABC):
    """How long to wait before each retry. Any function of the retry's number may stand for one."""

    __slots__ = ()

    jitter: Jitter

    @abc.abstractmethod
    def rung(self, retry: int) -> float:
        """Return the wait in seconds before retry `retry` (from 1), without jitter."""

    def _draw(self, retry: int, rng: Rng | None, previous: float | None) -> float:
        return self.jitter.draw(self.rung(retry), rng)

    def _bounds(self, retry: int) -> tuple[float, float]:
        return self.jitter.bounds(self.rung(retry))

    @property
    def never_waits(self) -> bool:
        """Whether every wait is known to be zero."""
        return False

    @final
    def delay(self, retry: int, rng: Rng | None = None, *, previous: float | None = None) -> float:
        """Draw the wait in seconds before a retry.

        Args:
            retry: the retry's number, from 1.
            rng: the source of randomness; None adds no jitter.
            previous: the wait before the retry before, which only `decorrelated` looks at; None: not known.

        Raises:
            ConfigurationError: `retry` is below 1.
        """
        _counted(retry)
        return min(self._draw(retry, rng, previous), MAX_DELAY)

    @final
    def bounds(self, retry: int) -> tuple[float, float]:
        """Return the smallest and the largest wait in seconds that `delay(retry)` can give.

        Raises:
            ConfigurationError: `retry` is below 1.
        """
        _counted(retry)
        low, high = self._bounds(retry)
        return min(low, MAX_DELAY), min(high, MAX_DELAY)

    @final
    def _with_jitter(self, text: str) -> str:
        jitter = str(self.jitter)
        return f"{text}, {jitter}" if jitter[:1].isalpha() else f"{text} {jitter}".rstrip()


def _counted(retry: int) -> None:
    if retry < 1:
        raise ConfigurationError(f"retry is {retry!r}; retries are counted from 1")


@attrs.frozen
class Delays(Backoff):
    """A ladder of waits; past its end the last rung is repeated."""

    rungs: tuple[float, ...]
    jitter: Jitter

    def rung(self, retry: int) -> float:
        """Return the rung, or the last one."""
        return self.rungs[min(retry, len(self.rungs)) - 1]

    @property
    def never_waits(self) -> bool:
        """Whether all rungs are zero, and the jitter adds nothing to zero."""
        return not any(self.rungs) and self.jitter.bounds(0.0) == (0.0, 0.0)

    def __str__(self) -> str:
        return self._with_jitter(", ".join(f"{plain(rung)}" for rung in self.rungs) + " s")


@attrs.frozen
class Linear(Backoff):
    """A wait that grows by the same step."""

    base: float
    step: float
    cap: float
    jitter: Jitter

    def rung(self, retry: int) -> float:
        """Return ``min(cap, base + step * (retry - 1))``."""
        try:
            return min(self.cap, self.base + self.step * (retry - 1))
        except OverflowError:
            return self.cap if self.step else self.base

    def __str__(self) -> str:
        return self._with_jitter(f"{plain(self.base)} s + {plain(self.step)} s each, up to {plain(self.cap)} s")


@attrs.frozen
class Exponential(Backoff):
    """A wait that grows by the same factor."""

    base: float
    factor: float
    cap: float
    jitter: Jitter

    def rung(self, retry: int) -> float:
        """Return ``min(cap, base * factor ** (retry - 1))``."""
        if self.base == 0 or self.factor == 1:
            return self.base
        try:
            return min(self.cap, self.base * self.factor ** (retry - 1))
        except OverflowError:
            return self.cap

    def __str__(self) -> str:
        return self._with_jitter(f"{plain(self.base)} s x {plain(self.factor)}^n, up to {plain(self.cap)} s")


@attrs.frozen
class Decorrelated(Backoff):
    """A wait that is drawn anew between the base and three times the wait before."""

    base: float
    cap: float
    jitter: Jitter = _NAMED["none"]

    def rung(self, retry: int) -> float:
        """Return the mean of the waits before the cap cuts them: ``base * (2 * 1.5 ** retry - 1)``, at most the cap."""
        try:
            return min(self.cap, self.base * (2 * 1.5**retry - 1))
        except OverflowError:
            return self.cap if self.base else 0.0

    def _draw(self, retry: int, rng: Rng | None, previous: float | None) -> float:
        if rng is None:
            return self.rung(retry)
        if previous is None:
            previous = self.rung(retry - 1)
        # What was waited before may have been lengthened, by a Retry-After for one; the chain itself goes no further.
        high = 3 * min(max(previous, self.base), self._highest(retry - 1))
        return min(self.cap, self.base + (high - self.base) * rng.random())

    def _highest(self, retry: int) -> float:
        try:
            return min(self.cap, self.base * 3.0**retry)
        except OverflowError:
            return self.cap if self.base else 0.0

    def _bounds(self, retry: int) -> tuple[float, float]:
        return self.base, self._highest(retry)

    def __str__(self) -> str:
        return f"decorrelated from {plain(self.base)} s, up to {plain(self.cap)} s"


@attrs.frozen
class Formula(Backoff):
    """A wait by a function of the retry's number."""

    function: Callable[[int], float]
    jitter: Jitter

    def rung(self, retry: int) -> float:
        """Return what the function gives.

        Raises:
            ConfigurationError: it gives no duration.
        """
        return seconds(self.function(retry), f"the delay that {self._name} gave for retry {retry}")

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", None) or type(self.function).__name__

    def __str__(self) -> str:
        return self._with_jitter(f"by {self._name}")


def delays(*rungs: Duration, jitter: Jitter | str = upward(0.1)) -> Delays:  # noqa: B008 - an immutable value
    """Return a ladder: the n-th retry waits for the n-th rung, later ones for the last.

    Args:
        rungs: at least one duration, >= 0.
        jitter: see `as_jitter`.

    Raises:
        ConfigurationError: no rung, or one that is not a duration.

    Example:
        >>> ladder = delays("1m", "5m", "15m")
        >>> ladder.delay(2), ladder.bounds(2)
        (300.0, (300.0, 330.0))
    """
    if not rungs:
        raise ConfigurationError("delays() needs at least one duration, for example delays('1m', '5m', '15m')")
    return Delays(tuple(seconds(rung, "a rung of delays()") for rung in rungs), as_jitter(jitter))


def constant(delay: Duration, *, jitter: Jitter | str = upward(0.1)) -> Delays:  # noqa: B008 - an immutable value
    """Return a backoff that waits equally long before every retry.

    Args:
        delay: the wait, >= 0.
        jitter: see `as_jitter`.
    """
    return Delays((seconds(delay, "the delay of constant()"),), as_jitter(jitter))


def linear(
    base: Duration,
    *,
    step: Duration | None = None,
    cap: Duration = "1d",
    jitter: Jitter | str = upward(0.1),  # noqa: B008 - an immutable value
) -> Linear:
    """Return a backoff that grows by the same step: ``min(cap, base + step * (n - 1))``, then jitter.

    Args:
        base: the first wait, >= 0.
        step: what each wait is longer than the one before; None: the base.
        cap: the longest wait before jitter, >= base.
        jitter: see `as_jitter`.

    Raises:
        ConfigurationError: a value is outside its range.
    """
    first, most = _capped(base, cap, "linear")
    return Linear(first, first if step is None else seconds(step, "the step of linear()"), most, as_jitter(jitter))


def exponential(
    base: Duration,
    *,
    factor: float = 2.0,
    cap: Duration = "1d",
    jitter: Jitter | str = upward(0.1),  # noqa: B008 - an immutable value
) -> Exponential:
    """Return a backoff that grows by the same factor: ``min(cap, base * factor ** (n - 1))``, then jitter.

    Args:
        base: the first wait, >= 0.
        factor: growth from one wait to the next, >= 1 and finite.
        cap: the longest wait before jitter, >= base.
        jitter: see `as_jitter`; "quarter" is the plain form of a random whole number of seconds up to a quarter.

    Raises:
        ConfigurationError: a value is outside its range.
    """
    first, most = _capped(base, cap, "exponential")
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 1 <= factor <= sys.float_info.max:
        raise ConfigurationError(f"the factor of exponential() is {factor!r}; allowed are finite numbers >= 1")
    return Exponential(first, float(factor), most, as_jitter(jitter))


def decorrelated(base: Duration, *, cap: Duration = "1d") -> Decorrelated:
    """Return a backoff whose wait is drawn from `base` to three times the wait before, at most `cap`.

    Without the wait before it is drawn from the mean of the waits before; so it takes the same time at any retry.
    Source: AWS Architecture Blog, "Exponential Backoff And Jitter" (2015).

    Args:
        base: the shortest wait, >= 0.
        cap: the longest wait, >= base.

    Raises:
        ConfigurationError: a value is outside its range.
    """
    return Decorrelated(*_capped(base, cap, "decorrelated"))


def formula(function: Callable[[int], float], *, jitter: Jitter | str = "none") -> Formula:
    """Return a backoff by a function of the retry's number, from 1, to seconds.

    Args:
        function: gives a finite number of seconds >= 0.
        jitter: see `as_jitter`.

    Example:
        >>> quartic = formula(lambda n: n**4, jitter=plus_minus(0.1))
        >>> quartic.delay(3), quartic.bounds(10)
        (81.0, (9000.0, 11000.0))
    """
    if not callable(function):
        raise ConfigurationError(f"formula() was given {function!r}; allowed is a function of the retry's number")
    return Formula(function, as_jitter(jitter))


def fit(tries: int, within: Duration, *, factor: float = 2.0) -> Delays:
    """Return a ladder that uses up a window: the last of `tries` tries comes no later than `within` after the first.

    Args:
        tries: in all, >= 2; so there are `tries - 1` waits.
        within: the window, > 0.
        factor: growth from one wait to the next, > 0 and finite.

    Returns:
        A ladder whose waits, with the largest jitter, add up to the window, and never to more.

    Raises:
        ConfigurationError: a value is outside its range.

    Example:
        >>> ladder = fit(4, "1h")
        >>> round(sum(ladder.bounds(n)[1] for n in (1, 2, 3)), 3)
        3600.0
    """
    if isinstance(tries, bool) or not isinstance(tries, int) or not 2 <= tries <= 1000:
        raise ConfigurationError(f"the tries of fit() are {tries!r}; allowed are whole numbers from 2 to 1000")
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor < math.inf:
        raise ConfigurationError(f"the factor of fit() is {factor!r}; allowed are finite numbers > 0")
    window = seconds(within, "the window of fit()", positive=True)
    # Counted from the longest wait, so that no power overflows.
    longest_first = [min(factor, 1 / factor) ** n for n in range(tries - 1)]
    unit = window / (1.1 * math.fsum(longest_first)) * _BELOW
    rungs = [unit * weight for weight in (reversed(longest_first) if factor >= 1 else longest_first)]
    return Delays(tuple(rungs), upward(0.1))


_BELOW: Final = 1 - 1e-12  # so that rounding, of up to 1000 rungs and their sum, never passes the window


def _capped(base: Duration, cap: Duration, name: str) -> tuple[float, float]:
    first, most = seconds(base, f"the base of {name}()"), seconds(cap, f"the cap of {name}()")
    if most < first:
        raise ConfigurationError(f"the cap of {name}() is {plain(most)} s, below its base of {plain(first)} s")
    return first, most


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
        return formula(value)
    raise ConfigurationError(
        f"the backoff is {value!r}; allowed are delays(...), constant(...), linear(...), exponential(...), "
        "decorrelated(...), fit(...), a list of durations, or a function from the retry's number to seconds"
    )
