"""The server: how operations run there, one short runner for each colour, and that the tables are those of this version."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ...clock import Clock, in_trio
from ...errors import ConfigurationError
from ...times import to_millis
from .connections import is_idle
from .faults import is_conflict, translated
from .schema import check, look, migrate

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import RowMaker

    from .statements import Flow, Row, Statement

__all__ = [
    "AsyncDatabase",
    "AsyncPool",
    "Database",
    "Pool",
    "Schema",
    "drive",
    "drive_async",
    "is_busy",
    "plain_async_cursor",
    "plain_cursor",
]

T = TypeVar("T")

_NAME: Final = re.compile(r"\bretrykit\b(?=\.|$)")
_ACTIVE: Final = 1
"""libpq's PQTRANS_ACTIVE."""
_KNOWN: Final = 1000
"""Statements that are kept in the form for the driver."""

_LAST_TRY: Final = (False,) * 9 + (True,)
"""For each try of an operation with whose transaction others interfere, whether it is the last."""


class Pool(Protocol):
    """What lends connections, as `psycopg_pool.ConnectionPool` does."""

    def connection(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """Lend a connection for as long as the block runs."""
        ...


class AsyncPool(Protocol):
    """What lends connections, as `psycopg_pool.AsyncConnectionPool` does."""

    def connection(self) -> AbstractAsyncContextManager[psycopg.AsyncConnection[Any]]:
        """Lend a connection for as long as the block runs."""
        ...


class Schema:
    """Where the tables are, and by which clock.

    Args:
        name: of the schema, 1 to 63 bytes.
        clock: where the time comes from; None: the server's.

    Raises:
        ConfigurationError: the name is not allowed.
    """

    def __init__(self, name: str, clock: Clock | None) -> None:
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name.encode("utf-8", "replace")) <= 63:
            raise ConfigurationError(f"the schema is {name!r}; allowed is printable text of 1 to 63 bytes")
        self.name: Final = name
        self.quoted: Final = '"' + name.replace('"', '""') + '"'
        self.channel: Final = f"retrykit_{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        """By which processes tell each other of what is due."""
        self._clock: Final = clock
        self._sql: Final[dict[str, bytes]] = {}

    def named(self, statement: str) -> str:
        """Return a statement with the schema's name in it."""
        return re.sub(_NAME, lambda _: self.quoted, statement)

    def sql(self, statement: str) -> bytes:
        """Return a statement, with the schema's name in it, for the driver, which reads a percent sign as the beginning of a value."""
        known = self._sql.get(statement)
        if known is None:
            quoted = self.quoted.replace("%", "%%")
            known = re.sub(_NAME, lambda _: quoted, statement).encode()
            if len(self._sql) < _KNOWN:  # queries of dead letters come in many forms
                self._sql[statement] = known
        return known

    def values(self, statement: Statement) -> Mapping[str, object]:
        """Return the values of a statement, with the instant and the channel."""
        now = None if self._clock is None else to_millis(self._clock.now())
        return {**statement.values, "now": now, "channel": self.channel}


class Database:
    """Operations for synchronous callers.

    Args:
        pool: what lends connections.
        schema: where the tables are.
    """

    def __init__(self, pool: Pool, schema: Schema) -> None:
        self._pool: Final = pool
        self._schema: Final = schema
        self._identity: str | None = None

    def check(self) -> str:
        """Make sure, once, that the tables are those of this version, and return what tells this schema from all others.

        Raises:
            SchemaVersionError: there are none, or they are of another one.
        """
        if self._identity is None:
            self._identity = self._run(lambda: check(self._schema.name), None)
        return self._identity

    def found(self) -> int:
        """Return the version of the tables, 0 where there are none."""
        return self._run(lambda: look(self._schema.name), None)[0]

    def migrate(self) -> int:
        """Bring the tables to this version, and return the one they had.

        Raises:
            SchemaVersionError: they are of a newer version.
        """
        return self._run(lambda: migrate(self._schema.name), None)

    def run(self, operation: Callable[[], Flow[T]], begin: str | None) -> T:
        """Run an operation: each statement in a transaction of its own, or all in one.

        Args:
            operation: makes the flow; called again when other transactions were in the way.
            begin: how the transaction begins, or None.
        """
        self.check()
        return self._run(operation, begin)

    def _run(self, operation: Callable[[], Flow[T]], begin: str | None) -> T:
        import psycopg

        for last in _LAST_TRY:
            try:
                return self._try(operation(), begin)
            except psycopg.Error as error:
                if last or not is_conflict(error):
                    raise translated(error, self._schema.name) from error
        raise AssertionError

    def _try(self, flow: Flow[T], begin: str | None) -> T:
        with self._pool.connection() as db:
            autocommit = db.autocommit
            if not autocommit:
                db.autocommit = True
            cursor = plain_cursor(db)
            try:
                if begin:
                    cursor.execute(begin.encode())
                result = drive(cursor, flow, self._schema)
                if begin:
                    cursor.execute(b"COMMIT")
                return result
            finally:
                if is_busy(db):
                    db.close()
                elif not db.closed:
                    if not is_idle(db):
                        db.rollback()
                    if not autocommit:
                        db.autocommit = False


