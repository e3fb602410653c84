"""Redrives and the audit log in the SQLite file: damaged records, and a log that cannot be shortened."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest

from retrykit.errors import StoreCorruptError
from retrykit.testing.conformance.redrives_samples import entry, job, stopping

NOT_A_RECORD = ["", "{", "null", "[]", "5", '"text"', "{}", "\x00", "[1, 2]"]


@pytest.fixture
def raw(path, sqlite):
    """A connection to the file beside the backend, which holds one redrive and one entry more."""
    sqlite.redrives.start(job())
    sqlite.redrives.note(entry())
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


def check_redrive(redrives):
    """Every operation on the redrive says the same, and what is not damaged goes on."""
    for call in (
        lambda: redrives.get("r-1"),
        lambda: redrives.start(job()),
        lambda: redrives.change("r-1", stopping()),
        lambda: redrives.hold("r-1", owner="me", lease=30),
        redrives.jobs,
        lambda: redrives.start(job("r-2")),
    ):
        with pytest.raises(StoreCorruptError, match=r"^the redrive 'r-1' cannot be read: "):
            call()
    redrives.note(entry("sound"))
    assert "sound" in {each.action for each in redrives.audit()}


@pytest.mark.parametrize("record", NOT_A_RECORD)
def test_redrive_that_is_none_is_corrupt(sqlite, raw, record):
    """It is neither taken for none nor overwritten, and no other one is begun that may be at the same letters."""
    assert raw.execute("UPDATE retrykit_redrives SET record = ?", (record,)).rowcount == 1
    check_redrive(sqlite.redrives)


@pytest.mark.parametrize(
    "change",
    [
        {"state": "lost"},
        {"state": None},
        {"lease": []},
        {"lease": ["me", "x", "y"]},
        {"created_at": "yesterday"},
        {"created_at": 10**30},
        {"created_at": None},
        {"taken": 5},
        {"watched": [5]},
        {"watched": [["m#1"]]},
        {"history": [{}]},
        {"history": 5},
    ],
)
def test_redrive_with_a_damaged_field_is_corrupt(sqlite, raw, change):
    """Whatever reading it runs into, the error is one."""
    ((record,),) = raw.execute("SELECT record FROM retrykit_redrives").fetchall()
    raw.execute("UPDATE retrykit_redrives SET record = ?", (json.dumps(json.loads(record) | change),))
    check_redrive(sqlite.redrives)


@pytest.mark.parametrize("text", NOT_A_RECORD)
def test_audit_entry_that_is_none_is_corrupt(sqlite, raw, text):
    """Redrives go on, and so does what is added to the log."""
    raw.execute("DROP TRIGGER retrykit_audit_changed")
    assert raw.execute("UPDATE retrykit_audit SET entry = ? WHERE entry = ?", (text, entry().key)).rowcount == 1
    with pytest.raises(StoreCorruptError, match=r"^the audit log cannot be read: "):
        sqlite.redrives.audit()
    assert sqlite.redrives.change("r-1", stopping()) == sqlite.redrives.get("r-1")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE retrykit_audit SET at = 0", "is not changed"),
        ("UPDATE retrykit_audit SET entry = 'x'", "is not changed"),
        ("DELETE FROM retrykit_audit", "is not shortened"),
        ("DELETE FROM retrykit_audit WHERE at < 9e15", "is not shortened"),
    ],
)
def test_audit_log_is_neither_changed_nor_shortened_in_its_file(sqlite, raw, statement, said):
    """Not by a statement of somebody else's either."""
    before = sqlite.redrives.audit()
    with pytest.raises(sqlite3.IntegrityError, match=f"^the audit log of retrykit {said}$"):
        raw.execute(statement)
    assert before == sqlite.redrives.audit()
