"""A workshop of real processes on one backend, any of which may be killed at any moment."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from retrykit import Message
from retrykit.stores import ClaimState
from tests.flows.audit import audit
from tests.flows.kill_worker import ApplicationQueue, Provider
from tests.servers.opening import opened

ROOT = Path(__file__).parents[2]
WORKERS = 3
PATIENCE = 40.0
"""Seconds for which what is left may take when nobody is killed any more; it ends as soon as all is settled."""


class Workshop:
    """Workers on one backend, and the copies and the provider in one folder.

    Args:
        url: of the backend.
        folder: for the application's queue and the provider's acceptances.
        seed: of the workers' providers, and of who is killed when.
    """

    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self.url = url
        self.folder = folder
        self.rng = Random(seed)
        self.backend = opened(url)
        self.queue = ApplicationQueue(folder / "queue.db")
        self.messages: list[Message] = []
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start as many workers as are missing, in the place of those that have died by themselves, too."""
        for worker in [worker for worker in self.workers if worker.poll() is not None]:
            self.bury(worker)
        while len(self.workers) < WORKERS:
            arguments = [self.url, str(self.folder), str(self.rng.randrange(10**9))]
            command = [sys.executable, "-m", "tests.flows.kill_worker", *arguments]
            self.workers.append(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE))

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

    def survive(self, kills: int, between: Callable[[int], None] = lambda _: None) -> Counter[str]:
        """Kill so many workers while messages come in, then let the rest go on to the end; return what the audit tells.

        Args:
            kills: of workers, one after the other, each with eight messages more.
            between: called with the number of each kill after it.
        """
        self.put(1, kills=True)
        for number in range(kills):
            self.start()
            self.put(8)
            self.kill()
            between(number)
        self.drain()
        tally = self.audit()
        print(dict(tally))
        assert tally["lost workers"] >= 3
        assert tally["sent"] > len(self.messages) / 2
        return tally

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
        return tally

    def close(self) -> None:
        """End every worker and close the files."""
        while self.workers:
            self.bury(self.workers[0])
        self.queue.close()
        self.backend.close()
