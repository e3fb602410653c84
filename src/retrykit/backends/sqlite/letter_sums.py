"""How dead letters are counted in the SQLite file without being read. `letter_tables` says what there is.

A query with no condition but a window, or with one field besides that the sums know, is answered by the sums of whole days and
hours, by the minutes at both ends, and by the letters of the two minutes that it cuts. One with other fields goes through the kinds
of letters that meet it, and the index entries of their letters within the window. Every other one walks the letters that it finds
by an index.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final

from ...stores.dead_letter_query import DeadLetterQuery
from ..letter_fields import COUNTED, SUMMED
from ..spans import Piece, pieces, window
from .letter_rows import Found, find
from .letter_tables import DAY, HOUR, MINUTE
from .rows import Condition, Sql, between, equal, joined, text

__all__ = ["add_up", "add_up_when_due", "breakdown", "count", "is_counted", "newest", "over_time"]

_DUE: Final = 1000
"""Rows of the minutes that may be new before they are added to the sums: reading them takes about a millisecond."""

_LENGTHS: Final = (1, MINUTE, HOUR * MINUTE, DAY * MINUTE)

_FEW: Final = 1000
_FEW_KINDS: Final = 50
"""Letters, and kinds of letters, that are looked through for the newest of them."""


def is_counted(query: DeadLetterQuery) -> bool:
    """Tell whether a query asks only for what letters are counted by."""
    return query.text is None and not query.attributes and query.conditions().keys() <= set(COUNTED)


def breakdown(db: sqlite3.Connection, query: DeadLetterQuery, by: str, *, limit: int = -1) -> list[tuple[str, int]]:
    """Return how many letters of a query have which value in a field: the most frequent first, ties by value."""
    source, values = _counted(db, query, by)
    return db.execute(
        f"WITH counted (at, value, amount) AS ({source}) SELECT value, sum(amount) FROM counted GROUP BY value "
        "HAVING sum(amount) > 0 ORDER BY sum(amount) DESC, value LIMIT ?",
        (*values, limit),
    ).fetchall()


def over_time(
    db: sqlite3.Connection, query: DeadLetterQuery, start: int, step: int, longest: int
) -> list[tuple[int, int]]:
    """Return how many letters of a query died in which step; those without any are left out.

    Args:
        db: a connection.
        query: which letters, within a window.
        start: when step 0 begins, in milliseconds.
        step: milliseconds of a step.
        longest: those of the longest of a minute, an hour and a day of which a step is a multiple.
    """
    source, values = _counted(db, query, _always(query), longest)
    return db.execute(
        f"WITH counted (at, value, amount) AS ({source}) SELECT (at - ?) / ?, sum(amount) FROM counted GROUP BY 1",
        (*values, start, step),
    ).fetchall()


def count(db: sqlite3.Connection, query: DeadLetterQuery) -> int:
    """Return how many letters meet a query."""
    return sum(total for _, total in breakdown(db, query, _always(query)))


def _always(query: DeadLetterQuery) -> str:
    """Return a field that each letter of a query has a value in, one by which the sums know them if there is any."""
    fields = query.conditions()
    return next((name for name in fields if name in COUNTED and _is_summed(fields, name)), "state")


def newest(db: sqlite3.Connection, query: DeadLetterQuery, total: int, limit: int) -> tuple[str, ...]:
    """Return the ids of the letters put last of those that meet a query; there are `total` of them."""
    found = _of_few_kinds(db, query) if total <= _FEW else None
    if found is None:
        found = find(db, query)
    numbers = f"SELECT {found.number} {found.source} ORDER BY {found.number} DESC LIMIT ?"
    rows = db.execute(
        f"SELECT id FROM retrykit_dead_letters WHERE number IN ({numbers}) ORDER BY number DESC",
        (*found.values, min(limit, total)),
    ).fetchall()
    return tuple(letter_id for (letter_id,) in rows)


def _of_few_kinds(db: sqlite3.Connection, query: DeadLetterQuery) -> Found | None:
    """Return how letters of few kinds are picked out from among others, which a walk would pass; None: better walk."""
    if not is_counted(query) or len(query.conditions()) < 2:
        return None
    meets, given = joined(*_of_kinds(query))
    kinds = f"SELECT 1 FROM retrykit_dead_letter_totals AS totals WHERE {meets} LIMIT {_FEW_KINDS}"
    if db.execute(f"SELECT count(*) FROM ({kinds})", given).fetchone() == (_FEW_KINDS,):
        return None
    source, _, values = _kinds(query, "state", letters=True)
    return Found(source, values, "letters.number")


def _counted(db: sqlite3.Connection, query: DeadLetterQuery, by: str, longest: int = DAY * MINUTE) -> Sql:
    """Return the SELECT that counts the letters of a query by a field.

    Args:
        db: a connection.
        query: which letters.
        by: one of those that letters are counted by.
        longest: milliseconds of the longest stretch that may come as one row: a minute, an hour or a day.

    Returns:
        Its rows are an instant in milliseconds (0 where the query has no window), a value, and how many letters died from that
        instant on, within one stretch, and have that value.
    """
    fields = {name: text(value) for name, value in query.conditions().items()}
    if not is_counted(query):
        found = find(db, query)
        return f"SELECT letters.dead_at, letters.{by}, 1 {found.source} AND letters.{by} IS NOT NULL", found.values
    start, end = window(query)
    if not _is_summed(fields, by):
        source, amount, values = _kinds(query, by)
        return f"SELECT {'0' if amount != '1' else 'letters.dead_at'}, totals.{by}, {amount} {source}", values
    if start is None and end is None:
        parts = [_ever(fields, by), _new(fields, by, None, None)]
    else:
        cut = pieces(start, end, [length for length in _LENGTHS if length <= longest])
        parts = [_part(piece, fields, by) for piece in cut]
        summed = [piece for piece in cut if piece[0] > MINUTE]
        if summed:
            starts = [None if first is None else first * length // MINUTE for length, first, _ in summed]
            ends = [None if before is None else before * length // MINUTE for length, _, before in summed]
            first = None if start is None else min(each for each in starts if each is not None)
            before = None if end is None else max(each for each in ends if each is not None)
            parts.append(_new(fields, by, first, before))
    return " UNION ALL ".join(sql for sql, _ in parts), tuple(value for _, values in parts for value in values)


def _part(piece: Piece, fields: dict[str, str], by: str) -> Sql:
    length, first, before = piece
    if length == 1:
        return _by_letters(fields, by, first, before)
    if length == MINUTE:
        return _by_minutes(fields, by, first, before)
    # the plus keeps SQLite from taking the bounds of the buckets for those of the sums, all of which it would read
    where, values = joined(
        ("runs.span = ?", (length // MINUTE,)), *between("runs.bucket", first, before), *_in_sums(fields, by)
    )
    return (
        (
            f"SELECT runs.bucket * {length}, sums.by_value, sums.total FROM retrykit_dead_letter_runs AS runs "
            f"CROSS JOIN retrykit_dead_letter_sums AS sums ON sums.span = runs.span AND sums.bucket = +runs.bucket WHERE {where}"
        ),
        values,
    )


def _ever(fields: dict[str, str], by: str) -> Sql:
    where, values = joined(("sums.span = 0 AND sums.bucket = 0", ()), *_in_sums(fields, by))
    return f"SELECT 0, sums.by_value, sums.total FROM retrykit_dead_letter_sums AS sums WHERE {where}", values


def _is_summed(fields: Mapping[str, str], by: str) -> bool:
    """Tell whether the sums know letters with the values of these fields by a field, which may be one of them."""
    others = [name for name in fields if name != by]
    return len(others) < 2 and by in SUMMED.get("".join(others), ())


def _in_sums(fields: Mapping[str, str], by: str) -> list[Condition]:
    """Return the conditions for the sums of letters with the values of these fields, by a field."""
    ((field, value),) = [each for each in fields.items() if each[0] != by] or [("", "")]
    key = {"field": field, "value": value, "by_field": by}
    return equal(key | ({"by_value": fields[by]} if by in fields else {}), "sums")


def _new(fields: dict[str, str], by: str, first: int | None, before: int | None) -> Sql:
    """Count what the sums of these minutes do not hold yet."""
    where, values = joined(
        ("minutes.total <> minutes.added", ()),
        *between("minutes.minute", first, before),
        *equal(fields, "totals"),
        (f"totals.{by} IS NOT NULL", ()),
    )
    return (
        (
            f"SELECT minutes.minute * {MINUTE}, totals.{by}, minutes.total - minutes.added FROM retrykit_dead_letter_minutes "
            "AS minutes INDEXED BY retrykit_dead_letter_minutes_new CROSS JOIN retrykit_dead_letter_totals AS totals "
            f"ON totals.id = minutes.kind WHERE {where}"
        ),
        values,
    )


def _by_minutes(fields: dict[str, str], by: str, first: int | None, before: int | None) -> Sql:
    where, values = joined(
        *between("minutes.minute", first, before), *equal(fields, "totals"), (f"totals.{by} IS NOT NULL", ())
    )
    return (
        (
            f"SELECT minutes.minute * {MINUTE}, totals.{by}, minutes.total FROM retrykit_dead_letter_minutes AS minutes "
            f"CROSS JOIN retrykit_dead_letter_totals AS totals ON totals.id = minutes.kind WHERE {where}"
        ),
        values,
    )


def _by_letters(fields: dict[str, str], by: str, first: int | None, before: int | None) -> Sql:
    where, values = joined(
        ("letters.record IS NOT NULL", ()),
        *between("letters.dead_at", first, before),
        *equal(fields, "letters"),
        (f"letters.{by} IS NOT NULL", ()),
    )
    return (
        (
            f"SELECT letters.dead_at, letters.{by}, 1 FROM retrykit_dead_letters AS letters "
            f"INDEXED BY retrykit_dead_letters_age WHERE {where}"
        ),
        values,
    )


def _of_kinds(query: DeadLetterQuery) -> list[Condition]:
    return equal({name: text(value) for name, value in query.conditions().items()}, "totals")


def _kinds(query: DeadLetterQuery, by: str, *, letters: bool = False) -> tuple[str, str, tuple[object, ...]]:
    """Return the FROM and WHERE of a query's letters by their kinds, what to add up, and the values."""
    start, end = window(query)
    where, values = joined(
        *_of_kinds(query),
        (f"totals.{by} IS NOT NULL", ()),
        *between("letters.dead_at", start, end),
    )
    if start is None and end is None and not letters:
        return f"FROM retrykit_dead_letter_totals AS totals WHERE {where}", "totals.total", values
    source = (
        "FROM retrykit_dead_letter_totals AS totals CROSS JOIN retrykit_dead_letters AS letters "
        f"INDEXED BY retrykit_dead_letters_kind ON letters.kind = totals.id WHERE {where}"
    )
    return source, "1", values


