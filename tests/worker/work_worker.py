"""A whole worker on the SQLite files of a folder: `python -m tests.worker.work_worker FOLDER HOW LIMIT RESERVE`.

Its provider writes each acceptance down before anybody hears of it. It says "begun" at each send, and its report at its end.
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

from worker import SQLiteQueue

from retrykit import Dispatcher, Message, RetryScheduler
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.delivery import NotAccepted, Sent
from retrykit.events import Event, ShutdownChanged
from retrykit.worker import Delivery, GracefulShutdown, Isolation, Worker


def say(text: str) -> None:
    """Say a line, whole, whoever else says one."""
    os.write(1, f"{text}\n".encode())  # text streams lose lines that threads write at once


class Provider:
    """Accepts each message, after a while; or hangs."""

    def __init__(self, path: Path, *, hangs: bool) -> None:
        self._path = path
        self._hangs = hangs

    def accepted(self) -> list[str]:
        """Return the ids that were accepted, in order."""
        return self._path.read_text().split() if self._path.exists() else []

    def send(self, _message: Message, key: str) -> str:
        say("begun")
        if self._hangs:
            threading.Event().wait()
        time.sleep(random.uniform(0, 0.03))
        line = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(line, f"{key}\n".encode())
        os.close(line)
        time.sleep(random.uniform(0, 0.03))
        return f"provider-{key}"

    def lookup(self, key: str) -> Sent | NotAccepted:
        return Sent(f"provider-{key}") if key in self.accepted() else NotAccepted()


def told(event: Event) -> None:
    if isinstance(event, ShutdownChanged):
        say(event.state)


class Unreachable(SQLiteQueue):
    """A queue that does not answer any more when a copy is given back."""

    def nack(self, delivery: Delivery, delay: float) -> None:
        threading.Event().wait()


def lock(path: Path) -> None:
    """Keep a file from everybody else, until the process ends."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    threading.Thread(target=lambda: (other, threading.Event().wait()), daemon=True).start()
    say("locked")


def work(folder: Path, how: str, limit: float, reserve: float) -> None:
    provider = Provider(folder / "accepted.txt", hangs=how != "sends")
    options = {"time_limit": 0.2, "spare": 0} if how == "sticks" else {}
    with closing(SQLiteBackend(folder / "work.db")) as backend:
        dispatcher = Dispatcher(provider.send, backend=backend, lookup=provider.lookup, isolation=Isolation(), lease=30)
        stop = GracefulShutdown(dispatcher, limit=limit, reserve=reserve, on_event=[told])
        queue = (Unreachable if how == "unreachable" else SQLiteQueue)(folder / "queue.db")
        worker = Worker(queue, dispatcher, shutdown=stop, concurrency=4, wait=0.1, **options)  # type: ignore[arg-type]

        def republish() -> None:
            scheduler = RetryScheduler(backend, SQLiteQueue(folder / "queue.db").put)
            while not stop.wait(0.05):
                scheduler.run_once()

        scheduling = threading.Thread(target=republish)
        scheduling.start()
        if how == "locks":
            threading.Timer(1.0, lock, [folder / "work.db"]).start()
        try:
            say(f"report {worker.run()}")
        finally:
            scheduling.join()


if __name__ == "__main__":
    work(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
