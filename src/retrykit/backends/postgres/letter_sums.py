"""How dead letters are counted without being read. `letter_tables` says what there is.

A query with no condition but a window, or with one field besides that the sums know, is answered by the sums of whole days and hours,
by what has changed since these were added up, and by the letters of the two hours that the window cuts. One without a window that has
other fields is answered by the kinds of letters that meet it. Every other one counts the letters that it finds by an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...stores.dead_letter_query import DeadLetterQuery
from ..letter_fields import COUNTED, SUMMED
from ..spans import pieces, window
from .letter_rows import conditions, equal, source
from .letter_tables import DAY, HOUR, SPANS
from .statements import Condition, Flow, Statement, between, joined, text

__all__ = ["ADD_UP", "FORGET_EMPTY", "breakdown", "count", "over_time"]

_LENGTHS: Final = (1, HOUR, DAY)

_PAIRS: Final = ", ".join(
    f"('{field}', {f'gone.{field}' if field else repr('')}, '{by}', gone.{by})"
    for field, by_fields in SUMMED.items()
    for by in by_fields
)
_RUNS: Final = ", ".join(f"({span}::bigint, floor(gone.dead_at::numeric / {span})::bigint)" for span in SPANS)
_FIELDS: Final = ", ".join(COUNTED)
_KIND: Final = " || ".join(f"coalesce(length({name}) || ':' || {name}, '-')" for name in COUNTED)
"""Text that no two kinds have in common."""
_BUCKETS: Final = f"(0::bigint, 0::bigint), {_RUNS}"

_LOCK: Final = 6_170_402_118
"""Held by whoever changes the sums, so that no two of them wait for each other's rows."""

_SUMS: Final = "retrykit.letter_sums AS sums"

ADD_UP: Final = f"""
    WITH gone AS (
        DELETE FROM retrykit.letter_changes WHERE (SELECT pg_try_advisory_xact_lock({_LOCK}))
            AND (SELECT count(*) FROM (SELECT FROM retrykit.letter_changes LIMIT %(least)s) AS few) = %(least)s
            AND id = ANY (ARRAY(SELECT id FROM retrykit.letter_changes ORDER BY id LIMIT %(limit)s)) RETURNING *),
    runs AS (
        INSERT INTO retrykit.letter_runs AS known (span, bucket, lowest, highest)
            SELECT spans.span, spans.bucket, min(gone.number), max(gone.number)
            FROM gone CROSS JOIN LATERAL (VALUES {_RUNS}) AS spans (span, bucket) GROUP BY 1, 2
        ON CONFLICT (span, bucket)
            DO UPDATE SET lowest = least(known.lowest, excluded.lowest), highest = greatest(known.highest, excluded.highest)),
    kinds AS (
        INSERT INTO retrykit.letter_kinds AS known (id, {_FIELDS}, total)
            SELECT md5({_KIND})::uuid, {_FIELDS}, sum(amount) FROM gone GROUP BY {_FIELDS} HAVING sum(amount) <> 0
        ON CONFLICT (id) DO UPDATE SET total = known.total + excluded.total)
    INSERT INTO retrykit.letter_sums AS sums (span, bucket, field, value, by_field, by_value, total)
        SELECT spans.span, spans.bucket, pairs.field, pairs.value, pairs.by_field, pairs.by_value, sum(gone.amount)
        FROM gone CROSS JOIN LATERAL (VALUES {_BUCKETS}) AS spans (span, bucket)
            CROSS JOIN LATERAL (VALUES {_PAIRS}) AS pairs (field, value, by_field, by_value)
        WHERE pairs.value IS NOT NULL AND pairs.by_value IS NOT NULL
        GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(gone.amount) <> 0
    ON CONFLICT (field, by_field, span, (md5(value)::uuid), bucket, (md5(by_value)::uuid))
        DO UPDATE SET total = sums.total + excluded.total
"""
"""Adds what has changed to the sums, where there is enough of it and nobody else is at it."""

FORGET_EMPTY: Final = f"""
    WITH mine AS MATERIALIZED (SELECT pg_try_advisory_xact_lock({_LOCK}) AS held),
    runs AS (
        DELETE FROM retrykit.letter_runs
            WHERE (SELECT held FROM mine) AND highest < (SELECT min(number) FROM retrykit.letters)),
    kinds AS (DELETE FROM retrykit.letter_kinds WHERE (SELECT held FROM mine) AND total = 0)
    DELETE FROM retrykit.letter_sums WHERE (SELECT held FROM mine) AND total = 0
"""


def breakdown(query: DeadLetterQuery, by: str, *, limit: int | None = None) -> Flow[list[tuple[str, int]]]:
    """Return how many letters of a query have which value in a field: the most frequent first, ties by value."""
    source = _counted(query, by, DAY)
    rows = yield Statement(
        f"SELECT value, sum(amount)::bigint FROM ({source.sql}) AS counted WHERE value IS NOT NULL GROUP BY value "
        "HAVING sum(amount) > 0 ORDER BY sum(amount) DESC, value LIMIT %(limit)s::bigint",
        {**source.values, "limit": limit},
    )
    return [(value, total) for value, total in rows]


