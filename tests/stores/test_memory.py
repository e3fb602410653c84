"""The memory backend passes every suite, called directly and from asynchronous code."""

from __future__ import annotations

from retrykit.backends import MemoryBackend
from retrykit.stores import AsyncCircuitStore, CircuitStore, as_async
from retrykit.testing.conformance import CircuitStoreSuite, Place


class TestCircuits(CircuitStoreSuite):
    features = frozenset({"megabyte", "surrogates"})

    def make_store(self, place: Place) -> CircuitStore:
        return MemoryBackend(clock=place.clock).circuits


class TestAsyncCircuits(CircuitStoreSuite):
    features = frozenset({"megabyte", "surrogates"})

    async def make_store(self, place: Place) -> AsyncCircuitStore:
        return as_async(MemoryBackend(clock=place.clock)).circuits
