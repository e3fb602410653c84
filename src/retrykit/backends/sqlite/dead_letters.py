"""The dead letters in the SQLite file: the letter as JSON, beside it the fields it is searched by, and their totals."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime

import attrs

from ...dead_letter import DeadLetter, DeadLetterState
from ...stores.dead_letters import DeadLetterPage, DeadLetterQuery, DeadLetterStore, Facet
from ...times import to_millis
from ..cursors import read_cursor, write_cursor
from .database import Operations
from .rows import optional_text, readable, text

__all__ = ["DeadLetters"]


class DeadLetters(DeadLetterStore):
    """The dead letters."""

    def __init__(self, database: Operations) -> None:
        self._database = database

    def _put(self, letter: DeadLetter) -> DeadLetter:
        with self._database.transaction() as (db, _):
            row = db.execute(
                "SELECT state, record FROM retrykit_dead_letters WHERE id = ?", (text(letter.id),)
            ).fetchone()
            if row is not None and row[1] is not None:
                return _letter(letter.id, row[0], row[1])
            if row is not None:  # resolved before it came
                letter = attrs.evolve(letter, state=DeadLetterState(row[0]))
            db.execute(
                f"INSERT OR REPLACE INTO retrykit_dead_letters (id, record, dead_at, {', '.join(_FIELDS)}) "
                f"VALUES (?, ?, ?, {', '.join('?' * len(_FIELDS))})",
                (
                    text(letter.id),
                    letter.to_json(),
                    to_millis(letter.dead_lettered_at),
                    *(optional_text(getattr(letter, name)) for name in _FIELDS),
                ),
            )
            return letter

    def _resolve(self, letter_id: str) -> None:
        with self._database.writing() as (db, now):
            db.execute(
                "INSERT INTO retrykit_dead_letters (id, state, dead_at) VALUES (?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET state = excluded.state, dead_at = iif(record IS NULL, excluded.dead_at, dead_at)",
                (text(letter_id), DeadLetterState.RESOLVED.value, to_millis(now)),
            )

    def _get(self, letter_id: str) -> DeadLetter | None:
        with self._database.reading() as (db, _):
            row = db.execute(
                "SELECT state, record FROM retrykit_dead_letters WHERE id = ? AND record IS NOT NULL",
                (text(letter_id),),
            ).fetchone()
        return None if row is None else _letter(letter_id, *row)

    def _search(self, query: DeadLetterQuery, limit: int, cursor: str | None) -> DeadLetterPage:
        where, values = _where(query, "record IS NOT NULL", "number < ?")
        before = sys.maxsize if cursor is None else read_cursor(cursor)
        with self._database.reading() as (db, _):
            rows = db.execute(
                f"SELECT number, id, state, record FROM retrykit_dead_letters WHERE {where} ORDER BY number DESC LIMIT ?",
                (before, *values, limit + 1),
            ).fetchall()
        more = len(rows) > limit
        letters = [_letter(letter_id, state, record) for _, letter_id, state, record in rows[:limit]]
        return DeadLetterPage(letters, write_cursor(rows[limit - 1][0]) if more else None)

    def _count(self, query: DeadLetterQuery) -> int:
        counted, where, values = _counted(query)
        with self._database.reading() as (db, _):
            (total,) = db.execute(f"SELECT total(total) FROM {counted} WHERE {where}", values).fetchone()
        return int(total)

    def _top(self, facet: Facet, query: DeadLetterQuery, limit: int) -> Sequence[tuple[str, int]]:
        counted, where, values = _counted(query)
        with self._database.reading() as (db, _):
            return db.execute(
                f"SELECT {facet}, sum(total) FROM {counted} WHERE {where} AND {facet} IS NOT NULL "
                f"GROUP BY {facet} ORDER BY sum(total) DESC, {facet} LIMIT ?",
                (*values, limit),
            ).fetchall()

    def _purge(self, before: datetime, query: DeadLetterQuery, limit: int) -> int:
        where, values = _where(query, "dead_at < ?")
        with self._database.transaction() as (db, _):
            gone = db.execute(
                "DELETE FROM retrykit_dead_letters WHERE number IN (SELECT number FROM retrykit_dead_letters "
                f"WHERE {where} AND record IS NOT NULL ORDER BY dead_at, number LIMIT ?)",
                (to_millis(before), *values, limit),
            ).rowcount
            db.execute(
                f"DELETE FROM retrykit_dead_letters WHERE {where} AND record IS NULL", (to_millis(before), *values)
            )
            return gone


_FIELDS = "message_id campaign_id provider error_class error_group error_code reason state".split()
"""What letters are searched by: each is a column of its own."""


def _where(query: DeadLetterQuery, *always: str) -> tuple[str, tuple[str, ...]]:
    """Return the SQL of a query's conditions, made of our own column names, and their values."""
    conditions = query.conditions()
    return " AND ".join([*always, *(f"{name} = ?" for name in conditions)]), tuple(map(text, conditions.values()))


def _counted(query: DeadLetterQuery) -> tuple[str, str, tuple[str, ...]]:
    """Return where the letters of a query are counted: in the totals, which know all fields but the message, or one by one."""
    if query.message_id is None:
        return "retrykit_dead_letter_totals", *_where(query, "total > 0")
    where, values = _where(query, "record IS NOT NULL")
    return "(SELECT *, 1 AS total FROM retrykit_dead_letters)", where, values


def _letter(letter_id: str, state: str, record: str) -> DeadLetter:
    with readable(f"the dead letter {letter_id!r}"):
        return attrs.evolve(DeadLetter.from_json(record), state=DeadLetterState(state))
