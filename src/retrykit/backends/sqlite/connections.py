"""The connections to a SQLite file: one for each thread of each process, none of them open while the process forks."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .database import Database

__all__ = ["Handle", "Process", "forks"]

_inherited: list[sqlite3.Connection] = []
"""Connections that must not be closed, and so are kept from being collected: those of a parent process, which SQLite forbids a child
to use or close, and those that are in use when the interpreter ends."""


class Handle:
    """One thread's connection, closed when its thread or the database goes away."""

    def __init__(self, connection: sqlite3.Connection, pid: int) -> None:
        self.connection = connection
        self.thread: Final = threading.get_ident()
        self.using: Final = threading.Lock()  # held while an operation runs
        self.is_open = True
        self.is_ready = False
        # Not `__del__`: of objects collected together the connection might be finalized first, and warn that it is open.
        self._finalize: Final = weakref.finalize(self, _close_unused, connection, pid, self.using)
        self._pid: Final = pid

    def close(self) -> None:
        """Close the connection, or set it aside in a process that inherited it; the caller sees to it that nobody uses it."""
        self.is_open = False
        if self._finalize.detach() is not None:
            _close(self.connection, self._pid)


def _close_unused(connection: sqlite3.Connection, pid: int, using: threading.Lock) -> None:
    """Close a connection whose thread is gone, or the interpreter's end has come, where threads may still be at work."""
    if using.acquire(blocking=False):  # and is never released: nobody uses it any more
        _close(connection, pid)
    else:
        _inherited.append(connection)  # SQLite crashes when a connection is closed under a running statement


def _close(connection: sqlite3.Connection, pid: int) -> None:
    if pid == os.getpid():
        connection.close()
    else:
        _inherited.append(connection)


class Process:
    """What belongs to one process: its threads' connections, and the lock that makes its writers queue up.

    SQLite lets writers poll for the file; within a process a lock is fairer and wakes the next one at once.
    """

    def __init__(self) -> None:
        self.pid: Final = os.getpid()
        self.writer: Final = threading.Lock()
        self._local: Final = threading.local()
        self._handles: Final[weakref.WeakSet[Handle]] = weakref.WeakSet()
        self._guard: Final = threading.Lock()
        self._stopped: Final[list[Handle]] = []

    def handle(self, path: str, timeout: float) -> Handle:
        """Return the calling thread's connection."""
        handle: Handle | None = getattr(self._local, "handle", None)
        if handle is None or not handle.is_open:
            with self._guard:  # not while this process forks
                handle = Handle(
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


class Forks:
    """Sees to it that no connection is open while this process forks.

    SQLite notes in the process's memory which locks it holds on a file. A child would take the parent's for its own, hold
    none in truth, and lose what it wrote when another process, seeing no lock, removes the write-ahead log.
    Source: https://www.sqlite.org/howtocorrupt.html, section 2.6.
    """

    def __init__(self) -> None:
        self._databases: Final[weakref.WeakSet[Database]] = weakref.WeakSet()
        self._guard: Final = threading.Lock()
        self._stopped: Final[list[Process]] = []
        self._is_watching = False

    def watch(self, database: Database) -> None:
        """See to the connections of a database from now on."""
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


forks: Final = Forks()
