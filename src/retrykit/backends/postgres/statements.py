"""How an operation of a store is described, once for both colours: a generator that yields statements and is sent their rows.

An operation of one statement is atomic by itself. One of several changes a row only as it read it (`records.Records`), or runs in a
transaction, as `atomic` and `snapshot` mark it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

__all__ = [
    "ASKED",
    "BEGIN",
    "NOW",
    "SNAPSHOT",
    "Condition",
    "Flow",
    "Statement",
    "atomic",
    "begin_of",
    "between",
    "joined",
    "snapshot",
    "text",
]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Row: TypeAlias = tuple[Any, ...]

NOW: Final = "coalesce(%(now)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
"""The instant in milliseconds by the store's clock: that of the server, unless a test gave another one."""

ASKED: Final = NOW.replace("clock_timestamp", "statement_timestamp")
"""The instant at which the statement came: the same wherever it stands in it, and as cheap to plan as a constant."""

BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""How a transaction begins in which all statements see one state of the database."""


class Statement(NamedTuple):
    """One statement. Its tables are written as ``retrykit.name``, whatever the schema is called."""

    sql: str
    values: Mapping[str, object] = {}


Flow: TypeAlias = Generator[Statement, Sequence[Row], T]
"""An operation: it is sent the rows that each statement returns."""


def atomic(operation: F) -> F:
    """Mark an operation whose statements all count, or none does."""
    operation.begin = BEGIN  # type: ignore[attr-defined]
    return operation


def snapshot(operation: F) -> F:
    """Mark an operation whose statements only read, and see one state of the database."""
    operation.begin = SNAPSHOT  # type: ignore[attr-defined]
    return operation


def begin_of(operation: Callable[..., Any]) -> str | None:
    """Return how the transaction of an operation begins, or None where each of its statements stands by itself."""
    return getattr(operation, "begin", None)


def text(value: str) -> str:
    r"""Return text as PostgreSQL can hold it: it has no form for NUL and lone surrogates, so these are written as escapes (``\x00``)."""
    if "\0" in value:
        value = value.replace("\0", "\\x00")
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")


class Condition(NamedTuple):
    """A condition of a statement, made of our own names, and its values."""

    sql: str
    values: Mapping[str, object] = {}


def between(column: str, first: int | None, before: int | None, name: str) -> list[Condition]:
    """Return the conditions for a column to lie from `first` to before `before`; None: without an end.

    Args:
        column: which.
        first: the lowest that is allowed.
        before: the one after the highest.
        name: what begins the names of the values.
    """
    conditions = list[Condition]()
    if first is not None:
        conditions.append(Condition(f"{column} >= %({name}_first)s::bigint", {f"{name}_first": first}))
    if before is not None:
        conditions.append(Condition(f"{column} < %({name}_before)s::bigint", {f"{name}_before": before}))
    return conditions


def joined(conditions: Sequence[Condition]) -> Condition:
    """Return conditions of which all have to hold as one."""
    values = dict[str, object]()
    for condition in conditions:
        values |= condition.values
    return Condition(" AND ".join(condition.sql for condition in conditions) or "true", values)