class AsyncDatabase:
    """Operations for asynchronous callers under asyncio: as `Database`.

    Args:
        pool: what lends connections.
        schema: where the tables are.
    """

    def __init__(self, pool: AsyncPool, schema: Schema) -> None:
        self._pool: Final = pool
        self._schema: Final = schema
        self._identity: str | None = None

    async def check(self) -> str:
        """As `Database.check`.

        Raises:
            ConfigurationError: it is called under trio.
        """
        if in_trio():
            raise ConfigurationError(
                "AsyncPostgresBackend works under asyncio only, as its driver does; under trio use as_async(PostgresBackend(...))"
            )
        if self._identity is None:
            self._identity = await self._run(lambda: check(self._schema.name), None)
        return self._identity

    async def run(self, operation: Callable[[], Flow[T]], begin: str | None) -> T:
        """Run an operation: each statement in a transaction of its own, or all in one."""
        await self.check()
        return await self._run(operation, begin)

    async def _run(self, operation: Callable[[], Flow[T]], begin: str | None) -> T:
        import psycopg

        for last in _LAST_TRY:
            try:
                return await self._try(operation(), begin)
            except psycopg.Error as error:
                if last or not is_conflict(error):
                    raise translated(error, self._schema.name) from error
        raise AssertionError

    async def _try(self, flow: Flow[T], begin: str | None) -> T:
        async with self._pool.connection() as db:
            autocommit = db.autocommit
            if not autocommit:
                await db.set_autocommit(True)
            cursor = plain_async_cursor(db)
            try:
                if begin:
                    await cursor.execute(begin.encode())
                result = await drive_async(cursor, flow, self._schema)
                if begin:
                    await cursor.execute(b"COMMIT")
                return result
            finally:
                if is_busy(db):
                    await db.close()
                elif not db.closed:
                    if not is_idle(db):
                        await db.rollback()
                    if not autocommit:
                        await db.set_autocommit(False)


def is_busy(db: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Tell whether a connection takes no command any more: a signal's handler raised while an answer was waited for."""
    return db.pgconn.transaction_status == _ACTIVE


def plain_cursor(db: psycopg.Connection[Any]) -> psycopg.Cursor[Row]:
    """Return a cursor as we want it, whatever the connection makes for the application."""
    cursor, _, tuples = _cursors()
    return cursor(db, row_factory=tuples)


def plain_async_cursor(db: psycopg.AsyncConnection[Any]) -> psycopg.AsyncCursor[Row]:
    """As `plain_cursor`."""
    _, cursor, tuples = _cursors()
    return cursor(db, row_factory=tuples)


@functools.cache
def _cursors() -> tuple[type[psycopg.Cursor[Row]], type[psycopg.AsyncCursor[Row]], Callable[[Any], RowMaker[Row]]]:
    import psycopg
    from psycopg.rows import tuple_row

    return psycopg.Cursor, psycopg.AsyncCursor, tuple_row


def drive(cursor: psycopg.Cursor[Row], flow: Flow[T], schema: Schema) -> T:
    """Execute the statements of an operation, and return its result."""
    try:
        statement = next(flow)
        while True:
            cursor.execute(schema.sql(statement.sql), schema.values(statement))
            rows: Sequence[Row] = [] if cursor.rownumber is None else cursor.fetchall()
            statement = flow.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def drive_async(cursor: psycopg.AsyncCursor[Row], flow: Flow[T], schema: Schema) -> T:
    """Execute the statements of an operation, and return its result."""
    try:
        statement = next(flow)
        while True:
            await cursor.execute(schema.sql(statement.sql), schema.values(statement))
            rows: Sequence[Row] = [] if cursor.rownumber is None else await cursor.fetchall()
            statement = flow.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result
