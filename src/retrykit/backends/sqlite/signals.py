"""The signals in the SQLite file: a record for each name, as JSON."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import cast

from ... import codec
from ...codec import JSON
from ...errors import StoreCorruptError
from ...stores.signals import SignalChange, Signals, SignalStore
from ..damage import readable
from .database import Operations

__all__ = ["SQLiteSignals"]


class SQLiteSignals(SignalStore):
    """Records of signals."""

    def __init__(self, database: Operations) -> None:
        self._database = database

    def _change(self, name: str, change: SignalChange) -> Signals:
        with self._database.transaction() as (db, now):
            changed = change(_load(db, name), now)
            db.execute(
                "INSERT INTO retrykit_signals (name, record) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET record = excluded.record",
                (name, codec.encode(changed.to_dict()).decode("ascii")),
            )
            return changed

    def _get(self, name: str) -> Signals | None:
        with self._database.reading() as (db, _):
            return _load(db, name)

    def _names(self) -> Sequence[str]:
        with self._database.reading() as (db, _):
            return [str(name) for (name,) in db.execute("SELECT name FROM retrykit_signals")]

    def _mend(self, name: str) -> bool:
        with self._database.transaction() as (db, _):
            try:
                _load(db, name)
            except StoreCorruptError:
                db.execute("DELETE FROM retrykit_signals WHERE name = ?", (name,))
                return True
            return False


def _load(db: sqlite3.Connection, name: str) -> Signals | None:
    row = db.execute("SELECT record FROM retrykit_signals WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    with readable(f"the signals {name!r}"):
        return Signals.from_dict(cast("Mapping[str, JSON]", codec.decode(row[0])))
