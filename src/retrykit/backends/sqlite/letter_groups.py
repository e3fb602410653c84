"""Groups of dead letters in the SQLite file: which there are, and what people noted of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
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
from .letter_sums import breakdown, by_two, first_and_last, is_counted
from .rows import between, joined, optional_text, readable, text
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
    counts = _counts(db, query)
    if order == "total":
        ranks = {fingerprint: sum(states.values()) for fingerprint, states in counts.items()}
    else:
        ranks = {fingerprint: last for fingerprint, (_, last) in _seen(db, query, counts).items()}
    hidden = set[str]() if muted else _muted(db, now)
    rows = sorted((-rank, fingerprint) for fingerprint, rank in ranks.items() if fingerprint not in hidden)
    if cursor is not None:
        rank, fingerprint = read_group_cursor(cursor)
        rows = [row for row in rows if row > (-rank, text(fingerprint))]
    names = [fingerprint for _, fingerprint in rows[:limit]]
    seen = _seen(db, query, names)
    page = [_group(db, query, name, counts[name], seen[name], now) for name in names]
    return DeadLetterGroupPage(page, write_group_cursor(page[-1], order) if len(rows) > limit else None)


def _counts(db: sqlite3.Connection, query: DeadLetterQuery) -> dict[str, dict[str, int]]:
    """Return how many letters of each group stand where, by fingerprint and state."""
    counts = dict[str, dict[str, int]]()
    if is_counted(query) and not query.conditions():  # the sums know letters by two fields
        for state in DeadLetterState:
            for fingerprint, total in breakdown(db, attrs.evolve(query, state=state), "fingerprint"):
                counts.setdefault(fingerprint, {})[state.value] = total
    else:
        for fingerprint, state, total in by_two(db, query, "fingerprint", "state"):
            counts.setdefault(fingerprint, {})[state] = total
    return counts


def _seen(db: sqlite3.Connection, query: DeadLetterQuery, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return when the first and the last letter of groups died."""
    if is_counted(query) and not query.conditions():
        where, values = joined(("fingerprint = ?", ()), *between("dead_at", *window(query)))
        letters = f"FROM retrykit_dead_letters INDEXED BY retrykit_dead_letters_seen WHERE {where}"
        ends = f"SELECT (SELECT min(dead_at) {letters}), (SELECT max(dead_at) {letters})"
        return {name: db.execute(ends, (name, *values) * 2).fetchone() for name in names}
    return {name: ends for name, *ends in first_and_last(db, query, "fingerprint")}


def _group(
    db: sqlite3.Connection,
    query: DeadLetterQuery,
    fingerprint: str,
    counts: Mapping[str, int],
    seen: tuple[int, int],
    now: datetime,
) -> DeadLetterGroup:
    letters = _newest(db, attrs.evolve(query, fingerprint=fingerprint))
    note = note_of(db, fingerprint)
    with readable(f"the group {fingerprint!r}"):
        return DeadLetterGroup(
            fingerprint=fingerprint,
            error_class=letters[0].error_class,
            error_code=letters[0].error_code,
            provider=letters[0].provider,
            error_message=letters[0].error_message,
            counts={DeadLetterState(state): total for state, total in counts.items()},
            first_seen=from_millis(seen[0]),
            last_seen=from_millis(seen[1]),
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
