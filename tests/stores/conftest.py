"""One set of contract tests for every store: both backends, called directly, from asyncio and from trio."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from retrykit.backends import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.stores import as_async
from retrykit.testing import ManualClock
from tests import capabilities


def drive_asyncio(fn, *args, **kwargs):
    """Call the coroutine function in a loop of its own."""

    async def main():
        return await fn(*args, **kwargs)

    return asyncio.run(main())


def drive_trio(fn, *args, **kwargs):
    """Call the coroutine function in a trio run of its own."""
    import trio

    async def main():
        return await fn(*args, **kwargs)

    return trio.run(main)


class DrivenStore:
    """An asynchronous store for synchronous callers: the same names, each call driven to its end."""

    def __init__(self, store, drive):
        self._store = store
        self._drive = drive

    def __getattr__(self, name):
        return partial(self._drive, getattr(self._store, name))


class DrivenBackend:
    """The asynchronous twin of a backend, for synchronous tests."""

    def __init__(self, backend, drive):
        twin = as_async(backend)
        for name in ("claims", "retries", "dead_letters", "deliveries", "circuits"):
            setattr(self, name, DrivenStore(getattr(twin, name), drive))
        self.close = partial(drive, twin.aclose)


DRIVERS = {"direct": None, "asyncio": drive_asyncio}
if capabilities.is_present("trio") or capabilities.is_ci():
    DRIVERS["trio"] = drive_trio


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture(params=[f"{kind}-{colour}" for kind in ("memory", "sqlite") for colour in DRIVERS])
def backend(request, tmp_path, clock):
    """A fresh backend, in every form a caller may meet."""
    kind, colour = request.param.split("-")
    if kind == "memory":
        made = MemoryBackend(clock=clock)
    else:
        made = SQLiteBackend(tmp_path / "store.db", clock=clock, synchronous="normal")
    drive = DRIVERS[colour]
    made = made if drive is None else DrivenBackend(made, drive)
    yield made
    made.close()


@pytest.fixture
def path(tmp_path):
    """The path of a SQLite file that does not exist yet."""
    return tmp_path / "store.db"


@pytest.fixture
def sqlite(path, clock):
    """A SQLite backend in a file of its own."""
    made = SQLiteBackend(path, clock=clock, synchronous="normal")
    yield made
    made.close()
