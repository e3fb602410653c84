"""Connections to a server, where the caller gave its address and no pool: opened when they are needed, kept for the next one.

No thread, no timer. A connection that the server has closed meanwhile is noticed before it is used; one that this process inherited
from its parent is left to the parent.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ...errors import ConfigurationError, MissingExtraError

if TYPE_CHECKING:
    import psycopg

__all__ = ["AsyncConnections", "Connections", "checked", "is_idle"]

_C = TypeVar("_C", "psycopg.Connection[Any]", "psycopg.AsyncConnection[Any]")

_HOSTS: Final = re.compile(r"@?[^@]*")  # one that begins with it is an abstract socket
_PORTS: Final = re.compile(r"[0-9,]*")

_IDLE: Final = 0
"""libpq's PQTRANS_IDLE."""

_inherited: Final[list[object]] = []
"""Connections of a parent process: closing them would end the parent's."""


def checked(dsn: str) -> str:
    """Return the address of a server if it is one.

    Raises:
        MissingExtraError: the driver is not installed.
        ConfigurationError: it cannot be read; what is quoted of it elsewhere might be a part of the password.
    """
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ModuleNotFoundError as error:
        raise MissingExtraError("postgres", "psycopg") from error
    parts: dict[str, Any] | None
    try:
        parts = conninfo_to_dict(dsn)
    except ProgrammingError:
        parts = None
    if (
        parts is None
        or not _HOSTS.fullmatch(str(parts.get("host", "")))
        or not _PORTS.fullmatch(str(parts.get("port", "")))
    ):
        raise ConfigurationError(
            "the address of the database cannot be read: a part is wrong, or stands where it is not allowed; allowed is what libpq takes; "
            "in a password write '/', '?', '#', '@', ':', '%' and ' ' as '%2F', '%3F', '%23', '%40', '%3A', '%25' and '%20'"
        ) from None
    return dsn


class _Idle(Generic[_C]):
    """The connections of one process that nobody uses."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._connections: list[_C] = []

    def take(self) -> _C | None:
        """Return one that may be used, the last one first, or None."""
        if self._pid != os.getpid():
            _inherited.extend(self._connections)
            self._pid, self._connections = os.getpid(), []
        while self._connections:
            db = self._connections.pop()
            if _is_quiet(db):
                return db
            db.pgconn.finish()
        return None

    def give_back(self, db: _C) -> None:
        """Keep one for the next, if it is of use."""
        if db.closed or not is_idle(db):
            db.pgconn.finish()
        else:
            self._connections.append(db)

    def drain(self) -> list[_C]:
        """Return all, and keep none."""
        gone, self._connections = self._connections, []
        return gone if self._pid == os.getpid() else []


def is_idle(db: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Tell whether a connection is in no transaction, and waits for no answer."""
    return db.pgconn.transaction_status == _IDLE


def _is_quiet(db: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Tell whether nothing has come on a connection at rest: what comes then is the server's goodbye."""
    poll = select.poll()
    poll.register(db.fileno(), select.POLLIN)
    return not db.closed and not poll.poll(0)


class _Lent:
    """A block with a connection; a generator would take three times as long, at each operation."""

    __slots__ = ("_db", "_dsn", "_free", "_idle")

    def __init__(self, dsn: str, idle: _Idle[psycopg.Connection[Any]], free: threading.BoundedSemaphore) -> None:
        self._dsn = dsn
        self._idle = idle
        self._free = free

    def __enter__(self) -> psycopg.Connection[Any]:
        self._free.acquire()
        try:
            db = self._idle.take()
            if db is None:
                import psycopg

                db = psycopg.connect(self._dsn, autocommit=True, prepare_threshold=None)
        except BaseException:
            self._free.release()
            raise
        self._db = db
        return db

    def __exit__(self, *_: object) -> None:
        try:
            self._idle.give_back(self._db)
        finally:
            self._free.release()


class Connections:
    """Connections for synchronous callers, safe for many threads.

    Args:
        dsn: the address.
        size: how many are open at once; who needs one more waits.

    Raises:
        MissingExtraError: the driver is not installed.
        ConfigurationError: the address cannot be read.
    """

    def __init__(self, dsn: str, size: int) -> None:
        self._dsn: Final = checked(dsn)
        self._size: Final = size
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._idle: _Idle[psycopg.Connection[Any]] = _Idle()
        self._free = threading.BoundedSemaphore(self._size)

    def connection(self) -> _Lent:
        """Lend a connection."""
        if self._pid != os.getpid():
            _inherited.append(self._idle)
            self._begin()
        return _Lent(self._dsn, self._idle, self._free)

    def close(self) -> None:
        """Close those that nobody uses. Using a store afterwards opens new ones."""
        for db in self._idle.drain():
            db.close()


class AsyncConnections:
    """Connections for asynchronous callers under asyncio, all of one event loop.

    Args:
        dsn: the address.
        size: how many are open at once; who needs one more waits.

    Raises:
        MissingExtraError: the driver is not installed.
        ConfigurationError: the address cannot be read.
    """

    def __init__(self, dsn: str, size: int) -> None:
        self._dsn: Final = checked(dsn)
        self._idle: Final[_Idle[psycopg.AsyncConnection[Any]]] = _Idle()
        self._free: Final = asyncio.Semaphore(size)

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[psycopg.AsyncConnection[Any]]:
        """Lend a connection."""
        import psycopg

        async with self._free:
            db = self._idle.take()
            if db is None:
                db = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True, prepare_threshold=None)
            try:
                yield db
            finally:
                self._idle.give_back(db)

    async def aclose(self) -> None:
        """Close those that nobody uses. Using a store afterwards opens new ones."""
        for db in self._idle.drain():
            await db.close()
