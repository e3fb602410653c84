"""A worker that a payload kills, or that is told to stop: `python -m tests.flows.poison_worker FOLDER THREADS`.

Its threads take copies from the application's queue and handle them on the SQLite file of the folder, suspects alone. With one
thread, SIGTERM interrupts what is being worked on, as it does in a consumer that turns it into KeyboardInterrupt.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from retrykit import Dispatcher, Message, RetryScheduler
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.delivery import NotAccepted, Sent
from retrykit.errors import StoreError
from retrykit.worker import Isolation
from tests.flows.kill_worker import ApplicationQueue, end_with_parent

LEASE = 1.5


class Work:
    """What is done with a message; the files of the folder outlast the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_stopping = False
        self.is_interruptible = False

    def validate(self, message: Message) -> None:
        """Work for a while; a payload that says so kills the process, or waits until it is told to go on."""
        payload = message.payload
        if payload["segfaults"] == "before the send":
            ctypes.string_at(0)
        if payload["waits"]:
            self._until((self.folder / "go on").exists)

    def send(self, message: Message, key: str) -> str:
        """Accept; a payload that says so kills the process first."""
        time.sleep(0.02)
        if message.payload["segfaults"] == "in the send":
            ctypes.string_at(0)
        with (self.folder / "accepted.txt").open("a") as file:
            file.write(f"{key}\n")
        return key

    def lookup(self, key: str) -> Sent | NotAccepted:
        """Tell whether a message was accepted."""
        accepted = self.folder / "accepted.txt"
        return Sent(key) if accepted.exists() and key in accepted.read_text().split() else NotAccepted()

    def _until(self, done: Any) -> None:
        (self.folder / "at work").touch()
        self.is_interruptible = True
        while not done():
            if self.is_stopping:
                raise KeyboardInterrupt
            time.sleep(0.005)
        self.is_interruptible = False

    def stop(self, *_: object) -> None:
        """Stop; what waits is interrupted."""
        self.is_stopping = True
        if self.is_interruptible:
            self.is_interruptible = False
            raise KeyboardInterrupt

    def handle(self, queue: ApplicationQueue, dispatcher: Dispatcher[None]) -> None:
        """Take a copy and handle it; what a supervisor has seen of the worker that had it before is told."""
        taken = queue.take()
        if taken is None:
            time.sleep(0.01)
            return
        copy, message = taken
        mine, word = self.folder / f"{os.getpid()} {message.id}.begun", self.folder / f"{message.id}.lost"
        mine.touch()
        dispatcher.handle(message, lost=word.read_text() if word.exists() else None)
        mine.unlink()
        queue.ack(copy)


def work(folder: Path, threads: int) -> None:
    """Work until the process is killed, or told to stop."""
    todo, isolation = Work(folder), Isolation()
    if threads == 1:
        signal.signal(signal.SIGTERM, todo.stop)
    with closing(SQLiteBackend(folder / "flows.db")) as backend:
        dispatcher = Dispatcher(
            todo.send,
            backend=backend,
            validate=todo.validate,
            lookup=todo.lookup,
            lease=LEASE,
            isolation=isolation,
        )

        def loop() -> None:
            queue = ApplicationQueue(folder / "queue.db")
            scheduler = RetryScheduler(backend, queue.put, lease=LEASE, batch=5)
            while not todo.is_stopping:
                try:
                    scheduler.run_once()
                    todo.handle(queue, dispatcher)
                except StoreError as error:
                    print(error, file=sys.stderr)  # the copy is not acked, so it comes again
            queue.close()

        for _ in range(threads - 1):
            threading.Thread(target=loop, daemon=True).start()
        loop()


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        work(Path(sys.argv[1]), int(sys.argv[2]))
    except KeyboardInterrupt:
        sys.exit(143)
