"""The SQLite backend passes every suite, called directly and from asynchronous code."""

from __future__ import annotations

import pytest

from retrykit.backends.sqlite import SQLiteBackend, dead_letters, letter_rows, letter_sums
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
from tests.stores.ready import ready

FEATURES = frozenset({"reopen", "processes", "fork", "megabyte"})


def open_sqlite(place: Place) -> Backend:
    return SQLiteBackend(ready(place.folder / "it's {odd} % name.db"), clock=place.clock, synchronous="normal")


class SQLite:
    features = FEATURES

    def make_store(self, place: Place) -> Backend:
        return open_sqlite(place)


class AsyncSQLite:
    features = FEATURES

    async def make_store(self, place: Place) -> AsyncBackend:
        return as_async(open_sqlite(place))


class TestCircuits(SQLite, CircuitStoreSuite): ...


class TestAsyncCircuits(AsyncSQLite, CircuitStoreSuite): ...


class TestDeadLetters(SQLite, DeadLetterStoreSuite): ...


class TestAsyncDeadLetters(AsyncSQLite, DeadLetterStoreSuite): ...


class TestDeadLettersAddedUpAtOnce(SQLite, DeadLetterStoreSuite):
    """As after thousands of writes: the sums hold all but the newest row, and no number of letters or kinds is small."""

    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(letter_sums, "_DUE", 2)
        monkeypatch.setattr(dead_letters, "_LOOKS", 1)
        monkeypatch.setattr(letter_sums, "_FEW_KINDS", 1)
        monkeypatch.setattr(letter_rows, "_FEW", 1)


class TestDeliveries(SQLite, DeliveryStoreSuite): ...


class TestAsyncDeliveries(AsyncSQLite, DeliveryStoreSuite): ...


class TestClaims(SQLite, ClaimStoreSuite):
    features = FEATURES | {"surrogates"}


class TestAsyncClaims(AsyncSQLite, ClaimStoreSuite):
    features = FEATURES | {"surrogates"}


class TestRetries(SQLite, RetryStoreSuite):
    features = FEATURES | {"surrogates"}


class TestAsyncRetries(AsyncSQLite, RetryStoreSuite):
    features = FEATURES | {"surrogates"}


class TestRedrives(SQLite, RedriveStoreSuite):
    features = FEATURES | {"surrogates"}


class TestAsyncRedrives(AsyncSQLite, RedriveStoreSuite):
    features = FEATURES | {"surrogates"}


class TestSignals(SQLite, SignalStoreSuite):
    features = FEATURES | {"surrogates"}


class TestAsyncSignals(AsyncSQLite, SignalStoreSuite):
    features = FEATURES | {"surrogates"}
