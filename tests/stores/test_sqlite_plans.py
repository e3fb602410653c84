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
from retrykit.decision import Action, DeadLetterReason, Decision
from retrykit.failure import ErrorClass, ErrorGroup, Failure, Outcome
from retrykit.machines import claim as machine
from retrykit.message import Message
from retrykit.stores import DeadLetterQuery, Delivery, DeliveryEvent, DeliveryStatus, ReopenTerms
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
    fingerprint="v1:x",
    stage="send",
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
    "recipient": "ada@example.org",
    "enhanced_code": "5.2.2",
    "stage": "send",
    "source": "orders",
    "fingerprint": "v1:x",
}
WINDOW = {"since": NOON - timedelta(days=40, seconds=1), "until": NOON + timedelta(days=2, milliseconds=7)}


def held(backend):
    return backend.claims.claim("k", owner="me").record


def fail(backend):
    record = backend.claims.claim("f", owner="me", fingerprint="f").record
    bug = Failure(error_class=ErrorClass.INTERNAL_ERROR, outcome=Outcome.NOT_SENT)
    dead = Decision(Action.DEAD_LETTER, 0.0, "a bug", DeadLetterReason.APPLICATION)
    backend.claims.settle(machine.failed(record, bug, dead, failed_at=NOON), record.seq)


def reopen(backend):
    backend.claims.reopen("f", ReopenTerms(letter_id="f#1", generation=1))


def sent_again(backend):
    record = backend.claims.claim("f", owner="me", fingerprint="f").record
    assert backend.claims.settle(machine.sent(record), record.seq) is not None


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
    "claim of a payload": lambda backend: backend.claims.claim("k", owner="me", fingerprint="f"),
    "settle of a bug": fail,
    "settle of what has marks": lambda backend: (fail(backend), reopen(backend), sent_again(backend)),
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
    "search by an attribute": lambda backend: backend.dead_letters.search(
        DeadLetterQuery(attributes={"a": "b"}), cursor="before-9"
    ),
    "search by attributes": lambda backend: backend.dead_letters.search(
        DeadLetterQuery(attributes={"a": "b", "c": "d"}, provider="ses", **WINDOW)
    ),
    "search of a window": lambda backend: backend.dead_letters.search(DeadLetterQuery(**WINDOW), cursor="before-9"),
    "search of a window by campaign": lambda backend: backend.dead_letters.search(
        DeadLetterQuery(campaign_id="spring", **WINDOW)
    ),
    "search by text": lambda backend: backend.dead_letters.search(DeadLetterQuery(text="full")),
    "count of a message": lambda backend: backend.dead_letters.count(DeadLetterQuery(message_id="m")),
    "annotate": lambda backend: backend.dead_letters.annotate("v1:x", by="ada", note="n"),
    "group": lambda backend: backend.dead_letters.group("v1:x"),
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
ONE = {"campaign_id": "spring", "provider": "ses", "error_class": "c", "error_code": "452", "state": "quarantined"}
FIGURES = {
    "count": lambda letters: letters.count(),
    "count of a window": lambda letters: letters.count(DeadLetterQuery(**WINDOW)),
    **{
        f"count by {field} of a window": lambda letters, field=field: letters.count(
            DeadLetterQuery(**{field: VALUES[field]}, **WINDOW)
        )
        for field in FACETS
    },
    **{f"top {facet}": lambda letters, facet=facet: letters.top(facet) for facet in FACETS},
    **{
        f"top {facet} of a window": lambda letters, facet=facet: letters.top(facet, query=DeadLetterQuery(**WINDOW))
        for facet in FACETS
    },
    **{
        f"top {facet} by {field} of a window": lambda letters, facet=facet, field=field: letters.top(
            facet, query=DeadLetterQuery(**{field: ONE[field]}, **WINDOW)
        )
        for facet in ONE
        for field in ONE
    },
    "trend": lambda letters: letters.trend(DeadLetterQuery(**WINDOW), step="1h"),
    "trend by days": lambda letters: letters.trend(DeadLetterQuery(provider="ses", **WINDOW), step="1d"),
    "trend by minutes": lambda letters: letters.trend(
        DeadLetterQuery(since=NOON, until=NOON + timedelta(days=1)), step="15m"
    ),
}
KINDS = {
    "count by two": lambda letters: letters.count(DeadLetterQuery(provider="ses", error_code="452")),
    "top by two": lambda letters: letters.top("stage", query=DeadLetterQuery(provider="ses", error_code="452")),
    "top of a window by two": lambda letters: letters.top(
        "stage", query=DeadLetterQuery(provider="ses", error_code="452", **WINDOW)
    ),
    "top of what has no sums": lambda letters: letters.top("reason", query=DeadLetterQuery(stage="send")),
}


