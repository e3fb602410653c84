"""How values stand in the tables, and how conditions on them are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

__all__ = ["Condition", "Sql", "between", "equal", "joined", "optional_text", "text"]

Condition: TypeAlias = tuple[str, tuple[object, ...]]
"""A condition of a statement, made of our own names, and its values."""

Sql: TypeAlias = tuple[str, tuple[object, ...]]
"""A statement, or a part of one, and its values."""


def text(value: str) -> str:
    """Return text as SQLite can hold it: it has no form for lone surrogates, so these are written as escapes."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")


def optional_text(value: str | None) -> str | None:
    """Return text as SQLite can hold it, None as it is."""
    return None if value is None else text(value)


def equal(values: Mapping[str, object], table: str) -> list[Condition]:
    """Return the conditions for columns to have these values, by name."""
    return [(f"{table}.{name} = ?", (value,)) for name, value in values.items()]


def between(column: str, first: int | None, before: int | None) -> list[Condition]:
    """Return the conditions for a column to lie from `first` to before `before`; None: without an end."""
    bounds = ((f"{column} >= ?", first), (f"{column} < ?", before))
    return [(condition, (value,)) for condition, value in bounds if value is not None]


def joined(*conditions: Condition) -> Sql:
    """Return conditions of which all have to hold as one."""
    return " AND ".join(sql for sql, _ in conditions), tuple(value for _, values in conditions for value in values)
