"""The stores on a connection of the application's: what they write counts, or does not, with its own transaction.

Each operation stands in a savepoint: it happens whole or not at all, and one that fails leaves alone what the application did
before. The transaction itself is the application's. It is begun here only where the driver would do so by itself, and never
committed or rolled back.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from ...errors import ConfigurationError, StoreError, StoreUnavailableError
from .database import Database, Operation

__all__ = ["Joined"]

_LEGACY: Final = getattr(sqlite3, "LEGACY_TRANSACTION_CONTROL", -1)  # has a name from Python 3.12 on


class Joined:
    """Operations on a connection of the application's.

    Args:
        database: the file.
        connection: open on the same file.

    Raises:
        ConfigurationError: it is open on another one, closed, or belongs to another thread.
    """

    def __init__(self, database: Database, connection: sqlite3.Connection) -> None:
        if not isinstance(connection, sqlite3.Connection):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"the connection is a {type(connection)!r}; allowed is a sqlite3.Connection")
        self._database: Final = database
        self._connection: Final = connection
        with self._borrowed() as db:
            files = {name: file for _, name, file in db.execute("PRAGMA database_list")}
        if not self._is_ours(files["main"]):
            attached = next((name for name, file in files.items() if self._is_ours(file)), None)
            raise ConfigurationError(
                f"the connection is open on {files['main'] or ':memory:'!r}, the backend on {database.path!r}; open the connection "
                + ("on that file" if attached is None else f"on that file instead of attaching it as {attached!r}")
                + ", since a commit is atomic within one file"
            )

    def _is_ours(self, file: str) -> bool:
        try:
            return os.path.samefile(file, self._database.path)
        except OSError:  # a database in memory, or a file that is gone
            return False

    @contextmanager
    def transaction(self) -> Generator[tuple[sqlite3.Connection, datetime]]:
        """Begin an operation within the application's transaction."""
        with self._borrowed() as db:
            was_open = db.in_transaction
            try:
                if not was_open:
                    self._begin(db)
                with _savepoint(db):
                    yield db, self._database.now()
            except BaseException as error:
                if not was_open and db.in_transaction:  # nothing of the application's is in it
                    db.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error) and was_open and not db.in_transaction:
                    told = self._translated(error)
                    raise type(told)(f"{told}; SQLite has rolled back the whole transaction") from error
                raise

    def writing(self) -> Operation:
        """Begin an operation within the application's transaction."""
        return self.transaction()

    @contextmanager
    def reading(self) -> Generator[tuple[sqlite3.Connection, datetime]]:
        """Begin an operation that sees what the application's transaction sees; there need not be one."""
        with self._borrowed() as db:
            yield db, self._database.now()

    @contextmanager
    def snapshot(self) -> Generator[tuple[sqlite3.Connection, datetime]]:
        """Begin an operation of several statements that see one state of the file: what the application's transaction sees."""
        with self._borrowed() as db, _savepoint(db):
            yield db, self._database.now()

    @contextmanager
    def _borrowed(self) -> Generator[sqlite3.Connection]:
        """Give the connection, with the application's factories set aside."""
        db = self._connection
        try:
            db.cursor()  # before anything is touched: fails where the connection is closed or another thread's
            factories = db.row_factory, db.text_factory
            try:
                db.row_factory, db.text_factory = None, str
                yield db
            finally:
                db.row_factory, db.text_factory = factories
        except sqlite3.ProgrammingError as error:
            raise ConfigurationError(
                f"the connection to {self._database.path!r} cannot be used here: {error}"
            ) from error
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def _begin(self, db: sqlite3.Connection) -> None:
        """Begin a transaction, where the driver would begin one before a statement that writes."""
        autocommit = getattr(db, "autocommit", _LEGACY)
        if autocommit != _LEGACY or db.isolation_level is None:
            mode = "isolation_level=None" if autocommit == _LEGACY else f"autocommit={autocommit!r}"
            raise ConfigurationError(
                f"no transaction is open on the connection to {self._database.path!r}, and with {mode} the driver opens none; "
                "execute BEGIN IMMEDIATE first, and COMMIT after it"
            )
        db.execute("BEGIN IMMEDIATE")

    def _translated(self, error: sqlite3.Error) -> StoreError:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY_SNAPSHOT:
            return StoreUnavailableError(
                f"{self._database.path} cannot be written in this transaction: another was committed since it first read; roll back, "
                "and begin with BEGIN IMMEDIATE"
            )
        return self._database.translated(error)


@contextmanager
def _savepoint(db: sqlite3.Connection) -> Generator[None]:
    """Undo what is done within if it fails."""
    db.execute("SAVEPOINT retrykit_operation")
    try:
        yield
    except BaseException:
        if db.in_transaction:  # SQLite gives up the whole transaction after some errors
            db.execute("ROLLBACK TO retrykit_operation")
        raise
    finally:
        if db.in_transaction:
            db.execute("RELEASE retrykit_operation")
