"""Signals in the SQLite file: damaged records."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest

from retrykit.errors import SchemaVersionError, StoreCorruptError
from retrykit.testing.conformance.signals import adding, full_signals

NOT_A_RECORD = ["", "{", "null", "[]", "5", '"text"', "{}", "\x00", "[1, 2]"]


@pytest.fixture
def raw(path, sqlite):
    """A connection to the file beside the backend, which holds one record."""
    sqlite.signals.change("a", lambda _, __: full_signals())
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


def check(sqlite):
    """Both operations say the same, the record is not overwritten, and others go on; mended, it begins anew."""
    for _ in range(2):
        for call in (lambda: sqlite.signals.get("a"), lambda: sqlite.signals.change("a", adding("sent"))):
            with pytest.raises(StoreCorruptError, match=r"^the signals 'a' cannot be read: "):
                call()
    assert sqlite.signals.change("b", adding("sent")) == sqlite.signals.get("b")
    assert ["a", "b"] == list(sqlite.signals.names())
    assert [True, False, False] == [sqlite.signals.mend(name) for name in ("a", "a", "b")]
    assert sqlite.signals.get("a") is None
    assert sqlite.signals.change("a", adding("sent")) == sqlite.signals.get("a")


@pytest.mark.parametrize("record", NOT_A_RECORD)
def test_record_that_is_none_is_corrupt(sqlite, raw, record):
    """It is not taken for none."""
    assert raw.execute("UPDATE retrykit_signals SET record = ?", (record,)).rowcount == 1
    check(sqlite)


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": "1"},
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


def test_record_of_a_newer_version_is_neither_read_nor_mended(sqlite, raw):
    """A fleet is upgraded process by process: the older ones wait."""
    ((record,),) = raw.execute("SELECT record FROM retrykit_signals").fetchall()
    newer = json.dumps(json.loads(record) | {"schema_version": 2, "at": "in words"})
    raw.execute("UPDATE retrykit_signals SET record = ?", (newer,))
    for call in (
        lambda: sqlite.signals.get("a"),
        lambda: sqlite.signals.change("a", adding("sent")),
        lambda: sqlite.signals.mend("a"),
    ):
        with pytest.raises(
            SchemaVersionError, match=r"signals 'full' has schema version 2, this retrykit reads versions up to 1"
        ):
            call()
    assert [(newer,)] == raw.execute("SELECT record FROM retrykit_signals").fetchall()
