"""A process that makes calls which may happen twice: `python -m tests.guard.stall_worker FOLDER SEED FIRST LAST SPREAD LEASE`.

What a call gives tells its holder's token, so that the record tells whose result was stored.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.guard import IdempotencyGuard, current_hold
from tests.guard.guard_worker import Call, go_through
from tests.guard.history import History


def caller(folder: Path, rng: random.Random) -> Call:
    """Return what takes a moment and notes that it does."""
    history = History(folder)
    backend = SQLiteBackend(folder / "guard.db", synchronous="normal")
    guard = IdempotencyGuard(
        backend.claims, lease=float(sys.argv[6]), on_unknown="repeat", recover=lambda _: None, wait="30s", ttl=None
    )

    def work() -> int:
        hold = current_hold()
        assert hold is not None
        for _ in range(4):
            history.note(hold)
            time.sleep(rng.random() * 0.01)
        return hold.record.seq

    return lambda key: guard.call(key, work)


if __name__ == "__main__":
    go_through(caller)
