"""The claim records in the SQLite file: the record as JSON, beside it what it is looked up by."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from ... import codec
from ...codec import JSON
from ...machines import claim as machine
from ...stores.claims import ClaimAnswer, ClaimRecord, ClaimState, ClaimStore, ClaimTerms, ReopenTerms
from ...times import to_millis
from .database import Operations
from .rows import readable

__all__ = ["Claims"]


class Claims(ClaimStore):
    """The claim records."""

    def __init__(self, database: Operations) -> None:
        self._database = database

    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        with self._database.transaction() as (db, now):
            before = _load(db, key)
            record, answer = machine.take(
                before, key, fingerprint=fingerprint, owner=owner, lease=lease, terms=terms, now=now
            )
            if record is not before:
                _save(db, record)
            return answer

    def _claim_unknown(self, key: str, owner: str, lease: float) -> ClaimRecord | None:
        with self._database.transaction() as (db, now):
            return _save(db, machine.take_unknown(_load(db, key), owner=owner, lease=lease, now=now))

    def _begin_send(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        with self._database.transaction() as (db, now):
            return _save(db, machine.begin_send(_load(db, key), token, lease=lease, now=now))

    def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        with self._database.transaction() as (db, now):
            return _save(db, machine.renew(_load(db, key), token, lease=lease, now=now))

    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        with self._database.transaction() as (db, now):
            return _save(db, machine.write(_load(db, record.key), record, token, delay=delay, now=now))

    def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> ClaimRecord:
        with self._database.transaction() as (db, now):
            before = _load(db, key)
            record = machine.confirm(before, key, provider=provider, provider_id=provider_id, now=now)
            if record is not before:
                _save(db, record)
            return record

    def _cancel(self, key: str) -> ClaimRecord:
        with self._database.transaction() as (db, now):
            before = _load(db, key)
            record = machine.cancel(before, key, now=now)
            if record is not before:
                _save(db, record)
            return record

    def _reopen(self, key: str, terms: ReopenTerms) -> ClaimRecord:
        with self._database.transaction() as (db, now):
            before = _load(db, key)
            record = machine.reopen(before, key, terms, now=now)
            if record is not before:
                _save(db, record)
            return record

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
            return cursor.rowcount


def _load(db: sqlite3.Connection, key: str) -> ClaimRecord | None:
    row = db.execute("SELECT record FROM retrykit_claims WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    with readable(f"the claim record of {key!r}"):
        return ClaimRecord.from_dict(cast("Mapping[str, JSON]", codec.decode(row[0])))


def _save(db: sqlite3.Connection, record: ClaimRecord | None) -> ClaimRecord | None:
    if record is not None:
        db.execute(
            "INSERT INTO retrykit_claims (key, state, unsettled_at, settled_at, record) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (key) DO UPDATE SET state = excluded.state, unsettled_at = excluded.unsettled_at, "
            "settled_at = excluded.settled_at, record = excluded.record",
            (
                record.key,
                record.state.value,
                _unsettled_at(record),
                None if record.settled_at is None else to_millis(record.settled_at),
                codec.encode(record.to_dict()).decode("ascii"),
            ),
        )
    return record


def _unsettled_at(record: ClaimRecord) -> int | None:
    """Return when it will be time to find out about a send, in epoch milliseconds; None: there is nothing to find out, or it is a call."""
    if record.is_call:
        return None
    if record.lease is not None:
        held = record.state in (ClaimState.SENDING, ClaimState.UNKNOWN)
        return to_millis(record.lease.deadline) if held else None
    if record.state is not ClaimState.UNKNOWN:
        return None
    return 0 if record.not_before is None else to_millis(record.not_before)
