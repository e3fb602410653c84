"""The SQLite file: what it may be, what it may not be, and which error says so."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from functools import partial
from pathlib import Path

import pytest

from retrykit.backends.sqlite import SQLiteBackend, database
from retrykit.backends.sqlite.schema import SCHEMA_VERSION
from retrykit.errors import (
    ConfigurationError,
    RetrykitError,
    SchemaVersionError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
)
from retrykit.stores import Claimed, InProgress
from tests.capabilities import require
from tests.stores.processes import in_child

require("fork")


@contextlib.contextmanager
def own_connection(path):
    """Open the file as an application would."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


def test_new_file_holds_the_tables_of_this_version(path):
    """All of them carry the prefix."""
    SQLiteBackend(path).close()
    with own_connection(path) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'")]
        assert [(SCHEMA_VERSION,)] == db.execute("SELECT version FROM retrykit_schema").fetchall()
        assert [("wal",)] == db.execute("PRAGMA journal_mode").fetchall()
    assert {"retrykit"} == {name.partition("_")[0] for name in names}


def test_empty_file_becomes_a_store(path):
    """It may have been made to set its permissions."""
    path.touch()
    assert type(SQLiteBackend(path).claims.claim("k", owner="me")) is Claimed


def test_two_backends_on_one_file_see_each_other(path):
    """At once, in both directions."""
    first, second = SQLiteBackend(path), SQLiteBackend(str(path))
    record = first.claims.claim("k", owner="first").record
    assert InProgress(record, record.lease.deadline) == second.claims.claim("k", owner="second")
    assert second.claims.begin_send("k", record.seq, lease=30) == first.claims.get("k")
    first.close()
    second.close()


def test_file_reopened_holds_everything(path):
    """Closing loses nothing, and a closed backend that is used again opens the file again."""
    backend = SQLiteBackend(path)
    record = backend.claims.claim("k", owner="me").record
    backend.close()
    backend.close()
    assert record == SQLiteBackend(path).claims.get("k") == backend.claims.get("k")


def test_tables_of_the_application_live_beside_ours(path):
    """One file may hold both; neither touches the other."""
    with own_connection(path) as db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)")
        db.execute("INSERT INTO orders VALUES (17, 'paid')")
    backend = SQLiteBackend(path)
    record = backend.claims.claim("order-17", owner="me").record
    with own_connection(path) as db:
        assert [(17, "paid")] == db.execute("SELECT * FROM orders").fetchall()
        db.execute("UPDATE orders SET state = 'sent'")
    assert record == backend.claims.get("order-17")
    backend.close()


def test_relative_path_stays_the_same_file_when_the_working_folder_changes(path, monkeypatch):
    """Threads that open it later, and a daemon that changes its folder, use the same file."""
    monkeypatch.chdir(path.parent)
    backend = SQLiteBackend(path.name)
    record = backend.claims.claim("k", owner="me").record
    backend.close()
    (path.parent / "elsewhere").mkdir()
    monkeypatch.chdir(path.parent / "elsewhere")
    assert record == backend.claims.get("k")
    assert os.listdir() == []
    backend.close()


@pytest.mark.parametrize("name", ["", ":memory:", "file:x?mode=memory&cache=shared"])
def test_path_that_names_no_file_is_refused(name):
    """Each thread would have a store of its own."""
    with pytest.raises(ConfigurationError) as caught:
        SQLiteBackend(name)
    assert f"the path is {name!r}; name a file, or use MemoryBackend()" == str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"synchronous": "off"}, "synchronous is 'off'; allowed are 'full' and 'normal'"),
        ({"busy_timeout": -1}, "busy_timeout is -1; allowed are finite durations >= 0"),
        ({"busy_timeout": "soon"}, "busy_timeout is 'soon'; allowed is text such as"),
    ],
)
def test_setting_that_is_not_allowed_is_refused_before_a_file_is_made(path, options, message):
    """Bad settings leave nothing behind."""
    with pytest.raises(ConfigurationError) as caught:
        SQLiteBackend(path, **options)
    assert str(caught.value).startswith(message)
    assert os.listdir(path.parent) == []


