"""The redrives and the audit log in the SQLite file: each as JSON, beside it what it is looked up by."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Mapping, Sequence
from typing import cast

from ... import codec
from ...codec import JSON
from ...machines import redrive as machine
from ...stores.redrives import AuditEntry, JobChange, RedriveJob, RedriveStore
from ...times import to_millis
from ..damage import readable
from .database import Operations

__all__ = ["Redrives"]


class Redrives(RedriveStore):
    """Redrives and the audit log."""

    def __init__(self, database: Operations) -> None:
        self._database = database

    def _start(self, job: RedriveJob) -> RedriveJob:
        with self._database.transaction() as (db, _):
            known = _load(db, job.id)
            return _keep(db, None, job) if known is None else known

    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        with self._database.transaction() as (db, now):
            job = _load(db, job_id)
            return None if job is None else _keep(db, job, change(job, now))

    def _get(self, job_id: str) -> RedriveJob | None:
        with self._database.reading() as (db, _):
            return _load(db, job_id)

    def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Sequence[RedriveJob]:
        created, job_id = (sys.maxsize, "") if after is None else (to_millis(after.created_at), after.id)
        with self._database.reading() as (db, _):
            rows = db.execute(
                f"SELECT id, record FROM retrykit_redrives WHERE {'is_active AND ' if active else ''}"
                "(created_at < ? OR (created_at = ? AND id > ?)) ORDER BY created_at DESC, id LIMIT ?",
                (created, created, job_id, limit),
            ).fetchall()
        return [_read(*row) for row in rows]

    def _note(self, entry: AuditEntry) -> None:
        with self._database.writing() as (db, _):
            _add(db, entry)

    def _audit(self, limit: int, after: AuditEntry | None) -> Sequence[AuditEntry]:
        where, values = "", tuple[object, ...]()
        if after is not None:
            at, step = to_millis(after.at), after.step
            where = "WHERE at < ? OR (at = ? AND (step < ? OR (step = ? AND entry > ?)))"
            values = (at, at, step, step, after.key)
        with self._database.reading() as (db, _):
            rows = db.execute(
                f"SELECT entry FROM retrykit_audit {where} ORDER BY at DESC, step DESC, entry LIMIT ?", (*values, limit)
            ).fetchall()
        with readable("the audit log"):
            return [AuditEntry.from_dict(cast("Mapping[str, JSON]", codec.decode(entry))) for (entry,) in rows]


def _load(db: sqlite3.Connection, job_id: str) -> RedriveJob | None:
    row = db.execute("SELECT id, record FROM retrykit_redrives WHERE id = ?", (job_id,)).fetchone()
    return None if row is None else _read(*row)


def _read(job_id: str, record: str) -> RedriveJob:
    with readable(f"the redrive {job_id!r}"):
        return RedriveJob.from_dict(cast("Mapping[str, JSON]", codec.decode(record)))


def _keep(db: sqlite3.Connection, before: RedriveJob | None, after: RedriveJob) -> RedriveJob:
    """Store a job, unless it would become active beside one that it conflicts with: then return that one."""
    if machine.becomes_active(before, after):
        for row in db.execute("SELECT id, record FROM retrykit_redrives WHERE is_active ORDER BY created_at DESC, id"):
            other = _read(*row)
            if other.conflicts_with(after):
                return other
    if after != before:  # a runner that only looks changes nothing, again and again
        db.execute(
            "INSERT INTO retrykit_redrives (id, is_active, created_at, record) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET is_active = excluded.is_active, record = excluded.record",
            (after.id, after.is_active, to_millis(after.created_at), codec.encode(after.to_dict()).decode("ascii")),
        )
    for entry in machine.gained(before, after):
        _add(db, entry)
    return after


def _add(db: sqlite3.Connection, entry: AuditEntry) -> None:
    db.execute(
        "INSERT OR IGNORE INTO retrykit_audit (entry, at, step) VALUES (?, ?, ?)",
        (entry.key, to_millis(entry.at), entry.step),
    )
