"""Files of every earlier version: they are read as they were written, also while others go on writing to them."""

from __future__ import annotations

import contextlib
import multiprocessing
import sqlite3
import threading
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.backends.sqlite.schema import SCHEMA_VERSION
from retrykit.dead_letter import DeadLetter, DeadLetterState, dead_letter_id
from retrykit.decision import DeadLetterReason, DispositionKind
from retrykit.errors import StoreError
from retrykit.failure import ErrorClass
from retrykit.message import Message
from retrykit.stores import (
    Claimed,
    ClaimState,
    DeadLetterQuery,
    Delivery,
    DeliveryEvent,
    DeliveryStatus,
    NotDue,
    Unknown,
)
from retrykit.testing import ManualClock

NOON = datetime(2026, 1, 1, tzinfo=UTC)
EARLIER = sorted(Path(__file__).parent.glob("sqlite_version_*.sql"))
every_earlier_version = pytest.mark.parametrize("script", EARLIER, ids=lambda path: path.stem)


def write_file(path, script):
    """Make a file as an earlier version left it, in write-ahead-log mode."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(script.read_text("utf-8"))
        db.execute("PRAGMA journal_mode = WAL")


def counted(path):
    """Return the totals as they are kept, and as the letters themselves give them."""
    fields = "campaign_id, provider, error_class, error_group, error_code, reason, state, stage, fingerprint"
    with contextlib.closing(sqlite3.connect(path)) as db:
        kept = db.execute(f"SELECT {fields}, total FROM retrykit_dead_letter_totals ORDER BY {fields}").fetchall()
        given = db.execute(
            f"SELECT {fields}, count(*) FROM retrykit_dead_letters WHERE record IS NOT NULL "
            f"GROUP BY {fields} ORDER BY {fields}"
        ).fetchall()
    return kept, given


def test_there_is_a_file_of_every_earlier_version():
    """Whoever raises the version keeps a file of the one before."""
    assert [f"sqlite_version_{version}" for version in range(1, SCHEMA_VERSION)] == [each.stem for each in EARLIER]


@every_earlier_version
def test_file_of_an_earlier_version_is_read_as_it_was_written(path, script):
    """Claims go on where they stood, messages wait, letters and deliveries are found, pauses hold."""
    write_file(path, script)
    clock = ManualClock(NOON + timedelta(seconds=30))
    backend = SQLiteBackend(path, clock=clock)
    claims = {key: backend.claims.claim(key, owner="me") for key in ("waiting", "sending", "claimed")}
    assert [NotDue, Unknown, Claimed] == [type(answer) for answer in claims.values()]
    assert (1, "timed out ü") == (
        len(claims["waiting"].record.attempts),
        claims["waiting"].record.failure.error_message,
    )
    assert (DispositionKind.SENT, "p-1") == (
        backend.claims.get("sent").disposition,
        backend.claims.get("sent").provider_id,
    )
    assert backend.claims.get("dead").dead_letter_id == "dead#1"
    clock.move_to(NOON + timedelta(seconds=90))
    due = backend.retries.claim_due(owner="me")
    assert [("leased", 1), ("waiting", 1), ("waiting", 2)] == [(each.message.id, each.generation) for each in due]
    assert [b"\xff\x00 body", b'{"n":1}', b"\xff\x00 body"] == [each.message.body for each in due]
    assert list(backend.claims.unsettled()) == ["sending", "unknown"]
    letters = backend.dead_letters.search().letters
    assert ["dead-late", "dead-2", "dead-1", "dead-0"] == [letter.message_id for letter in letters]
    assert (DeadLetterState.RESOLVED, b"\xff not JSON") == (letters[-1].state, letters[-1].original_payload)
    assert [("mailbox_full", 3), ("own.class", 1)] == [tuple(row) for row in backend.dead_letters.top("error_class")]
    assert backend.dead_letters.count(DeadLetterQuery(campaign_id="spring", state=DeadLetterState.QUARANTINED)) == 2
    expected = dict.fromkeys((DeliveryStatus.SENT_TO_PROVIDER, DeliveryStatus.DEFERRED, DeliveryStatus.UNKNOWN), 1)
    assert expected == backend.deliveries.counts()
    assert ["campaign:spring", "provider:ses"] == [pause.key for pause in backend.circuits.pauses()]
    backend.close()
    kept, given = counted(path)
    assert given == kept


@every_earlier_version
def test_deliveries_of_an_earlier_version_take_events(path, script):
    """What was sent counts as told by the provider, is found by its id, and nothing of it is unexpected."""
    write_file(path, script)
    log = SQLiteBackend(path).deliveries
    assert {"m-0": True, "m-1": False, "m-2": False} == {f"m-{n}": log.get(f"m-{n}").is_accepted for n in range(3)}
    assert log.unexpected() == []
    assert log.by_provider_id("ses", r"p\ud800") is None  # two have it
    stands = log.apply(DeliveryEvent(message_id="m-2", kind="delivered", provider="ses", event_id="e-1", at=NOON))
    assert (DeliveryStatus.DELIVERED, 2, NOON) == (stands.status, stands.version, stands.delivered_at)
    assert stands == log.get("m-2")


@pytest.mark.parametrize("statement", ["INSERT OR REPLACE", "DELETE"])
def test_process_of_the_version_before_loses_nothing_that_a_provider_told(path, statement):
    """It replaces whole rows of a file that has been migrated meanwhile, and deletes them."""
    backend = SQLiteBackend(path)
    log = backend.deliveries
    told = DeliveryEvent(message_id="m", kind="bounced", provider="ses", event_id="e-1", error_code="550", at=NOON)
    before = log.apply(told)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        if statement == "DELETE":
            db.execute("DELETE FROM retrykit_deliveries")
            assert db.execute("SELECT * FROM retrykit_delivery_facts").fetchall() == []
            assert log.get("m") is None
            return
        db.execute(
            f"{statement} INTO retrykit_deliveries VALUES ('m', 'sent_to_provider', 4, 'ses', NULL, ?)", (10**12,)
        )
    stands = log.get("m")
    assert (DeliveryStatus.BOUNCED_PERMANENT, 4, before.failure) == (stands.status, stands.version, stands.failure)
    assert {DeliveryStatus.BOUNCED_PERMANENT: 1} == log.counts()
    assert [stands] == log.with_status(DeliveryStatus.BOUNCED_PERMANENT)
    assert log.record(Delivery(message_id="m", status=DeliveryStatus.UNKNOWN, version=5, updated_at=NOON)).event_ids
    backend.close()


@every_earlier_version
def test_letter_resolved_before_it_came_is_resolved_after_the_migration(path, script):
    """What an earlier version noted is honoured."""
    write_file(path, script)
    backend = SQLiteBackend(path)
    assert backend.dead_letters.get("early#1") is None
    assert backend.dead_letters.put(letter("early")).state is DeadLetterState.RESOLVED
    assert backend.dead_letters.count() == 5
    backend.close()


@every_earlier_version
def test_records_of_an_earlier_version_can_be_purged(path, script):
    """Their age is known; what is unfinished stays."""
    write_file(path, script)
    backend = SQLiteBackend(path, clock=ManualClock(NOON))
    assert [0, 2] == [backend.claims.purge(NOON + timedelta(seconds=s)) for s in (0, 1)]
    assert [ClaimState.WAITING, None] == [
        record and record.state for record in map(backend.claims.get, ("waiting", "sent"))
    ]
    assert [0, 3] == [backend.dead_letters.purge(NOON + timedelta(seconds=s)) for s in (0, 1)]
    assert ["dead-late"] == [each.message_id for each in backend.dead_letters.search().letters]
    assert [0, 1] == [backend.deliveries.purge(NOON + timedelta(days=1, seconds=s)) for s in (0, 1)]
    backend.close()
    kept, given = counted(path)
    assert given == kept


@every_earlier_version
def test_file_whose_migration_fails_stays_as_it_was(path, script):
    """All steps or none; the earlier version can go on."""
    write_file(path, script)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE retrykit_signals (application TEXT)")
        before = db.execute("SELECT sql FROM sqlite_schema ORDER BY name").fetchall()
        with pytest.raises(StoreError, match="already exists"):
            SQLiteBackend(path)
        assert before == db.execute("SELECT sql FROM sqlite_schema ORDER BY name").fetchall()
        assert db.execute("SELECT version FROM retrykit_schema").fetchone() == (int(script.stem[-1]),)


def test_letters_of_an_earlier_version_are_found_by_what_it_did_not_know(path):
    """By every field, attribute and text, to the millisecond, and counted within any window; what is in the record counts."""
    write_file(path, EARLIER[3])
    letters = SQLiteBackend(path, clock=ManualClock(NOON)).dead_letters
    died = NOON + timedelta(days=1, milliseconds=7)
    for fields in (
        {"recipient": "ada@example.org"},
        {"enhanced_code": "5.2.2"},
        {"stage": "send"},
        {"source": "orders"},
        {"fingerprint": "v1:abc"},
        {"attributes": {"tenant": "acme \ud800"}},
        {"text": "STRASSE"},
        {"since": died, "until": died + timedelta(milliseconds=1)},
    ):
        query = DeadLetterQuery(**fields)
        assert ["dead-late"] == [each.message_id for each in letters.search(query).letters]
        assert letters.count(query) == 1
    assert letters.top("error_class", query=DeadLetterQuery(until=died)) == [("mailbox_full", 3)]
    assert letters.group("v1:abc").letter_ids == ("dead-late#1",)
    assert [3, 1] == list(letters.trend(DeadLetterQuery(since=NOON, until=NOON + timedelta(days=2)), step="1d").counts)


VERSION_4 = (
    "INSERT OR REPLACE INTO retrykit_dead_letters (id, record, dead_at, message_id, campaign_id, provider, error_class, "
    "error_group, error_code, reason, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def put_as_version_4(path, given):
    names = "message_id campaign_id provider error_class error_group error_code reason state".split()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        row = (given.id, given.to_json(), 1_767_225_600_000, *(getattr(given, name) for name in names))
        db.execute(VERSION_4, row)


def test_letter_that_a_process_of_the_version_before_puts_is_found_by_everything(path):
    """It is there at once, counted, and found by fields, attributes and text that the process did not write."""
    backend = SQLiteBackend(path, clock=ManualClock(NOON))
    letters = backend.dead_letters
    letters.resolve("m-1#1")
    states = (DeadLetterState.QUARANTINED, DeadLetterState.RESOLVED)
    for number in range(3):
        given = attrs.evolve(
            letter(f"m-{number}"), recipient="ada", fingerprint="v1:x", attributes={"a": "b"}, error_message="Größe"
        )
        put_as_version_4(path, attrs.evolve(given, state=states[number % 2]))
    assert letters.count() == 3
    for fields in ({"recipient": "ada"}, {"attributes": {"a": "b"}}, {"text": "GRÖSSE"}, {"fingerprint": "v1:x"}):
        assert len(letters.search(DeadLetterQuery(**fields)).letters) == letters.count(DeadLetterQuery(**fields)) == 3
    assert letters.top("state") == [("quarantined", 2), ("resolved", 1)]
    group = letters.group("v1:x")
    assert (3, {DeadLetterState.QUARANTINED: 2, DeadLetterState.RESOLVED: 1}) == (group.total, group.counts)
    with contextlib.closing(sqlite3.connect(path)) as db:  # what a process of version 4 counts
        seen = "SELECT state, sum(total) FROM retrykit_dead_letter_totals WHERE total > 0 GROUP BY state"
        assert [("quarantined", 2), ("resolved", 1)] == db.execute(seen).fetchall()
    put_as_version_4(path, letter("later"))
    assert letters.annotate("v1:x", by="ada", note="known").note == "known"
    assert letters.purge(NOON + timedelta(days=1)) == 4
    with contextlib.closing(sqlite3.connect(path)) as db:
        for table in (
            "dead_letters",
            "dead_letter_attributes",
            "dead_letter_totals",
            "dead_letter_minutes",
            "dead_letter_sums",
        ):
            assert db.execute(f"SELECT count(*) FROM retrykit_{table}").fetchone() == (0,), table
    backend.close()


def letter(message_id):
    return DeadLetter(
        id=dead_letter_id(message_id, 1),
        message_id=message_id,
        error_class=ErrorClass.MAILBOX_FULL,
        reason=DeadLetterReason.EXPIRED,
        attempt_count=1,
        last_failed_at=NOON,
        dead_lettered_at=NOON,
        original_payload=b"{}",
    )


def migrate_and_write(path, seed):
    """Open the file, which migrates it, and write to every store."""
    backend = SQLiteBackend(path, synchronous="normal")
    for number in range(20):
        message = Message(f"new-{seed}-{number}", number)
        record = backend.claims.claim(message.id, owner="me").record
        assert backend.claims.begin_send(message.id, record.seq, lease=30)
        backend.retries.schedule(message, NOON)
        backend.dead_letters.put(letter(message.id))
    backend.close()


VERSION_1 = {
    "claim": "INSERT INTO retrykit_claims (key, state, unsettled_at, record) VALUES (?, 'free', NULL, '{}') "
    "ON CONFLICT (key) DO UPDATE SET state = excluded.state, record = excluded.record",
    "retry": "INSERT INTO retrykit_retries (message_id, generation, version, due_at, ready_at, body, attributes) "
    "VALUES (?, 1, 1, 0, 0, X'7B7D', '{}')",
    "letter": "INSERT OR REPLACE INTO retrykit_dead_letters (id, record, message_id, provider, error_class, state) "
    "VALUES (?, '{}', 'm', 'old', 'c', 'quarantined')",
    "delivery": "INSERT OR REPLACE INTO retrykit_deliveries (message_id, status, version, updated_at) "
    "VALUES (?, 'deferred', 1, 0)",
}
"""What a process of version 1 writes."""


def test_migration_under_load_loses_nothing(path):
    """Three processes migrate at once while one of the version before goes on writing; every row is there, and counted."""
    write_file(path, EARLIER[0])
    stop, written = threading.Event(), []

    def write_as_version_1():
        with contextlib.closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as db:
            while not stop.is_set():
                for statement in VERSION_1.values():
                    db.execute(statement, (f"old-{len(written)}",))
                written.append(f"old-{len(written)}")

    old = threading.Thread(target=write_as_version_1)
    old.start()
    try:
        with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
            list(pool.map(migrate_and_write, [path] * 3, range(3)))
    finally:
        stop.set()
        old.join()
    assert written
    keys = {*written, *(f"new-{seed}-{number}" for seed in range(3) for number in range(20))}
    with contextlib.closing(sqlite3.connect(path)) as db:
        for query in ("SELECT key FROM retrykit_claims", "SELECT message_id FROM retrykit_retries"):
            assert keys <= {key for (key,) in db.execute(query)}
        assert set(written) <= {key for (key,) in db.execute("SELECT message_id FROM retrykit_deliveries")}
        assert db.execute("SELECT version FROM retrykit_schema").fetchone() == (SCHEMA_VERSION,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    kept, given = counted(path)
    assert given == kept
    backend = SQLiteBackend(path)
    assert len(written) == backend.dead_letters.count(DeadLetterQuery(provider="old"))
    backend.close()