def test_sqlite_that_is_too_old_is_refused(path, monkeypatch):
    """The error names both versions."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(StoreError, match=r"^SQLite is .*; version 3.35 or newer is needed$"):
        SQLiteBackend(path)


def test_file_of_a_newer_version_is_refused_and_left_alone(path):
    """Neither opened nor repaired: upgrade retrykit, or open another store."""
    SQLiteBackend(path).close()
    with own_connection(path) as db:
        db.execute("UPDATE retrykit_schema SET version = 7")
    with pytest.raises(SchemaVersionError) as caught:
        SQLiteBackend(path)
    assert (str(path), 7, SCHEMA_VERSION) == (caught.value.where, caught.value.found, caught.value.supported)
    with own_connection(path) as db:
        assert [(7,)] == db.execute("SELECT version FROM retrykit_schema").fetchall()


@pytest.mark.parametrize("damage", ["DELETE FROM retrykit_schema", "UPDATE retrykit_schema SET version = 'one'"])
def test_file_that_does_not_tell_its_version_is_corrupt(path, damage):
    """It is not taken for a new one."""
    SQLiteBackend(path).close()
    with own_connection(path) as db:
        db.execute(damage)
    with pytest.raises(StoreCorruptError, match=r"does not tell the version of its tables; restore it from a backup$"):
        SQLiteBackend(path)


def test_file_whose_tables_cannot_be_made_is_left_as_it_was(path):
    """All tables or none."""
    with own_connection(path) as db:
        db.execute("CREATE TABLE retrykit_pauses (application TEXT)")
    with pytest.raises(StoreError, match=r"table retrykit_pauses already exists$"):
        SQLiteBackend(path)
    with own_connection(path) as db:
        assert [("retrykit_pauses",)] == db.execute("SELECT name FROM sqlite_schema").fetchall()


@pytest.mark.parametrize("content", [b"just some text, no database\n" * 40, b"SQLite format 3\0" + b"\xff" * 4000])
def test_file_of_another_kind_is_corrupt_and_left_alone(path, content):
    """The error says what to do; the file may be precious."""
    path.write_bytes(content)
    with pytest.raises(StoreCorruptError) as caught:
        SQLiteBackend(path)
    assert str(caught.value).startswith(f"{path} is not a SQLite database or is damaged (")
    assert str(caught.value).endswith("restore it from a backup, or move it away to start afresh")
    assert isinstance(caught.value.__cause__, sqlite3.DatabaseError)
    assert content == path.read_bytes()


def test_file_with_damaged_pages_is_corrupt(path):
    """At the operation that meets the damage."""
    backend = SQLiteBackend(path)
    for number in range(50):
        backend.claims.claim(f"key-{number}", owner="me" * 50)
    backend.close()
    with path.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\xa5" * (path.stat().st_size - 2 * 4096))
    with pytest.raises(StoreCorruptError):
        SQLiteBackend(path).claims.claim("key-7", owner="me")


@pytest.mark.parametrize(
    ("make", "name"),
    [(lambda path: None, "missing/store.db"), (Path.mkdir, "store.db"), (Path.touch, "store.db/store.db")],
    ids=["missing folder", "a folder", "a file as folder"],
)
def test_path_that_cannot_be_opened_is_unavailable(path, make, name):
    """The error says what to check; nothing is made on the way."""
    make(path)
    with pytest.raises(StoreUnavailableError) as caught:
        SQLiteBackend(path.parent / name)
    assert str(caught.value) == (
        f"{path.parent / name} cannot be used now: unable to open database file; check that its folder exists and may be "
        "written, that the disk is not full, and that no other process holds it"
    )
    assert isinstance(caught.value, ConnectionError)


@pytest.fixture
def shared_folder():
    """A folder that every user may enter, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


def _error_of(call):
    try:
        call()
    except RetrykitError as error:
        return type(error)
    return None


def test_read_only_folder_is_unavailable(shared_folder):
    """No file can be made there."""
    shared_folder.chmod(0o555)
    path = shared_folder / "store.db"
    assert in_child(lambda: _error_of(lambda: SQLiteBackend(path)), unprivileged=True) is StoreUnavailableError
    assert os.listdir(shared_folder) == []


@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o555, 0o444), (0o555, 0o666), (0o777, 0o444)])
def test_read_only_file_is_unavailable_and_loses_nothing(shared_folder, folder_mode, file_mode):
    """When it is opened or at the first write, whichever SQLite notices."""
    path = shared_folder / "store.db"
    backend = SQLiteBackend(path)
    record = backend.claims.claim("k", owner="me").record
    backend.close()
    path.chmod(file_mode)
    shared_folder.chmod(folder_mode)
    write = lambda: SQLiteBackend(path).claims.claim("other", owner="me")  # noqa: E731
    assert in_child(lambda: _error_of(write), unprivileged=True) is StoreUnavailableError
    shared_folder.chmod(0o755)
    path.chmod(0o644)
    assert record == SQLiteBackend(path).claims.get("k")


def test_disk_that_is_full_is_unavailable_and_loses_nothing(path):
    """What was stored before is still there, and once there is room writing goes on."""
    resource = pytest.importorskip("resource")
    backend = SQLiteBackend(path)
    record = backend.claims.claim("k", owner="me").record

    def fill():
        size = path.stat().st_size + 100_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        try:
            kinds = [_error_of(partial(backend.claims.claim, f"{n}", owner="x" * 50_000)) for n in range(20)]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return kinds[-1], backend.claims.get("k"), _error_of(lambda: backend.claims.claim("afterwards", owner="me"))

    assert (StoreUnavailableError, record, None) == in_child(fill)
    assert backend.claims.get("afterwards").lease.owner == "me"
    backend.close()


def test_file_that_another_process_holds_is_unavailable(path):
    """After `busy_timeout`; reading goes on, and so does writing once it is free."""
    backend = SQLiteBackend(path, busy_timeout=0)
    with own_connection(path) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="database is locked; check that"):
            backend.claims.claim("k", owner="me")
        assert backend.claims.get("k") is None
        db.execute("COMMIT")
        assert type(backend.claims.claim("k", owner="me")) is Claimed
    backend.close()


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("begin", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_file_that_another_process_holds_is_unavailable_when_it_is_opened(path, mode, begin):
    """While its journal mode is switched, and while the tables are made; once it is free it is a store."""
    with own_connection(path) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.execute("CREATE TABLE application (x)")
        db.execute(begin)
        with pytest.raises(StoreUnavailableError, match="database is locked"):
            SQLiteBackend(path, busy_timeout=0)
        db.execute("COMMIT")
        assert type(SQLiteBackend(path, busy_timeout=0).claims.claim("k", owner="me")) is Claimed


def test_file_that_is_held_for_a_moment_when_it_is_opened_is_waited_for(path, monkeypatch):
    """SQLite does not wait for the switch to its journal mode, so the backend does."""
    with own_connection(path) as db:
        db.execute("CREATE TABLE application (x)")
        db.execute("BEGIN IMMEDIATE")
        waits = []

        def sleep(seconds):
            waits.append(seconds)
            db.execute("COMMIT")

        monkeypatch.setattr(database.time, "sleep", sleep)
        backend = SQLiteBackend(path, busy_timeout="1s")
    monkeypatch.undo()
    assert waits == [0.01]
    assert type(backend.claims.claim("k", owner="me")) is Claimed
    backend.close()
