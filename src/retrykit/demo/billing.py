"""What the application does with a webhook call: the delivery log takes the event, and a delivered message is billed, once.

The bills stand in a table of the application's own, in the file that holds the stores. Nothing in that table keeps a second bill
out: the guard alone does, whose completion is committed together with the bill.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Final

from ..backends.sqlite import SQLiteBackend
from ..clock import Clock
from ..delivery import DeliveryLog, parse_events
from ..guard import IdempotencyGuard, current_hold
from ..stores import DeliveryStatus
from ..times import to_iso

__all__ = ["Billing", "bills"]

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS bills (number INTEGER PRIMARY KEY, message_id TEXT NOT NULL, billed_at TEXT NOT NULL)"
)
_PAGE: Final = 500
_WAIT: Final = 30.0
"""Real seconds to wait for others who write."""


class Billing:
    """Bills delivered messages; one for each thread, whose connection it has.

    Args:
        path: the SQLite file.
        backend: the stores in it.
        lease: seconds for which a message is held while it is billed.
        clock: where the time comes from.
        before_commit: called when a bill is written and not yet committed.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        backend: SQLiteBackend,
        *,
        lease: float,
        clock: Clock,
        before_commit: Callable[[], None] | None = None,
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._before_commit = before_commit
        self._log = DeliveryLog(backend.deliveries, clock=clock)
        self._guard = IdempotencyGuard(
            backend.claims, namespace="bill", lease=lease, ttl=None, transactional=True, clock=clock
        )
        self._db = sqlite3.connect(path, timeout=_WAIT)
        self._db.execute(
            "PRAGMA synchronous = NORMAL"
        )  # as the demo's stores: who dies here is a process, not the machine
        self._db.execute(_TABLE)

    def take(self, provider: str, body: bytes) -> None:
        """Take a webhook call; it may come again, and has to when this fails.

        Raises:
            StoreError: a store failed.
            AlreadyInProgressError: somebody else is billing the message, or has died over it a moment ago.
            HoldLostError: it took too long, and somebody else is billing the message.
            sqlite3.OperationalError: the bill could not be written.
        """
        for delivery in self._log.apply_all(parse_events(provider, body)):
            if delivery is not None and delivery.status is DeliveryStatus.DELIVERED:
                self.bill(delivery.message_id)

    def bill(self, message_id: str) -> int:
        """Bill a message, unless that was done before, and return the number of its bill."""
        return self._guard.call(message_id, self._write, message_id)

    def bill_all(self) -> None:
        """Bill every delivered message: also those whose delivery no webhook call has told of."""
        after = ""
        while page := self._backend.deliveries.with_status(DeliveryStatus.DELIVERED, limit=_PAGE, after=after):
            for delivery in page:
                self.bill(delivery.message_id)
            after = page[-1].message_id

    def _write(self, message_id: str) -> int:
        with self._db as db:
            entry = (message_id, to_iso(self._clock.now()))
            number = db.execute("INSERT INTO bills (message_id, billed_at) VALUES (?, ?)", entry).lastrowid or 0
            self._guard.complete(current_hold(), number, within=self._backend.using(db).claims)
            if self._before_commit is not None:
                self._before_commit()
        return number

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


def bills(path: str | PathLike[str]) -> Mapping[str, int]:
    """Return how often each message was billed, by message id."""
    db = sqlite3.connect(path, timeout=_WAIT)
    try:
        db.execute(_TABLE)
        return dict(db.execute("SELECT message_id, count(*) FROM bills GROUP BY message_id"))
    finally:
        db.close()
