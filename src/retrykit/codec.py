"""The one way in which retrykit writes and reads JSON.

Strict on the way out (no NaN, no keys that are not text) and bounded on the way in. Text is written in ASCII with
escapes, so that any Unicode, lone surrogates included, comes back as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from .errors import InvalidPayloadError

__all__ = ["JSON", "decode", "encode"]

JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None


def encode(value: JSON) -> bytes:
    """Write `value` as compact JSON in the order given.

    Raises:
        InvalidPayloadError: the value holds something JSON has no form for, a NaN, an infinity, a key that is not text,
            or refers to itself.
    """
    if isinstance(value, Mapping):
        value = dict(value)
    try:
        _check_keys(value)
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPayloadError(f"the value cannot be written as JSON: {error}") from None


def _check_keys(value: object) -> None:
    """Refuse keys that are not text: `json` would turn 1, True and None into text without a word."""
    if isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is not text")
            _check_keys(item)
    elif isinstance(value, (list, tuple)):
        for item in cast("Sequence[object]", value):
            _check_keys(item)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def decode(data: bytes | str) -> JSON:
    """Read JSON.

    Raises:
        InvalidPayloadError: the data is not JSON, not UTF-8, or nested too deeply. The message never quotes the data.
    """
    try:
        text = data if isinstance(data, str) else str(data, "utf-8-sig", "surrogatepass")  # json would take UTF-16 too
        value: JSON = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InvalidPayloadError(f"not JSON: {error.msg} at character {error.pos}") from None
    except UnicodeDecodeError as error:
        raise InvalidPayloadError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise InvalidPayloadError("not JSON that can be read: nested too deeply") from None
    except ValueError as error:  # NaN and infinities, and integers of thousands of digits
        raise InvalidPayloadError(f"not JSON that can be read: {error}") from None
    return value
