"""Payloads that kill real processes are quarantined at their third crash; whoever ran beside them is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from retrykit import Message
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.stores import ClaimRecord, ClaimState, DeadLetterQuery
from tests.flows.kill_worker import ApplicationQueue

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parents[2]
PATIENCE = 200.0
"""Seconds for which all may take; it ends as soon as all is settled."""


class Supervisor:
    """Starts processes again as they end, and says of each message that one of them had how that ended."""

    def __init__(self, folder: Path, *, processes: int, threads: int) -> None:
        self.folder, self.processes, self.threads = folder, processes, threads
        self.backend = SQLiteBackend(folder / "flows.db")
        self.queue = ApplicationQueue(folder / "queue.db")
        self.messages: list[Message] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.ends: list[int] = []

    def put(self, *, segfaults: str | None = None, waits: bool = False, payload: object = None) -> Message:
        """Queue a message of its own payload, or of one that it shares."""
        number = len(self.messages)
        fields = {"number": number if payload is None else payload, "segfaults": segfaults, "waits": waits}
        message = Message(f"message-{number}", fields)
        self.messages.append(message)
        self.queue.put(message)
        return message

    def start(self) -> None:
        """Start as many processes as are missing."""
        for worker in [worker for worker in self.workers if worker.poll() is not None]:
            self.bury(worker)
        while len(self.workers) < self.processes:
            command = [sys.executable, "-m", "tests.flows.poison_worker", str(self.folder), str(self.threads)]
            self.workers.append(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE))

    def bury(self, worker: subprocess.Popen[bytes]) -> None:
        """Write down how a process ended, for the messages that it had."""
        worker.communicate()
        self.workers.remove(worker)
        self.ends.append(worker.returncode)
        for begun in self.folder.glob(f"{worker.pid} *.begun"):
            if worker.returncode < 0:
                name = signal.Signals(-worker.returncode).name
                word = self.folder / f"{begun.stem.partition(' ')[2]}.lost"
                word.write_text(f"signal {-worker.returncode} ({name})")
            begun.unlink()

    def record(self, message: Message) -> ClaimRecord:
        """Return the record of a message that was begun."""
        record = self.backend.claims.get(message.id)
        assert record is not None
        return record

    def is_settled(self) -> bool:
        """Tell whether nothing is left to do."""
        records = [self.backend.claims.get(message.id) for message in self.messages]
        return len(self.queue) == 0 and all(record and record.state is ClaimState.DONE for record in records)

    def settle(self) -> None:
        """Let the processes go on until nothing is left to do."""
        deadline = time.monotonic() + PATIENCE
        while not self.is_settled():
            assert time.monotonic() < deadline, "not settled in time"
            self.start()
            time.sleep(0.02)

    def close(self) -> None:
        """End every process and close the files."""
        while self.workers:
            self.workers[0].kill()
            self.bury(self.workers[0])
        self.queue.close()
        self.backend.close()


@pytest.fixture
def supervise(tmp_path: Path) -> Generator[Callable[..., Supervisor]]:
    made: list[Supervisor] = []

    def make(**options: int) -> Supervisor:
        made.append(Supervisor(tmp_path, **options))
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.close()


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("where", ["before the send", "in the send"])
def test_payload_that_segfaults_is_quarantined_at_its_third_crash(
    supervise: Callable[..., Supervisor], scale: Callable[[int], int], where: str
) -> None:
    """Its neighbours in four threads are all sent, once each, whatever it took with it; the letter says how it killed."""
    here = supervise(processes=1, threads=4)
    killers = []
    for _ in range(scale(10)):
        here.start()
        killers.append(here.put(segfaults=where))
        for _ in range(12):
            here.put()
    here.settle()
    innocents = [message for message in here.messages if message not in killers]
    accepted = (here.folder / "accepted.txt").read_text().split()
    assert sorted(message.id for message in innocents) == sorted(accepted)
    assert {-signal.SIGSEGV} == set(here.ends)
    for message in killers:
        (letter,) = here.backend.dead_letters.search(DeadLetterQuery(message_id=message.id)).letters
        assert ("poison_message", "poison_message", 3) == (letter.reason, letter.error_class, letter.attempt_count)
        crashes = letter.attempts[:3]
        assert 3 == len({crash.worker for crash in crashes})
        for crash in crashes:
            assert crash.failure.error_message.endswith(": signal 11 (SIGSEGV)")
            assert crash.started_at is not None
            assert crash.started_at < crash.failed_at
        stage = "send" if where == "in the send" else None  # at its first crash another killer may have been quicker
        assert [stage, stage] == [crash.failure.stage for crash in crashes[1:]]
    # whoever ran beside a killer did so once: afterwards that ran alone, and so did they
    assert {0, 1} >= {here.record(message).counters.crashed for message in innocents}
    assert len(here.ends) <= 3 * len(killers)


def test_payload_that_killed_is_not_started_under_new_ids(supervise: Callable[..., Supervisor]) -> None:
    """Whoever queues it again: once its crashes are known, no further process is lost with it."""
    here = supervise(processes=1, threads=1)
    for _ in range(2):
        here.put(segfaults="before the send", payload="the same")
    here.settle()
    lost = list(here.ends)
    assert {-signal.SIGSEGV} == set(lost)
    assert 3 <= len(lost) <= 6
    for _ in range(3):
        here.put(segfaults="before the send", payload="the same")
    here.put()
    here.settle()
    assert lost == here.ends
    assert {"poison_message"} == {here.record(message).reason for message in here.messages[:5]}
    assert [0, 0, 0] == [here.record(message).counters.started for message in here.messages[2:5]]
    assert here.record(here.messages[5]).disposition == "sent"


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_rolling_restarts_condemn_nobody(supervise: Callable[..., Supervisor], scale: Callable[[int], int]) -> None:
    """Ten in a row, each in the midst of the same message: interruptions are no crashes, and burn no attempt."""
    here = supervise(processes=1, threads=1)
    waiting = here.put(waits=True)
    restarts = max(10, scale(100))
    for number in range(restarts):
        here.start()
        deadline = time.monotonic() + PATIENCE
        while not (here.folder / "at work").exists():
            assert time.monotonic() < deadline, "not at work in time"
            time.sleep(0.005)
        (here.folder / "at work").unlink()
        os.kill(here.workers[0].pid, signal.SIGTERM)
        here.workers[0].wait(PATIENCE)
        assert number + 1 == here.record(waiting).counters.interrupted
    (here.folder / "go on").touch()
    here.put()
    here.settle()
    record = here.record(waiting)
    assert ("sent", 0, 0, ()) == (
        record.disposition,
        record.counters.crashed,
        record.counters.failed,
        record.attempts,
    )
    assert {143} == set(here.ends)
