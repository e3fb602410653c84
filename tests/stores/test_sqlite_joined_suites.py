"""Within transactions of the application's the SQLite stores pass every suite: each operation in one that is committed after it.

The application's connection is as unlike ours as it can be.
"""

from __future__ import annotations

import os
import sqlite3
import threading

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.stores import (
    CircuitStore,
    ClaimStore,
    DeadLetterStore,
    DeliveryStore,
    RedriveStore,
    RetryStore,
    SignalStore,
)
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
from tests.stores.ready import ready

CONTRACTS = {
    "claims": ClaimStore,
    "retries": RetryStore,
    "dead_letters": DeadLetterStore,
    "deliveries": DeliveryStore,
    "circuits": CircuitStore,
    "redrives": RedriveStore,
    "signals": SignalStore,
}


class Application:
    """A backend that makes each operation in a transaction on the calling thread's own connection."""

    def __init__(self, place: Place) -> None:
        self._path = ready(place.folder / "application.db")
        self._backend = SQLiteBackend(self._path, clock=place.clock, synchronous="normal")
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        for name, contract in CONTRACTS.items():
            setattr(self, name, self._adapted(name, contract))

    def _connection(self):
        if getattr(self._local, "pid", None) != os.getpid():
            db = sqlite3.connect(self._path, timeout=30, check_same_thread=False)
            db.row_factory, db.text_factory = sqlite3.Row, bytes
            db.executescript("PRAGMA synchronous = NORMAL; PRAGMA recursive_triggers = ON; PRAGMA foreign_keys = ON")
            self._opened.append(db)
            self._local.db, self._local.pid = db, os.getpid()
        return self._local.db

    def _adapted(self, name, contract):
        def forward(primitive):
            def forwarded(_, *args):
                db = self._connection()
                with db:
                    return getattr(getattr(self._backend.using(db), name), primitive)(*args)

            return forwarded

        primitives = {primitive: forward(primitive) for primitive in contract.__abstractmethods__}
        return type(contract)(f"Joined{contract.__name__}", (contract,), primitives)()

    def close(self) -> None:
        for db in self._opened:
            db.close()
        self._backend.close()


class Joined:
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
