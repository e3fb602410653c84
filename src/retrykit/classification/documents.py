"""Reading JSON of which nothing is certain: what is looked for may be missing, or of another type than its name says.

Nothing here raises, whatever the document holds, and what comes back is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

__all__ = ["as_list", "as_map", "at", "code", "fields", "first_map", "join", "named_fields", "number", "text"]

MAX_TEXT: Final = 4_000
"""Characters of a text that are read."""
MAX_CODE: Final = 128
"""Characters of a code."""
_MAX_TEXTS: Final = 32
_FIELD_NAMES: Final = ("field", "param", "parameter", "property", "path", "pointer", "loc", "ErrorRelatedTo")
_MOST: Final = 10**15


def as_map(value: object) -> Mapping[str, object]:
    """Return an object's members; none for anything else."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[object]:
    """Return an array's items; none for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def first_map(value: object) -> Mapping[str, object]:
    """Return the first object of an array, or the object itself; an empty one for anything else."""
    return next((found for item in as_list(value) if (found := as_map(item))), as_map(value))


def at(document: object, *path: str | int) -> object:
    """Return what stands at a path of names and positions, or None.

    Example:
        >>> at({"error": {"details": [{"reason": "late"}]}}, "error", "details", 0, "reason")
        'late'
        >>> at({"error": "late"}, "error", "details", 0) is None
        True
    """
    value = document
    for step in path:
        if isinstance(step, int):
            items = as_list(value)
            value = items[step] if step < len(items) else None
        else:
            value = as_map(value).get(step)
    return value


def text(value: object) -> str:
    """Return a text, at most 4,000 characters of it, without space at its ends; empty for anything else."""
    return value[:MAX_TEXT].strip() if isinstance(value, str) else ""


def code(value: object) -> str:
    """Return a code as text: a text of at most 128 characters, or a whole number; empty for anything else.

    Example:
        >>> code(21211), code(" invalid_auth "), code(True), code(1.0), code([])
        ('21211', 'invalid_auth', '', '1', '')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if -_MOST < value < _MOST else ""  # turning huge numbers into text raises
    return value[:MAX_CODE].strip() if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """Return a finite number, also one written as text; None for anything else.

    Example:
        >>> number(30), number("2.5"), number("soon"), number(True), number("inf")
        (30.0, 2.5, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        result = float(value[:64] if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def fields(*errors: object) -> str:
    """Return which fields of our request some errors are about, as words: "(from field)"; empty where none is named.

    Args:
        errors: objects that name a field under one of the usual names, or lists of such.
    """
    items = [as_map(item) for error in errors for item in (as_list(error) or [error])]
    named = [value for item in items for name in _FIELD_NAMES if (value := item.get(name))]
    names = [code(part) for value in named[:_MAX_TEXTS] for part in (as_list(value)[:8] or [value])]
    return named_fields(names)


def named_fields(names: Iterable[str]) -> str:
    """Return names of fields as words."""
    short = [name.partition(".")[0].rpartition("/")[2] for name in names]
    return " ".join(f"({name} field)" for name in short if name)


def join(*values: object) -> str:
    """Return the texts among `values`, and those in arrays and objects among them, each once, joined by line feeds."""
    seen: dict[str, None] = {}
    for found in _texts(list(values), 3):
        seen[found] = None
        if len(seen) >= _MAX_TEXTS:
            break
    return "\n".join(seen)[:MAX_TEXT]


def _texts(values: list[object], depth: int) -> Iterator[str]:
    for value in values[:_MAX_TEXTS]:
        if said := text(value):
            yield said
        elif depth:
            yield from _texts(as_list(value) or list(as_map(value).values()), depth - 1)
