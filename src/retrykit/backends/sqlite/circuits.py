"""The pauses in the SQLite file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...stores.circuits import CircuitStore, Pause
from ...times import from_millis, to_millis
from .database import Database
from .rows import text

__all__ = ["Circuits"]


class Circuits(CircuitStore):
    """The pauses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        with self._database.transaction() as (db, now):
            db.execute("DELETE FROM retrykit_pauses WHERE until <= ?", (to_millis(now),))
            db.execute(
                "INSERT OR REPLACE INTO retrykit_pauses (key, reason, by, since, until) VALUES (?, ?, ?, ?, ?)",
                (key, text(reason), text(by), to_millis(now), None if until is None else to_millis(until)),
            )
            return Pause(key=key, reason=reason, by=by, since=now, until=until)

    def _resume(self, key: str) -> bool:
        with self._database.writing() as (db, now):
            row = db.execute("DELETE FROM retrykit_pauses WHERE key = ? RETURNING until", (key,)).fetchone()
            return row is not None and (row[0] is None or row[0] > to_millis(now))

    def _pauses(self) -> Sequence[Pause]:
        with self._database.reading() as (db, now):
            rows = db.execute(
                "SELECT key, reason, by, since, until FROM retrykit_pauses "
                "WHERE until IS NULL OR until > ? ORDER BY key",
                (to_millis(now),),
            ).fetchall()
        return [
            Pause(
                key=key,
                reason=reason,
                by=by,
                since=from_millis(since),
                until=None if until is None else from_millis(until),
            )
            for key, reason, by, since, until in rows
        ]
