"""Damaged records in an otherwise sound SQLite file: one clear error, and the rest of the file works."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest

from retrykit.errors import StoreCorruptError
from retrykit.machines import claim as machine
from retrykit.message import Message
from retrykit.stores import Claimed, Delivery, DeliveryEvent, DeliveryStatus
from retrykit.testing.conformance.dead_letters_samples import letter
from tests.machines.claims import RETRY, TIMEOUT

NOT_A_RECORD = ["", "{", "null", "[]", "5", '"text"', "{}", "\x00", "[1, 2]", '{"schema_version": 1}']


def damage(path, statement, *values):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(statement, values).rowcount == 1


def damaged(path, table, column, change):
    """Change one field of the JSON in a column."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        ((text,),) = db.execute(f"SELECT {column} FROM {table}").fetchall()
        db.execute(f"UPDATE {table} SET {column} = ?", (json.dumps(json.loads(text) | change),))


def check_claim(sqlite):
    """Every operation on the key says the same, and other keys are not harmed."""
    for call in (
        lambda: sqlite.claims.get("k"),
        lambda: sqlite.claims.claim("k", owner="other"),
        lambda: sqlite.claims.begin_send("k", 1, lease=30),
        lambda: sqlite.claims.claim_unknown("k", owner="me"),
        lambda: sqlite.claims.confirm("k"),
    ):
        with pytest.raises(StoreCorruptError, match=r"^the claim record of 'k' cannot be read: "):
            call()
    assert type(sqlite.claims.claim("sound", owner="me")) is Claimed


@pytest.mark.parametrize("record", NOT_A_RECORD)
def test_claim_record_that_is_none_is_corrupt(sqlite, path, record):
    """It is neither taken for a free key nor overwritten."""
    sqlite.claims.claim("k", owner="me")
    damage(path, "UPDATE retrykit_claims SET record = ?", record)
    check_claim(sqlite)


@pytest.mark.parametrize("at", ["soon", 10**18])
def test_damaged_mark_of_a_payload_is_corrupt(sqlite, path, at):
    """A message is not granted on what cannot be read; other payloads are not touched by it."""
    damage(path, "INSERT INTO retrykit_marks VALUES ('f', 'host:1', ?)", at)
    with pytest.raises(StoreCorruptError, match=r"^what is noted of the payload of 'k' cannot be read: "):
        sqlite.claims.claim("k", owner="me", fingerprint="f")
    assert type(sqlite.claims.claim("sound", owner="me", fingerprint="g")) is Claimed


@pytest.mark.parametrize(
    "change",
    [
        {"state": "lost"},
        {"state": None},
        {"lease": []},
        {"lease": "me"},
        {"lease": ["me", "x", "y"]},
        {"lease": ["me", 1, 10**30]},
        {"lease": {"owner": "me"}},
        {"opened_at": "yesterday"},
        {"opened_at": 10**30},
        {"opened_at": None},
        {"not_before": [1]},
        {"disposition": "lost"},
        {"reason": "boredom"},
        {"counters": [1, 2, 3, 4, 5]},
        {"counters": 5},
        {"attempts": 5},
        {"attempts": [5]},
        {"attempts": ["x"]},
        {"attempts": [{}]},
        {"attempts": [{"error_class": "unknown"}]},
    ],
)
def test_claim_record_with_a_damaged_field_is_corrupt(sqlite, path, change):
    """Whatever reading it runs into, the error is one."""
    sqlite.claims.claim("k", owner="me")
    damaged(path, "retrykit_claims", "record", change)
    check_claim(sqlite)


@pytest.mark.parametrize("change", [{"failed_at": "yesterday"}, {"failed_at": 5}, {"action": "x"}, {"outcome": "x"}])
def test_claim_record_with_a_damaged_attempt_is_corrupt(sqlite, path, change):
    """The history is part of the record."""
    held = sqlite.claims.claim("k", owner="me").record
    stored = sqlite.claims.settle(machine.failed(held, TIMEOUT, RETRY, failed_at=held.opened_at), held.seq)
    damaged(path, "retrykit_claims", "record", {"attempts": [stored.attempts[0].to_dict() | change]})
    check_claim(sqlite)


