"""The pauses and the circuits in the SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from ... import codec
from ...codec import JSON
from ...lease import Lease
from ...machines import circuit
from ...stores.circuits import Circuit, CircuitStore, Pause
from ...times import from_millis, to_millis
from ..damage import readable
from .database import Operations
from .rows import text

__all__ = ["Circuits"]


class Circuits(CircuitStore):
    """The pauses and the circuits."""

    def __init__(self, database: Operations) -> None:
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

    def _trip(self, name: str, by: str, recovery: float) -> Circuit:
        with self._database.transaction() as (db, now):
            db.execute("DELETE FROM retrykit_circuits WHERE keep_until < ?", (to_millis(now),))
            return _save(db, circuit.trip(_load(db, name), name, by=by, recovery=recovery, now=now))

    def _lease_probe(self, name: str, owner: str, limit: int, length: float) -> Lease | None:
        with self._database.transaction() as (db, now):
            changed, lease = circuit.lease_probe(_load(db, name), owner=owner, limit=limit, length=length, now=now)
            if changed is not None:
                _save(db, changed)
            return lease

    def _record_probe(
        self, name: str, token: int, succeeded: bool | None, close_after: int, recovery: float
    ) -> Circuit | None:
        with self._database.transaction() as (db, now):
            changed = circuit.record_probe(
                _load(db, name),
                token,
                succeeded=succeeded,
                close_after=close_after,
                recovery=recovery,
                now=now,
            )
            return None if changed is None else _save(db, changed)

    def _reset(self, name: str) -> bool:
        with self._database.transaction() as (db, now):
            known = _load(db, name)
            if known is None or not known.is_open:
                return False
            _save(db, circuit.close(known, now=now))
            return True

    def _report(self, name: str, instance: str, calls: int, failures: int, length: float) -> Circuit:
        with self._database.transaction() as (db, now):
            return _save(
                db,
                circuit.report(
                    _load(db, name),
                    name,
                    instance=instance,
                    calls=calls,
                    failures=failures,
                    length=length,
                    now=now,
                ),
            )

    def _circuits(self) -> Sequence[Circuit]:
        with self._database.reading() as (db, now):
            return [each for each in _all(db) if not circuit.is_forgotten(each, now)]


def _load(db: sqlite3.Connection, name: str) -> Circuit | None:
    row = db.execute("SELECT name, record FROM retrykit_circuits WHERE name = ?", (name,)).fetchone()
    return None if row is None else _circuit(*row)


def _all(db: sqlite3.Connection) -> Sequence[Circuit]:
    return [_circuit(*row) for row in db.execute("SELECT name, record FROM retrykit_circuits ORDER BY name")]


def _circuit(name: str, record: str) -> Circuit:
    with readable(f"the circuit {name!r}"):
        return Circuit.from_dict(cast("Mapping[str, JSON]", codec.decode(record)))


def _save(db: sqlite3.Connection, known: Circuit) -> Circuit:
    kept = circuit.keep_until(known)
    db.execute(
        "INSERT INTO retrykit_circuits (name, keep_until, record) VALUES (?, ?, ?) "
        "ON CONFLICT (name) DO UPDATE SET keep_until = excluded.keep_until, record = excluded.record",
        (
            known.name,
            None if kept is None else to_millis(kept),
            codec.encode(known.to_dict()).decode("ascii"),
        ),
    )
    return known
