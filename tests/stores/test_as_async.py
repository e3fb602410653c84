"""`as_async`: synchronous stores for asynchronous callers, without stalling their loop."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from datetime import timedelta

import pytest

from retrykit.backends import MemoryBackend, open_async_backend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.errors import StoreError
from retrykit.stores import AsyncClaimStore, AsyncRetryStore, Claimed, as_async
from retrykit.testing import manual_clock
from tests.capabilities import require
from tests.stores.conftest import drive_asyncio, drive_trio

require("trio")

import trio

drivers = pytest.mark.parametrize("drive", [drive_asyncio, drive_trio], ids=["asyncio", "trio"])


def claiming_thread(backend):
    """Note in which thread the backend's claims run."""
    threads = []
    original = backend.claims._get

    def noted(key):
        threads.append(threading.current_thread())
        return original(key)

    backend.claims._get = noted
    return threads


@drivers
def test_backend_that_never_waits_is_called_in_the_callers_thread(drive):
    """Memory needs no thread."""
    backend = MemoryBackend()
    threads = claiming_thread(backend)
    assert drive(as_async(backend).claims.get, "k") is None
    assert [threading.current_thread()] == threads


@drivers
def test_backend_that_waits_is_called_in_one_thread_of_its_own(drive, path):
    """The loop goes on meanwhile, and the operations keep their order."""
    backend = SQLiteBackend(path)
    threads = claiming_thread(backend)

    async def main():
        twin = as_async(backend)
        for _ in range(3):
            await twin.claims.get("k")
        await twin.aclose()

    drive(main)
    assert len(set(threads)) == 1
    assert threads[0].name.startswith("retrykit-store")
    assert threads[0].is_alive() is False


@drivers
def test_slow_store_does_not_stall_the_loop(drive, sqlite):
    """Other tasks run while an operation waits for the disk."""
    entered, released = threading.Event(), threading.Event()
    original = sqlite.claims._get

    def slow(key):
        entered.set()
        assert released.wait(30)
        return original(key)

    sqlite.claims._get = slow
    twin = as_async(sqlite)

    async def neighbour(sleep):
        while not entered.is_set():
            await sleep(0)
        released.set()

    async def main():
        if drive is drive_trio:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(neighbour, trio.sleep)
                return await twin.claims.get("k")
        answer, _ = await asyncio.gather(twin.claims.get("k"), neighbour(asyncio.sleep))
        return answer

    assert drive(main) is None
    drive(twin.aclose)


@drivers
def test_clock_in_force_is_that_of_the_caller(drive, path):
    """A manual clock in the caller's context also rules in the worker thread."""
    with manual_clock() as clock:
        began = clock.now()
        twin = as_async(SQLiteBackend(path))

        async def main():
            first = await twin.claims.claim("first", owner="me")
            clock.advance("1h")
            second = await twin.claims.claim("second", owner="me")
            await twin.aclose()
            return [first.record.opened_at, second.record.opened_at]

        assert [began, began + timedelta(hours=1)] == drive(main)


@drivers
def test_error_of_a_store_reaches_the_caller(drive, path):
    """As the same exception, raised where it is awaited."""
    backend = SQLiteBackend(path)
    with contextlib.closing(sqlite3.connect(path)) as own:
        own.execute("DROP TABLE retrykit_claims")
    twin = as_async(backend)
    with pytest.raises(StoreError, match="no such table"):
        drive(twin.claims.get, "k")
    drive(twin.aclose)


def interrupting(backend):
    """Let the backend's claims call the function that is put into the list returned, before they do their work."""
    hooks, original = [], backend.claims._claim

    def interrupted(*args):
        hooks.pop()()
        return original(*args)

    backend.claims._claim = interrupted
    return hooks


def test_asyncio_cancelled_call_leaves_the_store_usable(sqlite):
    """The operation that runs is finished by its thread; the next one finds everything in order."""
    cancelled = threading.Event()
    hooks = interrupting(sqlite)
    twin = as_async(sqlite)

    async def main():
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(twin.claims.claim("first", owner="me"))

        def cancel():
            loop.call_soon_threadsafe(task.cancel)
            assert cancelled.wait(30)

        hooks.append(cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        cancelled.set()
        return await twin.claims.get("first")

    assert asyncio.run(main()).lease.owner == "me"
    asyncio.run(twin.aclose())


def test_trio_cancelled_call_waits_for_the_operation_that_runs(sqlite):
    """Nothing goes on behind the back of the caller."""
    hooks = interrupting(sqlite)
    twin = as_async(sqlite)

    async def main():
        token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as scope:
            hooks.append(lambda: trio.from_thread.run_sync(scope.cancel, trio_token=token))
            await twin.claims.claim("first", owner="me")
        assert scope.cancel_called
        return sqlite.claims.get("first")

    assert trio.run(main).lease.owner == "me"
    trio.run(twin.aclose)


@drivers
def test_twin_has_the_asynchronous_contracts(drive, path):
    """`open_async_backend` gives the same by a URL."""

    async def main():
        twin = open_async_backend(f"sqlite:///{path}")
        await twin.claims.claim("k", owner="me")
        await twin.aclose()
        return twin

    twin = drive(main)
    assert isinstance(twin.claims, AsyncClaimStore)
    assert isinstance(twin.retries, AsyncRetryStore)
    assert SQLiteBackend(path).claims.get("k").key == "k"


@drivers
def test_closed_twin_of_memory_is_still_memory(drive):
    """There is nothing to close."""
    twin = open_async_backend("memory://")
    drive(twin.aclose)
    assert type(drive(twin.claims.claim, "k", owner="me")) is Claimed
