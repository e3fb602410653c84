"""The SQLite backend: all six stores in one file, shared by many threads and processes. The embedded default.

Each operation is one statement or one transaction that is taken for writing from its start, so that read and write are one
atomic step. The tables carry the prefix ``retrykit_`` and may live in an application's own database. The file is in
write-ahead-log mode.
"""

from __future__ import annotations

from os import PathLike
from typing import Literal

from ...clock import Clock
from ...stores.circuits import CircuitStore
from ...stores.claims import ClaimStore
from ...stores.dead_letters import DeadLetterStore
from ...stores.deliveries import DeliveryStore
from ...stores.redrives import RedriveStore
from ...stores.retries import RetryStore
from ...times import Duration
from .circuits import Circuits
from .claims import Claims
from .database import Database
from .dead_letters import DeadLetters
from .deliveries import Deliveries
from .redrives import Redrives
from .retries import Retries

__all__ = ["SQLiteBackend"]


class SQLiteBackend:
    """Six stores in one SQLite file, safe for many threads and processes.

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
        self.claims: ClaimStore = Claims(self._database)
        self.retries: RetryStore = Retries(self._database)
        self.dead_letters: DeadLetterStore = DeadLetters(self._database)
        self.deliveries: DeliveryStore = Deliveries(self._database)
        self.circuits: CircuitStore = Circuits(self._database)
        self.redrives: RedriveStore = Redrives(self._database)

    def close(self) -> None:
        """Close the connections of all threads. Using the backend afterwards opens new ones."""
        self._database.close()
