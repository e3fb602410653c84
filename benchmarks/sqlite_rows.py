"""What the SQLite backend costs as its tables grow: `python benchmarks/sqlite_rows.py --rows 10000 100000 1000000`.

For each number of rows, a file with as many waiting messages is made, and the operations are timed on it (`dead_letters.py` does so
for dead letters). "by hand" is the same work in bare SQL on a second file with the same tables, settings and rows, as an application
would write it for itself: parameters in, objects out. Both are timed in turns in the same run; the ratio is that of their
medians.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.message import Message
from retrykit.scheduler import RetryScheduler

BATCH = 100
NOW = datetime.now(UTC)
PAYLOAD = {"to": "somebody@example.org", "template": "welcome", "data": {"name": "Ada", "items": list(range(20))}}
BODY = json.dumps(PAYLOAD).encode()
ATTRIBUTES = {"campaign_id": "spring", "recipient": "somebody@example.org"}
NUMBERS = count()


def fill(path: Path, rows: int) -> float:
    """Fill a file's retry queue; return the bytes that a waiting message takes."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA synchronous = OFF")
        attributes = json.dumps(ATTRIBUTES)
        soon = int(NOW.timestamp() * 1000)
        before = path.stat().st_size
        db.executemany(
            "INSERT INTO retrykit_retries (message_id, generation, version, due_at, ready_at, body, attributes) "
            "VALUES (?, 1, 1, ?, ?, ?, ?)",
            ((f"waiting-{n}", soon + n * 97 % rows, soon + n * 97 % rows, BODY, attributes) for n in range(rows)),
        )
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return (path.stat().st_size - before) / rows


class ByHand:
    """The same work in bare SQL."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute(f"PRAGMA synchronous = {synchronous}")

    def schedule(self, message_id: str, body: bytes, attributes: dict[str, str], due_at: datetime) -> None:
        """Let a message wait."""
        due = int(due_at.timestamp() * 1000)
        self._db.execute(
            "INSERT INTO retrykit_retries (message_id, generation, version, due_at, ready_at, body, attributes) "
            "VALUES (?, 1, 1, ?, ?, ?, ?) ON CONFLICT (message_id, generation) DO UPDATE SET due_at = excluded.due_at, "
            "ready_at = excluded.ready_at, lease_token = NULL, body = excluded.body, attributes = excluded.attributes, "
            "version = excluded.version WHERE excluded.version > version OR lease_token IS NOT NULL",
            (message_id, due, due, body, json.dumps(attributes)),
        )

    def claim_and_ack(self, limit: int) -> list[tuple[str, bytes, dict[str, str], datetime]]:
        """Take hold of due messages, and remove each."""
        now = int(time.time() * 1000) + 10**9
        self._db.execute("BEGIN IMMEDIATE")
        (token,) = self._db.execute("UPDATE retrykit_schema SET token = token + 1 RETURNING token").fetchone()
        rows = self._db.execute(
            "UPDATE retrykit_retries SET lease_owner = 'me', lease_token = ?, ready_at = ? WHERE rowid IN "
            "(SELECT rowid FROM retrykit_retries WHERE ready_at <= ? ORDER BY ready_at LIMIT ?) "
            "RETURNING message_id, body, attributes, due_at",
            (token, now + 30_000, now, limit),
        ).fetchall()
        self._db.execute("COMMIT")
        due = [(key, body, json.loads(text), datetime.fromtimestamp(at / 1000, UTC)) for key, body, text, at in rows]
        for key, *_ in due:
            self._db.execute("DELETE FROM retrykit_retries WHERE message_id = ? AND lease_token = ?", (key, token))
        return due

    def close(self) -> None:
        """Close the file."""
        self._db.close()


class Late:
    """A clock by which every waiting message is due."""

    def now(self) -> datetime:
        """Return an instant after all due times."""
        return datetime.now(UTC) + timedelta(milliseconds=10**9)

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Not called here."""
        raise NotImplementedError(seconds)


class Times(NamedTuple):
    """Seconds of each round."""

    ours: list[float]
    by_hand: list[float]


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def claim_and_ack(backend: SQLiteBackend) -> None:
    """Take a batch and remove each message."""
    for due in backend.retries.claim_due(BATCH, owner="me"):
        assert backend.retries.ack(due)


def queue_rounds(backend: SQLiteBackend, by_hand: ByHand, rounds: int) -> dict[str, Times]:
    """Time a batch that is scheduled, one that is claimed and acked, and one that goes back to a queue, ours and by hand in turns."""
    found = {
        "schedule 100": Times([], []),
        "claim_due(100) and 100 acks": Times([], []),
        "100 republished": Times([], []),
    }
    schedule, claim, republish = found.values()
    queue: list[object] = []
    scheduler = RetryScheduler(backend, queue.append, batch=BATCH)
    for _ in range(rounds):
        names = [f"new-{next(NUMBERS)}" for _ in range(BATCH)]
        ours = [Message(name, BODY, ATTRIBUTES) for name in names]
        schedule.ours.append(timed(lambda ours=ours: [backend.retries.schedule(each, NOW) for each in ours]))  # type: ignore[misc]
        schedule.by_hand.append(
            timed(lambda names=names: [by_hand.schedule(name, BODY, ATTRIBUTES, NOW) for name in names])  # type: ignore[misc]
        )
        claim.ours.append(timed(lambda: claim_and_ack(backend)))
        claim.by_hand.append(timed(lambda: by_hand.claim_and_ack(BATCH)))
        republish.ours.append(timed(scheduler.run_once))
        republish.by_hand.append(timed(lambda: queue.extend(by_hand.claim_and_ack(BATCH))))
    assert len(queue) == 2 * BATCH * rounds
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[10_000, 100_000], help="how many of each (default 10000 100000)"
    )
    parser.add_argument("--rounds", type=int, default=30, help="how often each is timed (default 30)")
    parser.add_argument(
        "--synchronous", choices=["full", "normal"], default="full", help="of both files (default full)"
    )
    given = parser.parse_args()
    print(
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.machine()}"
    )
    for rows in given.rows:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), rows, given.rounds, given.synchronous)


def measure(folder: Path, rows: int, rounds: int, synchronous: Literal["full", "normal"]) -> None:
    """Make the files of one size and print their table."""
    print(f"\n{rows:,} waiting messages, synchronous={synchronous}")
    print(f"milliseconds, median of {rounds} (95th percentile)")
    paths = folder / "ours.db", folder / "by-hand.db"
    for path in paths:
        SQLiteBackend(path).close()
    size, _ = (fill(path, rows) for path in paths)
    backend = SQLiteBackend(paths[0], clock=Late(), synchronous=synchronous)
    by_hand = ByHand(paths[1], synchronous)
    for name, times in queue_rounds(backend, by_hand, rounds).items():
        ratio = statistics.median(times.ours) / statistics.median(times.by_hand)
        print(f"{name:32} {_figures(times.ours)}   by hand {_figures(times.by_hand)}   {ratio:.2f} x")
    print(f"{'stats':32} {_figures([timed(backend.retries.stats) for _ in range(rounds)])}")
    print(f"{'bytes of a waiting message':32} {size:8.0f}")
    backend.close()
    by_hand.close()


def _figures(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:8.2f} ({sorted(seconds)[int(len(seconds) * 0.95)] * 1000:8.2f})"


if __name__ == "__main__":
    main()
