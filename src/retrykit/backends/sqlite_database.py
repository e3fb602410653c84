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
        self.thread: Final = threading.get_ident()
        self.using: Final = threading.Lock()  # held while an operation runs
        self.is_open = True
        self.is_ready = False
        # Not `__del__`: of objects collected together the connection might be finalized first, and warn that it is open.
        self._finalize: Final = weakref.finalize(self, _close, connection, pid)

    def close(self) -> None:
        self.is_open = False
        self._finalize()


def _close(connection: sqlite3.Connection, pid: int) -> None:
    if pid == os.getpid():
        connection.close()
    else:
        _inherited.append(connection)


class _Process:
    """What belongs to one process: its threads' connections, and the lock that makes its writers queue up.

    SQLite lets writers poll for the file; within a process a lock is fairer and wakes the next one at once.
    """

    def __init__(self) -> None:
        self.pid: Final = os.getpid()
        self.writer: Final = threading.Lock()
        self._local: Final = threading.local()
        self._handles: Final[weakref.WeakSet[_Handle]] = weakref.WeakSet()
        self._guard: Final = threading.Lock()
        self._stopped: Final[list[_Handle]] = []

    def handle(self, path: str, timeout: float) -> _Handle:
        """Return the calling thread's connection."""
        handle: _Handle | None = getattr(self._local, "handle", None)
        if handle is None or not handle.is_open:
            with self._guard:  # not while this process forks
                handle = _Handle(
                    sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False), self.pid
                )
                self._handles.add(handle)
            self._local.handle = handle
        return handle

    def close(self) -> None:
        """Close all threads' connections."""
        with self._guard:
            handles = list(self._handles)
        for handle in handles:
            # SQLite crashes when a connection is closed under a running statement. One that this very thread is in (a
            # signal handler closes) is left to be closed when it is collected.
            if handle.using.acquire(blocking=handle.thread != threading.get_ident()):
                try:
                    handle.close()
                finally:
                    handle.using.release()

    def before_fork(self) -> None:
        """Close the connections, waiting for what runs on them; threads open new ones after `after_fork`."""
        self._guard.acquire()
        for handle in list(self._handles):
            if handle.using.acquire(blocking=handle.thread != threading.get_ident()):
                handle.close()
                self._stopped.append(handle)

    def after_fork(self) -> None:
        """Let the threads go on."""
        while self._stopped:
            self._stopped.pop().using.release()
        self._guard.release()


class _Forks:
    """Sees to it that no connection is open while this process forks.

    SQLite notes in the process's memory which locks it holds on a file. A child would take the parent's for its own, hold
    none in truth, and lose what it wrote when another process, seeing no lock, removes the write-ahead log.
    Source: https://www.sqlite.org/howtocorrupt.html, section 2.6.
    """

    def __init__(self) -> None:
        self._databases: Final[weakref.WeakSet[Database]] = weakref.WeakSet()
        self._guard: Final = threading.Lock()
        self._stopped: Final[list[_Process]] = []
        self._is_watching = False

    def watch(self, database: Database) -> None:
        with self._guard:
            self._databases.add(database)
            if not self._is_watching and hasattr(os, "register_at_fork"):
                os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._after)
            self._is_watching = True

    def _before(self) -> None:
        self._guard.acquire()
        for database in list(self._databases):
            process = database.current_process()
            process.before_fork()
            self._stopped.append(process)

    def _after(self) -> None:
        while self._stopped:
            self._stopped.pop().after_fork()
        self._guard.release()


_forks: Final = _Forks()


class Database:
    """A SQLite file with retrykit's tables; one connection for each thread of each process."""

    def __init__(
        self, path: str | PathLike[str], *, clock: Clock | None, busy_timeout: Duration, synchronous: str
    ) -> None:
        name = os.fspath(path)
        if not name or name == ":memory:" or "mode=memory" in name:
            raise ConfigurationError(f"the path is {name!r}; name a file, or use MemoryBackend()")
        self._path: Final = os.path.abspath(name)  # threads open it later, whatever the working folder is then
        if synchronous not in ("full", "normal"):
            raise ConfigurationError(f"synchronous is {synchronous!r}; allowed are 'full' and 'normal'")
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise StoreError(f"SQLite is {sqlite3.sqlite_version}; version 3.35 or newer is needed")
        self._clock = clock
        self._busy: Final = seconds(busy_timeout, "busy_timeout")
        self._synchronous: Final = synchronous
        self._state = _Process()
        _forks.watch(self)
        try:
            with self._connection() as db:
                self._migrate(db)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections of all threads."""
        state, self._state = self._state, _Process()
        state.close()

    @contextmanager
    def transaction(self) -> Generator[tuple[sqlite3.Connection, datetime]]:
        """Hold the file for writing; gives the connection and the instant of the operation."""
        with self._writing(), self._connection() as db:
            try:  # also around the beginning: a signal may interrupt right after it, and nothing may stay open
                db.execute("BEGIN IMMEDIATE")
                yield db, self._now()
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Wait until no other thread of this process writes."""
        lock = self.current_process().writer
        if not lock.acquire(timeout=self._busy):
            raise StoreUnavailableError(
                f"{self._path} cannot be written now: other threads held it for {self._busy:g} s"
            )
        try:
            yield
        finally:
            lock.release()

    def current_process(self) -> _Process:
        """Return what belongs to this process; a forked child begins afresh."""
        if self._state.pid != os.getpid():
            self._state = _Process()  # the handles of the parent set their connections aside when they are collected
        return self._state

    @contextmanager
    def reading(self) -> Generator[tuple[sqlite3.Connection, datetime]]:
        """Give a connection for single statements that only read, and the instant of the operation."""
        with self._connection() as db:
            yield db, self._now()

    def _now(self) -> datetime:
        return (self._clock or current_clock()).now()

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        """Give the calling thread's connection, for one operation."""
        with self._translated():
            while True:
                handle = self.current_process().handle(self._path, self._busy)
                with handle.using:
                    if handle.is_open:
                        self._prepare(handle)
                        yield handle.connection
                        return

    def _prepare(self, handle: _Handle) -> None:
        if not handle.is_ready:
            handle.connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            self._use_write_ahead_log(handle.connection)
            handle.is_ready = True

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
        try:
            db.execute("BEGIN IMMEDIATE")
            for script in _MIGRATIONS[self._version(db) :]:
                for statement in script.split(";"):
                    db.execute(statement)
            db.execute("UPDATE retrykit_schema SET version = ?", (SCHEMA_VERSION,))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _version(self, db: sqlite3.Connection) -> int:
        """Return the version of the tables, 0 when there are none.

        Raises:
            SchemaVersionError: they are newer than this code.
            StoreCorruptError: they do not say.
        """
        if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'retrykit_schema'").fetchone():
            return 0
        (version,) = db.execute("SELECT version FROM retrykit_schema").fetchone() or (None,)
        if not isinstance(version, int):
            raise StoreCorruptError(f"{self._path} does not tell the version of its tables; restore it from a backup")
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
