"""The one way in which retrykit writes and reads JSON.

Strict in both directions: no NaN, no infinity, no key that is not text, nothing that holds itself, at most 100 levels
of lists and objects. What is refused is named by its path ("$.variables.items[3]"); no value is ever quoted. How large
the data may be is for callers to say.

`encode` and `decode` are plain JSON. `pack` and `unpack` are for values that retrykit keeps for an application: JSON
too, in which instants, dates, durations, bytes, decimals and UUIDs are tagged objects and come back as what they were.

Text is written in ASCII with escapes, so that any Unicode comes back as it was, lone surrogates included. Only two
surrogates that form a pair come back as the one character they stand for: JSON cannot tell the two apart.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

from .errors import InvalidPayloadError

if TYPE_CHECKING:
    from decimal import Decimal
    from uuid import UUID

__all__ = ["JSON", "MAX_DEPTH", "decode", "encode", "pack", "unpack"]

JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None

MAX_DEPTH: Final = 100
"""Levels of lists and objects, one inside the other."""

_MAX_PATH: Final = 200
_MAX_KEY: Final = 40
_MAX_TYPE: Final = 60

_ENCODE: Final = "the value cannot be written as JSON"
_PACK: Final = "the value cannot be packed"
_DECODE: Final = "not JSON that can be read"
_UNPACK: Final = "not a packed value"


def encode(value: JSON) -> bytes:
    """Write a value as compact JSON in the order given.

    Args:
        value: text, numbers, booleans, None; lists, tuples and mappings of these, also nested. Tuples become lists,
            members of a `StrEnum` or `IntEnum` their values.

    Raises:
        InvalidPayloadError: the value holds something JSON has no form for, a NaN, an infinity, a key that is not text,
            or itself, or has more than 100 levels. The message names the path.

    Example:
        >>> encode({"to": "ada@example.org", "size": (2, 3.5)})
        b'{"to":"ada@example.org","size":[2,3.5]}'
    """
    data = _dumps(value)
    return _write(_Copy(_ENCODE).of(value)) if data is None else data


def decode(data: bytes | str) -> JSON:
    """Read JSON.

    Raises:
        InvalidPayloadError: the data is not JSON, not UTF-8, has more than 100 levels, or a number that does not fit:
            an infinity such as ``1e400``, or an integer of thousands of digits. The message says where and never quotes
            the data.
    """
    try:
        text = data if isinstance(data, str) else str(data, "utf-8-sig", "surrogatepass")  # json would take UTF-16 too
    except UnicodeDecodeError as error:
        raise InvalidPayloadError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        _refuse_depth(text)
    try:
        return cast("JSON", _read(_STRICT, text))
    except _NumberError:
        return cast("JSON", _Marked(_DECODE).of(_read(_MARKING, text)))


def pack(value: object) -> bytes:
    r"""Write a value of an application as compact JSON from which `unpack` makes it again.

    Besides JSON: aware datetimes (they come back with the same offset, without the name of the zone), dates,
    timedeltas, bytes, finite Decimals and UUIDs. Tuples come back as lists, mappings as dictionaries, enums as their
    values. A tag is an object whose only key begins with "$", such as ``{"$date": "2026-01-31"}``; an object of the
    application's own that looks like one is put into ``{"$": ...}``. A tag and its escape count as a level.

    Raises:
        InvalidPayloadError: as for `encode`; also for a naive datetime. The message names the path.

    Example:
        >>> pack({"due": date(2026, 1, 31), "raw": b"\xff", "$": 1})
        b'{"due":{"$date":"2026-01-31"},"raw":{"$bytes":"/w=="},"$":1}'
        >>> unpack(pack([{"$date": "today"}, timedelta(minutes=1)]))
        [{'$date': 'today'}, datetime.timedelta(seconds=60)]
    """
    data = _dumps(value)
    if data is None or b'{"$' in data:  # in compact JSON this is always the start of an object, never a text
        return _write(_Pack(_PACK).of(value))
    return data


def unpack(data: bytes | str) -> object:
    """Read what `pack` wrote.

    Raises:
        InvalidPayloadError: as for `decode`; or a tag is not known, for example one of a newer version, or holds
            something else than it says. The message names the path.
    """
    value = decode(data)
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return _Unpack(_UNPACK).of(value) if b'"$' in raw or b"\\u0024" in raw else value


_encoder: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"), check_circular=False)
_LEAVES: Final = frozenset({str, int, float, bool, type(None)})


def _write(value: object) -> bytes:
    return _encoder.encode(value).encode("ascii")


def _dumps(value: object) -> bytes | None:
    """Return the JSON of a value that is plain, or None: then it needs a copy, or is to be refused."""
    if not _is_plain(value, MAX_DEPTH):
        return None
    try:
        return _write(value)
    except ValueError:  # a NaN, an infinity, an integer of thousands of digits
        return None


def _is_plain(value: object, levels: int) -> bool:
    """Tell whether `json` writes a value as it is: it would turn keys such as 1 and None into text without a word."""
    kind = type(value)
    items: object
    if kind is dict:
        members = cast("dict[object, object]", value)
        for key in members:
            if type(key) is not str and not isinstance(key, str):
                return False
        items = members.values()
    elif kind is list or kind is tuple:
        items = value
    else:
        return value is None or isinstance(value, (str, int, float))
    if levels == 0:
        return False
    for item in cast("Sequence[object]", items):
        if type(item) not in _LEAVES and not _is_plain(item, levels - 1):
            return False
    return True


class _NumberError(Exception):
    """A number that JSON or Python has no room for."""


class _Mark(str):
    """What is put in the place of such a number to find its path: the complaint."""

    __slots__ = ()


_NOT_FINITE: Final = "JSON has finite numbers only"
_TOO_LONG: Final = "is an integer of more digits than Python converts"


def _strict_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _NumberError
    return value


def _strict_constant(_: str) -> float:
    raise _NumberError


def _marking_float(text: str) -> float | _Mark:
    value = float(text)
    return _Mark(f"is an infinity; {_NOT_FINITE}") if math.isinf(value) else value


def _marking_int(text: str) -> int | _Mark:
    try:
        return int(text)
    except ValueError:
        return _Mark(_TOO_LONG)


def _marking_constant(name: str) -> _Mark:
    return _Mark(f"is {'NaN' if name == 'NaN' else 'an infinity'}; {_NOT_FINITE}")


_STRICT: Final = json.JSONDecoder(parse_float=_strict_float, parse_constant=_strict_constant)
_MARKING: Final = json.JSONDecoder(parse_float=_marking_float, parse_int=_marking_int, parse_constant=_marking_constant)
_PAIRS: Final = json.JSONDecoder(parse_int=float, object_pairs_hook=tuple)


def _read(decoder: json.JSONDecoder, text: str) -> object:
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidPayloadError(f"not JSON: {error.msg} at character {error.pos}") from None
    except ValueError:  # an integer of thousands of digits
        raise _NumberError from None


_NO_BRACKET: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_BRACKET_OR_TEXT: Final = r'(?s:[\[\]{}]|"[^"\\]*+(?:\\.[^"\\]*+)*+"?)'


def _depth(text: str) -> int:
    """Return the levels of JSON before it is read: its reader is recursive, and how deep it can go is not ours to say."""
    outside = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])  # what stands between the texts
    brackets = outside.encode("ascii", "replace").translate(None, _NO_BRACKET)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def _refuse_depth(text: str) -> NoReturn:
    """Refuse JSON of too many levels, with the path of the first that is too deep."""
    open_brackets: list[str] = []
    end = len(text)
    for match in re.finditer(_BRACKET_OR_TEXT, text):
        bracket = match[0]
        if bracket in "[{":
            if len(open_brackets) == MAX_DEPTH:
                end = match.start()
                break
            open_brackets.append(bracket)
        elif bracket in "]}" and open_brackets:
            open_brackets.pop()
    # What stands before, with all that is open closed: the last member of each level leads to the place.
    closed = text[:end] + "null" + "".join("]" if bracket == "[" else "}" for bracket in reversed(open_brackets))
    walk = _Walk(_DECODE)
    value = _read(_PAIRS, closed)
    while value is not None:
        if isinstance(value, tuple):
            key, value = cast("tuple[tuple[str, object], ...]", value)[-1]
            walk.steps.append(key)
        else:
            items = cast("list[object]", value)
            walk.steps.append(len(items) - 1)
            value = items[-1]
    walk.refuse(_TOO_DEEP)


_TOO_DEEP: Final = f"is nested deeper than {MAX_DEPTH} levels"
_PLAIN_KEY: Final = rf"[A-Za-z_][A-Za-z0-9_]{{0,{_MAX_KEY - 1}}}"


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if re.fullmatch(_PLAIN_KEY, step):
        return f".{step}"
    return f"[{json.dumps(step if len(step) <= _MAX_KEY else step[:_MAX_KEY] + '...')}]"


class _Walk:
    """Goes through a value and knows the way to where it stands."""

    def __init__(self, failed: str) -> None:
        self.failed: Final = failed
        self.steps: list[str | int] = []

    def refuse(self, complaint: str) -> NoReturn:
        path = "$" + "".join(map(_step, self.steps))
        if len(path) > _MAX_PATH:
            path = f"{path[: _MAX_PATH // 2]}...{path[-_MAX_PATH // 2 :]}"
        raise InvalidPayloadError(f"{self.failed}: {path} {complaint}") from None


class _Copy(_Walk):
    """Makes a copy out of plain lists and dictionaries."""

    def __init__(self, failed: str) -> None:
        super().__init__(failed)
        self._holders: list[int] = []

    def of(self, value: object) -> object:
        if isinstance(value, Mapping):
            mapping = cast("Mapping[object, object]", value)
            return self._object(dict(mapping), mapping)
        if isinstance(value, (list, tuple)):
            return self._list(cast("Sequence[object]", value))
        return self._leaf(value)

    def _enter(self, holder: object) -> None:
        if id(holder) in self._holders:
            self.refuse("is a value that holds itself")
        if len(self._holders) == MAX_DEPTH:
            self.refuse(_TOO_DEEP)
        self._holders.append(id(holder))

    def _object(self, members: dict[object, object], holder: object) -> dict[str, object]:
        self._enter(holder)
        result: dict[str, object] = {}
        for key, item in members.items():
            if not isinstance(key, str):
                self.refuse(f"has a key of type {_type(key)}; allowed is text")
            self.steps.append(key)
            result[key] = self.of(item)
            self.steps.pop()
        self._holders.pop()
        return result

    def _list(self, items: Sequence[object]) -> list[object]:
        self._enter(items)
        result: list[object] = []
        for item in items:
            self.steps.append(len(result))
            result.append(self.of(item))
            self.steps.pop()
        self._holders.pop()
        return result

    def _leaf(self, value: object) -> object:
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                self.refuse(f"is {'NaN' if math.isnan(value) else 'an infinity'}; {_NOT_FINITE}")
            return value
        if isinstance(value, int):
            try:
                int.__repr__(value)
            except ValueError:
                self.refuse(_TOO_LONG)
            return value
        return self.refuse(f"is of type {_type(value)}; allowed are {self._allowed}")

    _allowed = "text, numbers, booleans, None, lists, tuples and mappings"


def _type(value: object) -> str:
    return type(value).__qualname__[:_MAX_TYPE]


class _Marked(_Copy):
    """Refuses the first number that was marked."""

    def _leaf(self, value: object) -> object:
        return self.refuse(value) if isinstance(value, _Mark) else value


class _Pack(_Copy):
    """Makes a copy in which what JSON has no form for is tagged."""

    _allowed = f"{_Copy._allowed}, datetimes, dates, timedeltas, bytes, Decimals, UUIDs and enums"

    def of(self, value: object) -> object:
        return self.of(value.value) if isinstance(value, Enum) else super().of(value)

    def _object(self, members: dict[object, object], holder: object) -> dict[str, object]:
        if not _is_tag(members):
            return super()._object(members, holder)
        self._enter(members)
        inner = super()._object(members, holder)
        self._holders.pop()
        return {"$": inner}

    def _leaf(self, value: object) -> object:
        tag, content = self._tagged(value)
        if not tag:
            return super()._leaf(value)
        self._enter(value)
        self._holders.pop()
        return {tag: content}

    def _tagged(self, value: object) -> tuple[str, str | int]:
        """Return the tag of a value and what stands in it, or no tag."""
        from decimal import Decimal  # these two only where a value is packed that is not plain JSON
        from uuid import UUID

        if isinstance(value, datetime):
            offset = value.utcoffset()
            if offset is None:
                self.refuse("is a naive datetime; give it a timezone, for example datetime.now(timezone.utc)")
            if offset.microseconds:  # Python does not read each of them back
                self.refuse("is a datetime whose offset has a fraction of a second; whole seconds are allowed")
            return "$datetime", datetime.isoformat(value)
        if isinstance(value, date):
            return "$date", date.isoformat(value)
        if isinstance(value, timedelta):
            return "$timedelta", value // _MICROSECOND
        if isinstance(value, bytes):
            return "$bytes", binascii.b2a_base64(value, newline=False).decode("ascii")
        if isinstance(value, Decimal):
            if not value.is_finite():
                self.refuse("is a Decimal that is not finite; finite ones are allowed")
            return "$decimal", str(value)
        return ("$uuid", str(value)) if isinstance(value, UUID) else ("", "")


class _Unpack(_Walk):
    """Makes a copy in which each tag is what it stands for."""

    def of(self, value: object) -> object:
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            return self._tag(*members.popitem()) if _is_tag(members) else self._object(members)
        if isinstance(value, list):
            return [self._member(index, item) for index, item in enumerate(cast("list[object]", value))]
        return value

    def _member(self, step: str | int, value: object) -> object:
        self.steps.append(step)
        result = self.of(value)
        self.steps.pop()
        return result

    def _object(self, members: dict[str, object]) -> dict[str, object]:
        return {key: self._member(key, item) for key, item in members.items()}

    def _tag(self, tag: str, content: object) -> object:
        if tag == "$":
            if not isinstance(content, dict):
                self.refuse("has the tag $, which holds an object, and holds something else")
            return self._object(cast("dict[str, object]", content))
        if tag not in _TAGS:
            self.refuse(f"has the tag {json.dumps(tag[:_MAX_KEY])}; known are $ and {', '.join(_TAGS)}")
        read, kind, what = _TAGS[tag]
        try:
            if type(content) is kind:
                return read(content)
        except (ValueError, ArithmeticError):
            pass
        return self.refuse(f"has the tag {tag}, which holds {what}, and holds something else")


def _is_tag(members: Mapping[Any, object]) -> bool:
    """Tell whether an object is a tag, or an application's own that looks like one."""
    if len(members) != 1:
        return False
    (key,) = members
    return isinstance(key, str) and key.startswith("$")


_MICROSECOND: Final = timedelta(microseconds=1)


def _datetime(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    if value.utcoffset() is None:
        raise ValueError("naive")
    return value


def _decimal(text: str) -> Decimal:
    from decimal import Decimal

    value = Decimal(text)
    if not value.is_finite():
        raise ValueError("not finite")
    return value


def _uuid(text: str) -> UUID:
    from uuid import UUID

    return UUID(text)


_TAGS: Final[Mapping[str, tuple[Callable[[Any], object], type, str]]] = {
    "$datetime": (_datetime, str, "ISO 8601 text with a timezone"),
    "$date": (date.fromisoformat, str, "an ISO 8601 date"),
    "$timedelta": (lambda count: timedelta(microseconds=count), int, "whole microseconds"),
    "$bytes": (lambda text: binascii.a2b_base64(text, strict_mode=True), str, "base64"),
    "$decimal": (_decimal, str, "a finite number as text"),
    "$uuid": (_uuid, str, "a UUID as text"),
}