@pytest.mark.parametrize("record", NOT_A_RECORD)
def test_dead_letter_that_is_none_is_corrupt(sqlite, path, record):
    """Counting still works, reading says what is wrong."""
    sqlite.dead_letters.put(letter())
    damage(path, "UPDATE retrykit_dead_letters SET record = ?", record)
    for call in (
        lambda: sqlite.dead_letters.get("m#1"),
        sqlite.dead_letters.search,
        lambda: sqlite.dead_letters.put(letter()),
    ):
        with pytest.raises(StoreCorruptError, match=r"^the dead letter 'm#1' cannot be read: "):
            call()
    assert sqlite.dead_letters.count() == 1


def test_dead_letter_with_a_damaged_state_is_corrupt(sqlite, path):
    """The state stands in a column of its own."""
    sqlite.dead_letters.put(letter())
    damage(path, "UPDATE retrykit_dead_letters SET state = 'lost'")
    with pytest.raises(
        StoreCorruptError, match=r"^the dead letter 'm#1' cannot be read: 'lost' is not a valid DeadLetterState$"
    ):
        sqlite.dead_letters.get("m#1")


@pytest.mark.parametrize("attributes", ["{", "[1]", '{"a": 1}', "5"])
def test_waiting_message_with_damaged_attributes_is_reported_and_holds_up_no_other(
    sqlite, path, clock, caplog, attributes
):
    """The log names it each time its turn comes; it stays in the queue until its row is repaired."""
    for name in ("damaged", "sound"):
        sqlite.retries.schedule(Message(name, {}), clock.now())
    damage(path, "UPDATE retrykit_retries SET attributes = ? WHERE message_id = 'damaged'", attributes)
    (due,) = sqlite.retries.claim_due(owner="me", lease=30)
    assert due.message.id == "sound"
    (report,) = caplog.messages
    assert report.startswith("the waiting message 'damaged' cannot be read: ")
    assert sqlite.retries.claim_due(owner="me") == []
    clock.advance("30s")
    damage(path, "UPDATE retrykit_retries SET attributes = '{}' WHERE message_id = 'damaged'")
    assert ["damaged", "sound"] == [due.message.id for due in sqlite.retries.claim_due(owner="me")]


@pytest.mark.parametrize("change", ["status = 'lost'", f"updated_at = {10**18}"])
def test_delivery_that_is_damaged_is_corrupt(sqlite, path, clock, change):
    """The error names the message."""
    sqlite.deliveries.record(Delivery(message_id="m", status=DeliveryStatus.UNKNOWN, updated_at=clock.now()))
    damage(path, f"UPDATE retrykit_deliveries SET {change}")
    with pytest.raises(StoreCorruptError, match=r"^the delivery of 'm' cannot be read: "):
        sqlite.deliveries.get("m")


@pytest.mark.parametrize(
    "change",
    [
        {"told": "lost"},
        {"told": 5},
        {"delivered_at": "yesterday"},
        {"delivered_at": 5},
        {"failure": 5},
        {"failure": {}},
        {"failure": {"status": "lost", "at": "2026-01-01T00:00:00Z"}},
        {"failure": {"status": "delivered", "at": "2026-01-01T00:00:00Z", "error_code": 5}},
        {"event_ids": 5},
        {"event_ids": ["e"]},
        {"event_ids": [["ses", 5]]},
        {"schema_version": "two"},
    ],
)
def test_delivery_with_a_damaged_fact_is_corrupt(sqlite, path, clock, change):
    """Whatever reading it runs into, the error is one, and what was told is neither lost nor overwritten."""
    told = DeliveryEvent(message_id="m", kind="bounced", provider="ses", event_id="e-1", at=clock.now())
    sqlite.deliveries.apply(told)
    damaged(path, "retrykit_delivery_facts", "record", change)
    for call in (
        lambda: sqlite.deliveries.get("m"),
        lambda: sqlite.deliveries.apply(told),
        sqlite.deliveries.unexpected,
    ):
        with pytest.raises(StoreCorruptError, match=r"^the delivery of 'm' cannot be read: "):
            call()
    assert {DeliveryStatus.BOUNCED_PERMANENT: 1} == sqlite.deliveries.counts()


@pytest.mark.parametrize("record", NOT_A_RECORD)
def test_facts_of_a_delivery_that_are_none_are_corrupt(sqlite, path, clock, record):
    """The status alone is not taken for all that was told."""
    sqlite.deliveries.apply(DeliveryEvent(message_id="m", kind="delivered", provider="ses", at=clock.now()))
    damage(path, "UPDATE retrykit_delivery_facts SET record = ?", record)
    with pytest.raises(StoreCorruptError, match=r"^the delivery of 'm' cannot be read: "):
        sqlite.deliveries.get("m")


