"""The memory backend passes every suite, called directly and from asynchronous code."""

from __future__ import annotations

from retrykit.backends import MemoryBackend
from retrykit.stores import AsyncBackend, Backend, as_async
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


class TestDeadLetters(Memory, DeadLetterStoreSuite): ...


class TestAsyncDeadLetters(AsyncMemory, DeadLetterStoreSuite): ...


class TestDeliveries(Memory, DeliveryStoreSuite): ...


class TestAsyncDeliveries(AsyncMemory, DeliveryStoreSuite): ...


class TestClaims(Memory, ClaimStoreSuite): ...


class TestAsyncClaims(AsyncMemory, ClaimStoreSuite): ...


class TestRetries(Memory, RetryStoreSuite): ...


class TestAsyncRetries(AsyncMemory, RetryStoreSuite): ...


class TestRedrives(Memory, RedriveStoreSuite): ...


class TestAsyncRedrives(AsyncMemory, RedriveStoreSuite): ...


class TestSignals(Memory, SignalStoreSuite): ...


class TestAsyncSignals(AsyncMemory, SignalStoreSuite): ...
