"""The delivery log in the SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from ...machines.status import FINAL
from ...stores.deliveries import Delivery, DeliveryStatus, DeliveryStore
from ...times import from_millis, to_millis
from .database import Database
from .rows import optional_text, readable, text

__all__ = ["Deliveries"]


class Deliveries(DeliveryStore):
    """The delivery log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _record(self, delivery: Delivery) -> Delivery:
        with self._database.transaction() as (db, _):
            stored = _delivery(db, delivery.message_id)
            new = delivery.after(stored)
            if new is None:
                return cast("Delivery", stored)
            db.execute(
                "INSERT OR REPLACE INTO retrykit_deliveries "
                "(message_id, status, version, provider, provider_id, updated_at) VALUES (?, ?, ?, ?, ?, ?)",
                (
                    new.message_id,
                    new.status.value,
                    new.version,
                    optional_text(new.provider),
                    optional_text(new.provider_id),
                    to_millis(new.updated_at),
                ),
            )
            return new

    def _get(self, message_id: str) -> Delivery | None:
        with self._database.reading() as (db, _):
            return _delivery(db, message_id)

    def _with_status(self, status: DeliveryStatus, limit: int, after: str) -> Sequence[Delivery]:
        with self._database.reading() as (db, _):
            rows = db.execute(
                f"SELECT {_DELIVERY_COLUMNS} FROM retrykit_deliveries WHERE status = ? AND message_id > ? "
                "ORDER BY message_id LIMIT ?",
                (status.value, text(after), limit),
            ).fetchall()
        return [_delivery_of(row) for row in rows]

    def _counts(self) -> Mapping[DeliveryStatus, int]:
        with self._database.reading() as (db, _):
            rows = db.execute("SELECT status, count(*) FROM retrykit_deliveries GROUP BY status").fetchall()
        with readable("the delivery log"):
            return {DeliveryStatus(status): total for status, total in rows}

    def _purge(self, before: datetime, limit: int) -> int:
        with self._database.writing() as (db, _):
            cursor = db.execute(
                # the plus keeps SQLite from taking the index on the status, and then sorting
                "DELETE FROM retrykit_deliveries WHERE rowid IN (SELECT rowid FROM retrykit_deliveries "
                f"WHERE updated_at < ? AND +status IN ({_FINAL}) ORDER BY updated_at LIMIT ?)",
                (to_millis(before), limit),
            )
            return cursor.rowcount


_FINAL: Final = ", ".join(f"'{status.value}'" for status in sorted(FINAL))

_DELIVERY_COLUMNS = "message_id, status, version, provider, provider_id, updated_at"


def _delivery(db: sqlite3.Connection, message_id: str) -> Delivery | None:
    row = db.execute(
        f"SELECT {_DELIVERY_COLUMNS} FROM retrykit_deliveries WHERE message_id = ?", (message_id,)
    ).fetchone()
    return None if row is None else _delivery_of(row)


def _delivery_of(row: tuple[Any, ...]) -> Delivery:
    message_id, status, version, provider, provider_id, updated_at = row
    with readable(f"the delivery of {message_id!r}"):
        return Delivery(
            message_id=message_id,
            status=DeliveryStatus(status),
            version=version,
            provider=provider,
            provider_id=provider_id,
            updated_at=from_millis(updated_at),
        )
