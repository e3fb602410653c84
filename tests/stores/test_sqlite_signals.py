"""Signals in the SQLite file: damaged records."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest

from retrykit.errors import StoreCorruptError
from retrykit.testing.conformance.signals import adding, full_signals

NOT_A_RECORD = ["", "{", "null", "[]", "5", '"text"', "{}", "\x00", "[1, 2]"]


@pytest.fixture
def raw(path, sqlite):
    """A connection to the file beside the backend, which holds one record."""
    sqlite.signals.change("a", lambda _, __: full_signals())
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


def check(sqlite):
    """Both operations say the same, the record is not overwritten, and others go on."""
    for _ in range(2):
        for call in (lambda: sqlite.signals.get("a"), lambda: sqlite.signals.change("a", adding("sent"))):
            with pytest.raises(StoreCorruptError, match=r"^the signals 'a' cannot be read: "):
                call()
    assert sqlite.signals.change("b", adding("sent")) == sqlite.signals.get("b")


@pytest.mark.parametrize("record", NOT_A_RECORD)
def test_record_that_is_none_is_corrupt(sqlite, raw, record):
    """It is not taken for none."""
    assert raw.execute("UPDATE retrykit_signals SET record = ?", (record,)).rowcount == 1
    check(sqlite)


@pytest.mark.parametrize(
    "change",
    [
        {"at": None},
        {"at": "now"},
        {"shift": 0.5},
        {"buckets": {"x": {}}},
        {"buckets": {"1": {"sent": "many"}}},
        {"hours": 5},
        {"waiting": {"1": None}},
        {"backlog": {"waiting": 1}},
        {"sources": {"me": [1]}},
        {"occurrences": [{}]},
        {"seen": 5},
        {"watches": [{}]},
        {"watches": [{"alert": {"state": "lost"}}]},
    ],
)
def test_record_with_a_damaged_field_is_corrupt(sqlite, raw, change):
    """Whatever reading it runs into, the error is one."""
    ((record,),) = raw.execute("SELECT record FROM retrykit_signals").fetchall()
    raw.execute("UPDATE retrykit_signals SET record = ?", (json.dumps(json.loads(record) | change),))
    check(sqlite)
