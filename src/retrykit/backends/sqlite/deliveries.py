"""The delivery log in the SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from ... import codec
from ...machines.status import FINAL
from ...stores.deliveries import Delivery, DeliveryStatus, DeliveryStore
from ...times import from_millis, to_iso, to_millis
from ..damage import readable
from .database import Operations
from .rows import optional_text, text

__all__ = ["Deliveries"]


class Deliveries(DeliveryStore):
    """The delivery log."""

    def __init__(self, database: Operations) -> None:
        self._database = database

    def _record(self, delivery: Delivery) -> Delivery:
        with self._database.transaction() as (db, _):
            stored = _delivery(db, delivery.message_id)
            new = delivery.after(stored)
            if new is None:
                return cast("Delivery", stored)
            if not new.is_plain:  # first, since the trigger on the other table looks at it
                facts = {name: value for name, value in new.to_dict().items() if name not in _IN_COLUMNS}
                db.execute(
                    "INSERT OR REPLACE INTO retrykit_delivery_facts (message_id, told, record) VALUES (?, ?, ?)",
                    (new.message_id, new.told, codec.encode(facts).decode("ascii")),
                )
            row = (optional_text(new.provider), optional_text(new.provider_id), to_millis(new.updated_at))
            db.execute(
                # not REPLACE, which deletes first: under `PRAGMA recursive_triggers` that would take the facts with it
                "INSERT INTO retrykit_deliveries "
                "(message_id, status, version, provider, provider_id, updated_at) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (message_id) DO UPDATE SET status = excluded.status, version = excluded.version, "
                "provider = excluded.provider, provider_id = excluded.provider_id, updated_at = excluded.updated_at",
                (new.message_id, new.status.value, new.version, *row),
            )
            return new

    def _get(self, message_id: str) -> Delivery | None:
        with self._database.reading() as (db, _):
            return _delivery(db, message_id)

    def _by_provider_id(self, provider: str, provider_id: str) -> Delivery | None:
        known = f"{_SELECT} WHERE deliveries.provider_id = ? AND deliveries.provider"
        with self._database.reading() as (db, _):
            rows = db.execute(
                f"{known} = ? UNION ALL {known} IS NULL LIMIT 2", (text(provider_id), text(provider), text(provider_id))
            ).fetchall()
        return _delivery_of(rows[0]) if len(rows) == 1 else None

    def _with_status(self, status: DeliveryStatus, limit: int, after: str) -> Sequence[Delivery]:
        return self._page("deliveries.status = ?", (status.value, text(after), limit))

    def _unexpected(self, limit: int, after: str) -> Sequence[Delivery]:
        return self._page("deliveries.version < 0", (text(after), limit))

    def _page(self, condition: str, values: tuple[object, ...]) -> Sequence[Delivery]:
        with self._database.reading() as (db, _):
            rows = db.execute(
                f"{_SELECT} WHERE {condition} AND deliveries.message_id > ? ORDER BY deliveries.message_id LIMIT ?",
                values,
            ).fetchall()
        return [_delivery_of(row) for row in rows]

    def _updated_between(
        self, start: datetime, end: datetime, status: DeliveryStatus, limit: int, after: Delivery | None
    ) -> Sequence[Delivery]:
        begin = (to_millis(start), "") if after is None else (to_millis(after.updated_at), text(after.message_id))
        with self._database.reading() as (db, _):
            rows = db.execute(
                f"{_SELECT} WHERE deliveries.status = ? AND deliveries.updated_at >= ? AND deliveries.updated_at < ? "
                "AND (deliveries.updated_at, deliveries.message_id) > (?, ?) "
                "ORDER BY deliveries.updated_at, deliveries.message_id LIMIT ?",
                (status.value, max(begin[0], to_millis(start)), to_millis(end), *begin, limit),
            ).fetchall()
        return [_delivery_of(row) for row in rows]

    def _bookmark(self, source: str) -> datetime | None:
        with self._database.reading() as (db, _):
            row = db.execute("SELECT at FROM retrykit_bookmarks WHERE source = ?", (text(source),)).fetchone()
        return None if row is None else from_millis(row[0])

    def _move_bookmark(self, source: str, to: datetime) -> datetime:
        with self._database.writing() as (db, _):
            ((at,),) = db.execute(
                "INSERT INTO retrykit_bookmarks (source, at) VALUES (?, ?) "
                "ON CONFLICT (source) DO UPDATE SET at = max(at, excluded.at) RETURNING at",
                (text(source), to_millis(to)),
            ).fetchall()
        return from_millis(at)

    def _counts(self) -> Mapping[DeliveryStatus, int]:
        with self._database.reading() as (db, _):
            rows = db.execute("SELECT status, count(*) FROM retrykit_deliveries GROUP BY status").fetchall()
        with readable("the delivery log"):
            return {DeliveryStatus(status): total for status, total in rows}

    def _purge(self, before: datetime, limit: int) -> int:
        with self._database.writing() as (db, _):
            cursor = db.execute(
                # the plus keeps SQLite from taking the index on the status, and then sorting
                "DELETE FROM retrykit_deliveries WHERE rowid IN (SELECT rowid FROM retrykit_deliveries AS old "
                f"WHERE updated_at < ? AND (+status IN ({_FINAL}) OR EXISTS (SELECT 1 FROM retrykit_delivery_facts "
                "WHERE message_id = old.message_id AND told IS NOT NULL)) ORDER BY updated_at LIMIT ?)",
                (to_millis(before), limit),
            )
            return cursor.rowcount


_FINAL: Final = ", ".join(f"'{status.value}'" for status in sorted(FINAL))

_COLUMNS: Final = ("message_id", "status", "version", "provider", "provider_id", "updated_at")
_IN_COLUMNS: Final = frozenset(_COLUMNS)

_SELECT: Final = (
    f"SELECT {', '.join(f'deliveries.{name}' for name in _COLUMNS)}, facts.record FROM retrykit_deliveries AS deliveries "
    "LEFT JOIN retrykit_delivery_facts AS facts ON facts.message_id = deliveries.message_id"
)


def _delivery(db: sqlite3.Connection, message_id: str) -> Delivery | None:
    row = db.execute(f"{_SELECT} WHERE deliveries.message_id = ?", (message_id,)).fetchone()
    return None if row is None else _delivery_of(row)


def _delivery_of(row: tuple[Any, ...]) -> Delivery:
    message_id, status, version, provider, provider_id, updated_at, facts = row
    with readable(f"the delivery of {message_id!r}"):
        columns: dict[str, Any] = {
            "message_id": message_id,
            "status": DeliveryStatus(status),
            "version": version,
            "provider": provider,
            "provider_id": provider_id,
            "updated_at": from_millis(updated_at),
        }
        if facts is None:
            return Delivery(**columns)
        told = cast("Mapping[str, Any]", codec.decode(facts))
        return Delivery.from_dict(
            {**told, "told": told["told"], **columns, "updated_at": to_iso(columns["updated_at"])}
        )
