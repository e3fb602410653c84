"""Groups of dead letters in the SQLite file: which there are, and what people noted of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import attrs

from ...dead_letter import DeadLetterState
from ...stores.dead_letter_groups import (
    SAMPLES,
    DeadLetterGroup,
    DeadLetterGroupPage,
    GroupNote,
    GroupOrder,
    group_of,
    read_group_cursor,
    write_group_cursor,
)
from ...stores.dead_letter_query import DeadLetterQuery
from ...times import from_millis, to_millis
from ..damage import readable
from .letter_rows import find, read
from .letter_sums import breakdown, newest
from .rows import optional_text, text

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
    """Return one page of the groups of which a query takes in a letter."""
    matching = dict(breakdown(db, query, "fingerprint"))
    hidden = set[str]() if muted else _muted(db, now)
    shown = [fingerprint for fingerprint in matching if fingerprint not in hidden]
    rows = sorted((-(matching[name] if order == "matching" else _seen(db, "max", name)), name) for name in shown)
    if cursor is not None:
        rank, fingerprint = read_group_cursor(cursor)
        rows = [row for row in rows if row > (-rank, text(fingerprint))]
    names = [fingerprint for _, fingerprint in rows[:limit]]
    counts = _counts(db, names)
    page = [_group(db, query, name, matching[name], counts[name], now) for name in names]
    return DeadLetterGroupPage(page, write_group_cursor(page[-1], order) if len(rows) > limit else None)


def _counts(db: sqlite3.Connection, names: Sequence[str]) -> dict[str, dict[DeadLetterState, int]]:
    """Return how many letters of each group stand where."""
    counts = {name: dict[DeadLetterState, int]() for name in names}
    for state in DeadLetterState:
        for name, total in breakdown(db, DeadLetterQuery(state=state), "fingerprint"):
            if name in counts:
                counts[name][state] = total
    return counts


def _seen(db: sqlite3.Connection, end: Literal["min", "max"], fingerprint: str) -> int:
    (at,) = db.execute(
        f"SELECT {end}(dead_at) FROM retrykit_dead_letters INDEXED BY retrykit_dead_letters_seen WHERE fingerprint = ?",
        (fingerprint,),
    ).fetchone()
    return int(at)


def _group(
    db: sqlite3.Connection,
    query: DeadLetterQuery,
    fingerprint: str,
    matching: int,
    counts: Mapping[DeadLetterState, int],
    now: datetime,
) -> DeadLetterGroup:
    own = DeadLetterQuery(fingerprint=fingerprint)
    found = find(db, own)
    row = db.execute(
        f"SELECT letters.id, letters.state, letters.record {found.source} ORDER BY {found.number} DESC LIMIT 1",
        found.values,
    ).fetchone()
    last = read(*row)
    note = note_of(db, fingerprint)
    return group_of(
        fingerprint,
        last,
        note,
        now,
        counts=counts,
        first_seen=from_millis(_seen(db, "min", fingerprint)),
        last_seen=from_millis(_seen(db, "max", fingerprint)),
        matching=matching,
        letter_ids=newest(db, attrs.evolve(query, fingerprint=fingerprint), matching, SAMPLES),
    )


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
