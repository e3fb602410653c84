"""The Redis backend passes every suite on Redis 6.2 as well, the oldest server that it is made for.

Its wheel is not made for every Python, so that this is left out where it is not installed, in CI as well.
"""

from __future__ import annotations

from tests.capabilities import AbsentCapabilityError, is_present, require

require("redis")
if not is_present("redis-server"):
    raise AbsentCapabilityError("redis-server")

from retrykit.backends.redis import RedisBackend
from retrykit.stores import Backend
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


class Redis:
    features = FEATURES

    def make_store(self, place: Place) -> Backend:
        return RedisBackend.from_url(f"{valkey.shared('redis')}?prefix={place.name}", clock=place.clock)


class TestCircuits(Redis, CircuitStoreSuite): ...


class TestDeadLetters(Redis, DeadLetterStoreSuite): ...


class TestDeliveries(Redis, DeliveryStoreSuite): ...


class TestClaims(Redis, ClaimStoreSuite): ...


class TestRetries(Redis, RetryStoreSuite): ...


class TestRedrives(Redis, RedriveStoreSuite): ...


class TestSignals(Redis, SignalStoreSuite): ...
