"""The claim records in the SQLite file: the record as JSON, beside it what it is looked up by."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeVar, cast

from ... import codec
from ...codec import JSON
from ...machines import claim as machine
from ...stores.claims import ClaimAnswer, ClaimRecord, ClaimStore, ClaimTerms, ReopenTerms
from ...times import to_millis
from ..damage import readable
from .database import Operations
from .marks import load_marks, purge_marks, save_marks

__all__ = ["Claims"]


class Claims(ClaimStore):
    """The claim records."""

    def __init__(self, database: Operations) -> None:
        self._database = database

    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        with self._database.transaction() as (db, now):
            before = _load(db, key)
            record, answer = machine.take(
                before,
                key,
                fingerprint=fingerprint,
                owner=owner,
                lease=lease,
                terms=terms,
                now=now,
                marks=load_marks(db, key, fingerprint),
            )
            _save(db, now, before, record)
            return answer

    def _claim_unknown(self, key: str, owner: str, lease: float) -> ClaimRecord | None:
        with self._database.transaction() as (db, now):
            before = _load(db, key)
            return _save(db, now, before, machine.take_unknown(before, owner=owner, lease=lease, now=now))

    def _begin_send(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        with self._database.transaction() as (db, now):
            before = _load(db, key)
            return _save(db, now, before, machine.begin_send(before, token, lease=lease, now=now))

    def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        with self._database.transaction() as (db, now):
            before = _load(db, key)
            return _save(db, now, before, machine.renew(before, token, lease=lease, now=now))

    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        with self._database.transaction() as (db, now):
            before = _load(db, record.key)
            return _save(db, now, before, machine.write(before, record, token, delay=delay, now=now))

    def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> ClaimRecord:
        with self._database.transaction() as (db, now):
            before = _load(db, key)
            return _save(
                db, now, before, machine.confirm(before, key, provider=provider, provider_id=provider_id, now=now)
            )

    def _cancel(self, key: str) -> ClaimRecord:
        with self._database.transaction() as (db, now):
            before = _load(db, key)
            return _save(db, now, before, machine.cancel(before, key, now=now))

    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        with self._database.transaction() as (db, now):
            before = _load(db, key)
            return _save(db, now, before, machine.reopen(before, key, terms, now=now))

    def _get(self, key: str) -> ClaimRecord | None:
        with self._database.reading() as (db, _):
            return _load(db, key)

    def _unsettled(self, limit: int) -> Sequence[str]:
        with self._database.reading() as (db, now):
            rows = db.execute(
                "SELECT key FROM retrykit_claims WHERE unsettled_at <= ? ORDER BY unsettled_at, key LIMIT ?",
                (to_millis(now), limit),
            )
            return [key for (key,) in rows]

    def _purge(self, before: datetime, limit: int) -> int:
        with self._database.writing() as (db, _):
            cursor = db.execute(
                "DELETE FROM retrykit_claims WHERE rowid IN (SELECT rowid FROM retrykit_claims "
                "WHERE settled_at < ? AND state = 'done' ORDER BY settled_at LIMIT ?)",
                (to_millis(before), limit),
            )
            purge_marks(db, before, limit)
            return cursor.rowcount


def _load(db: sqlite3.Connection, key: str) -> ClaimRecord | None:
    row = db.execute("SELECT record FROM retrykit_claims WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    with readable(f"the claim record of {key!r}"):
        return ClaimRecord.from_dict(cast("Mapping[str, JSON]", codec.decode(row[0])))


R = TypeVar("R", ClaimRecord, ClaimRecord | None)


def _save(db: sqlite3.Connection, now: datetime, before: ClaimRecord | None, record: R) -> R:
    """Store a record that has changed, and what the change says of its payload."""
    if record is not None and record is not before:
        unsettled_at = machine.unsettled_at(record)
        db.execute(
            "INSERT INTO retrykit_claims (key, state, unsettled_at, settled_at, record) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (key) DO UPDATE SET state = excluded.state, unsettled_at = excluded.unsettled_at, "
            "settled_at = excluded.settled_at, record = excluded.record",
            (
                record.key,
                record.state.value,
                None if unsettled_at is None else to_millis(unsettled_at),
                None if record.settled_at is None else to_millis(record.settled_at),
                codec.encode(record.to_dict()).decode("ascii"),
            ),
        )
        save_marks(db, now, before, record)
    return record
