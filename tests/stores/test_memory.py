"""The memory backend passes every suite, called directly and from asynchronous code."""

from __future__ import annotations

from retrykit.backends import MemoryBackend
from retrykit.stores import AsyncBackend, Backend, as_async
from retrykit.testing.conformance import CircuitStoreSuite, Place

FEATURES = frozenset({"megabyte", "surrogates"})


class Memory:
    features = FEATURES

    def make_store(self, place: Place) -> Backend:
        return MemoryBackend(clock=place.clock)


class AsyncMemory:
    features = FEATURES

    async def make_store(self, place: Place) -> AsyncBackend:
        return as_async(MemoryBackend(clock=place.clock))


class TestCircuits(Memory, CircuitStoreSuite): ...


class TestAsyncCircuits(AsyncMemory, CircuitStoreSuite): ...
