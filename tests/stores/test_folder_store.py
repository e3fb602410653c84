"""The store that the how-to shows passes every suite."""

from __future__ import annotations

from folder_store import FolderBackend

from retrykit.testing.conformance import CircuitStoreSuite, Place


class Folder:
    features = frozenset({"reopen", "processes", "fork", "megabyte", "surrogates"})

    def make_store(self, place: Place) -> FolderBackend:
        return FolderBackend(place.folder, clock=place.clock)


class TestCircuits(Folder, CircuitStoreSuite): ...
