"""`SQLiteBackend.using`: what the stores write counts, or does not, with the application's own transaction."""

from __future__ import annotations

import os
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.errors import (
    ConfigurationError,
    FingerprintMismatchError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
)
from retrykit.message import Message
from retrykit.stores import Claimed, InProgress, as_async
from retrykit.testing import ManualClock
from tests.stores.conftest import drive_asyncio, drive_trio

MODES = {"legacy": {}, "manual": {"isolation_level": None}}
"""How a driver may begin and end transactions."""
if sys.version_info >= (3, 12):
    MODES |= {"always": {"autocommit": False}, "never": {"autocommit": True}}


def connect(path, **options):
    return closing(sqlite3.connect(path, **options))


@pytest.fixture
def db(sqlite, path):
    """The application's own connection to the file, and its table."""
    with connect(path) as db:
        db.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)")
        yield db


def orders(path):
    """Return what everybody else sees of the application's table."""
    with connect(path) as other:
        return [order for (order,) in other.execute("SELECT id FROM orders ORDER BY id")]


def test_what_is_written_is_committed_with_the_applications_rows(sqlite, path, clock, db):
    """Nobody sees either before, everybody both after."""
    with db:
        db.execute("INSERT INTO orders VALUES ('1')")
        within = sqlite.using(db)
        within.claims.confirm("order 1", provider_id="receipt 7")
        within.retries.schedule(Message("mail 1", {"to": "ada"}), clock.now())
        assert (orders(path), sqlite.claims.get("order 1"), sqlite.retries.stats().waiting) == ([], None, 0)
    assert orders(path) == ["1"]
    assert sqlite.claims.get("order 1").provider_id == "receipt 7"
    assert [due.message.payload for due in sqlite.retries.claim_due(owner="me")] == [{"to": "ada"}]


def test_what_is_written_is_rolled_back_with_the_applications_rows(sqlite, path, db):
    """As if neither had been written."""
    db.execute("INSERT INTO orders VALUES ('1')")
    sqlite.using(db).claims.confirm("order 1")
    db.rollback()
    assert (orders(path), sqlite.claims.get("order 1"), db.in_transaction) == ([], None, False)


def test_savepoint_of_the_application_takes_back_what_was_written_since(sqlite, db):
    """Whatever its name is, also that of ours."""
    within = sqlite.using(db)
    with db:
        within.claims.confirm("before")
        db.execute("SAVEPOINT retrykit_operation")
        within.claims.confirm("since")
        db.execute("ROLLBACK TO retrykit_operation")
        within.claims.confirm("after")
    assert [sqlite.claims.get(key) is not None for key in ("before", "since", "after")] == [True, False, True]


@pytest.mark.parametrize("mode", MODES)
def test_transaction_is_joined_however_the_driver_begins_it(sqlite, path, db, mode):
    """Begun by the driver or by hand, ended by the application alone."""
    with connect(path, **MODES[mode]) as mine:
        for ending, expected in [("ROLLBACK", None), ("COMMIT", "receipt")]:
            if not mine.in_transaction and mode != "legacy":
                mine.execute("BEGIN IMMEDIATE")
            within = sqlite.using(mine)
            within.claims.confirm("order 1", provider_id="receipt")
            assert mine.in_transaction
            assert within.claims.get("order 1").provider_id == "receipt"
            if mode == "always":
                getattr(mine, ending.lower())()
            else:
                mine.execute(ending)
            assert getattr(sqlite.claims.get("order 1"), "provider_id", None) == expected


@pytest.mark.parametrize("mode", sorted(MODES.keys() & {"manual", "never"}))
def test_writing_without_a_transaction_is_refused_where_the_driver_would_begin_none(sqlite, path, mode):
    """It would be committed at once, before the application has done its part; reading needs no transaction."""
    with connect(path, **MODES[mode]) as mine:
        within = sqlite.using(mine)
        with pytest.raises(ConfigurationError) as caught:
            within.claims.confirm("order 1")
        assert within.claims.get("order 1") is None
    told = "isolation_level=None" if mode == "manual" else "autocommit=True"
    assert str(caught.value) == (
        f"no transaction is open on the connection to {str(path)!r}, and with {told} the driver opens none; execute BEGIN IMMEDIATE "
        "first, and COMMIT after it"
    )


def test_reading_opens_no_transaction_and_sees_what_the_own_one_has_written(sqlite, db):
    """So that it holds nobody up."""
    within = sqlite.using(db)
    assert within.claims.get("order 1") is None
    assert not db.in_transaction
    with db:
        within.claims.confirm("order 1")
        assert within.claims.get("order 1") is not None
        assert sqlite.claims.get("order 1") is None


