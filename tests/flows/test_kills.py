"""Real processes on one SQLite file, killed at random moments: nothing is lost and nothing is sent twice."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from retrykit import Message
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.stores import ClaimState
from tests.flows.audit import audit
from tests.flows.kill_worker import ApplicationQueue, Provider

ROOT = Path(__file__).parents[2]
WORKERS = 3
PATIENCE = 40.0
"""Seconds for which what is left may take when nobody is killed any more; it ends as soon as all is settled."""


class Workshop:
    """Workers on the files of one folder.

    Args:
        folder: for the database, the application's queue and the provider's acceptances.
        seed: of the workers' providers, and of who is killed when.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.rng = Random(seed)
        self.backend = SQLiteBackend(folder / "flows.db")
        self.queue = ApplicationQueue(folder / "queue.db")
        self.messages: list[Message] = []
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start as many workers as are missing, in the place of those that have died by themselves, too."""
        for worker in [worker for worker in self.workers if worker.poll() is not None]:
            self.bury(worker)
        while len(self.workers) < WORKERS:
            command = [sys.executable, "-m", "tests.flows.kill_worker", self.folder, str(self.rng.randrange(10**9))]
            self.workers.append(
                subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # type: ignore[arg-type]
            )

    def put(self, count: int, *, kills: bool = False) -> None:
        """Queue new messages, some of them twice."""
        for _ in range(count):
            number = len(self.messages)
            message = Message(f"message-{number}", {"number": number, "kills": kills})
            self.messages.append(message)
            for _ in range(self.rng.choice([1, 1, 2])):
                self.queue.put(message)

    def kill(self) -> None:
        """Kill any worker at any moment after it has begun to work."""
        worker = self.rng.choice(self.workers)
        assert worker.stdout is not None
        worker.stdout.readline()
        time.sleep(self.rng.uniform(0, 0.3))
        self.bury(worker)

    def bury(self, worker: subprocess.Popen[bytes]) -> None:
        """Kill a worker and forget it."""
        worker.kill()
        worker.communicate()
        self.workers.remove(worker)

    def is_settled(self) -> bool:
        """Tell whether nothing is left to do."""
        stats = self.backend.retries.stats()
        if len(self.queue) or stats.waiting or stats.leased:
            return False
        records = [self.backend.claims.get(message.id) for message in self.messages]
        return all(record is not None and record.state is ClaimState.DONE for record in records)

    def drain(self) -> None:
        """Let the workers go on until nothing is left to do."""
        deadline = time.monotonic() + PATIENCE
        while not self.is_settled() and time.monotonic() < deadline:
            self.start()
            time.sleep(0.1)

    def audit(self) -> Counter[str]:
        """Check every message, and return how often what had happened."""
        accepted = Counter(Provider(self.folder / "accepted.txt", self.backend, self.rng).accepted())
        assert len(self.queue) == 0, "copies are left"
        tally: Counter[str] = Counter()
        for message in self.messages:
            record = audit(self.backend, message, accepted[message.id])
            is_poison = record.reason == "poison_message"
            assert is_poison or not message.payload["kills"], "a killer that is not condemned"
            assert not is_poison or record.counters.crashed == 3, "condemned too early or too late"
            assert record.disposition is not None
            tally[record.disposition.value] += 1
            tally["poison"] += is_poison
            tally["lost workers"] += record.counters.crashed
            tally["failed tries"] += record.counters.failed
            tally["verified"] += any(attempt.action == "verify" for attempt in record.attempts)
        with closing(sqlite3.connect(self.folder / "flows.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return tally

    def close(self) -> None:
        """End every worker and close the files."""
        while self.workers:
            self.bury(self.workers[0])
        self.queue.close()
        self.backend.close()


@pytest.mark.soak
def test_workers_killed_at_random_every_message_ends_in_one_place(tmp_path: Path, scale: Callable[[int], int]) -> None:
    """300 workers are killed in a soak, while three at a time handle, republish and verify; then the rest go on."""
    workshop = Workshop(tmp_path, seed=1)
    try:
        workshop.put(1, kills=True)
        for _ in range(max(5, scale(300))):
            workshop.start()
            workshop.put(8)
            workshop.kill()
        workshop.drain()
        tally = workshop.audit()
        print(dict(tally))
        assert tally["lost workers"] >= 3
        assert tally["sent"] > len(workshop.messages) / 2
    finally:
        workshop.close()


def test_worker_ends_when_its_parent_is_gone(tmp_path: Path) -> None:
    """No worker outlives the test that started it."""
    workshop = Workshop(tmp_path, seed=2)
    try:
        workshop.start()
        for worker in workshop.workers:
            assert worker.stdin is not None and worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
            worker.stdin.close()
            assert worker.wait(30) == 0
            worker.stdin = None
    finally:
        workshop.close()
