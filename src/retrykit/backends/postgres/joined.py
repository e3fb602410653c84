"""The stores on a connection of the application's: what they write counts, or does not, with its own transaction.

Each operation stands in a savepoint: it happens whole or not at all, and one that fails leaves alone what the application did before.
The transaction itself is the application's. It is begun here only where the driver would do so by itself, and never committed or
rolled back while anything of the application's is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...errors import ConfigurationError
from .database import AsyncDatabase, Database, Schema, drive, drive_async, is_busy, plain_async_cursor, plain_cursor
from .faults import translated
from .schema import check
from .statements import Flow

if TYPE_CHECKING:
    import psycopg

__all__ = ["AsyncJoined", "Joined"]

T = TypeVar("T")

_SAVE: Final = b"SAVEPOINT retrykit_operation"
_KEEP: Final = b"RELEASE SAVEPOINT retrykit_operation"
_UNDO: Final = b"ROLLBACK TO SAVEPOINT retrykit_operation; RELEASE SAVEPOINT retrykit_operation"


def _check(db: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Return whether a transaction is open.

    Raises:
        ConfigurationError: the connection is closed, its transaction has failed, or none is open and the driver opens none.
    """
    from psycopg.pq import TransactionStatus

    status = db.info.transaction_status
    if db.closed:
        raise ConfigurationError("the connection is closed; give an open one")
    if status is TransactionStatus.INERROR:
        raise ConfigurationError("the transaction on the connection has failed; roll it back, and begin anew")
    if status is TransactionStatus.IDLE and db.autocommit:
        raise ConfigurationError(
            "no transaction is open on the connection, and under autocommit the driver opens none; "
            "begin one with connection.transaction()"
        )
    return status is not TransactionStatus.IDLE


def _compare(here: str, there: str, schema: Schema) -> None:
    if here != there:
        raise ConfigurationError(
            f"the connection is to another database than the backend, which has a schema {schema.name!r} too; connect to the same one, "
            "since a commit is atomic within one database"
        )


class Joined:
    """Operations on a connection of the application's.

    Args:
        database: the backend's own way to the schema.
        schema: where the tables are.
        connection: to the same database.
    """

    def __init__(self, database: Database, schema: Schema, connection: psycopg.Connection[Any]) -> None:
        import psycopg

        if not isinstance(connection, psycopg.Connection):
            raise ConfigurationError(f"the connection is a {type(connection)!r}; allowed is a psycopg.Connection")
        self._database: Final = database
        self._schema: Final = schema
        self._connection: Final = connection
        self._is_checked = False

    def run(self, operation: Callable[[], Flow[T]], begin: str | None) -> T:
        """Run an operation within the application's transaction."""
        import psycopg

        del begin  # it has begun
        there = "" if self._is_checked else self._database.check()
        db = self._connection
        was_open = _check(db)
        cursor = plain_cursor(db)
        try:
            cursor.execute(_SAVE)
            if not self._is_checked:
                _compare(drive(cursor, check(self._schema.name), self._schema), there, self._schema)
                self._is_checked = True
            result = drive(cursor, operation(), self._schema)
            cursor.execute(_KEEP)
            return result
        except BaseException as error:
            if is_busy(db):
                db.close()  # and with it the transaction, which could not go on
            elif not db.closed:
                if was_open:
                    cursor.execute(_UNDO)
                else:
                    db.rollback()  # nothing of the application's is in it
            if isinstance(error, psycopg.Error):
                raise translated(error, self._schema.name) from error
            raise


class AsyncJoined:
    """As `Joined`, for asynchronous callers."""

    def __init__(self, database: AsyncDatabase, schema: Schema, connection: psycopg.AsyncConnection[Any]) -> None:
        import psycopg

        if not isinstance(connection, psycopg.AsyncConnection):
            raise ConfigurationError(f"the connection is a {type(connection)!r}; allowed is a psycopg.AsyncConnection")
        self._database: Final = database
        self._schema: Final = schema
        self._connection: Final = connection
        self._is_checked = False

    async def run(self, operation: Callable[[], Flow[T]], begin: str | None) -> T:
        """Run an operation within the application's transaction."""
        import psycopg

        del begin  # it has begun
        there = "" if self._is_checked else await self._database.check()
        db = self._connection
        was_open = _check(db)
        cursor = plain_async_cursor(db)
        try:
            await cursor.execute(_SAVE)
            if not self._is_checked:
                _compare(await drive_async(cursor, check(self._schema.name), self._schema), there, self._schema)
                self._is_checked = True
            result = await drive_async(cursor, operation(), self._schema)
            await cursor.execute(_KEEP)
            return result
        except BaseException as error:
            if is_busy(db):
                await db.close()  # and with it the transaction, which could not go on
            elif not db.closed:
                if was_open:
                    await cursor.execute(_UNDO)
                else:
                    await db.rollback()  # nothing of the application's is in it
            if isinstance(error, psycopg.Error):
                raise translated(error, self._schema.name) from error
            raise
