"""How SQLite carries out each operation: by an index, whatever the number of rows, and without sorting them."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.dead_letter import DeadLetter, DeadLetterState, dead_letter_id
from retrykit.decision import DeadLetterReason
from retrykit.failure import ErrorClass, ErrorGroup
from retrykit.machines import claim as machine
from retrykit.message import Message
from retrykit.stores import DeadLetterQuery, Delivery, DeliveryEvent, DeliveryStatus
from retrykit.stores.dead_letters import FACETS
from retrykit.testing import ManualClock

NOON = datetime(2026, 1, 1, tzinfo=UTC)
LETTER = DeadLetter(
    id=dead_letter_id("m", 1),
    message_id="m",
    campaign_id="spring",
    provider="ses",
    error_class=ErrorClass.MAILBOX_FULL,
    error_code="452",
    reason=DeadLetterReason.EXPIRED,
    attempt_count=1,
    last_failed_at=NOON,
    dead_lettered_at=NOON,
    original_payload=b"{}",
)
DELIVERY = Delivery(message_id="m", status=DeliveryStatus.DELIVERED, updated_at=NOON)
EVENT = DeliveryEvent(message_id="m-7", kind="bounced", provider="ses", event_id="e-1", at=NOON)
VALUES = {
    "message_id": "m",
    "campaign_id": "spring",
    "provider": "ses",
    "error_class": ErrorClass.MAILBOX_FULL,
    "error_group": ErrorGroup.TEMPORARY_MAILBOX,
    "error_code": "452",
    "reason": DeadLetterReason.EXPIRED,
    "state": DeadLetterState.QUARANTINED,
}


def held(backend):
    return backend.claims.claim("k", owner="me").record


def due(backend):
    backend.retries.schedule(Message("d", 1), NOON)
    return backend.retries.claim_due(owner="me")[0]


def probe(backend):
    backend.circuits.trip("ses", by="me", recovery=1)
    backend._database._clock.advance("1s")
    return backend.circuits.lease_probe("ses", owner="p")


OPERATIONS = {
    "claim": held,
    "claim_unknown": lambda backend: backend.claims.claim_unknown("k", owner="me"),
    "settle": lambda backend: backend.claims.settle(machine.sent(held(backend)), 1),
    "unsettled": lambda backend: backend.claims.unsettled(),
    "purge of claims": lambda backend: backend.claims.purge(NOON),
    "schedule": lambda backend: backend.retries.schedule(Message("m", 1), NOON),
    "claim_due": due,
    "ack": lambda backend: backend.retries.ack(due(backend)),
    "release": lambda backend: backend.retries.release(due(backend)),
    "extend": lambda backend: backend.retries.extend(due(backend)),
    "cancel": lambda backend: backend.retries.cancel("m"),
    "put": lambda backend: backend.dead_letters.put(LETTER),
    "resolve": lambda backend: backend.dead_letters.resolve("m#1"),
    "get": lambda backend: backend.dead_letters.get("m#1"),
    "search": lambda backend: backend.dead_letters.search(),
    "next page": lambda backend: backend.dead_letters.search(cursor="before-9"),
    **{
        f"search by {field}": lambda backend, field=field: backend.dead_letters.search(
            DeadLetterQuery(**{field: VALUES[field]}), cursor="before-9"
        )
        for field in VALUES
    },
    "search by two": lambda backend: backend.dead_letters.search(DeadLetterQuery(provider="ses", error_code="452")),
    "count of a message": lambda backend: backend.dead_letters.count(DeadLetterQuery(message_id="m")),
    "purge of letters": lambda backend: backend.dead_letters.purge(NOON),
    "record": lambda backend: backend.deliveries.record(DELIVERY),
    "apply": lambda backend: [backend.deliveries.apply(EVENT), backend.deliveries.apply(EVENT)],
    "by_provider_id": lambda backend: backend.deliveries.by_provider_id("ses", "p-1"),
    "with_status": lambda backend: backend.deliveries.with_status(DeliveryStatus.UNKNOWN, after="m"),
    "unexpected": lambda backend: backend.deliveries.unexpected(after="m"),
    "updated_between": lambda backend: backend.deliveries.updated_between(
        NOON, NOON + timedelta(days=1), status=DeliveryStatus.UNKNOWN, after=attrs.evolve(DELIVERY, updated_at=NOON)
    ),
    "bookmark": lambda backend: backend.deliveries.bookmark("ses"),
    "move_bookmark": lambda backend: backend.deliveries.move_bookmark("ses", NOON),
    "purge of deliveries": lambda backend: backend.deliveries.purge(NOON),
    "trip": lambda backend: backend.circuits.trip("ses", by="me", recovery=1),
    "lease_probe": probe,
    "record_probe": lambda backend: backend.circuits.record_probe("ses", probe(backend).token, succeeded=True),
    "reset": lambda backend: [probe(backend), backend.circuits.reset("ses")],
    "report": lambda backend: backend.circuits.report("ses", instance="i", calls=1, failures=0, length=5),
    "circuits": lambda backend: backend.circuits.circuits(),
}
TOTALS = {
    "count": lambda backend: backend.dead_letters.count(DeadLetterQuery(provider="ses")),
    **{f"top {facet}": lambda backend, facet=facet: backend.dead_letters.top(facet) for facet in FACETS},
    "top of a query": lambda backend: backend.dead_letters.top("provider", query=DeadLetterQuery(campaign_id="spring")),
}


@pytest.fixture
def plans(path):
    """Return a function that makes a call on a store with some rows, and returns SQLite's plans for its statements."""
    backend = SQLiteBackend(path, clock=ManualClock(NOON + timedelta(days=1)))
    for number in range(50):
        message = Message(f"m-{number}", number)
        backend.claims.claim(message.id, owner="me")
        backend.retries.schedule(message, NOON + timedelta(days=2))
        backend.deliveries.record(Delivery(message_id=message.id, status=DeliveryStatus.UNKNOWN, updated_at=NOON))
    backend.close()

    def explain(call):
        statements = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("retrykit.backends.sqlite.connections.sqlite3", _Tracing(statements.append))
            call(backend)
        backend.close()
        with contextlib.closing(sqlite3.connect(path)) as db:
            explained = [statement for statement in statements if re.match("SELECT|INSERT|UPDATE|DELETE", statement)]
            assert explained
            return [(each, row[3]) for each in explained for row in db.execute(f"EXPLAIN QUERY PLAN {each}")]

    yield explain
    backend.close()


