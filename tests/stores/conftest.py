"""What the tests of the backends share: a clock, a SQLite file, and loops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.testing import ManualClock

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave to a soak what takes long and is tested elsewhere as well.

    What files do under trio: there, as under asyncio, the synchronous store is in a thread; so under asyncio only cancellations and two of
    the suites are run, and of the memory store as much under trio. What many processes and random sequences of operations do within
    transactions of the application's, and all suites there but two: the statements are the same as outside of them. The
    same on a Redis server from asynchronous code: the scripts are the same; and there all of trio, which is the synchronous store in a
    thread.

    Of PostgreSQL all random sequences; all of trio, for the same reason; and what is the same flow of statements as in the plain
    synchronous suites: from asynchronous code all but cancellations and what `is_driven`, within transactions of the
    application's all but these, behind PgBouncer all; and what of the dead letters is added to the sums is once some of it, in soaks also all or none.
    """
    for item in items:
        if HERE in item.path.parents and is_for_soaks(item):
            item.add_marker(pytest.mark.soak(only=True))
    for item in items:
        if HERE in item.path.parents and hasattr(getattr(item, "cls", None), "make_store") and not is_measured(item):
            item.add_marker("unmeasured")


_MEASURED = ("test_memory.py", "test_sqlite.py", "test_redis.py", "test_postgres.py")
"""Suites that measure the code of a backend, and of the suites themselves."""


def is_measured(item):
    """Tell whether coverage watches a test of a suite: others run the same code again, in another colour or on another server."""
    if item.path.name == "test_memory.py":  # its suites measure themselves: what makes up examples, and what runs trio
        return True
    suite = item.cls.__name__
    is_again = item.name.startswith("test_any_") or "trio" in item.name or "AddedUp" in suite
    is_other_colour = suite.startswith("TestAsync") and not is_driven(item)
    return item.path.name in _MEASURED and not is_again and not is_other_colour


def is_driven(item):
    """Tell whether a test is of a suite that runs each kind of flow: one statement, several, and changes that are tried again."""
    return item.cls.__name__.endswith(("Retries", "Signals"))


def is_for_soaks(item):
    """Tell whether a test is left to a soak."""
    suite = "" if item.cls is None else item.cls.__name__
    is_thinned = not suite.endswith(("Claims", "Retries")) and "cancelled" not in item.name
    if item.path.name == "test_sqlite_joined_suites.py":
        return is_thinned or "process" in item.name or item.name.startswith("test_any_")
    if item.path.name == "test_postgres_bouncer.py":
        return item.cls is not None
    if item.path.name in ("test_postgres.py", "test_postgres_joined_suites.py"):
        return is_for_soaks_of_postgres(item)
    is_long = "process" in item.name or item.name.startswith("test_any_")
    if item.path.name == "test_redis.py":
        return "trio" in item.name or ("asyncio" in item.name and is_long)
    if item.path.name == "test_redis_6.py":
        return is_long
    if item.path.name in ("test_folder_store.py", "test_sqlite.py"):
        return "[trio" in item.name or ("[asyncio" in item.name and is_thinned)
    if item.path.name == "test_memory.py":
        return "[trio" in item.name and is_thinned
    return "process" in item.name and "trio" in item.name


def is_for_soaks_of_postgres(item):
    """Tell whether a test of the suites on PostgreSQL is left to a soak."""
    suite = item.cls.__name__
    if item.name.startswith("test_any_") or "[trio" in item.name or "AddedUp" in suite:
        return True
    if suite.startswith(("TestAsync", "TestJoined")):
        return "process" in item.name or (not is_driven(item) and "cancelled" not in item.name)
    return False


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
def schema():
    """The name of an empty schema on the PostgreSQL server of the tests."""
    from tests.servers import postgres  # only where there is one: the tests that ask for it require it

    yield postgres.schemas.take()
    postgres.schemas.give_back()


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
