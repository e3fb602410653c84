"""The worlds of the flow tests, on each backend."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from retrykit.backends import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.stores import Backend
from retrykit.testing import ManualClock
from tests.flows.world import World, WorldMaker


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Generator[Backend]:
    backend: Backend
    if request.param == "memory":
        backend = MemoryBackend(clock=clock)
    else:
        backend = SQLiteBackend(tmp_path / "flows.db", clock=clock, synchronous="normal")
    yield backend
    backend.close()


@pytest.fixture
def world(backend: Backend, clock: ManualClock) -> WorldMaker:
    """Make a world with a message of its own on the test's backend."""

    def make(*script: str, **options: object) -> World:
        return World(backend, clock, script, **options)  # type: ignore[arg-type]

    return make
