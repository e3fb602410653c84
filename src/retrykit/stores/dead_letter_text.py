"""The short text form of a query: ``campaign:spring class:rendering_failure since:2h text:"first_name"``.

Terms stand side by side, each a key, a colon and a value; all of them have to hold. A word without a key is looked for in the
text. A value with white space, quotes or nothing in it stands in quotes, with the escapes of JSON. ``docs/reference`` has the
table of keys.

Reading is linear in the length of the text, and gives fields or a `ConfigurationError` that quotes the place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, cast

from ..dead_letter import DeadLetterState
from ..decision import DeadLetterReason
from ..errors import ConfigurationError
from ..failure import ErrorGroup
from ..tables import nearest
from ..times import read_instant, to_iso, utc

__all__ = ["MAX_LENGTH", "SHORT_KEYS", "parse_fields", "write_fields"]

MAX_LENGTH: Final = 4_000
"""Characters that the text form may have."""

SHORT_KEYS: Final = {
    "message": "message_id",
    "campaign": "campaign_id",
    "provider": "provider",
    "recipient": "recipient",
    "class": "error_class",
    "group": "error_group",
    "code": "error_code",
    "enhanced": "enhanced_code",
    "reason": "reason",
    "state": "state",
    "stage": "stage",
    "source": "source",
    "fingerprint": "fingerprint",
    "since": "since",
    "until": "until",
    "text": "text",
}
"""The field that each short key stands for."""

_SHORT: Final = {field: key for key, field in SHORT_KEYS.items()}
_FIELDS: Final = {**SHORT_KEYS, **{field: field for field in SHORT_KEYS.values()}}
_VOCABULARIES: Final = {"error_group": ErrorGroup, "reason": DeadLetterReason, "state": DeadLetterState}

_QUOTED: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SPACE: Final = re.compile(r"\s*+")
_KEY: Final = re.compile(rf'(attributes?\.{_QUOTED}|[^\s":]*+):', re.DOTALL)
_VALUE: Final = re.compile(rf'{_QUOTED}(?!\S)|[^\s"]++(?!\S)', re.DOTALL)
_ATTRIBUTE: Final = re.compile(r"attributes?\.(.*)", re.DOTALL)
_PLAIN: Final = re.compile(r"[!#-\[\]-~]+", re.ASCII)


def parse_fields(text: str, now: datetime) -> dict[str, object]:
    """Read the text form as the fields of a query.

    Args:
        text: at most 4,000 characters.
        now: what ``since:2h`` is counted from, aware.

    Returns:
        The fields given, ``attributes`` as a mapping of name to value.

    Raises:
        ConfigurationError: the text is no query; the place is quoted.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"the query is of type {type(text).__name__}; allowed is text")
    if len(text) > MAX_LENGTH:
        raise ConfigurationError(f"the query has {len(text)} characters; allowed are {MAX_LENGTH}")
    now = utc(now, "now")
    fields: dict[str, object] = {}
    attributes: dict[str, str] = {}
    position = _after_space(text, 0)
    while position < len(text):
        begin, key = position, _KEY.match(text, position)
        if key is not None:
            position = key.end()
        value, position = _value(text, begin, position)
        field, name = _field(text, begin, key)
        if field in fields or name in attributes:
            what = f"the attribute {name!r}" if name is not None else _SHORT[field]
            hint = '; put several words into quotes, "as here"' if field == "text" else ""
            raise ConfigurationError(f"{_place(text, begin)} gives {what} a second time{hint}")
        if name is not None:
            attributes[name] = value
        else:
            fields[field] = _converted(text, begin, field, value, now)
        position = _after_space(text, position)
    return {**fields, "attributes": attributes} if attributes else fields


def write_fields(fields: Mapping[str, object]) -> str:
    """Return the text form of the fields given: those that are None are left out."""
    terms = [
        f"{key}:{_written(to_iso(value) if isinstance(value, datetime) else str(value))}"
        for key, field in SHORT_KEYS.items()
        if (value := fields.get(field)) is not None
    ]
    attributes = cast("Mapping[str, str]", fields["attributes"])
    terms += [f"attribute.{_name(name)}:{_written(value)}" for name, value in sorted(attributes.items())]
    return " ".join(terms)


def _written(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and ":" not in name else json.dumps(name, ensure_ascii=False)


def _after_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    assert space is not None
    return space.end()


def _place(text: str, begin: int) -> str:
    return f"the query at character {begin + 1}, {text[begin : begin + 40]!r},"


def _value(text: str, begin: int, position: int) -> tuple[str, int]:
    """Return the value at a position and where it ends; the term began at `begin`."""
    if position == len(text) or text[position].isspace():
        raise ConfigurationError(f'{_place(text, begin)} has no value; the empty text is written ""')
    value = _VALUE.match(text, position)
    if value is None:
        if text[position] == '"' and re.compile(_QUOTED, re.DOTALL).match(text, position) is None:
            raise ConfigurationError(f"{_place(text, begin)} has a quote that is not closed")
        raise ConfigurationError(
            f'{_place(text, begin)} has a quote inside a word; put the whole value into quotes, and write \\" inside'
        )
    return _unquoted(text, begin, value[0]), value.end()


def _unquoted(text: str, begin: int, value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        read: str = json.loads(value, strict=False)
    except ValueError:
        raise ConfigurationError(
            f'{_place(text, begin)} has an escape that is none; allowed are those of JSON, such as \\" \\\\ \\n \\u00e4'
        ) from None
    return read


def _field(text: str, begin: int, key: re.Match[str] | None) -> tuple[str, str | None]:
    """Return the field that a key stands for, and for an attribute its name."""
    if key is None:
        return "text", None
    attribute = _ATTRIBUTE.fullmatch(key[1])
    if attribute is not None:
        if not attribute[1]:
            raise ConfigurationError(f"{_place(text, begin)} has no name of an attribute; write attribute.NAME:value")
        return "attributes", _unquoted(text, begin, attribute[1])
    if key[1] not in _FIELDS:
        hint = nearest(key[1], [*SHORT_KEYS, "attribute.NAME"])
        raise ConfigurationError(
            f"{_place(text, begin)} has the unknown key {key[1][:40]!r} (text with a colon in it has to be quoted){hint}"
        )
    return _FIELDS[key[1]], None


def _converted(text: str, begin: int, field: str, value: str, now: datetime) -> object:
    vocabulary = _VOCABULARIES.get(field)
    if vocabulary is not None and value not in list(vocabulary):
        raise ConfigurationError(f"{_place(text, begin)}: {field} is {value[:40]!r}{nearest(value, vocabulary)}")
    if field in ("since", "until"):
        try:
            return read_instant(value, now, field)
        except ConfigurationError as error:
            raise ConfigurationError(f"{_place(text, begin)}: {error}") from None
    if field == "text" and not value:
        raise ConfigurationError(f"{_place(text, begin)} looks for nothing; allowed is text of one character and more")
    return value
