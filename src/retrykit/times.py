"""Durations and instants.

A duration is seconds (`float` or `int`), a `timedelta`, or text such as "15m", "1h30m" or "500ms"; inside it is float
seconds. An instant is a timezone-aware `datetime`; inside stores it is whole milliseconds since the epoch, so every
instant made here is cut to the millisecond and survives a store unchanged.
"""

from __future__ import annotations

import functools
import math
import re
from datetime import UTC, date, datetime, time, timedelta
from typing import TypeAlias

from .errors import ConfigurationError

__all__ = ["Duration", "from_iso", "from_millis", "read_instant", "seconds", "to_iso", "to_millis", "utc"]

Duration: TypeAlias = float | timedelta | str

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_TEXT = re.compile(r"(?:\d{1,12}(?:\.\d{1,9})? *(?:ms|s|m|h|d|w) *){1,6}", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?) *(ms|s|m|h|d|w)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LAST = datetime.max.replace(microsecond=999000, tzinfo=UTC)


def seconds(value: Duration, name: str = "duration", *, positive: bool = False, most: float = math.inf) -> float:
    """Read a duration as float seconds.

    Args:
        value: seconds (>= 0, finite), a `timedelta`, or text: numbers with a unit of ms, s, m, h, d or w.
        name: what the value is for; named in the error.
        positive: refuse zero.
        most: refuse what is longer, in seconds.

    Raises:
        ConfigurationError: the value is not a duration, is negative, infinite or NaN, or is zero or too long where that is refused.

    Example:
        >>> seconds("1h30m"), seconds(2), seconds(timedelta(days=1))
        (5400.0, 2.0, 86400.0)
    """
    if isinstance(value, timedelta):
        result = value.total_seconds()
    elif isinstance(value, str):
        text = value.strip().lower()
        if not _TEXT.fullmatch(text):
            raise ConfigurationError(
                f"{name} is {value!r}; allowed is text such as '500ms', '30s', '15m', '1h30m', '3d'"
            )
        result = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError(f"{name} is {value!r}; allowed are seconds, a timedelta, or text such as '15m'")
    else:
        try:
            result = float(value)
        except OverflowError:
            raise ConfigurationError(f"{name} is a number too large for a duration") from None
    if not math.isfinite(result) or result < 0 or (positive and result == 0):
        allowed = "> 0" if positive else ">= 0"
        raise ConfigurationError(f"{name} is {value!r}; allowed are finite durations {allowed}")
    if result > most:
        raise ConfigurationError(f"{name} is {value!r}; allowed are durations of at most {short(most)}")
    return result


def plain(seconds: float) -> str:
    """Return seconds as people write them: without an exponent, to the millisecond at the most."""
    return f"{round(seconds, 3):.15g}"


def short(seconds: float) -> str:
    """Return a duration for people to glance at: its two largest units, rounded ("7h15m", "4m1s", "0.25s").

    Example:
        >>> short(26100), short(0.25), short(259200)
        ('7h15m', '0.25s', '3d')
    """
    if seconds < 10:
        return f"{round(seconds, 2):g}s"
    rest, parts = round(seconds), list[str]()
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, rest = divmod(rest, size)
        if number and len(parts) < 2:
            parts.append(f"{number}{unit}")
        elif parts:
            break
    return "".join(parts)


@functools.cache
def _microseconds(number: int) -> timedelta:
    return timedelta(microseconds=number)


def utc(instant: datetime, name: str = "instant") -> datetime:
    """Return an aware instant in UTC, cut to the millisecond.

    Raises:
        ConfigurationError: `instant` has no timezone, is outside the years 1 to 9999 in UTC, or is not a datetime.
    """
    if not isinstance(instant, datetime):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise ConfigurationError(f"{name} is {instant!r}; allowed is a timezone-aware datetime")
    if instant.tzinfo is UTC:  # the usual case
        rest = instant.microsecond % 1000
        return instant - _microseconds(rest) if rest else instant  # `replace` takes ten times as long
    if instant.tzinfo is None or instant.utcoffset() is None:
        raise ConfigurationError(
            f"{name} is the naive datetime {instant.isoformat()}; give it a timezone, for example datetime.now(timezone.utc)"
        )
    try:
        instant = instant.astimezone(UTC)
    except OverflowError:
        raise ConfigurationError(f"{name} is {instant.isoformat()}; allowed are the years 1 to 9999 in UTC") from None
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def later(instant: datetime, delay: float) -> datetime:
    """Return `instant` plus `delay` seconds, rounded up to the millisecond and held below the last representable instant."""
    try:
        return min(instant + timedelta(milliseconds=math.ceil(round(delay * 1000, 3))), _LAST)
    except OverflowError:
        return _LAST


def to_millis(instant: datetime) -> int:
    """Return whole milliseconds since the epoch."""
    return (instant - _EPOCH) // _MILLISECOND


def from_millis(millis: int) -> datetime:
    """Return the aware UTC instant of `millis` milliseconds since the epoch."""
    return _EPOCH + timedelta(milliseconds=millis)


def to_iso(instant: datetime) -> str:
    """Return RFC 3339 text in UTC with milliseconds, for example ``2026-01-31T08:00:00.000Z``."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_iso(text: str, name: str = "instant") -> datetime:
    """Read RFC 3339 / ISO 8601 text with a timezone.

    Raises:
        ConfigurationError: the text is not an instant, or has no timezone.
    """
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{name} is {text!r}; allowed is ISO 8601 text such as '2026-01-31T08:00:00Z'"
        ) from None
    return utc(instant, name)


def read_instant(text: str, now: datetime, name: str = "instant") -> datetime:
    """Read what a person writes for an instant: how long ago, a date in UTC, or ISO 8601 text with a timezone.

    Args:
        text: such as ``2h``, ``2026-01-31`` or ``2026-01-31T08:00:00Z``.
        now: what ``2h`` is counted back from, aware.
        name: what to call it in errors.

    Raises:
        ConfigurationError: the text is none of these, or lies before the year 1.
    """
    try:
        if text[-1:].isalpha() and not text.endswith("Z"):
            return utc(now - timedelta(seconds=seconds(text)))
        if _DATE.fullmatch(text):
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        return from_iso(text)
    except (ConfigurationError, OverflowError, ValueError):
        raise ConfigurationError(
            f"{name} is {text[:40]!r}; allowed is how long ago, such as '2h', a date, or an instant with a timezone, such as "
            "'2026-01-31T08:00:00Z'"
        ) from None
