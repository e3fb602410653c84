"""What `diagnose` finds well and not well with SQLite files, and what it refuses."""

from __future__ import annotations

import os
import sqlite3

import pytest

from retrykit.backends.doctor import Level, diagnose, latency
from retrykit.backends.sqlite import SQLiteBackend, doctor
from retrykit.errors import ConfigurationError


def levels(url):
    return {each.subject: each.level.value for each in diagnose(url)}


def said(url, subject):
    return next(each.said for each in diagnose(url) if each.subject == subject)


@pytest.fixture
def url(path):
    SQLiteBackend(path).close()
    return f"sqlite:///{path}"


def test_sound_file_has_no_problem(url):
    """Each thing that is looked at is told."""
    found = levels(url)
    assert found.pop("latency") in ("ok", "warning")  # the machine may be busy
    assert dict.fromkeys(("file", "disk", "schema", "content"), "ok") == found


def test_file_that_is_not_there_is_a_problem_and_is_not_made(path):
    """Looking changes nothing."""
    assert {"file": "problem"} == levels(f"sqlite:///{path}")
    assert not path.exists()


def test_file_that_is_no_database_is_a_problem(path):
    """It is said, and no error is raised."""
    path.write_bytes(b"no database" * 1000)
    assert "problem" == levels(f"sqlite:///{path}")["file"]


def test_file_of_a_newer_version_is_a_problem(url, path):
    """This retrykit could not open it."""
    with sqlite3.connect(path) as db:
        db.execute("UPDATE retrykit_schema SET version = 99")
    db.close()
    assert "problem" == levels(url)["schema"]


def test_file_of_an_older_version_is_well_and_stays_as_it_is(url, path):
    """The next process that opens it for writing renews it."""
    with sqlite3.connect(path) as db:
        db.execute("UPDATE retrykit_schema SET version = 1")
    assert "ok" == levels(url)["schema"]
    assert said(url, "schema").endswith("the next process that opens the file for writing renews them")
    assert (1,) == db.execute("SELECT version FROM retrykit_schema").fetchone()
    db.close()


def test_database_of_others_is_a_warning(path):
    """The service has not been started yet, or the path is wrong."""
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (id)")
    db.close()
    assert "warning" == levels(f"sqlite:///{path}")["schema"]


def test_file_that_left_write_ahead_logging_is_a_warning(url, path):
    """Readers and writers would wait for each other."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    assert "warning" == levels(url)["journal"]


def test_damaged_file_is_a_problem(url, path):
    """As the check of SQLite tells."""
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (size - 8192))
    found = levels(url)
    assert "problem" in (found.get("content"), found["file"])


def test_long_round_trip_is_a_warning():
    """With what to do about it."""
    found = latency(lambda: None, 0.0)
    assert Level.WARNING is found.level
    assert found.advice


@pytest.mark.parametrize("url", ["memory://", "mail.db", "mysql://user:secret@host/db"])
def test_url_behind_which_nothing_can_be_looked_at_is_refused(url):
    """What is allowed is told, and no password."""
    with pytest.raises(ConfigurationError, match="allowed are sqlite, redis") as caught:
        diagnose(url)
    assert "secret" not in str(caught.value)


def test_limits_of_a_file_are_warned_of(url, monkeypatch):
    """A disk that is full, a log that a reader holds, an owner who is somebody else; a large file is not read through."""
    monkeypatch.setattr(doctor, "_FREE", 2**80)
    monkeypatch.setattr(doctor, "_LOG", -1)
    monkeypatch.setattr(doctor, "_CHECKED", -1)
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    found = levels(url)
    assert ("warning", "warning", "problem") == (found["disk"], found["log"], found["access"])
    assert "content" not in found
