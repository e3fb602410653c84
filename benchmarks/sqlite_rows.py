"""What the SQLite backend costs as its tables grow: `python benchmarks/sqlite_rows.py --rows 10000 100000 1000000`.

For each number of rows, a file with as many waiting messages and as many dead letters is made, and the operations are timed
on it. "by hand" is the same work in bare SQL on a second file with the same tables, settings and rows, as an application
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
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

import attrs

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.dead_letter import DeadLetter, dead_letter_id
from retrykit.decision import DeadLetterReason
from retrykit.failure import ErrorClass
from retrykit.message import Message
from retrykit.stores import DeadLetterQuery

BATCH = 100
CLASSES = [value for name, value in sorted(vars(ErrorClass).items()) if isinstance(value, ErrorClass)]
NOW = datetime.now(UTC)
PAYLOAD = {"to": "somebody@example.org", "template": "welcome", "data": {"name": "Ada", "items": list(range(20))}}
BODY = json.dumps(PAYLOAD).encode()
ATTRIBUTES = {"campaign_id": "spring", "recipient": "somebody@example.org"}
NUMBERS = count()


def letter(number: int) -> DeadLetter:
    """Return a letter as a campaign with some failures gives them: 20 campaigns, 3 providers, every class."""
    message_id = f"message-{number}"
    return DeadLetter(
        id=dead_letter_id(message_id, 1),
        message_id=message_id,
        campaign_id=f"campaign-{number * 7 % 20}",
        recipient=f"{number}@example.org",
        provider=("ses", "postmark", "relay")[number % 3],
        error_class=CLASSES[number % len(CLASSES)],
        error_code=str(400 + number % 60),
        error_message="4.2.2 The mailbox of the recipient is full, please try again later",
        reason=DeadLetterReason.RETRIES_EXHAUSTED,
        attempt_count=4,
        first_failed_at=NOW,
        last_failed_at=NOW,
        dead_lettered_at=NOW + timedelta(milliseconds=number),
        original_payload=BODY,
        attributes=ATTRIBUTES,
    )


def fill(path: Path, rows: int, *, letters: bool) -> dict[str, float]:
    """Fill a file's retry queue, and its dead letters if asked for; return the bytes that a row of each takes."""
    sizes = {}
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
        sizes["waiting message"] = (path.stat().st_size - before) / rows
        if not letters:
            return sizes
        before = path.stat().st_size
        db.executemany(
            "INSERT INTO retrykit_dead_letters (id, message_id, campaign_id, provider, error_class, error_group, "
            "error_code, reason, state, record, dead_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            map(_row, range(rows)),
        )
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sizes["dead letter"] = (path.stat().st_size - before) / rows
    return sizes


def _row(number: int) -> tuple[object, ...]:
    each = letter(number)
    fields = (each.message_id, each.campaign_id, each.provider, each.error_class, each.error_group, each.error_code)
    return each.id, *fields, each.reason, each.state, each.to_json(), int(each.dead_lettered_at.timestamp() * 1000)


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
    """Time a batch of schedules, and a batch that is claimed and acked, ours and by hand in turns."""
    found = {"schedule 100": Times([], []), "claim_due(100) and 100 acks": Times([], [])}
    schedule, claim = found.values()
    for _ in range(rounds):
        names = [f"new-{next(NUMBERS)}" for _ in range(BATCH)]
        ours = [Message(name, BODY, ATTRIBUTES) for name in names]
        schedule.ours.append(timed(lambda ours=ours: [backend.retries.schedule(each, NOW) for each in ours]))  # type: ignore[misc]
        schedule.by_hand.append(
            timed(lambda names=names: [by_hand.schedule(name, BODY, ATTRIBUTES, NOW) for name in names])  # type: ignore[misc]
        )
        claim.ours.append(timed(lambda: claim_and_ack(backend)))
        claim.by_hand.append(timed(lambda: by_hand.claim_and_ack(BATCH)))
    return found


def letter_calls(backend: SQLiteBackend, rows: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Name what is asked about dead letters, and give the call."""
    letters = backend.dead_letters
    sample = letter(rows // 2)
    queries = {
        name: DeadLetterQuery(**{name: getattr(sample, name)}) for name in "message_id campaign_id provider".split()
    }
    queries |= {
        name: DeadLetterQuery(**{name: getattr(sample, name)}) for name in "error_class error_group error_code".split()
    }
    queries |= {name: DeadLetterQuery(**{name: getattr(sample, name)}) for name in "reason state".split()}
    queries["campaign and class"] = DeadLetterQuery(campaign_id=sample.campaign_id, error_class=sample.error_class)
    yield "put", lambda: letters.put(attrs.evolve(letter(10**9 + next(NUMBERS))))
    yield "search, newest 20", lambda: letters.search(limit=20)
    for name, query in queries.items():
        yield f"search by {name}, 20", lambda query=query: letters.search(query, limit=20)  # type: ignore[misc]
    yield "top error classes", lambda: letters.top("error_class")
    yield "top codes of a campaign", lambda: letters.top("error_code", query=queries["campaign_id"])
    yield "count of a provider", lambda: letters.count(queries["provider"])
    yield "stats of the retry queue", backend.retries.stats


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
    print(f"\n{rows:,} waiting messages and {rows:,} dead letters, synchronous={synchronous}")
    print(f"milliseconds, median of {rounds} (95th percentile)")
    paths = folder / "ours.db", folder / "by-hand.db"
    for path in paths:
        SQLiteBackend(path).close()
    sizes = fill(paths[0], rows, letters=True)
    fill(paths[1], rows, letters=False)
    backend = SQLiteBackend(paths[0], clock=Late(), synchronous=synchronous)
    by_hand = ByHand(paths[1], synchronous)
    for name, times in queue_rounds(backend, by_hand, rounds).items():
        ratio = statistics.median(times.ours) / statistics.median(times.by_hand)
        print(f"{name:32} {_figures(times.ours)}   by hand {_figures(times.by_hand)}   {ratio:.2f} x")
    for name, call in letter_calls(backend, rows):
        print(f"{name:32} {_figures([timed(call) for _ in range(rounds)])}")
    for name, size in sizes.items():
        print(f"{f'bytes of a {name}':32} {size:8.0f}")
    backend.close()
    by_hand.close()


def _figures(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:8.2f} ({sorted(seconds)[int(len(seconds) * 0.95)] * 1000:8.2f})"


if __name__ == "__main__":
    main()
