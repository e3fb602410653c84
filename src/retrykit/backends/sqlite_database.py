"""The SQLite file: connections, transactions, schema and the translation of the driver's errors."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from os import PathLike
from typing import Final

from ..clock import Clock, current_clock
from ..errors import ConfigurationError, SchemaVersionError, StoreCorruptError, StoreError, StoreUnavailableError
from ..times import Duration, seconds

__all__ = ["SCHEMA_VERSION", "Database"]

SCHEMA_VERSION: Final = 1

_OLDEST_SQLITE: Final = (3, 35, 0)  # RETURNING

_MIGRATIONS: Final = (
    # from nothing to version 1
    """
    CREATE TABLE retrykit_schema (
        only INTEGER PRIMARY KEY CHECK (only = 1), version INTEGER NOT NULL, token INTEGER NOT NULL DEFAULT 0);
    INSERT INTO retrykit_schema (only, version) VALUES (1, 0);
    CREATE TABLE retrykit_claims (
        key TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL, unsettled_at INTEGER, record TEXT NOT NULL);
    CREATE INDEX retrykit_claims_unsettled ON retrykit_claims (unsettled_at, key) WHERE unsettled_at IS NOT NULL;
    CREATE TABLE retrykit_retries (
        message_id TEXT NOT NULL, generation INTEGER NOT NULL, version INTEGER NOT NULL, due_at INTEGER NOT NULL,
        ready_at INTEGER NOT NULL, lease_owner TEXT, lease_token INTEGER, body BLOB NOT NULL, attributes TEXT NOT NULL,
        PRIMARY KEY (message_id, generation));
    CREATE INDEX retrykit_retries_ready ON retrykit_retries (ready_at, message_id);
    CREATE TABLE retrykit_dead_letters (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, message_id TEXT, campaign_id TEXT,
        provider TEXT, error_class TEXT, error_group TEXT, error_code TEXT, reason TEXT, state TEXT NOT NULL,
        record TEXT);
    CREATE INDEX retrykit_dead_letters_message ON retrykit_dead_letters (message_id, number);
    CREATE INDEX retrykit_dead_letters_campaign ON retrykit_dead_letters (campaign_id, number);
    CREATE INDEX retrykit_dead_letters_provider ON retrykit_dead_letters (provider, number);
    CREATE INDEX retrykit_dead_letters_class ON retrykit_dead_letters (error_class, number);
    CREATE TABLE retrykit_deliveries (
        message_id TEXT NOT NULL PRIMARY KEY, status TEXT NOT NULL, version INTEGER NOT NULL, provider TEXT,
        provider_id TEXT, updated_at INTEGER NOT NULL);
    CREATE INDEX retrykit_deliveries_status ON retrykit_deliveries (status, message_id);
    CREATE TABLE retrykit_pauses (
        key TEXT NOT NULL PRIMARY KEY, reason TEXT NOT NULL, by TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER);
    """,
)

_UNAVAILABLE: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)
_CORRUPT: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_inherited: list[sqlite3.Connection] = []
"""Connections of a parent process: SQLite forbids a child to use or close them, so they are kept from being collected."""


class _Handle:
    """One thread's connection, closed when its thread or the database goes away."""

    def __init__(self, connection: sqlite3.Connection, pid: int) -> None:
        self.connection = connection
        self.pid = pid

    def close(self) -> None:
        if self.pid == os.getpid():
            self.connection.close()
        else:
            _inherited.append(self.connection)

    def __del__(self) -> None:
        self.close()


class _Process:
    """What belongs to one process: its threads' connections, and the lock that makes its writers queue up.

    SQLite lets writers poll for the file; within a process a lock is fairer and wakes the next one at once.
    """

    def __init__(self) -> None:
        self.pid: Final = os.getpid()
        self.writer: Final = threading.Lock()
        self.local: Final = threading.local()
        self._handles: Final[weakref.WeakSet[_Handle]] = weakref.WeakSet()
        self._guard: Final = threading.Lock()

    def keep(self, handle: _Handle) -> None:
        """Make `handle` the calling thread's connection."""
        self.local.handle = handle
        with self._guard:
            self._handles.add(handle)

    def close(self) -> None:
        """Close all threads' connections."""
        with self._guard:
            handles = list(self._handles)
        for handle in handles:
            handle.close()


