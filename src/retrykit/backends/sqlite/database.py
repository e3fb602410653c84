"""The SQLite file: operations, transactions, migrations, and the translation of the driver's errors."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from datetime import datetime
from os import PathLike
from pathlib import Path
from textwrap import dedent
from types import TracebackType
from typing import Final, Protocol, TypeAlias

from ...clock import Clock, current_clock
from ...errors import ConfigurationError, SchemaVersionError, StoreCorruptError, StoreError, StoreUnavailableError
from ...times import Duration, seconds
from .connections import Handle, Process, forks
from .schema import MIGRATIONS, SCHEMA_VERSION

__all__ = ["Database", "Operation", "Operations"]

_OLDEST_SQLITE: Final = (3, 35, 0)  # RETURNING

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

_LOG_LIMIT: Final = 64 * 1024 * 1024
"""Bytes to which the write-ahead log is cut once a burst is over."""


Operation: TypeAlias = AbstractContextManager[tuple[sqlite3.Connection, datetime]]
"""One operation of a store: `with` gives a connection and the instant."""


class Operations(Protocol):
    """How the stores reach their tables."""

    def transaction(self) -> Operation:
        """Begin an operation of several statements: all of them count, or none does."""
        ...

    def writing(self) -> Operation:
        """Begin an operation of one statement that writes."""
        ...

    def reading(self) -> Operation:
        """Begin an operation of single statements that only read."""
        ...

    def snapshot(self) -> Operation:
        """Begin an operation of several statements that only read, and see one state of the file."""
        ...


class _Operation:
    """One operation on a database: `with` gives the thread's connection and the instant, and translates what goes wrong.

    A class and not a generator, since it stands around every statement.
    """

    __slots__ = ("_begin", "_database", "_handle", "_lock", "_writes")

    def __init__(self, database: Database, *, writes: bool, begin: str | None) -> None:
        self._database = database
        self._writes = writes
        self._begin = begin
        self._lock: threading.Lock | None = None
        self._handle: Handle | None = None

    def __enter__(self) -> tuple[sqlite3.Connection, datetime]:
        try:
            if self._writes:
                self._lock = self._database.wait_to_write()
            self._handle = handle = self._database.handle()
            if self._begin:
                handle.connection.execute(self._begin)
            return handle.connection, self._database.now()
        except BaseException as error:
            self._leave()
            if isinstance(error, sqlite3.Error):
                raise self._database.translated(error) from error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._begin and error is None and self._handle is not None:
                self._handle.connection.execute("COMMIT")
        except sqlite3.Error as failure:
            raise self._database.translated(failure) from failure
        finally:
            self._leave()
        if isinstance(error, sqlite3.Error):
            raise self._database.translated(error) from error

    def _leave(self) -> None:
        """Let go of everything, whatever was taken hold of: nothing may stay open or locked."""
        handle, lock = self._handle, self._lock
        self._handle = self._lock = None
        try:
            if handle is not None:
                try:
                    if handle.is_open and handle.connection.in_transaction:
                        handle.connection.execute("ROLLBACK")
                finally:
                    handle.using.release()
        finally:
            if lock is not None:
                lock.release()


class Database:
    """A SQLite file with retrykit's tables; one connection for each thread of each process."""

    def __init__(
        self, path: str | PathLike[str], *, clock: Clock | None, busy_timeout: Duration, synchronous: str
    ) -> None:
        name = os.fspath(path)
        if not name or name == ":memory:" or "mode=memory" in name:
            raise ConfigurationError(f"the path is {name!r}; name a file, or use MemoryBackend()")
        self.path: Final = os.path.abspath(name)  # threads open it later, whatever the working folder is then
        if synchronous not in ("full", "normal"):
            raise ConfigurationError(f"synchronous is {synchronous!r}; allowed are 'full' and 'normal'")
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise StoreError(f"SQLite is {sqlite3.sqlite_version}; version 3.35 or newer is needed")
        self._clock = clock
        self._busy: Final = seconds(busy_timeout, "busy_timeout")
        self._synchronous: Final = synchronous
        self._state = Process()
        forks.watch(self)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        try:
            handle = self.handle()
            try:
                self._migrate(handle.connection)
            finally:
                handle.using.release()
        except sqlite3.Error as error:
            raise self.translated(error) from error

    def close(self) -> None:
        """Close the connections of all threads."""
        state, self._state = self._state, Process()
        state.close()

    def transaction(self) -> Operation:
        """Hold the file for writing; `with` gives the connection and the instant of the operation."""
        return _Operation(self, writes=True, begin="BEGIN IMMEDIATE")

    def writing(self) -> Operation:
        """Give the connection for one statement that writes, atomic by itself, and the instant of the operation."""
        return _Operation(self, writes=True, begin=None)

    def reading(self) -> Operation:
        """Give a connection for single statements that only read, and the instant of the operation."""
        return _Operation(self, writes=False, begin=None)

    def snapshot(self) -> Operation:
        """Give a connection for several statements that read the file as it is at one instant; no writer waits for them."""
        return _Operation(self, writes=False, begin="BEGIN")

    def current_process(self) -> Process:
        """Return what belongs to this process; a forked child begins afresh."""
        if self._state.pid != os.getpid():
            self._state = Process()  # the handles of the parent set their connections aside when they are collected
        return self._state

    def wait_to_write(self) -> threading.Lock:
        """Wait until no other thread of this process writes, and return the lock that is held from now on.

        Raises:
            StoreUnavailableError: that took longer than the busy timeout.
        """
        lock = self.current_process().writer
        if not lock.acquire(blocking=False) and not lock.acquire(timeout=self._busy):  # mostly it is free
            raise StoreUnavailableError(
                f"{self.path} cannot be written now: other threads held it for {self._busy:g} s"
            )
        return lock

    def handle(self) -> Handle:
        """Return the calling thread's connection, ready and marked as in use."""
        while True:
            handle = self.current_process().handle(self.path, self._busy)
            handle.using.acquire()
            try:
                if handle.is_open:
                    if not handle.is_ready:
                        self._prepare(handle)
                    return handle
            except BaseException:
                handle.using.release()
                raise
            handle.using.release()

    def now(self) -> datetime:
        """Return the instant by the store's clock."""
        return (self._clock or current_clock()).now()

    def _prepare(self, handle: Handle) -> None:
        handle.connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        handle.connection.execute(f"PRAGMA journal_size_limit = {_LOG_LIMIT}")
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
        """Bring the tables to this version; several processes may do so at the same time, and others may be writing."""
        if _version(db, self.path) == SCHEMA_VERSION:
            return
        try:
            db.execute("BEGIN IMMEDIATE")
            for steps in MIGRATIONS[_version(db, self.path) :]:
                for step in steps:
                    if isinstance(step, str):
                        db.execute(step)
                    else:
                        step(db)
            db.execute("UPDATE retrykit_schema SET version = ?", (SCHEMA_VERSION,))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def translated(self, error: sqlite3.Error) -> StoreError:
        """Return the contract's error for one of the driver's."""
        return translated(error, self.path)


