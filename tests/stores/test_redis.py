"""The Redis backend passes every suite on a real server, called directly and from asynchronous code.

Under trio, for which redis-py has no client, that is the synchronous backend in a thread.
"""

from __future__ import annotations

from tests.capabilities import require

require("redis", "valkey-server")

from retrykit.backends.redis import AsyncRedisBackend, RedisBackend
from retrykit.clock import in_trio
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
from tests.servers import valkey

FEATURES = frozenset({"reopen", "processes", "fork", "megabyte", "surrogates"})


def url(place: Place) -> str:
    return f"{valkey.shared()}?prefix={place.name}"


class Redis:
    features = FEATURES

    def make_store(self, place: Place) -> Backend:
        return RedisBackend.from_url(url(place), clock=place.clock)


class AsyncRedis:
    features = FEATURES - {"fork"}  # a loop and its connections stay with the process that made them

    async def make_store(self, place: Place) -> AsyncBackend:
        if in_trio():
            return as_async(RedisBackend.from_url(url(place), clock=place.clock))
        return AsyncRedisBackend.from_url(url(place), clock=place.clock)


class TestCircuits(Redis, CircuitStoreSuite): ...


class TestAsyncCircuits(AsyncRedis, CircuitStoreSuite): ...


class TestDeadLetters(Redis, DeadLetterStoreSuite): ...


class TestAsyncDeadLetters(AsyncRedis, DeadLetterStoreSuite): ...


class TestDeliveries(Redis, DeliveryStoreSuite): ...


class TestAsyncDeliveries(AsyncRedis, DeliveryStoreSuite): ...


class TestClaims(Redis, ClaimStoreSuite): ...


class TestAsyncClaims(AsyncRedis, ClaimStoreSuite): ...


class TestRetries(Redis, RetryStoreSuite): ...


class TestAsyncRetries(AsyncRedis, RetryStoreSuite): ...


class TestRedrives(Redis, RedriveStoreSuite): ...


class TestAsyncRedrives(AsyncRedis, RedriveStoreSuite): ...


class TestSignals(Redis, SignalStoreSuite): ...


class TestAsyncSignals(AsyncRedis, SignalStoreSuite): ...