def test_fact_of_a_newer_version_is_kept(sqlite, path, clock):
    """Through reading and writing."""
    sqlite.deliveries.apply(DeliveryEvent(message_id="m", kind="bounced", provider="ses", at=clock.now()))
    damaged(path, "retrykit_delivery_facts", "record", {"mood": {"good": True}, "schema_version": 9})
    stands = sqlite.deliveries.apply(DeliveryEvent(message_id="m", kind="complained", provider="ses", at=clock.now()))
    assert stands == sqlite.deliveries.get("m")
    assert ({"mood": {"good": True}}, 9) == (stands.extra, stands.schema_version)


def test_delivery_log_with_a_damaged_status_cannot_be_counted(sqlite, path, clock):
    """A count that leaves some out would be wrong."""
    sqlite.deliveries.record(Delivery(message_id="m", status=DeliveryStatus.UNKNOWN, updated_at=clock.now()))
    damage(path, "UPDATE retrykit_deliveries SET status = 'lost'")
    with pytest.raises(StoreCorruptError, match=r"^the delivery log cannot be read: 'lost' is not a valid DeliverySta"):
        sqlite.deliveries.counts()


def check_circuit(sqlite, clock):
    """Every operation on the circuit says the same, those on all name it, and other circuits are not harmed."""
    circuits = sqlite.circuits
    for call in (
        lambda: circuits.trip("ses", by="me", recovery=5),
        lambda: circuits.lease_probe("ses", owner="q"),
        lambda: circuits.record_probe("ses", 1, succeeded=True),
        lambda: circuits.reset("ses"),
        lambda: circuits.report("ses", instance="me", calls=1, failures=0, length=5),
        circuits.circuits,
    ):
        with pytest.raises(StoreCorruptError, match=r"^the circuit 'ses' cannot be read: "):
            call()
    assert circuits.report("sound", instance="me", calls=1, failures=0, length=5).counted == (1, 0)


@pytest.fixture
def probed(sqlite, clock):
    """A circuit with a probe and a report."""
    sqlite.circuits.trip("ses", by="me", recovery=5)
    clock.advance("5s")
    sqlite.circuits.lease_probe("ses", owner="p")
    return sqlite.circuits.report("ses", instance="me", calls=1, failures=0, length=5)


@pytest.mark.parametrize("record", NOT_A_RECORD)
@pytest.mark.usefixtures("probed")
def test_circuit_that_is_none_is_corrupt(sqlite, path, clock, record):
    """It is neither taken for one that is closed nor overwritten."""
    damage(path, "UPDATE retrykit_circuits SET record = ?", record)
    check_circuit(sqlite, clock)


@pytest.mark.parametrize(
    "change",
    [
        {"open_until": "soon"},
        {"open_until": 10**30},
        {"changed_at": None},
        {"changed_at": "yesterday"},
        {"probes": 5},
        {"probes": ["p"]},
        {"probes": [["p", 1]]},
        {"probes": [["p", 1, "x"]]},
        {"reports": None},
        {"reports": [["me", 1, 0]]},
        {"reports": [["me", 1, 0, 10**30]]},
        {"generation": "3"},
        {"generation": None},
        {"last_token": None},
        {"opens": [1]},
        {"proofs": "many"},
        {"is_open": "no"},
        {"is_open": None},
        {"name": 5},
        {"by": 5},
        {"probes": [["p", "1", 1767225605000]]},
        {"reports": [["me", "1", 0, 1767225605000]]},
    ],
)
@pytest.mark.usefixtures("probed")
def test_circuit_with_a_damaged_field_is_corrupt(sqlite, path, clock, change):
    """Whatever reading it runs into, the error is one."""
    damaged(path, "retrykit_circuits", "record", change)
    check_circuit(sqlite, clock)


def test_field_of_a_newer_version_in_a_sound_record_is_kept(sqlite, path):
    """Through reading and writing."""
    held = sqlite.claims.claim("k", owner="me").record
    damaged(path, "retrykit_claims", "record", {"mood": {"good": True}})
    assert sqlite.claims.begin_send("k", held.seq, lease=30).extra == {"mood": {"good": True}}
    assert sqlite.claims.get("k").extra == {"mood": {"good": True}}
