"""The SQLite backend passes every suite, called directly and from asynchronous code."""

from __future__ import annotations

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.stores import AsyncCircuitStore, CircuitStore, as_async
from retrykit.testing.conformance import CircuitStoreSuite, Place


def open_sqlite(place: Place) -> SQLiteBackend:
    return SQLiteBackend(place.folder / "store.db", clock=place.clock, synchronous="normal")


class TestCircuits(CircuitStoreSuite):
    features = frozenset({"reopen", "processes", "fork", "megabyte"})

    def make_store(self, place: Place) -> CircuitStore:
        return open_sqlite(place).circuits


class TestAsyncCircuits(CircuitStoreSuite):
    features = frozenset({"reopen", "processes", "fork", "megabyte"})

    async def make_store(self, place: Place) -> AsyncCircuitStore:
        return as_async(open_sqlite(place)).circuits