class _Tracing:
    """The sqlite3 module, whose connections tell their statements."""

    def __init__(self, tell):
        self._tell = tell

    def __getattr__(self, name):
        return getattr(sqlite3, name)

    def connect(self, *args, **kwargs):
        connection = sqlite3.connect(*args, **kwargs)
        connection.set_trace_callback(self._tell)
        return connection


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation_neither_scans_a_table_nor_sorts(plans, operation):
    """Each row it touches is found by an index, in the order that is wanted."""
    for statement, step in plans(OPERATIONS[operation]):
        assert "TEMP B-TREE" not in step, (statement, step)
        scanned = re.match(r"SCAN (\w+)", step)
        assert not scanned or scanned[1] in ("CONSTANT", "retrykit_schema") or "USING INDEX" in step, (statement, step)


@pytest.mark.parametrize("operation", TOTALS)
def test_numbers_of_letters_come_from_the_totals(plans, operation):
    """Of the letters themselves none is read, however many there are."""
    found = plans(TOTALS[operation])
    assert found
    assert {"retrykit_dead_letter_totals"} == {table for s, _ in found for table in re.findall(r"retrykit_\w+", s)}


def test_totals_follow_the_letters_whatever_is_done_to_them(path):
    """Put, put again, resolved before and after, purged, and taken out by hand."""
    backend = SQLiteBackend(path, clock=ManualClock(NOON))
    for number in range(30):
        key = f"m-{number % 20}"
        each = {"id": dead_letter_id(key, 1), "message_id": key, "provider": f"p-{number % 3}"}
        if number % 5 == 0:
            backend.dead_letters.resolve(each["id"])
        backend.dead_letters.put(attrs.evolve(LETTER, **each))
    backend.dead_letters.purge(NOON + timedelta(days=1), limit=3)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM retrykit_dead_letters WHERE provider = 'p-1'")
        (rows,) = db.execute("SELECT count(*) FROM retrykit_dead_letters WHERE record IS NOT NULL").fetchone()
        (empty,) = db.execute("SELECT count(*) FROM retrykit_dead_letter_totals WHERE total <= 0").fetchone()
    assert (rows, 0) == (backend.dead_letters.count(), empty)
    for state in DeadLetterState:
        query = DeadLetterQuery(state=state)
        assert len(backend.dead_letters.search(query).letters) == backend.dead_letters.count(query)
    backend.close()
