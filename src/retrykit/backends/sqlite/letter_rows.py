"""How a dead letter stands in the SQLite file, and how a query finds it there."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

import attrs

from ...dead_letter import DeadLetter, DeadLetterState
from ...errors import RetrykitError
from ...stores.dead_letter_query import DeadLetterQuery
from ...times import to_millis
from ..damage import DAMAGE, readable
from ..letter_fields import COMPARED, COUNTED
from ..spans import pieces, window
from .letter_tables import DAY, HOUR, KIND_OF, MINUTE, NEW_KIND, SPANS
from .rows import Condition, between, equal, joined, optional_text, text

__all__ = ["Found", "delete_oldest", "fill", "find", "insert", "is_unfilled", "read"]

_VERSION: Final = 5
"""Of the columns."""
_BATCH: Final = 1000
_FEW: Final = 500
"""Letters up to which it is counted which condition leaves the fewest."""
_SEPARATOR: Final = "A"
"""Between two texts of which it cannot be a part: `str.casefold` leaves no capitals."""
_ATTRIBUTES: Final = "retrykit_dead_letter_attributes"


def read(letter_id: str, state: str, record: str) -> DeadLetter:
    """Make the letter of a row.

    Raises:
        StoreCorruptError: the row is damaged.
    """
    with readable(f"the dead letter {letter_id!r}"):
        return attrs.evolve(DeadLetter.from_json(record), state=DeadLetterState(state))


def insert(db: sqlite3.Connection, letter: DeadLetter) -> None:
    """Write a letter of which there is no row."""
    columns: dict[str, str | int | None] = {"id": text(letter.id), "record": letter.to_json(), **_columns(letter)}
    columns["kind"] = _kind(db, columns)
    number = db.execute(
        f"INSERT INTO retrykit_dead_letters ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
        tuple(columns.values()),
    ).lastrowid
    assert number is not None
    _write_attributes(db, number, letter)


def _kind(db: sqlite3.Connection, columns: Mapping[str, str | int | None]) -> int | None:
    values = [columns[name] for name in COUNTED]
    known: tuple[int] | None = db.execute(KIND_OF, values).fetchone()
    return db.execute(NEW_KIND, values).lastrowid if known is None else known[0]


def _columns(letter: DeadLetter) -> dict[str, str | int | None]:
    said = _SEPARATOR.join((letter.error_message.casefold(), letter.decision.casefold()))
    return {
        "dead_at": to_millis(letter.dead_lettered_at),
        "said": text(said),
        "filled": _VERSION,
        **{name: optional_text(getattr(letter, name)) for name in COMPARED},
    }


def _write_attributes(db: sqlite3.Connection, number: int, letter: DeadLetter) -> None:
    # OR REPLACE: two names that differ in lone surrogates alone may be written alike
    db.executemany(
        "INSERT OR REPLACE INTO retrykit_dead_letter_attributes (number, name, value) VALUES (?, ?, ?)",
        [(number, text(name), text(value)) for name, value in letter.attributes.items()],
    )


def is_unfilled(db: sqlite3.Connection) -> bool:
    """Tell whether there are letters that a process of an earlier version wrote."""
    unfilled = "SELECT 1 FROM retrykit_dead_letters WHERE filled IS NULL AND record IS NOT NULL LIMIT 1"
    return db.execute(unfilled).fetchone() is not None


def fill(db: sqlite3.Connection) -> None:
    """Fill the columns of letters that a process of an earlier version wrote; of a damaged one they stay empty."""
    number = 0
    while True:
        rows = db.execute(
            "SELECT number, id, state, record FROM retrykit_dead_letters "
            "WHERE filled IS NULL AND record IS NOT NULL AND number > ? ORDER BY number LIMIT ?",
            (number, _BATCH),
        ).fetchall()
        for number, letter_id, state, record in rows:
            try:
                letter = read(letter_id, state, record)
            except (RetrykitError, *DAMAGE):
                sql = "UPDATE retrykit_dead_letters SET filled = ?, dead_at = coalesce(dead_at, 0) WHERE number = ?"
                db.execute(sql, (_VERSION, number))
                continue
            columns = _columns(letter)
            db.execute(
                f"UPDATE retrykit_dead_letters SET {', '.join(f'{name} = ?' for name in columns)} WHERE number = ?",
                (*columns.values(), number),
            )
            _write_attributes(db, number, letter)
        if len(rows) < _BATCH:
            return


class Found(NamedTuple):
    """The FROM and WHERE of the letters of a query, the values, and the column of their numbers."""

    source: str
    values: tuple[object, ...]
    number: str


def find(db: sqlite3.Connection, query: DeadLetterQuery, *, before: int = sys.maxsize) -> Found:
    """Return how the letters of a query are found: by the condition that leaves the fewest, the others being looked at.

    Args:
        db: a connection.
        query: which letters.
        before: of these, those with a lower number.
    """
    fields = {name: text(value) for name, value in query.conditions().items()}
    attributes = {text(name): text(value) for name, value in query.attributes.items()}
    field, name = _rarest(db, fields, attributes)
    where = list[Condition]()
    if name is None:
        index = f"INDEXED BY retrykit_dead_letters_by_{field}" if field else "NOT INDEXED"
        source = f"retrykit_dead_letters AS letters {index}"
        number = "letters.number"
    else:
        source = (
            "retrykit_dead_letter_attributes AS attributes CROSS JOIN retrykit_dead_letters AS letters "
            "ON letters.number = attributes.number"
        )
        number = "attributes.number"
        where += equal({"name": name, "value": attributes.pop(name)}, "attributes")
    lowest, above = _numbers(db, *window(query))
    where += between(number, lowest, min(before, above))
    where += _conditions(query, fields, attributes)
    conditions, values = joined(*where)
    return Found(f"FROM {source} WHERE {conditions}", values, number)


def delete_oldest(db: sqlite3.Connection, query: DeadLetterQuery, before: int, limit: int) -> int:
    """Delete letters of a query that died before an instant in milliseconds, the oldest first, and return how many."""
    fields = {name: text(value) for name, value in query.conditions().items()}
    attributes = {text(name): text(value) for name, value in query.attributes.items()}
    where, values = joined(*between("letters.dead_at", None, before), *_conditions(query, fields, attributes))
    gone = db.execute(
        "DELETE FROM retrykit_dead_letters WHERE number IN (SELECT letters.number FROM retrykit_dead_letters AS letters "
        f"INDEXED BY retrykit_dead_letters_age WHERE {where} ORDER BY letters.dead_at, letters.number LIMIT ?)",
        (*values, limit),
    ).rowcount
    for span in SPANS:
        db.execute(
            "DELETE FROM retrykit_dead_letter_runs WHERE span = ? AND bucket <= ? "
            "AND highest < (SELECT min(number) FROM retrykit_dead_letters)",
            (span, before // (span * MINUTE)),
        )
    return gone


def _conditions(query: DeadLetterQuery, fields: dict[str, str], attributes: dict[str, str]) -> list[Condition]:
    """Return the conditions for a letter to have these fields and attributes, and to meet what else the query asks for."""
    where: list[Condition] = [("letters.record IS NOT NULL", ()), *equal(fields, "letters")]
    where += between("letters.dead_at", *window(query))
    for attribute in attributes.items():
        holder = f"SELECT 1 FROM {_ATTRIBUTES} WHERE number = letters.number AND name = ? AND value = ?"
        where.append((f"EXISTS ({holder})", attribute))
    if query.text is not None:
        where.append(("instr(letters.said, ?) > 0", (text(query.text.casefold()),)))
    return where


def _rarest(
    db: sqlite3.Connection, fields: dict[str, str], attributes: dict[str, str]
) -> tuple[str | None, str | None]:
    """Return the field, or the attribute, whose condition leaves the fewest letters; neither without a condition."""
    ways: list[tuple[str | None, str | None]] = [(field, None) for field in fields]
    ways += [(None, name) for name in attributes]
    if len(ways) < 2:
        return ways[0] if ways else (None, None)
    return min(ways, key=lambda way: _rarity(db, way, fields, attributes))


def _rarity(
    db: sqlite3.Connection, way: tuple[str | None, str | None], fields: dict[str, str], attributes: dict[str, str]
) -> tuple[int, int]:
    field, name = way
    if field is None:
        assert name is not None
        few, values = f"{_ATTRIBUTES} WHERE name = ? AND value = ?", [name, attributes[name]]
    else:
        few, values = (
            f"retrykit_dead_letters INDEXED BY retrykit_dead_letters_by_{field} WHERE {field} = ?",
            [fields[field]],
        )
    (seen,) = db.execute(f"SELECT count(*) FROM (SELECT 1 FROM {few} LIMIT {_FEW})", values).fetchone()
    if seen < _FEW or field not in COUNTED:
        return seen, 0
    (total,) = db.execute(
        "SELECT total(total) FROM retrykit_dead_letter_sums WHERE span = 0 AND bucket = 0 AND field = '' AND value = '' "
        "AND by_field = ? AND by_value = ?",
        (field, *values),
    ).fetchone()
    return seen, int(total)


def _numbers(db: sqlite3.Connection, since: int | None, until: int | None) -> tuple[int, int]:
    """Return bounds of the numbers that the letters of a window have: the lowest, and the one after the highest."""
    if since is None and until is None:
        return 0, sys.maxsize
    hour = HOUR * MINUTE
    lowest, highest = sys.maxsize, 0
    for length, first, before in pieces(
        None if since is None else since // hour * hour,
        None if until is None else -(-until // hour) * hour,
        (hour, DAY * MINUTE),
    ):
        where, values = joined(("span = ?", (length // MINUTE,)), *between("bucket", first, before))
        low, high = db.execute(
            f"SELECT min(lowest), max(highest) FROM retrykit_dead_letter_runs WHERE {where}", values
        ).fetchone()
        if low is not None:
            lowest, highest = min(lowest, low), max(highest, high)
    return lowest, highest + 1
