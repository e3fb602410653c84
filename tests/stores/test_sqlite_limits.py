"""The SQLite file at its limits: a full disk in the middle of any operation, and a log that must not grow for ever."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.dead_letter import DeadLetter
from retrykit.decision import DeadLetterReason
from retrykit.errors import StoreUnavailableError
from retrykit.failure import ErrorClass
from retrykit.machines import claim as machine
from retrykit.message import Message
from retrykit.stores import Delivery, DeliveryEvent, DeliveryStatus
from retrykit.testing import ManualClock
from retrykit.testing.conformance.races import in_threads

NOON = datetime(2026, 1, 1, tzinfo=UTC)
LARGE = "x" * 60_000
LETTER = DeadLetter(
    id="m#1",
    message_id="m",
    error_class=ErrorClass.MAILBOX_FULL,
    error_message=LARGE,
    reason=DeadLetterReason.EXPIRED,
    attempt_count=1,
    last_failed_at=NOON,
    dead_lettered_at=NOON,
    original_payload=b"{}",
)


class _Limited:
    """The sqlite3 module, whose connections let a file grow to so many pages only."""

    def __init__(self):
        self.pages = 0

    def __getattr__(self, name):
        return getattr(sqlite3, name)

    def connect(self, *args, **kwargs):
        connection = sqlite3.connect(*args, **kwargs)
        if self.pages:
            connection.execute(f"PRAGMA max_page_count = {self.pages}")
        return connection


def settled(backend):
    record = backend.claims.get("held")
    note = attrs.evolve(machine.sent(record, provider_id=LARGE))
    return backend.claims.settle(note, record.seq)


GROWING = {
    "claim": lambda backend: backend.claims.claim("new", owner=LARGE),
    "settle": settled,
    "confirm": lambda backend: backend.claims.confirm("new", provider_id=LARGE),
    "schedule": lambda backend: backend.retries.schedule(Message("new", LARGE), NOON),
    "claim_due": lambda backend: backend.retries.claim_due(owner=LARGE),
    "put": lambda backend: backend.dead_letters.put(LETTER),
    "record": lambda backend: backend.deliveries.record(
        Delivery(message_id="m", status=DeliveryStatus.UNKNOWN, provider_id=LARGE, updated_at=NOON)
    ),
    "apply": lambda backend: backend.deliveries.apply(
        DeliveryEvent(message_id="m", kind="bounced", provider="ses", event_id=LARGE, at=NOON)
    ),
    "pause": lambda backend: backend.circuits.pause("provider:ses", reason=LARGE, by="ada"),
}


def contents(path):
    """Return every row of every table."""
    db = sqlite3.connect(path)
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    rows = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
    db.close()
    return rows


@pytest.mark.parametrize("operation", GROWING)
def test_operation_on_a_full_disk_fails_and_changes_nothing(path, monkeypatch, operation):
    """Reading goes on, and once there is room the operation is done."""
    limited = _Limited()
    monkeypatch.setattr("retrykit.backends.sqlite.connections.sqlite3", limited)
    backend = SQLiteBackend(path, clock=ManualClock(NOON), synchronous="normal")
    record = backend.claims.claim("held", owner="me").record
    backend.retries.schedule(Message("due", {}), NOON)
    backend.close()
    before = contents(path)
    limited.pages = 1  # never less than it has
    with pytest.raises(StoreUnavailableError, match="database or disk is full; check that"):
        GROWING[operation](backend)
    assert record == backend.claims.get("held")
    assert before == contents(path)
    backend.close()
    limited.pages = 10_000
    GROWING[operation](backend)
    assert before != contents(path)
    backend.close()


def test_purge_on_a_full_disk_makes_room(path, monkeypatch):
    """Whoever finds the disk full can go on without another disk."""
    limited = _Limited()
    monkeypatch.setattr("retrykit.backends.sqlite.connections.sqlite3", limited)
    backend = SQLiteBackend(path, synchronous="normal")
    for number in range(20):
        backend.dead_letters.put(attrs.evolve(LETTER, id=f"{number}#1"))
    backend.close()
    limited.pages = 1
    with pytest.raises(StoreUnavailableError):
        backend.dead_letters.put(LETTER)
    assert backend.dead_letters.purge(NOON + timedelta(days=1), limit=10) == 10
    assert backend.dead_letters.put(LETTER) == LETTER
    assert backend.dead_letters.count() == 11
    backend.close()


def test_log_stays_small_under_many_writers_and_readers(path):
    """Nobody keeps a snapshot open, so SQLite can write the log back and begin it anew."""
    backend = SQLiteBackend(path, clock=ManualClock(NOON), synchronous="normal")
    log = path.with_name(f"{path.name}-wal")

    def work(number):
        largest = 0
        for n in range(250):
            backend.retries.schedule(Message(f"m-{number}-{n}", "x" * 4000), NOON)
            backend.dead_letters.search(limit=1)
            backend.retries.stats()
            largest = max(largest, log.stat().st_size)
        return largest

    assert max(in_threads(work, 4)) < 3 * 1000 * 4096
    assert backend.retries.stats().waiting == 1000
    backend.close()
    assert not log.exists()
