"""An HTTP answer, and what its fields say about waiting.

An answer keeps the status, the fields by their names in lower case, and the body: as JSON where it is that, else as text. Nothing
in it makes reading fail: what cannot be read is not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final, TypeAlias, cast

import attrs

from ..codec import JSON
from ..errors import ConfigurationError

__all__ = ["HttpReply", "retry_after", "wait_of"]

MAX_BODY: Final = 1 << 20
"""Bytes of a body that are read."""
MAX_FIELDS: Final = 128
"""Header fields that are kept."""
_MAX_VALUE: Final = 8_192

_Values: TypeAlias = str | bytes | Iterable[str | bytes]
Fields: TypeAlias = Mapping[str, _Values] | Mapping[bytes, _Values] | Iterable[tuple[str | bytes, str | bytes]]
"""Header fields: a mapping from names to one or more values, or pairs, in which a name may come again."""


@attrs.frozen(init=False, repr=False, eq=False)
class HttpReply:
    """What an HTTP server answered.

    Its representation shows neither fields nor body, which may hold secrets and personal data.

    Args:
        status: the status code, 100 to 599; another number, text that is one, or None for an unknown status is taken as well.
        headers: the header fields, in any letter case; of repeated ones the values are joined by a comma.
        body: bytes in any charset, text, or what was already read from JSON. The first MiB counts.

    Raises:
        ConfigurationError: an argument has a type that no server's answer could have been read into.

    Example:
        >>> reply = HttpReply(429, {"Retry-After": "30"}, b'{"message": "slow down"}')
        >>> reply.status, reply.headers["retry-after"], reply.document
        (429, '30', {'message': 'slow down'})
    """

    status: int | None
    """The status code; None where it is not known."""
    headers: Mapping[str, str]
    """The header fields, by their names in lower case."""
    text: str
    """The body as text; empty where it was given as JSON already."""
    document: JSON
    """The body as JSON; None where it is none."""

    def __init__(
        self,
        status: int | str | None,
        headers: Fields | None = (),
        body: bytes | bytearray | memoryview | str | Mapping[str, object] | list[object] | None = b"",
    ) -> None:
        text, document = _read(body)
        self.__attrs_init__(  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
            status=_status(status), headers=MappingProxyType(_fields(headers)), text=text, document=document
        )

    def __repr__(self) -> str:
        return f"<HttpReply {self.status}>"


def _status(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:9])
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value if value is None or 100 <= value <= 599 else None
    raise ConfigurationError(f"the HTTP status is {value!r}; allowed are whole numbers, and None")


def _read(body: object) -> tuple[str, JSON]:
    """Return a body as text and as JSON."""
    if body is None:
        return "", None
    if isinstance(body, (Mapping, list)):
        return "", cast("JSON", body)
    if isinstance(body, (bytes, bytearray, memoryview)):
        body = _decoded(bytes(cast("bytes", body)[:MAX_BODY]))
    if not isinstance(body, str):
        raise ConfigurationError(
            f"the body of an HTTP answer is a {type(body).__name__}; allowed are bytes, text and JSON"
        )
    text = body[:MAX_BODY]
    if text.lstrip()[:1] not in ("{", "["):
        return text, None
    try:
        return text, json.loads(text)
    except (ValueError, RecursionError):
        return text, None


def _decoded(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _fields(headers: Fields | None) -> dict[str, str]:
    given = cast("Mapping[object, object]", headers).items() if isinstance(headers, Mapping) else headers or ()
    fields: dict[str, str] = {}
    for pair in _several(given):
        if not isinstance(pair, (tuple, list)) or len(cast("list[object]", pair)) != 2:
            raise ConfigurationError(
                f"the headers of an HTTP answer are a {type(cast('object', headers)).__name__}; allowed are a mapping, and pairs of name and value"
            )
        name, values = cast("tuple[object, object]", pair)
        key = _said(name).strip().lower()
        value = ", ".join(_said(each).strip() for each in _several(values))[:_MAX_VALUE]
        fields[key] = f"{fields[key]}, {value}"[:_MAX_VALUE] if key in fields else value
        if len(fields) >= MAX_FIELDS:
            break
    return fields


def _several(values: object) -> Iterable[object]:
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes)):
        return cast("Iterable[object]", values)
    return (values,)


def _said(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


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
_INTERNET_DATE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH: Final = 1_000_000_000
"""From this number on seconds are an instant since 1970, not a wait of decades."""
_MOST: Final = 1e12
"""Seconds; what is longer is as good as never."""


_LONGEST: Final = 366 * 86_400.0
"""Seconds; no server asks for more than a year and means it."""
_NUMBER: Final = re.compile(r"-?\d{1,20}(?:\.\d{1,20})?", re.ASCII)
_PERIOD: Final = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h|d))+", re.ASCII)
_PERIOD_PART: Final = re.compile(r"([\d.]+)(ms|s|m|h|d)")
_PERIOD_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PARAMETER_T: Final = re.compile(r"(?:^|[;,]) ?(?:t|reset)=(\d{1,15})(?![\d.])", re.ASCII)
_RESETS: Final = (
    "x-ratelimit-reset-after", "ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset", "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
)  # fmt: skip
"""Fields for when a limit is lifted, in seconds, as an instant, or as a period ("6m0s")."""
_REMAINING: Final = ("ratelimit-remaining", "x-ratelimit-remaining", "x-rate-limit-remaining")


def wait_of(reply: HttpReply, now: datetime, *, throttled: bool = False) -> float | None:
    """Return how long an answer's fields ask us to wait.

    `Retry-After` and `retry-after-ms` count in every answer. Fields of rate limits stand in successful answers as well; they
    count only where the answer refuses: status 429 or 503, nothing left of the limit, or the caller knows that it is a throttle.
    Instants are compared with the answer's own `Date` field, where it has one, so that a clock that is wrong here does not matter.

    Args:
        reply: the answer.
        now: aware; what instants are compared with where the answer has no date of its own.
        throttled: whether the answer was recognised as a throttle, whatever its status is.

    Returns:
        Seconds, from 0 to 366 days; None where nothing was asked for, or nothing that can be read.

    Example:
        >>> now = datetime(2026, 1, 1, tzinfo=UTC)
        >>> wait_of(HttpReply(429, {"Retry-After": "30"}), now)
        30.0
        >>> (
        ...     wait_of(HttpReply(429, {"x-ratelimit-reset-requests": "1m30s"}), now),
        ...     wait_of(HttpReply(200, {"RateLimit-Reset": "5"}), now),
        ... )
        (90.0, None)

    Source:
        RFC 9110 section 10.2.3; the draft on RateLimit fields of the IETF's HTTPAPI group; APIs' own fields.
    """
    fields = reply.headers
    start = now
    if "date" in fields:
        date = _instant(fields["date"], now)
        start = now if date is None else date
    wait = _milliseconds(fields.get("retry-after-ms", ""))
    if wait is None and "retry-after" in fields:
        wait = _retry_after(fields["retry-after"], start)
    if wait is None and (
        throttled or reply.status in (429, 503) or any(fields.get(name) == "0" for name in _REMAINING)
    ):
        wait = _reset(fields, start)
    return None if wait is None else min(max(0.0, wait), _LONGEST)


def _milliseconds(value: str) -> float | None:
    return float(value) / 1_000 if _NUMBER.fullmatch(value) else None


def _retry_after(value: str, start: datetime) -> float | None:
    """Read Retry-After, also a fraction of seconds, and of several values the longest."""
    whole = retry_after(value, start)  # a date holds a comma
    if whole is not None:
        return whole
    parts = [each.strip() for each in value.split(",")]
    return max((float(each) for each in parts if _NUMBER.fullmatch(each)), default=None)


def _reset(fields: Mapping[str, str], start: datetime) -> float | None:
    """Return the longest wait that fields of rate limits name."""
    waits = [float(found) for found in _PARAMETER_T.findall(fields.get("ratelimit", ""))]
    waits += [wait for name in _RESETS if (wait := _lifted(fields.get(name, ""), start)) is not None]
    return max(waits, default=None)


def _lifted(value: str, start: datetime) -> float | None:
    """Read when a limit is lifted: seconds, an instant in seconds or milliseconds since 1970, a period, a date."""
    if _NUMBER.fullmatch(value):
        number = float(value)
        if number >= _EPOCH * 1_000:
            number /= 1_000
        return number if number < _EPOCH else number - start.timestamp()
    if _PERIOD.fullmatch(value):
        return sum(float(number) * _PERIOD_UNITS[unit] for number, unit in _PERIOD_PART.findall(value))
    date = _instant(value, start)
    return None if date is None else (date - start).total_seconds()


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
    date = _instant(text, now)
    return None if date is None else max(0.0, (date - now).total_seconds())


def _instant(text: str, now: datetime) -> datetime | None:
    """Read a date in any of the three forms of HTTP, or in that of RFC 3339."""
    for pattern in _DATES:
        match = pattern.fullmatch(text)
        if match is not None:
            return _date(match, now)
    return _internet_date(text)


def _internet_date(text: str) -> datetime | None:
    if not _INTERNET_DATE.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
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
