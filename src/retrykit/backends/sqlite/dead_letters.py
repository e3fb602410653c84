"""The dead letters in the SQLite file. `letter_tables` says what stands where."""

from __future__ import annotations

import itertools
import sqlite3
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from ...dead_letter import DeadLetter, DeadLetterState
from ...machines.letter import LetterChange
from ...stores.dead_letter_figures import DeadLetterStats
from ...stores.dead_letter_groups import DeadLetterGroup, DeadLetterGroupPage, GroupChange, GroupOrder
from ...stores.dead_letter_query import DeadLetterQuery
from ...stores.dead_letters import DeadLetterPage, DeadLetterStore, Facet
from ...times import from_millis, to_millis
from ..cursors import read_cursor, write_cursor
from ..spans import window
from .database import Operation, Operations
from .letter_groups import groups, note_of, write_note
from .letter_rows import delete_oldest, fill, find, insert, is_unfilled, read
from .letter_sums import add_up, add_up_when_due, breakdown, count, over_time
from .letter_tables import DAY, HOUR, MINUTE
from .rows import between, joined, text

__all__ = ["DeadLetters"]

_LOOKS: Final = 32
"""Writes of a process after which it looks what is new."""


class DeadLetters(DeadLetterStore):
    """The dead letters."""

    def __init__(self, database: Operations) -> None:
        self._database = database
        self._writes = itertools.count()

    def _put(self, letter: DeadLetter) -> DeadLetter:
        with self._database.transaction() as (db, _):
            row = db.execute(
                "SELECT state, record FROM retrykit_dead_letters WHERE id = ?", (text(letter.id),)
            ).fetchone()
            if row is not None and row[1] is not None:
                return read(letter.id, row[0], row[1])
            if row is not None:  # resolved before it came
                letter = attrs.evolve(letter, state=DeadLetterState(row[0]))
                db.execute("DELETE FROM retrykit_dead_letters WHERE id = ?", (text(letter.id),))
            insert(db, letter)
            self._add_up(db)
            return letter

    def _resolve(self, letter_id: str) -> None:
        with self._database.transaction() as (db, now):
            db.execute(
                "INSERT INTO retrykit_dead_letters (id, state, dead_at) VALUES (?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET state = excluded.state, dead_at = iif(record IS NULL, excluded.dead_at, dead_at)",
                (text(letter_id), DeadLetterState.RESOLVED.value, to_millis(now)),
            )
            self._add_up(db)

    def _change(self, letter_id: str, change: LetterChange) -> DeadLetter | None:
        with self._database.transaction() as (db, _):
            row = db.execute(
                "SELECT state, record FROM retrykit_dead_letters WHERE id = ? AND record IS NOT NULL",
                (text(letter_id),),
            ).fetchone()
            if row is None:
                return None
            letter = read(letter_id, *row)
            changed = change(letter)
            if changed is not letter:
                db.execute(
                    "UPDATE retrykit_dead_letters SET state = ?, record = ? WHERE id = ?",
                    (changed.state.value, changed.to_json(), text(letter_id)),
                )
                self._add_up(db)
            return changed

    def _get(self, letter_id: str) -> DeadLetter | None:
        with self._database.reading() as (db, _):
            row = db.execute(
                "SELECT state, record FROM retrykit_dead_letters WHERE id = ? AND record IS NOT NULL",
                (text(letter_id),),
            ).fetchone()
        return None if row is None else read(letter_id, *row)

    def _search(self, query: DeadLetterQuery, limit: int, cursor: str | None) -> DeadLetterPage:
        before = sys.maxsize if cursor is None else read_cursor(cursor)
        with self._snapshot() as (db, _):
            found = find(db, query, before=before)
            rows = db.execute(
                f"SELECT {found.number}, letters.id, letters.state, letters.record {found.source} "
                f"ORDER BY {found.number} DESC LIMIT ?",
                (*found.values, limit + 1),
            ).fetchall()
        more = len(rows) > limit
        letters = [read(letter_id, state, record) for _, letter_id, state, record in rows[:limit]]
        return DeadLetterPage(letters, write_cursor(rows[limit - 1][0]) if more else None)

    def _count(self, query: DeadLetterQuery) -> int:
        with self._snapshot() as (db, _):
            return count(db, query)

    def _top(self, facet: Facet, query: DeadLetterQuery, limit: int) -> Sequence[tuple[str, int]]:
        with self._snapshot() as (db, _):
            return breakdown(db, query, facet, limit=limit)

    def _purge(self, before: datetime, query: DeadLetterQuery, limit: int) -> int:
        self._see_all()
        with self._database.transaction() as (db, _):
            gone = delete_oldest(db, query, to_millis(before), limit)
            if attrs.evolve(query, since=None, until=None).matches_early(before):
                where, values = joined(
                    ("record IS NULL", ()),
                    *between("dead_at", None, to_millis(before)),
                    *between("dead_at", *window(query)),
                )
                db.execute(
                    f"DELETE FROM retrykit_dead_letters INDEXED BY retrykit_dead_letters_early WHERE {where}", values
                )
            add_up(db)
            return gone

    def _groups(
        self, query: DeadLetterQuery, order: GroupOrder, muted: bool, limit: int, cursor: str | None
    ) -> DeadLetterGroupPage:
        with self._snapshot() as (db, now):
            return groups(db, query, order, muted=muted, limit=limit, cursor=cursor, now=now)

    def _annotate(self, fingerprint: str, change: GroupChange) -> DeadLetterGroup | None:
        own = DeadLetterQuery(fingerprint=fingerprint)
        self._see_all()
        with self._database.transaction() as (db, now):
            if not count(db, own):
                return None
            write_note(db, fingerprint, change.made_to(note_of(db, fingerprint), now))
            (group,) = groups(db, own, "last_seen", muted=True, limit=1, cursor=None, now=now).groups
            return group

    def _trend(self, query: DeadLetterQuery, start: datetime, step: float, steps: int) -> Sequence[int]:
        length = int(step) * 1000
        longest = max(each for each in (MINUTE, HOUR * MINUTE, DAY * MINUTE) if length % each == 0)
        with self._snapshot() as (db, _):
            rows = over_time(db, query, to_millis(start), length, longest)
        counts = dict(rows)
        return [counts.get(number, 0) for number in range(steps)]

    def _stats(self) -> DeadLetterStats:
        with self._snapshot() as (db, now):
            states = dict(breakdown(db, DeadLetterQuery(), "state"))
            until = now + timedelta(milliseconds=1)
            hour, day = (
                count(db, DeadLetterQuery(since=now - age, until=until))
                for age in (timedelta(hours=1), timedelta(days=1))
            )
            (oldest,) = db.execute(
                "SELECT min(dead_at) FROM retrykit_dead_letters INDEXED BY retrykit_dead_letters_waiting "
                "WHERE state = 'quarantined' AND record IS NOT NULL"
            ).fetchone()
        return DeadLetterStats(
            died_last_hour=hour,
            died_last_day=day,
            oldest_quarantined_at=None if oldest is None else from_millis(oldest),
            **{state.value: states.get(state.value, 0) for state in DeadLetterState},
        )

    def _add_up(self, db: sqlite3.Connection) -> None:
        """See now and then whether there is enough to be added to the sums; a process that writes little does so as well."""
        if next(self._writes) % _LOOKS == 0:
            add_up_when_due(db)

    def _snapshot(self) -> Operation:
        """Give a connection for statements that read the letters as they are at one instant."""
        self._see_all()
        return self._database.snapshot()

    def _see_all(self) -> None:
        """Make letters that a process of an earlier version wrote like those of this one."""
        with self._database.reading() as (db, _):
            if not is_unfilled(db):
                return
        with self._database.transaction() as (db, _):
            fill(db)
            add_up(db)
