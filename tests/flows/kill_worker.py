"""A worker that may be killed at any moment: `python -m tests.flows.kill_worker URL FOLDER SEED`.

It takes copies from the application's queue in the folder and handles them, republishes what is due and verifies what is unknown, all
on the backend of the URL, until its standard input ends.
"""

from __future__ import annotations

import os
import signal
import smtplib
import sqlite3
import sys
import threading
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from random import Random

from retrykit import Action, Dispatcher, ErrorGroup, Message, PolicyMatrix, RetryPolicy, RetryScheduler
from retrykit.clock import SystemClock
from retrykit.delivery import NotAccepted, Sent
from retrykit.errors import StoreError
from retrykit.policy import constant
from retrykit.reconcile import Reconciler
from retrykit.stores import Backend, ClaimState
from tests.servers.opening import opened

LEASE = 2.0
MARGIN = timedelta(seconds=1)
"""What has to be left of the lease when the provider accepts: a send ends before its lease does."""

INVISIBLE = 0.7
"""Seconds until a copy that was not acked is delivered again; the lease of a worker that has it may still run."""

MATRIX = PolicyMatrix(
    {ErrorGroup.PERMANENT_RECIPIENT: RetryPolicy.never(Action.MARK_BOUNCED)},
    default=RetryPolicy(max_retries=30, backoff=constant(0.05)),
    max_attempts=40,
    verify_backoff=constant(0.1),
)


class ApplicationQueue:
    """The application's own queue in a SQLite file: a copy that is not acked is delivered again."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._db.execute("PRAGMA synchronous = OFF")  # processes are killed here, not machines
        self._db.execute("CREATE TABLE IF NOT EXISTS copies (id INTEGER PRIMARY KEY, message TEXT, body BLOB, at REAL)")

    def put(self, message: Message) -> None:
        """Add a copy."""
        self._db.execute("INSERT INTO copies (message, body, at) VALUES (?, ?, 0)", (message.id, message.body))

    def take(self) -> tuple[int, Message] | None:
        """Return any copy that nobody was given a moment ago, and the number to ack it by."""
        now = time.time()
        row = self._db.execute(
            "UPDATE copies SET at = ? WHERE id = (SELECT id FROM copies WHERE at <= ? ORDER BY random() LIMIT 1) "
            "RETURNING id, message, body",
            (now + INVISIBLE, now),
        ).fetchone()
        return None if row is None else (row[0], Message(row[1], row[2]))

    def ack(self, copy: int) -> None:
        """Remove a copy."""
        self._db.execute("DELETE FROM copies WHERE id = ?", (copy,))

    def __len__(self) -> int:
        """Return how many copies there are, taken ones included."""
        (copies,) = self._db.execute("SELECT count(*) FROM copies").fetchone()
        return int(copies)

    def close(self) -> None:
        """Close the file."""
        self._db.close()


class Provider:
    """A provider that keeps every acceptance in a file, one line for each, before anybody hears of it."""

    def __init__(self, path: Path, backend: Backend, rng: Random) -> None:
        self._path = path
        self._backend = backend
        self._rng = rng
        self.owner = ""
        """How the leases of this process begin."""

    def accepted(self) -> list[str]:
        """Return the message ids that were accepted, in order."""
        return self._path.read_text().split() if self._path.exists() else []

    def _accept(self, key: str) -> None:
        record = self._backend.claims.get(key)
        assert record is not None and record.state is ClaimState.SENDING and record.lease is not None
        if not record.lease.owner.startswith(self.owner) or record.lease.deadline - SystemClock().now() < MARGIN:
            raise TimeoutError("cut off, since the lease ends")
        line = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(line, f"{key}\n".encode())
        os.close(line)

    def send(self, _message: Message, key: str) -> str:
        """Accept, refuse or be silent, as it is drawn."""
        outcome = self._rng.choice(
            "accepted accepted accepted slow slow slow slow temporary refused gone reply_lost request_lost".split()
        )
        if outcome == "refused":
            raise ConnectionRefusedError("refused")
        if outcome == "temporary":
            raise smtplib.SMTPResponseException(451, b"4.7.1 Greylisted, please come back later")
        if outcome == "gone":
            raise smtplib.SMTPResponseException(550, b"5.1.1 The account does not exist")
        if outcome == "request_lost":
            raise TimeoutError("timed out")
        if outcome == "slow":
            time.sleep(self._rng.uniform(0, 0.15))
        self._accept(key)
        if outcome == "slow":
            time.sleep(self._rng.uniform(0, 0.15))
        if outcome == "reply_lost":
            raise TimeoutError("timed out")
        return f"provider-{key}"

    def lookup(self, key: str) -> Sent | NotAccepted | None:
        """Tell whether a message was accepted, but for one time in ten."""
        if self._rng.random() < 0.1:
            return None
        return Sent(f"provider-{key}") if key in self.accepted() else NotAccepted()


def parse(message: Message) -> Message:
    """Parse; a payload that says so kills the process."""
    if message.payload["kills"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return message


def work(url: str, folder: Path, seed: int) -> None:
    """Work until the process is killed."""
    queue = ApplicationQueue(folder / "queue.db")
    with closing(opened(url)) as backend:
        provider = Provider(folder / "accepted.txt", backend, Random(seed))
        dispatcher = Dispatcher(
            provider.send, backend=backend, parse=parse, lookup=provider.lookup, matrix=MATRIX, lease=LEASE
        )
        provider.owner = dispatcher._owner
        scheduler = RetryScheduler(backend, queue.put, lease=LEASE, batch=5)
        reconciler = Reconciler(backend, lookup=provider.lookup, matrix=MATRIX, lease=LEASE)
        print("ready", flush=True)
        while True:
            try:
                scheduler.run_once()
                reconciler.run_once(5)
                taken = queue.take()
                if taken is not None:
                    copy, message = taken
                    dispatcher.handle(message)
                    queue.ack(copy)
                else:
                    time.sleep(0.01)
            except StoreError as error:
                print(error, file=sys.stderr)  # the copy is not acked, so it comes again


def end_with_parent() -> None:
    """End this process when the other end of standard input is gone."""
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    work(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
