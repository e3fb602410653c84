"""What the tests of the backends share: a clock, a SQLite file, and loops."""

from __future__ import annotations

import asyncio

import pytest

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.testing import ManualClock


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


@pytest.fixture
def clock():
    return ManualClock()


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
