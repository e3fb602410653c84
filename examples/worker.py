"""A worker that runs until it is told to stop: a queue in a SQLite file, eight threads, retries, probes, a report at the end.

Start it, give it a message or a thousand, and send it SIGTERM or Ctrl-C whenever you like:

    python worker.py folder &
    python worker.py folder put 1000
    kill %1
"""

import json
import random
import smtplib
import sqlite3
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from retrykit import Dispatcher, Message, RetryScheduler, open_backend
from retrykit.errors import StoreError
from retrykit.worker import Delivery, GracefulShutdown, Health, Worker, exit_on_crash

INVISIBLE = 60.0
"""Seconds after which a copy comes back that nobody has settled or extended: its worker is gone."""


class SQLiteQueue:
    """An application's own queue: any number of processes may put, and any number may take."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS copies (copy INTEGER PRIMARY KEY, body BLOB, at REAL, aside INTEGER)"
        )

    def put(self, message: Message) -> None:
        """Add a message, with its id and attributes."""
        body = json.dumps({"id": message.id, "body": message.body.decode(), "attributes": dict(message.attributes)})
        self._db.execute("INSERT INTO copies (body, at, aside) VALUES (?, 0, 0)", (body,))

    def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        """Hand out what is due; look twenty times a second."""
        ends = time.monotonic() + wait
        while not (rows := self._take(limit)) and time.monotonic() < ends:
            time.sleep(0.05)
        return [Delivery(_read(body), handle=copy) for copy, body in rows]

    def _take(self, limit: int) -> list[tuple[int, str]]:
        now = time.time()
        due = "SELECT copy FROM copies WHERE aside = 0 AND at <= ? ORDER BY copy LIMIT ?"
        taken = self._db.execute(
            f"UPDATE copies SET at = ? WHERE copy IN ({due}) RETURNING copy, body",  # noqa: S608 - no input is in it
            (now + INVISIBLE, now, limit),
        )
        return taken.fetchall()

    def ack(self, delivery: Delivery) -> None:
        """Forget a copy."""
        self._db.execute("DELETE FROM copies WHERE copy = ?", (delivery.handle,))

    def nack(self, delivery: Delivery, delay: float) -> None:
        """Take a copy back."""
        self._db.execute("UPDATE copies SET at = ? WHERE copy = ?", (time.time() + delay, delivery.handle))

    def extend(self, delivery: Delivery) -> None:
        """Hold a copy longer."""
        self._db.execute("UPDATE copies SET at = ? WHERE copy = ?", (time.time() + INVISIBLE, delivery.handle))

    def reject(self, delivery: Delivery) -> None:
        """Put a copy aside, for a person to look at."""
        self._db.execute("UPDATE copies SET aside = 1 WHERE copy = ?", (delivery.handle,))

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _read(body: str) -> Message:
    fields = json.loads(body)
    return Message(fields["id"], fields["body"].encode(), fields["attributes"])


def send(message: Message, key: str) -> str:
    """Stand for your provider's call; `key` lets the provider drop duplicates too."""
    time.sleep(random.uniform(0.01, 0.2))
    if random.random() < 0.1:
        raise smtplib.SMTPResponseException(451, b"4.7.1 Greylisted, please come back later")
    print(f"sent {message.id}", flush=True)
    return f"provider-{key}"


def work(folder: Path) -> None:
    """Work until the process is told to stop."""
    backend = open_backend(f"sqlite:///{folder}/retries.db")
    dispatcher = Dispatcher(send, backend=backend)
    exit_on_crash(cleanup=[dispatcher.hand_back])
    stop = GracefulShutdown(dispatcher, limit=30)  # as long as the platform waits before it kills

    def republish() -> None:  # in a thread of its own, with a connection of its own
        with closing(SQLiteQueue(folder / "queue.db")) as queue:
            scheduler = RetryScheduler(backend, queue.put)
            while not stop.wait(1.0):
                try:
                    scheduler.run_once()
                except StoreError as error:
                    print(error, file=sys.stderr)

    scheduling = threading.Thread(target=republish, name="scheduler")
    scheduling.start()
    try:
        with closing(SQLiteQueue(folder / "queue.db")) as queue:
            print(Worker(queue, dispatcher, shutdown=stop, health=Health(file=folder / "alive")).run())
    finally:
        scheduling.join()
        backend.close()


if __name__ == "__main__":
    if not (len(sys.argv) == 2 or (len(sys.argv) == 4 and sys.argv[2] == "put" and sys.argv[3].isdigit())):
        sys.exit("usage: worker.py FOLDER, or worker.py FOLDER put NUMBER")
    place = Path(sys.argv[1])
    place.mkdir(exist_ok=True)
    if sys.argv[2:3] == ["put"]:
        with closing(SQLiteQueue(place / "queue.db")) as waiting:
            for number in range(int(sys.argv[3])):
                waiting.put(Message(f"welcome-{number}", {"name": "Ada"}, {"recipient": f"user{number}@example.org"}))
    else:
        work(place)
