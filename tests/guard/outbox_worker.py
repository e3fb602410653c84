"""A process that makes transactional calls: `python -m tests.guard.outbox_worker FOLDER SEED FIRST LAST SPREAD [LEASE]`.

The effect is a row in the same file as the claims. The table has no key of its own, so nothing but the guard keeps it to one.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from pathlib import Path

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.errors import HoldLostError
from retrykit.guard import IdempotencyGuard, current_hold
from tests.guard.guard_worker import LEASE, Call, go_through
from tests.guard.history import History


class Shop:
    """The application: a table beside the claims, and a connection of its own to the file."""

    def __init__(self, folder: Path, lease: float = LEASE) -> None:
        self.backend = SQLiteBackend(folder / "shop.db", synchronous="normal")
        self.guard = IdempotencyGuard(self.backend.claims, transactional=True, lease=lease, wait="30s", ttl=None)
        self.db = sqlite3.connect(folder / "shop.db", timeout=30)
        with self.db:
            self.db.execute("PRAGMA synchronous = NORMAL")
            self.db.execute("CREATE TABLE IF NOT EXISTS orders (key TEXT, receipt TEXT)")

    def place(self, key: str, rng: random.Random, history: History) -> str:
        """Place an order, and take a moment at each point where a process may be killed."""
        hold = current_hold()
        receipt = f"receipt {rng.randrange(10**9)}"
        history.note(hold)
        time.sleep(rng.random() * 0.01)
        history.note(hold)
        try:
            with self.db:
                self.db.execute("INSERT INTO orders VALUES (?, ?)", (key, receipt))
                time.sleep(rng.random() * 0.02)
                self.guard.complete(hold, receipt, within=self.backend.using(self.db).claims)
                time.sleep(rng.random() * 0.02)
        except HoldLostError as error:
            history.refused(error)
            raise
        time.sleep(rng.random() * 0.01)
        return receipt

    def receipts(self) -> dict[str, list[str]]:
        """Return the orders of each key."""
        found: dict[str, list[str]] = {}
        for key, receipt in self.db.execute("SELECT key, receipt FROM orders"):
            found.setdefault(key, []).append(receipt)
        return found

    def is_whole(self) -> bool:
        """Tell whether SQLite finds nothing wrong with the file."""
        return self.db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    def close(self) -> None:
        self.db.close()
        self.backend.close()


def caller(folder: Path, rng: random.Random) -> Call:
    """Return what places an order."""
    shop, history = Shop(folder, *map(float, sys.argv[6:])), History(folder)
    return lambda key: shop.guard.call(key, shop.place, key, rng, history)


if __name__ == "__main__":
    go_through(caller)