@pytest.mark.parametrize("resolution", ["FAIL", "ABORT"])
def test_operation_that_fails_in_the_middle_undoes_itself_alone(sqlite, path, db, resolution):
    """Not what the application has done, nor the operations before."""
    within = sqlite.using(db)
    db.execute(
        "CREATE TRIGGER refuse AFTER INSERT ON retrykit_claims WHEN new.key = 'bad' "
        f"BEGIN SELECT RAISE({resolution}, 'not this one'); END"
    )
    with db:
        db.execute("INSERT INTO orders VALUES ('1')")
        within.claims.confirm("good")
        with pytest.raises(StoreError, match="not this one"):
            within.claims.confirm("bad")
        assert within.claims.get("bad") is None
        db.execute("INSERT INTO orders VALUES ('2')")
    assert (orders(path), sqlite.claims.get("good") is None, sqlite.claims.get("bad")) == (["1", "2"], False, None)


def test_operation_that_is_refused_leaves_the_transaction_as_it_was(sqlite, path, db):
    """A refusal of the contract is none of the database's."""
    within = sqlite.using(db)
    with db:
        db.execute("INSERT INTO orders VALUES ('1')")
        within.claims.claim("k", owner="me", fingerprint="a")
        with pytest.raises(FingerprintMismatchError):
            within.claims.claim("k", owner="you", fingerprint="b")
        assert db.in_transaction
    assert (orders(path), type(sqlite.claims.claim("k", owner="other"))) == (["1"], InProgress)


def test_failure_that_takes_the_whole_transaction_along_is_told(sqlite, path, db):
    """What SQLite has rolled back already cannot be kept."""
    db.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON retrykit_claims BEGIN SELECT RAISE(ROLLBACK, 'not this one'); END"
    )
    with db:
        db.execute("INSERT INTO orders VALUES ('1')")
        with pytest.raises(StoreError, match=r"not this one; SQLite has rolled back the whole transaction$"):
            sqlite.using(db).claims.confirm("k")
        assert not db.in_transaction
    assert orders(path) == []


@pytest.mark.parametrize("is_open", [True, False])
def test_interrupted_operation_undoes_itself(sqlite, path, db, is_open):
    """Ctrl-C in the middle; a transaction that the operation has begun ends with it."""

    class Interrupting(ManualClock):
        interrupts = False

        def now(self):
            if self.interrupts:
                raise KeyboardInterrupt
            return super().now()

    clock = Interrupting()
    with closing(SQLiteBackend(path, clock=clock)) as interrupted:
        within = interrupted.using(db)
        if is_open:
            db.execute("INSERT INTO orders VALUES ('1')")
        clock.interrupts = True
        with pytest.raises(KeyboardInterrupt):
            within.claims.confirm("k")
        assert db.in_transaction is is_open
        db.commit()
    assert (orders(path), sqlite.claims.get("k")) == (["1"] if is_open else [], None)


def in_other_thread(fn):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(fn).result(30)


def test_connection_to_another_database_is_refused(sqlite, path, tmp_path):
    """In another file, or none, or attached: a commit would not take both along."""
    allowed = ", since a commit is atomic within one file"
    cases = {str(tmp_path / "other.db"): f"{tmp_path / 'other.db'}", ":memory:": ":memory:", "": ":memory:"}
    for name, told in cases.items():
        with connect(name) as other, pytest.raises(ConfigurationError) as caught:
            sqlite.using(other)
        assert str(caught.value) == (
            f"the connection is open on {told!r}, the backend on {str(path)!r}; open the connection on that file{allowed}"
        )
    with connect(":memory:") as other:
        other.execute("ATTACH ? AS shop", (str(path),))
        with pytest.raises(ConfigurationError, match=f"on that file instead of attaching it as 'shop'{allowed}$"):
            sqlite.using(other)


def test_connection_by_another_name_of_the_file_is_accepted(sqlite, path, tmp_path):
    """A link, a URI, with other files attached to it."""
    link = tmp_path / "link.db"
    link.symlink_to(path)
    for options in ({"database": link}, {"database": f"file:{path}?mode=rw", "uri": True}):
        with connect(options.pop("database"), **options) as mine:
            mine.execute("ATTACH ':memory:' AS scratch")
            with mine:
                assert type(sqlite.using(mine).claims.claim("k", owner="me", lease=1)) in (Claimed, InProgress)


