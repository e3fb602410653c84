"""What came of payloads in the SQLite file: the marks that `retrykit.machines.poison` counts."""

from __future__ import annotations

import sqlite3
from datetime import datetime

import attrs

from ...machines import poison
from ...stores.claims import ClaimRecord
from ...times import from_millis, to_millis
from ..damage import readable
from .rows import text

__all__ = ["load_marks", "purge_marks", "save_marks"]


def load_marks(db: sqlite3.Connection, key: str, fingerprint: str | None) -> poison.Marks:
    """Return the marks of the payload of a message, where any are kept."""
    if fingerprint is None or not poison.has_marks(key, fingerprint):
        return {}
    rows = db.execute("SELECT source, at FROM retrykit_marks WHERE fingerprint = ?", (text(fingerprint),))
    with readable(f"what is noted of the payload of {key!r}"):
        return {source: from_millis(at) for source, at in rows}


def save_marks(db: sqlite3.Connection, now: datetime, before: ClaimRecord | None, after: ClaimRecord) -> None:
    """Note what a change of a record at `now` says of its payload."""
    mark = poison.mark_of(before, after, now)
    if mark is not None:
        fingerprint, known = text(after.fingerprint or ""), load_marks(db, after.key, after.fingerprint)
        kept = poison.with_mark(known, attrs.evolve(mark, source=text(mark.source)))
        db.executemany(
            "INSERT OR REPLACE INTO retrykit_marks (fingerprint, source, at) VALUES (?, ?, ?)",
            [(fingerprint, source, to_millis(at)) for source, at in kept.items() if known.get(source) != at],
        )
        db.executemany(
            "DELETE FROM retrykit_marks WHERE fingerprint = ? AND source = ?",
            [(fingerprint, source) for source in known.keys() - kept.keys()],
        )
    for fingerprint in poison.cleared(before, after):
        db.execute("DELETE FROM retrykit_marks WHERE fingerprint = ?", (text(fingerprint),))


def purge_marks(db: sqlite3.Connection, before: datetime, limit: int) -> None:
    """Forget up to `limit` marks from before an instant, the oldest first."""
    db.execute(
        "DELETE FROM retrykit_marks WHERE (fingerprint, source) IN (SELECT fingerprint, source FROM retrykit_marks "
        "WHERE at < ? ORDER BY at LIMIT ?)",
        (to_millis(before), limit),
    )