@pytest.fixture
def plans(path):
    """Return a function that makes a call on a store with some rows, and returns SQLite's plans for its statements."""
    backend = SQLiteBackend(path, clock=ManualClock(NOON + timedelta(days=1)))
    for number in range(3):
        letter = attrs.evolve(
            LETTER, id=f"m-{number}#1", dead_lettered_at=NOON - timedelta(days=number), attributes={"a": "b"}
        )
        backend.dead_letters.put(letter)
    backend.dead_letters.purge(NOON - timedelta(days=99))  # which adds up
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


UNFILLED = "INDEX retrykit_dead_letters_unfilled"  # of the letters of an earlier version: mostly there are none


def read(found):
    """Return what is read of each table, by the plans of some statements: nothing is scanned."""
    for statement, step in found:
        scanned = re.match(r"SCAN (\w+)", step)
        assert (
            not scanned
            or scanned[1] in ("CONSTANT", "counted", "retrykit_dead_letter_notes")
            or step.endswith(UNFILLED)
        ), (statement, step)
    return {step.partition(" (")[0] for _, step in found if step.startswith("SEARCH")}


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_come_from_the_sums_and_what_is_new(plans, figure):
    """Of the letters only those of the two minutes that a window cuts are read, however many there are."""
    found = plans(lambda backend: FIGURES[figure](backend.dead_letters))
    assert read(found) <= {
        "SEARCH sums USING PRIMARY KEY",
        "SEARCH runs USING PRIMARY KEY",
        "SEARCH minutes USING PRIMARY KEY",
        "SEARCH minutes USING INDEX retrykit_dead_letter_minutes_new",
        "SEARCH totals USING INTEGER PRIMARY KEY",
        "SEARCH letters USING INDEX retrykit_dead_letters_age",
    }
    for statement, step in found:
        if step.startswith("SEARCH sums"):
            assert step.endswith(
                (
                    "(span=? AND bucket=? AND field=? AND value=? AND by_field=?)",
                    "(span=? AND bucket=? AND field=? AND value=? AND by_field=? AND by_value=?)",
                )
            ), statement
        if step.startswith("SEARCH letters"):
            first, before = (
                int(each) for each in re.search(r"dead_at >= (\d+) AND letters.dead_at < (\d+)", statement).groups()
            )
            assert before - first < 60_000


@pytest.mark.parametrize("figure", KINDS)
def test_figures_of_several_fields_come_from_the_kinds_of_letters(plans, figure):
    """The rows of letters are not read, only index entries of those within the window."""
    assert read(plans(lambda backend: KINDS[figure](backend.dead_letters))) <= {
        "SEARCH letters USING COVERING INDEX retrykit_dead_letters_kind",
        *(f"SEARCH totals USING INDEX retrykit_dead_letter_totals_{name}" for name in FACETS),
    }


@pytest.mark.parametrize("order", ["last_seen", "matching"])
@pytest.mark.parametrize(
    "query", [DeadLetterQuery(), DeadLetterQuery(**WINDOW), DeadLetterQuery(provider="ses", **WINDOW)]
)
def test_groups_read_the_letters_that_they_name_alone(plans, query, order):
    """The first and the last of each, the newest five, and of these one in full."""
    steps = read(plans(lambda backend: backend.dead_letters.groups(query, order=order)))
    assert {each for each in steps if "retrykit_dead_letters_" in each} <= {
        "SEARCH retrykit_dead_letters USING COVERING INDEX retrykit_dead_letters_seen",
        "SEARCH letters USING INDEX retrykit_dead_letters_by_fingerprint",
        "SEARCH letters USING COVERING INDEX retrykit_dead_letters_kind",
        "SEARCH letters USING INDEX retrykit_dead_letters_age",
    }


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
    assert rows == backend.dead_letters.count()
    assert backend.dead_letters.purge(NOON - timedelta(days=1)) == 0  # it clears what has become empty
    with contextlib.closing(sqlite3.connect(path)) as db:
        for table in ("totals", "minutes", "sums"):
            assert db.execute(f"SELECT count(*) FROM retrykit_dead_letter_{table} WHERE total <= 0").fetchone() == (0,)
        (new,) = db.execute("SELECT count(*) FROM retrykit_dead_letter_minutes WHERE total <> added").fetchone()
    assert new == 0
    for state in DeadLetterState:
        query = DeadLetterQuery(state=state)
        assert len(backend.dead_letters.search(query).letters) == backend.dead_letters.count(query)
    backend.close()