def test_connection_that_cannot_be_used_is_refused(sqlite, path, db):
    """Closed, of another thread, or none at all; when it is given, and when it became so later."""
    with pytest.raises(
        ConfigurationError, match=r"the connection is a <class 'str'>; allowed is a sqlite3\.Connection"
    ):
        sqlite.using(str(path))
    within = sqlite.using(db)
    for use in (lambda: sqlite.using(db), lambda: within.claims.confirm("k"), lambda: within.claims.get("k")):
        with pytest.raises(ConfigurationError, match=r"cannot be used here: .*same thread"):
            in_other_thread(use)
    db.close()
    for use in (lambda: sqlite.using(db), lambda: within.claims.confirm("k"), lambda: within.claims.get("k")):
        with pytest.raises(ConfigurationError, match=r"cannot be used here: Cannot operate on a closed database"):
            use()


def test_connection_that_may_change_threads_does(sqlite, path):
    """That is the application's affair."""
    with connect(path, check_same_thread=False) as mine:
        within = in_other_thread(lambda: sqlite.using(mine))
        in_other_thread(lambda: within.claims.confirm("k"))
        mine.commit()
    assert sqlite.claims.get("k") is not None


def test_factories_of_the_connection_make_no_difference_and_stay(sqlite, path):
    """Also where the operation fails."""

    def text_of(data):
        return f"text {data!r}"

    with connect(path) as mine:
        mine.row_factory, mine.text_factory = sqlite3.Row, text_of
        within = sqlite.using(mine)
        with mine:
            assert type(within.claims.claim("k", owner="me", fingerprint="a")) is Claimed
            with pytest.raises(FingerprintMismatchError):
                within.claims.claim("k", owner="you", fingerprint="b")
            assert within.claims.get("k").fingerprint == "a"
        assert (mine.row_factory, mine.text_factory) == (sqlite3.Row, text_of)


def test_file_that_others_write_is_waited_for_as_the_connection_does(sqlite, path, db):
    """No longer; nothing is open then that was not before."""
    with connect(path, timeout=0) as mine:
        db.execute("INSERT INTO orders VALUES ('1')")
        within = sqlite.using(mine)
        with pytest.raises(StoreUnavailableError, match="cannot be used now: database is locked"):
            within.claims.confirm("k")
        assert not mine.in_transaction
        assert within.claims.get("k") is None
        db.commit()
        with mine:
            within.claims.confirm("k")
    assert sqlite.claims.get("k") is not None


def test_transaction_that_read_before_another_was_committed_is_told_to_begin_again(sqlite, path, db):
    """Waiting would not help: what it has read is not so any more."""
    with connect(path, isolation_level=None, timeout=60) as mine:
        mine.execute("BEGIN")
        mine.execute("SELECT * FROM orders").fetchall()
        sqlite.claims.confirm("other")
        with pytest.raises(
            StoreUnavailableError, match=r"another was committed since it first read; roll back, and begin"
        ):
            sqlite.using(mine).claims.confirm("k")
        assert mine.in_transaction
        mine.execute("ROLLBACK")


def test_damage_is_told_as_by_the_backend_itself(sqlite, path, db):
    """In the same words, and nothing is stored."""
    sqlite.claims.confirm("k")
    db.execute("UPDATE retrykit_claims SET record = '{'")
    with pytest.raises(StoreCorruptError, match="the claim record of 'k'"):
        sqlite.using(db).claims.confirm("k")


def test_connection_whose_file_is_gone_is_refused(sqlite, path, tmp_path):
    """It writes to what nobody will open again."""
    with connect(path) as mine:
        os.rename(path, tmp_path / "away.db")
        with pytest.raises(ConfigurationError, match="open the connection on that file"):
            sqlite.using(mine)
        os.rename(tmp_path / "away.db", path)


@pytest.mark.parametrize("drive", [drive_asyncio, drive_trio], ids=["asyncio", "trio"])
def test_asynchronous_twin_works_in_the_loops_own_thread(sqlite, path, db, drive):
    """The connection belongs to it. Closing the twin leaves the connection open."""

    async def main():
        twin = as_async(sqlite.using(db))
        await twin.claims.confirm("k")
        await twin.aclose()

    with db:
        db.execute("INSERT INTO orders VALUES ('1')")
        drive(main)
        assert sqlite.claims.get("k") is None
    assert (orders(path), sqlite.claims.get("k") is None) == (["1"], False)


def test_backend_that_is_closed_closes_no_connection_of_the_application(sqlite, db):
    """Its own are opened again when they are used."""
    within = sqlite.using(db)
    within.close()
    sqlite.close()
    with db:
        within.claims.confirm("k")
    assert sqlite.claims.get("k") is not None
