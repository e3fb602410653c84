"""Groups of dead letters in the SQLite file: which there are, by the sums; their figures, by the kinds of their letters."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

import attrs

from ...dead_letter import DeadLetter, DeadLetterState
from ...stores.dead_letter_groups import (
    SAMPLES,
    DeadLetterGroup,
    DeadLetterGroupPage,
    GroupNote,
    GroupOrder,
    read_group_cursor,
    write_group_cursor,
)
from ...stores.dead_letter_query import DeadLetterQuery
from ...times import from_millis, to_millis
from .letter_rows import find, read
from .letter_sums import breakdown, counted, is_counted
from .rows import between, equal, joined, optional_text, readable, text
from .spans import window

__all__ = ["groups", "note_of", "write_note"]


def groups(
    db: sqlite3.Connection,
    query: DeadLetterQuery,
    order: GroupOrder,
    *,
    muted: bool,
    limit: int,
    cursor: str | None,
    now: datetime,
) -> DeadLetterGroupPage:
    """Return one page of the groups of a query's letters."""
    ranks = breakdown(db, query, "fingerprint") if order == "total" else _last_seen(db, query)
    hidden = set() if muted else _muted(db, now)
    rows = sorted((-rank, fingerprint) for fingerprint, rank in ranks if fingerprint not in hidden)
    if cursor is not None:
        rank, fingerprint = read_group_cursor(cursor)
        rows = [row for row in rows if row > (-rank, text(fingerprint))]
    page = [_group(db, query, fingerprint, now) for _, fingerprint in rows[:limit]]
    return DeadLetterGroupPage(page, write_group_cursor(page[-1], order) if len(rows) > limit else None)


def _last_seen(db: sqlite3.Connection, query: DeadLetterQuery) -> Sequence[tuple[str, int]]:
    if query.conditions() or not is_counted(query):
        return [(fingerprint, last) for fingerprint, _, last in _seen(db, query)]
    where, bounds = joined(("letters.fingerprint = value", ()), *between("letters.dead_at", *window(query)))
    last = (
        f"SELECT max(dead_at) FROM retrykit_dead_letters AS letters INDEXED BY retrykit_dead_letters_seen WHERE {where}"
    )
    source, values = counted(db, query, "fingerprint")
    return db.execute(
        f"WITH counted (at, value, amount) AS ({source}), names AS (SELECT DISTINCT value FROM counted), "
        f"seen (value, last) AS (SELECT value, ({last}) FROM names) SELECT value, last FROM seen WHERE last IS NOT NULL",
        (*values, *bounds),
    ).fetchall()


def _seen(db: sqlite3.Connection, query: DeadLetterQuery) -> Sequence[tuple[str, int, int]]:
    """Return when the first and the last letter of each group died."""
    if not is_counted(query):
        found = find(db, query)
        return db.execute(
            f"SELECT letters.fingerprint, min(letters.dead_at), max(letters.dead_at) {found.source} "
            "AND letters.fingerprint IS NOT NULL GROUP BY letters.fingerprint",
            found.values,
        ).fetchall()
    fields = {name: text(value) for name, value in query.conditions().items()}
    where, values = joined(("totals.fingerprint IS NOT NULL", ()), *equal(fields, "totals"))
    within, bounds = joined(("letters.kind = totals.id", ()), *between("letters.dead_at", *window(query)))
    letters = f"FROM retrykit_dead_letters AS letters INDEXED BY retrykit_dead_letters_kind WHERE {within}"
    return db.execute(
        "SELECT fingerprint, min(first), max(last) FROM (SELECT totals.fingerprint AS fingerprint, "
        f"(SELECT min(letters.dead_at) {letters}) AS first, (SELECT max(letters.dead_at) {letters}) AS last "
        f"FROM retrykit_dead_letter_totals AS totals WHERE {where}) WHERE first IS NOT NULL GROUP BY fingerprint",
        (*bounds, *bounds, *values),
    ).fetchall()


def _group(db: sqlite3.Connection, query: DeadLetterQuery, fingerprint: str, now: datetime) -> DeadLetterGroup:
    own = attrs.evolve(query, fingerprint=fingerprint)
    ((_, first, last),) = _seen(db, own)
    states = breakdown(db, own, "state")
    letters = _newest(db, own)
    note = note_of(db, fingerprint)
    with readable(f"the group {fingerprint!r}"):
        return DeadLetterGroup(
            fingerprint=fingerprint,
            error_class=letters[0].error_class,
            error_code=letters[0].error_code,
            provider=letters[0].provider,
            error_message=letters[0].error_message,
            counts={DeadLetterState(state): total for state, total in states},
            first_seen=from_millis(first),
            last_seen=from_millis(last),
            letter_ids=tuple(letter.id for letter in letters),
            **attrs.asdict(attrs.evolve(note, muted=note.is_muted(now))),
        )


def _newest(db: sqlite3.Connection, query: DeadLetterQuery) -> Sequence[DeadLetter]:
    found = find(db, query)
    rows = db.execute(
        f"SELECT letters.id, letters.state, letters.record {found.source} ORDER BY {found.number} DESC LIMIT ?",
        (*found.values, SAMPLES),
    ).fetchall()
    return [read(*row) for row in rows]


_NOTE = "muted, muted_until, owner, note, updated_by, updated_at"


def _muted(db: sqlite3.Connection, now: datetime) -> set[str]:
    rows = db.execute(
        "SELECT fingerprint FROM retrykit_dead_letter_notes WHERE muted AND (muted_until IS NULL OR muted_until > ?)",
        (to_millis(now),),
    ).fetchall()
    return {fingerprint for (fingerprint,) in rows}


def note_of(db: sqlite3.Connection, fingerprint: str) -> GroupNote:
    """Return what was noted of a group."""
    row = db.execute(
        f"SELECT {_NOTE} FROM retrykit_dead_letter_notes WHERE fingerprint = ?", (text(fingerprint),)
    ).fetchone()
    if row is None:
        return GroupNote()
    with readable(f"the note of {fingerprint!r}"):
        muted, until, owner, note, by, at = row
        return GroupNote(
            muted=bool(muted),
            muted_until=None if until is None else from_millis(until),
            owner=owner,
            note=note,
            updated_by=by,
            updated_at=from_millis(at),
        )


def write_note(db: sqlite3.Connection, fingerprint: str, note: GroupNote) -> None:
    """Keep what was noted of a group, in place of what was noted before."""
    assert note.updated_at is not None
    until = None if note.muted_until is None else to_millis(note.muted_until)
    by = optional_text(note.updated_by)
    db.execute(
        f"INSERT OR REPLACE INTO retrykit_dead_letter_notes (fingerprint, {_NOTE}) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (text(fingerprint), note.muted, until, text(note.owner), text(note.note), by, to_millis(note.updated_at)),
    )
