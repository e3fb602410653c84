"""A process that makes guarded calls on one SQLite file: `python -m tests.guard.guard_worker FOLDER SEED FIRST LAST SPREAD`.

The effect is a row in a database of its own, as a provider would book it; a lookup asks that one. The process ends when its standard
input is closed.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.delivery.lookup import NotAccepted, Sent
from retrykit.errors import CallRefusedError, HoldLostError
from retrykit.guard import IdempotencyGuard, current_hold
from tests.guard.history import History

LEASE = 0.5

Call: TypeAlias = Callable[[str], object]


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


def caller(folder: Path, rng: random.Random) -> Call:
    """Return what books a key."""
    provider, history = Provider(folder), History(folder)
    guard = make_guard(SQLiteBackend(folder / "guard.db"), provider)

    def work(key: str) -> str:
        history.note(current_hold())
        time.sleep(rng.random() * 0.02)
        receipt = provider.book(key)
        time.sleep(rng.random() * 0.02)
        history.note(current_hold())
        return receipt

    return lambda key: guard.call(key, work, key)


def go_through(make: Callable[[Path, random.Random], Call]) -> None:
    """Call keys until they are done, in an order of this process's own: `FOLDER SEED FIRST LAST SPREAD` are its arguments.

    The larger the spread, the less the order is that of other processes.
    """
    folder, seed, first, last, spread = Path(sys.argv[1]), *map(int, sys.argv[2:5]), float(sys.argv[5])
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    rng = random.Random(seed)
    call = make(folder, rng)
    print("ready", flush=True)
    for number in sorted(range(first, last), key=lambda number: number + rng.random() * spread):
        while True:
            try:
                call(f"key-{number}")
            except (CallRefusedError, HoldLostError):
                time.sleep(0.05)
            else:
                break


if __name__ == "__main__":
    go_through(caller)
