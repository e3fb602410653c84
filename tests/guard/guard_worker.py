"""A process that makes guarded calls on one SQLite file: `python -m tests.guard.guard_worker FOLDER SEED KEYS`.

The effect is a row in a table of its own, as a provider would book it; a lookup asks that table. The process ends when its standard
input is closed.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.delivery.lookup import NotAccepted, Sent
from retrykit.errors import CallRefusedError
from retrykit.guard import IdempotencyGuard

LEASE = 0.5


class Provider:
    """Books each call that reaches it, also twice: it knows nothing of keys."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "provider.db"
        with self._open() as db:
            db.execute("CREATE TABLE IF NOT EXISTS booked (key TEXT, receipt TEXT)")

    def _open(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self._path, isolation_level=None, timeout=30))

    def book(self, key: str) -> str:
        receipt = f"receipt {random.randrange(10**9)}"
        with self._open() as db:
            db.execute("INSERT INTO booked VALUES (?, ?)", (key, receipt))
        return receipt

    def lookup(self, key: str) -> Sent | NotAccepted:
        with self._open() as db:
            row = db.execute("SELECT receipt FROM booked WHERE key = ?", (key,)).fetchone()
        return NotAccepted() if row is None else Sent(row[0])

    def receipts(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        with self._open() as db:
            for key, receipt in db.execute("SELECT key, receipt FROM booked"):
                found.setdefault(key, []).append(receipt)
        return found


def make_guard(backend: SQLiteBackend, provider: Provider) -> IdempotencyGuard:
    return IdempotencyGuard(
        backend.claims, lease=LEASE, lookup=provider.lookup, recover=lambda receipt: receipt, wait="30s", ttl=None
    )


def main() -> None:
    folder, seed, keys = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    rng = random.Random(seed)
    provider, backend = Provider(folder), SQLiteBackend(folder / "guard.db")
    guard = make_guard(backend, provider)
    order = [f"key {number}" for number in range(keys)]
    rng.shuffle(order)
    print("ready", flush=True)
    for key in order:

        def work(key: str = key) -> str:
            time.sleep(rng.random() * 0.02)
            receipt = provider.book(key)
            time.sleep(rng.random() * 0.02)
            return receipt

        while True:
            try:
                guard.call(key, work)
            except CallRefusedError:
                time.sleep(0.05)
            else:
                break
    print("done", flush=True)
    backend.close()


if __name__ == "__main__":
    main()
