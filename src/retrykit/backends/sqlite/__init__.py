"""The SQLite backend: all seven stores in one file, shared by many threads and processes. The embedded default.

Each operation is one statement or one transaction that is taken for writing from its start, so that read and write are one
atomic step. The tables carry the prefix ``retrykit_`` and may live in an application's own database. The file is in
write-ahead-log mode.

`SQLiteBackend.using` gives the same stores within a transaction of the application's own.
"""

from __future__ import annotations

import sqlite3
from os import PathLike
from typing import Literal

from ...clock import Clock
from ...stores.backend import Backend
from ...stores.circuits import CircuitStore
from ...stores.claims import ClaimStore
from ...stores.dead_letters import DeadLetterStore
from ...stores.deliveries import DeliveryStore
from ...stores.redrives import RedriveStore
from ...stores.retries import RetryStore
from ...stores.signals import SignalStore
from ...times import Duration
from .circuits import Circuits
from .claims import Claims
from .database import Database, Operations
from .dead_letters import DeadLetters
from .deliveries import Deliveries
from .joined import Joined
from .redrives import Redrives
from .retries import Retries
from .signals import SQLiteSignals

__all__ = ["SQLiteBackend"]


class _Stores:
    """The seven stores, on whatever gives them a connection."""

    def __init__(self, operations: Operations) -> None:
        self.claims: ClaimStore = Claims(operations)
        self.retries: RetryStore = Retries(operations)
        self.dead_letters: DeadLetterStore = DeadLetters(operations)
        self.deliveries: DeliveryStore = Deliveries(operations)
        self.circuits: CircuitStore = Circuits(operations)
        self.redrives: RedriveStore = Redrives(operations)
        self.signals: SignalStore = SQLiteSignals(operations)


class SQLiteBackend(_Stores):
    """Seven stores in one SQLite file, safe for many threads and processes.

    Args:
        path: the file; made when it is not there, in a folder that is.
        clock: where the time comes from; None: the clock in force when a store is used.
        busy_timeout: how long an operation waits for another process to finish writing.
        synchronous: "full" survives a power failure, "normal" only the death of processes but writes faster
            (https://www.sqlite.org/pragma.html#pragma_synchronous).

    Raises:
        StoreUnavailableError: the file cannot be opened or written.
        StoreCorruptError: the file is not a SQLite database, or is damaged.
        SchemaVersionError: the file was written by a newer retrykit.
        ConfigurationError: a value is not allowed.
    """

    blocks = True
    """Calls wait for the disk and for other writers."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        clock: Clock | None = None,
        busy_timeout: Duration = 30.0,
        synchronous: Literal["full", "normal"] = "full",
    ) -> None:
        self._database = Database(path, clock=clock, busy_timeout=busy_timeout, synchronous=synchronous)
        super().__init__(self._database)

    def using(self, connection: sqlite3.Connection) -> Backend:
        """Return a backend whose operations are part of the transaction on a connection of yours.

        What it writes is seen by others once you commit, and is gone when you roll back, together with your own changes. An operation
        that fails undoes itself and nothing else.

        Where no transaction is open, an operation that writes begins one (`BEGIN IMMEDIATE`), if the driver would do so too: that is
        its default, and makes ``with connection:`` work. Under ``isolation_level=None`` or ``autocommit=True`` begin one first.

        Args:
            connection: a connection of your own to the same file. What it may be used for, by which thread and for how long it waits
                for other writers, is as you have set it; its row and text factories make no difference.

        Returns:
            The seven stores. Closing it does nothing to the connection. It is as cheap as a look at the file: make one for each
            transaction. `as_async` calls it in the thread of the event loop, which has to be the connection's own.

        Raises:
            ConfigurationError: the connection is open on another file, closed, or belongs to another thread.
        """
        return _Joined(Joined(self._database, connection))

    def close(self) -> None:
        """Close the connections of all threads. Using the backend afterwards opens new ones."""
        self._database.close()


class _Joined(_Stores):
    """The stores on a connection of the application's."""

    blocks = False
    """The connection waits in its own thread, for these calls as for the application's own."""

    def close(self) -> None:
        """Do nothing: the connection is the application's."""
