"""The retry queue in the SQLite file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import cast

import attrs

from ... import codec
from ...lease import Lease
from ...message import Message
from ...stores.retries import DueMessage, RetryStats, RetryStore
from ...times import from_millis, later, to_millis
from ..damage import due_messages
from .database import Operations
from .rows import text

__all__ = ["Retries"]


class Retries(RetryStore):
    """The retry queue."""

    def __init__(self, database: Operations) -> None:
        self._database = database

    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        due = to_millis(due_at)
        attributes = codec.encode(dict(message.attributes)).decode("ascii")
        with self._database.writing() as (db, _):
            db.execute(
                "INSERT INTO retrykit_retries AS entry "
                "(message_id, generation, version, due_at, ready_at, body, attributes) VALUES (?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (message_id, generation) DO UPDATE SET "
                "due_at = excluded.due_at, ready_at = excluded.ready_at, lease_owner = NULL, lease_token = NULL, "
                "body = iif(excluded.version > entry.version, excluded.body, entry.body), "
                "attributes = iif(excluded.version > entry.version, excluded.attributes, entry.attributes), "
                "version = max(excluded.version, entry.version) "
                "WHERE excluded.version > entry.version OR entry.lease_token IS NOT NULL",
                (message.id, generation, version, due, due, message.body, attributes),
            )

    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        with self._database.reading() as (db, now):  # most polls find nothing, and then nothing is written
            query = "SELECT 1 FROM retrykit_retries WHERE ready_at <= ? LIMIT 1"
            if db.execute(query, (to_millis(now),)).fetchone() is None:
                return []
        with self._database.transaction() as (db, now):
            (token,) = db.execute("UPDATE retrykit_schema SET token = token + 1 RETURNING token").fetchone()
            held = Lease.granted(owner, token, now, lease)
            rows = db.execute(
                "UPDATE retrykit_retries SET lease_owner = ?, lease_token = ?, ready_at = ? WHERE rowid IN "
                "(SELECT rowid FROM retrykit_retries WHERE ready_at <= ? ORDER BY ready_at, message_id, generation LIMIT ?) "
                "RETURNING message_id, generation, due_at, body, attributes",
                (text(owner), token, to_millis(held.deadline), to_millis(now), limit),
            ).fetchall()
        return due_messages((row[0], partial(_due, row, held)) for row in rows)

    def _ack(self, due: DueMessage) -> bool:
        with self._database.writing() as (db, _):
            cursor = db.execute(f"DELETE FROM retrykit_retries WHERE {_HELD}", _held(due))
            return cursor.rowcount == 1

    def _release(self, due: DueMessage, delay: float) -> bool:
        with self._database.writing() as (db, now):
            at = to_millis(later(now, delay))
            cursor = db.execute(
                "UPDATE retrykit_retries SET lease_owner = NULL, lease_token = NULL, due_at = ?, ready_at = ? "
                f"WHERE {_HELD}",
                (at, at, *_held(due)),
            )
            return cursor.rowcount == 1

    def _extend(self, due: DueMessage, lease: float) -> DueMessage | None:
        with self._database.writing() as (db, now):
            held = due.lease.renewed(now, lease)
            cursor = db.execute(
                f"UPDATE retrykit_retries SET ready_at = ? WHERE {_HELD}", (to_millis(held.deadline), *_held(due))
            )
            return attrs.evolve(due, lease=held) if cursor.rowcount == 1 else None

    def _cancel(self, message_id: str) -> bool:
        with self._database.writing() as (db, _):
            return db.execute("DELETE FROM retrykit_retries WHERE message_id = ?", (message_id,)).rowcount > 0

    def _stats(self) -> RetryStats:
        with self._database.reading() as (db, now):
            total, leased, due, first = db.execute(
                "SELECT (SELECT count(*) FROM retrykit_retries), "
                "(SELECT count(*) FROM retrykit_retries WHERE lease_token IS NOT NULL), "
                "(SELECT count(*) FROM retrykit_retries WHERE ready_at <= ?), "
                "(SELECT min(ready_at) FROM retrykit_retries)",
                (to_millis(now),),
            ).fetchone()
        return RetryStats(
            waiting=total - leased, leased=leased, due=due, next_due_at=None if first is None else from_millis(first)
        )


_HELD = "message_id = ? AND generation = ? AND lease_token = ?"


def _held(due: DueMessage) -> tuple[str, int, int]:
    return due.message.id, due.generation, due.lease.token


def _due(row: tuple[str, int, int, bytes, str], lease: Lease) -> DueMessage:
    message_id, generation, due_at, body, attributes = row
    message = Message(message_id, body, cast("Mapping[str, str]", codec.decode(attributes)), max_payload=len(body))
    return DueMessage(message=message, generation=generation, due_at=from_millis(due_at), lease=lease)
