"""The worlds of the flow tests, on each backend and in each colour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from retrykit.backends import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.stores import Backend
from retrykit.testing import ManualClock
from retrykit.testing.harness import Drive
from tests import capabilities
from tests.flows.breakers import RECOVERIES, BreakerFleet
from tests.flows.fleet import Fleet, Stage, on_stage
from tests.flows.world import World, WorldMaker
from tests.stores.ready import ready

LOOPS = ["asyncio"]
if capabilities.is_present("trio") or capabilities.is_ci():
    LOOPS.append("trio")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Generator[Backend]:
    backend: Backend
    if request.param == "memory":
        backend = MemoryBackend(clock=clock)
    else:
        backend = SQLiteBackend(ready(tmp_path / "flows.db"), clock=clock, synchronous="normal")
    yield backend
    backend.close()


@pytest.fixture(params=["sync", "asyncio"])
def drive(request: pytest.FixtureRequest) -> Generator[Drive | None]:
    """What runs the calls of the colour to their end; None where there is nothing to await."""
    if request.param == "sync":
        yield None
    else:
        with driving("asyncio") as drive:
            yield drive


@pytest.fixture(params=LOOPS)
def awaiting(request: pytest.FixtureRequest) -> Generator[Drive]:
    """What runs the calls of asynchronous flows to their end, for each event loop."""
    with driving(request.param) as drive:
        yield drive


@pytest.fixture(params=["sync", *LOOPS])
def any_stage(request: pytest.FixtureRequest, backend: Backend, clock: ManualClock) -> Generator[Stage]:
    """The test's backend in each colour, and under each event loop."""
    if request.param == "sync":
        with on_stage(backend, clock, None) as stage:
            yield stage
    else:
        with driving(request.param) as drive, on_stage(backend, clock, drive) as stage:
            yield stage


@pytest.fixture
def fleet(any_stage: Stage) -> BreakerFleet:
    """Three processes that share a circuit."""
    return BreakerFleet(any_stage)


@pytest.fixture
def half_open(any_stage: Stage) -> Callable[..., BreakerFleet]:
    """Make a fleet whose circuit may be probed now."""

    def make(**settings: object) -> BreakerFleet:
        fleet = BreakerFleet(any_stage, **settings)  # type: ignore[arg-type]
        fleet.processes[0].trip()
        fleet.wait(RECOVERIES[0])
        return fleet

    return make


@contextmanager
def driving(loop: str) -> Generator[Drive]:
    """Give what runs a coroutine to its end in the event loop of that name."""
    if loop == "trio":
        import trio

        yield lambda coroutine: trio.run(lambda: coroutine)
        return
    with asyncio.Runner() as runner:
        yield runner.get_loop().run_until_complete  # a third of the time of `runner.run`


@pytest.fixture
def stage(backend: Backend, clock: ManualClock, drive: Drive | None) -> Generator[Stage]:
    with on_stage(backend, clock, drive) as stage:
        yield stage


@pytest.fixture
def world(stage: Stage) -> WorldMaker:
    """Make a world with a message and a fleet of its own on the test's backend."""

    def make(*script: str, kills: bool = False, lookups: tuple[str, ...] = (), **options: object) -> World:
        return World(Fleet(stage, **options), script, kills=kills, lookups=lookups)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def soaking(scale: Callable[[int], int]) -> bool:
    """Whether what is enumerated may take minutes."""
    return scale(100) == 100
