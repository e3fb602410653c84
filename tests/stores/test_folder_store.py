"""The stores that the how-to shows pass every suite."""

from __future__ import annotations

from folder_store import FolderBackend

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


class Folder:
    features = frozenset({"reopen", "processes", "fork", "megabyte", "surrogates"})

    def make_store(self, place: Place) -> FolderBackend:
        return FolderBackend(place.folder, clock=place.clock, flush=False)


class TestClaims(Folder, ClaimStoreSuite): ...


class TestRetries(Folder, RetryStoreSuite): ...


class TestDeadLetters(Folder, DeadLetterStoreSuite): ...


class TestDeliveries(Folder, DeliveryStoreSuite): ...


class TestCircuits(Folder, CircuitStoreSuite): ...


class TestRedrives(Folder, RedriveStoreSuite): ...


class TestSignals(Folder, SignalStoreSuite): ...