class Database:
    """A SQLite file with retrykit's tables; one connection for each thread of each process."""

    def __init__(
        self, path: str | PathLike[str], *, clock: Clock | None, busy_timeout: Duration, synchronous: str
    ) -> None:
        self._path: Final = os.fspath(path)
        if not self._path or self._path == ":memory:" or "mode=memory" in self._path:
            raise ConfigurationError(f"the path is {self._path!r}; name a file, or use MemoryBackend()")
        if synchronous not in ("full", "normal"):
            raise ConfigurationError(f"synchronous is {synchronous!r}; allowed are 'full' and 'normal'")
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise StoreError(f"SQLite is {sqlite3.sqlite_version}; version 3.35 or newer is needed")
        self._clock = clock
        self._busy: Final = seconds(busy_timeout, "busy_timeout")
        self._synchronous: Final = synchronous
        self._state = _Process()
        with self._translated():
            self._migrate(self._connection())

    def close(self) -> None:
        """Close the connections of all threads."""
        state, self._state = self._state, _Process()
        state.close()

    @contextmanager
    def transaction(self) -> Generator[tuple[sqlite3.Connection, datetime]]:
        """Hold the file for writing; gives the connection and the instant of the operation."""
        with self._translated(), self._writing():
            db = self._connection()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db, self._now()
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Wait until no other thread of this process writes."""
        lock = self._process().writer
        if not lock.acquire(timeout=self._busy):
            raise StoreUnavailableError(
                f"{self._path} cannot be written now: other threads held it for {self._busy:g} s"
            )
        try:
            yield
        finally:
            lock.release()

    def _process(self) -> _Process:
        """Return what belongs to this process; a forked child begins afresh."""
        if self._state.pid != os.getpid():
            self._state = _Process()  # the handles of the parent set their connections aside when they are collected
        return self._state

    @contextmanager
    def reading(self) -> Generator[tuple[sqlite3.Connection, datetime]]:
        """Give a connection for single statements that only read, and the instant of the operation."""
        with self._translated():
            yield self._connection(), self._now()

    def _now(self) -> datetime:
        return (self._clock or current_clock()).now()

    def _connection(self) -> sqlite3.Connection:
        state = self._process()
        handle: _Handle | None = getattr(state.local, "handle", None)
        if handle is not None:
            return handle.connection
        connection = sqlite3.connect(self._path, timeout=self._busy, isolation_level=None, check_same_thread=False)
        state.keep(_Handle(connection, state.pid))
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        self._use_write_ahead_log(connection)
        return connection

    def _use_write_ahead_log(self, db: sqlite3.Connection) -> None:
        """Switch the file to WAL. SQLite does not wait here for others that switch it at the same time."""
        deadline = time.monotonic() + self._busy
        while True:
            try:
                db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                    raise
                time.sleep(0.01)

    def _migrate(self, db: sqlite3.Connection) -> None:
        """Bring the tables to this version; several processes may do so at the same time."""
        if self._version(db) == SCHEMA_VERSION:
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            for script in _MIGRATIONS[self._version(db) :]:
                for statement in script.split(";"):
                    db.execute(statement)
            db.execute("UPDATE retrykit_schema SET version = ?", (SCHEMA_VERSION,))
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    def _version(self, db: sqlite3.Connection) -> int:
        """Return the version of the tables, 0 when there are none.

        Raises:
            SchemaVersionError: they are newer than this code.
        """
        if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'retrykit_schema'").fetchone():
            return 0
        version = int(db.execute("SELECT version FROM retrykit_schema").fetchone()[0])
        if version > SCHEMA_VERSION:
            raise SchemaVersionError(self._path, version, SCHEMA_VERSION)
        return version

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Turn the driver's errors into the contract's."""
        try:
            yield
        except sqlite3.Error as error:
            code = _primary_code(error)
            if code in _CORRUPT:
                raise StoreCorruptError(
                    f"{self._path} is not a SQLite database or is damaged ({error}); "
                    "restore it from a backup, or move it away to start afresh"
                ) from error
            if code in _UNAVAILABLE:
                raise StoreUnavailableError(
                    f"{self._path} cannot be used now: {error}; check that its folder exists and may be written, "
                    "that the disk is not full, and that no other process holds it"
                ) from error
            raise StoreError(f"{self._path}: {error}") from error


def _primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, 0 where the driver raised the error itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