def translated(error: sqlite3.Error, path: str) -> StoreError:
    """Return the contract's error for one of the driver's."""
    code = _primary_code(error)
    if code in _CORRUPT:
        return StoreCorruptError(
            f"{path} is not a SQLite database or is damaged ({error}); "
            "restore it from a backup, or move it away to start afresh"
        )
    if code in _UNAVAILABLE:
        return StoreUnavailableError(
            f"{path} cannot be used now: {error}; check that its folder exists and may be written, "
            "that the disk is not full, and that no other process holds it"
        )
    return StoreError(f"{path}: {error}")


def _version(db: sqlite3.Connection, path: str) -> int:
    """Return the version of the tables, 0 when there are none.

    Raises:
        SchemaVersionError: they are newer than this code.
        StoreCorruptError: they do not say.
    """
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'retrykit_schema'").fetchone():
        return 0
    (version,) = db.execute("SELECT version FROM retrykit_schema").fetchone() or (None,)
    if not isinstance(version, int):
        raise StoreCorruptError(f"{path} does not tell the version of its tables; restore it from a backup")
    if version > SCHEMA_VERSION:
        raise SchemaVersionError(path, version, SCHEMA_VERSION)
    return version


def planned_sqlite(path: Path) -> tuple[int, int, Sequence[str]]:
    """Return the version of a file's tables, that of this code, and the statements between them.

    Raises:
        SchemaVersionError: the tables are of a newer version.
        StoreError: they cannot be looked at.
    """
    found = 0
    if path.exists():
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
                found = _version(db, str(path))
        except sqlite3.Error as error:
            raise translated(error, str(path)) from error
    steps = [step for migration in MIGRATIONS[found:] for step in migration]
    said = [
        dedent(step).strip() if isinstance(step, str) else f"-- a step in Python: {step.__name__}" for step in steps
    ]
    end = [f"UPDATE retrykit_schema SET version = {SCHEMA_VERSION}"] if steps else []
    return found, SCHEMA_VERSION, [*said, *end]


def _primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, 0 where the driver raised the error itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