def add_up_when_due(db: sqlite3.Connection) -> None:
    """Add what is new to the sums when there is enough of it; within the transaction of what made it new."""
    (new,) = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM retrykit_dead_letter_minutes INDEXED BY retrykit_dead_letter_minutes_new "
        f"WHERE total <> added LIMIT {_DUE})"
    ).fetchone()
    if new == _DUE:
        add_up(db)


def add_up(db: sqlite3.Connection) -> None:
    """Add what is new in the minutes to the sums, and forget kinds of which no letter is left."""
    rows = db.execute(
        f"SELECT minutes.minute, minutes.kind, minutes.total - minutes.added, {', '.join(COUNTED)} "
        "FROM retrykit_dead_letter_minutes AS minutes INDEXED BY retrykit_dead_letter_minutes_new "
        "CROSS JOIN retrykit_dead_letter_totals AS totals ON totals.id = minutes.kind "
        "WHERE minutes.total <> minutes.added ORDER BY minutes.minute"
    )
    values = dict[int, dict[str, str]]()
    amounts = Counter[tuple[int, int, int]]()
    for minute, kind, amount, *fields in rows:
        if kind not in values:
            values[kind] = {name: value for name, value in zip(COUNTED, fields, strict=True) if value is not None}
        amounts[0, 0, kind] += amount
        amounts[HOUR, minute // HOUR, kind] += amount
        amounts[DAY, minute // DAY, kind] += amount
    for (span, bucket), kinds in groupby(sorted(amounts.items()), lambda item: item[0][:2]):
        _write(db, span, bucket, ((values[kind], amount) for (_, _, kind), amount in kinds))
    db.execute("DELETE FROM retrykit_dead_letter_minutes WHERE total <> added AND total = 0")
    db.execute("UPDATE retrykit_dead_letter_minutes SET added = total WHERE total <> added")
    db.execute("DELETE FROM retrykit_dead_letter_totals WHERE total = 0")


def _write(db: sqlite3.Connection, span: int, bucket: int, kinds: Iterable[tuple[Mapping[str, str], int]]) -> None:
    """Add letters, given as the values of a kind and their number, to the sums of one stretch."""
    sums = Counter[tuple[str, str, str, str]]()
    for values, amount in kinds:
        for field, by_fields in SUMMED.items():
            value = values.get(field, "" if not field else None)
            if value is not None:
                for by in by_fields:
                    if by in values:
                        sums[field, value, by, values[by]] += amount
    changed = sorted((span, bucket, *key, amount) for key, amount in sums.items() if amount)
    db.executemany(
        "INSERT INTO retrykit_dead_letter_sums VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (span, bucket, field, value, by_field, by_value) DO UPDATE SET total = total + excluded.total",
        changed,
    )
    db.executemany(
        "DELETE FROM retrykit_dead_letter_sums WHERE span = ? AND bucket = ? AND field = ? AND value = ? AND by_field = ? "
        "AND by_value = ? AND total = 0",
        [row[:-1] for row in changed if row[-1] < 0],
    )
