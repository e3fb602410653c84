"""What HTTP answers say about waiting: the Retry-After field."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["retry_after"]

_MONTHS: Final = {
    name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)
}
_CLOCK: Final = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DATES: Final = tuple(
    re.compile(pattern, re.ASCII | re.IGNORECASE)
    for pattern in (
        # Sun, 06 Nov 1994 08:49:37 GMT; Sunday, 06-Nov-94 08:49:37 GMT; Sun Nov  6 08:49:37 1994
        rf"[a-z]{{3}}, (?P<day>\d\d) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_CLOCK} GMT",
        rf"[a-z]{{6,9}}, (?P<day>\d\d)-(?P<month>[a-z]{{3}})-(?P<year>\d\d) {_CLOCK} GMT",
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[\d ]\d) {_CLOCK} (?P<year>\d{{4}})",
    )
)
_EPOCH: Final = 1_000_000_000
"""From this number on seconds are an instant since 1970, not a wait of decades."""
_MOST: Final = 1e12
"""Seconds; what is longer is as good as never."""


def retry_after(value: str, now: datetime) -> float | None:
    """Read a Retry-After field.

    A whole number of seconds, or a date in any of the three forms of HTTP, always in UTC. Numbers from 1,000,000,000 on are
    taken for an instant in seconds since 1970, as some servers send it.

    Args:
        value: the field's value.
        now: aware; what a date is compared with.

    Returns:
        Seconds to wait, >= 0 (0 for a date in the past); None when the value is neither.

    Example:
        >>> now = datetime(1999, 12, 31, 23, 58, tzinfo=UTC)
        >>> retry_after("120", now), retry_after("Fri, 31 Dec 1999 23:59:59 GMT", now), retry_after("soon", now)
        (120.0, 119.0, None)

    Source:
        RFC 9110, sections 10.2.3 and 5.6.7.
    """
    text = value.strip(" \t")
    if text.isascii() and text.isdigit():
        number = float(text) if len(text) < 16 else _MOST
        return number if number < _EPOCH else min(max(0.0, number - now.timestamp()), _MOST)
    for pattern in _DATES:
        match = pattern.fullmatch(text)
        if match is not None:
            date = _date(match, now)
            return None if date is None else max(0.0, (date - now).total_seconds())
    return None


def _date(match: re.Match[str], now: datetime) -> datetime | None:
    year = int(match["year"])
    if len(match["year"]) == 2:  # one more than fifty years ahead belongs to the century before
        year += now.year // 100 * 100
        if year > now.year + 50:
            year -= 100
    second = min(int(match["second"]), 59)  # 60 is a leap second, which datetime does not have
    month = _MONTHS.get(match["month"].lower(), 0)
    try:
        date = datetime(year, month, int(match["day"]), int(match["hour"]), int(match["minute"]), second, tzinfo=UTC)
    except ValueError:
        return None
    return date + timedelta(seconds=int(match["second"]) - second if int(match["second"]) == 60 else 0)