def over_time(query: DeadLetterQuery, start: int, step: int) -> Flow[dict[int, int]]:
    """Return how many letters of a query died in which step; those without any are left out.

    Args:
        query: which letters, within a window.
        start: when step 0 begins, in milliseconds.
        step: milliseconds of a step.
    """
    longest = max((length for length in _LENGTHS if step % length == 0 and start % length == 0), default=1)
    source = _counted(query, _always(query), longest)
    rows = yield Statement(
        f"SELECT (at - %(start)s::bigint) / %(step)s::bigint, sum(amount)::bigint FROM ({source.sql}) AS counted GROUP BY 1",
        {**source.values, "start": start, "step": step},
    )
    return dict(rows)


def count(query: DeadLetterQuery) -> Flow[int]:
    """Return how many letters meet a query."""
    rows = yield from breakdown(query, _always(query))
    return sum(total for _, total in rows)


def _always(query: DeadLetterQuery) -> str:
    """Return a field that each letter of a query has a value in, one by which the sums know them if there is any."""
    fields = query.conditions()
    return next((name for name in fields if name in COUNTED and _is_summed(query, name)), "state")


def _is_summed(query: DeadLetterQuery, by: str) -> bool:
    """Tell whether the sums know the letters of a query by a field, which may be one of its conditions."""
    others = [name for name in query.conditions() if name != by]
    return not query.attributes and query.text is None and len(others) < 2 and by in SUMMED.get("".join(others), ())


def _counted(query: DeadLetterQuery, by: str, longest: int) -> Condition:
    """Return the SELECT that counts the letters of a query by a field.

    Args:
        query: which letters.
        by: one of those that letters are counted by.
        longest: milliseconds of the longest stretch that may come as one row.

    Returns:
        Its rows are `at`, an instant in milliseconds (0 where the query has no window), `value`, and `amount`: how many letters died
        from that instant on, within one stretch, and have that value.
    """
    start, end = window(query)
    if not _is_summed(query, by):
        is_of_kinds = _is_of_kinds(query)
        return _union([_kinds(query, by), _new(query, by, None, None)]) if is_of_kinds else _letters(source(query), by)
    cut = pieces(start, end, [length for length in _LENGTHS if length <= longest])
    summed = [(length, first, before) for length, first, before in cut if length > 1]
    if not summed:
        return _letters(source(query), by)
    starts = [None if first is None else first * length for length, first, _ in summed]
    ends = [None if before is None else before * length for length, _, before in summed]
    first = None if None in starts else min(each for each in starts if each is not None)
    before = None if None in ends else max(each for each in ends if each is not None)
    parts = [_new(query, by, first, before)]
    if start is None and end is None:
        parts.append(_sums(query, by, (0, 0, 1), "ever"))
    else:
        parts += [_sums(query, by, piece, f"piece{number}") for number, piece in enumerate(summed)]
    for number, (_, low, high) in enumerate(piece for piece in cut if piece[0] == 1):
        edge = between("letters.dead_at", low, high, f"edge{number}")
        of = joined([*conditions(query), *edge])
        parts.append(_letters(Condition(f"retrykit.letters WHERE {of.sql}", of.values), by))
    return _union(parts)


def _union(parts: Sequence[Condition]) -> Condition:
    values = {name: value for part in parts for name, value in part.values.items()}
    return Condition(" UNION ALL ".join(part.sql for part in parts), values)


def _is_of_kinds(query: DeadLetterQuery) -> bool:
    """Tell whether letters of the same kind meet a query, or none of them does."""
    return (
        window(query) == (None, None)
        and not query.attributes
        and query.text is None
        and {*query.conditions()} <= {*COUNTED}
    )


def _kinds(query: DeadLetterQuery, by: str) -> Condition:
    of = joined([equal(f"kinds.{name}", value, f"is_{name}") for name, value in query.conditions().items()])
    sql = f"SELECT 0::bigint AS at, kinds.{by} AS value, kinds.total AS amount FROM retrykit.letter_kinds AS kinds WHERE {of.sql}"
    return Condition(sql, of.values)


def _letters(of: Condition, by: str) -> Condition:
    return Condition(f"SELECT letters.dead_at AS at, letters.{by} AS value, 1 AS amount FROM {of.sql}", of.values)


def _sums(query: DeadLetterQuery, by: str, piece: tuple[int, int | None, int | None], name: str) -> Condition:
    length, first, before = piece
    fields = query.conditions()
    others = [field for field in fields if field != by]
    field = "".join(others)
    of = joined(
        [
            _is("value", fields[field] if field else "", "of"),
            *([_is("by_value", fields[by], "by")] if by in fields else []),
            *between("sums.bucket", first, before, name),
        ]
    )
    return Condition(
        f"SELECT sums.bucket * {length} AS at, sums.by_value AS value, sums.total AS amount FROM {_SUMS} "
        f"WHERE sums.field = '{field}' AND sums.by_field = '{by}' AND sums.span = {length} AND {of.sql}",
        of.values,
    )


def _is(column: str, value: str, name: str) -> Condition:
    return Condition(
        f"md5(sums.{column})::uuid = md5(%({name})s)::uuid AND sums.{column} = %({name})s", {name: text(value)}
    )


def _new(query: DeadLetterQuery, by: str, first: int | None, before: int | None) -> Condition:
    """Count what the sums of a stretch do not hold yet."""
    fields = [equal(f"changes.{name}", value, f"is_{name}") for name, value in query.conditions().items()]
    where = joined([*fields, *between("changes.dead_at", first, before, "new")])
    return Condition(
        f"SELECT changes.dead_at AS at, changes.{by} AS value, changes.amount FROM retrykit.letter_changes AS changes "
        f"WHERE {where.sql}",
        where.values,
    )
