"""Runners of a redrive are killed at random moments: each letter is put back once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from retrykit import Dispatcher, Message, RetryScheduler
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.dead_letter_queue import DeadLetterQueue
from retrykit.machines.redrive import RedriveState
from tests.flows.test_redrive import TemplateError

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""Seconds for which what is left may take when nobody is killed any more; it ends as soon as all is settled."""


class Fleet:
    """Dead letters in a file, a worker in this process, and two runners in processes of their own."""

    def __init__(self, folder: Path, letters: int) -> None:
        self.folder = folder
        self.rng = Random(1)
        self.backend = SQLiteBackend(folder / "flows.db", synchronous="normal")
        self.sent: Counter[str] = Counter()
        self.queue: list[Message] = []
        self.is_broken = True
        self.dispatcher = Dispatcher(self._send, render=self._render, backend=self.backend)
        self.scheduler = RetryScheduler(self.backend, self.queue.append)
        for number in range(letters):
            self.dispatcher.handle(Message(f"m-{number}", {"n": number}))
        self.is_broken = False
        time.sleep(0.002)  # the last of them died before now
        self.runners: list[subprocess.Popen[bytes]] = []

    def _render(self, _: Message) -> None:
        if self.is_broken:
            raise TemplateError("broken")

    def _send(self, message: Message, key: str, content: object) -> None:
        self.sent[message.id] += 1

    def start(self) -> None:
        while len(self.runners) < 2:
            command = [sys.executable, "-m", "tests.flows.redrive_worker", str(self.folder)]
            self.runners.append(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE))

    def kill(self) -> None:
        """Kill any runner, at any moment after it has begun."""
        runner = self.rng.choice(self.runners)
        assert runner.stdout is not None
        runner.stdout.readline()
        deadline = time.monotonic() + self.rng.uniform(0, 0.6)
        while time.monotonic() < deadline:
            self.work()
        self.bury(runner)

    def bury(self, runner: subprocess.Popen[bytes]) -> None:
        runner.kill()
        runner.communicate()
        self.runners.remove(runner)

    def work(self) -> None:
        """Do what is due."""
        if not self.scheduler.run_once():
            time.sleep(0.005)
        while self.queue:
            self.dispatcher.handle(self.queue.pop())

    def close(self) -> None:
        while self.runners:
            self.bury(self.runners[0])
        self.backend.close()


@pytest.mark.soak
def test_runners_killed_at_random_each_letter_is_put_back_once(tmp_path: Path, scale: Callable[[int], int]) -> None:
    """300 runners are killed in a soak, while two at a time run one redrive after the other; then the rest goes on."""
    kills = max(6, scale(300))
    with closing(Fleet(tmp_path, letters=60 * kills)) as fleet:
        queue = DeadLetterQueue(fleet.backend)
        job = queue.redrive(
            queue.plan("class:rendering_failure"), root_cause="repaired", by="ada", canary=20, rate=1000
        )
        for _ in range(kills):
            fleet.start()
            fleet.kill()
        deadline = time.monotonic() + PATIENCE
        while (stand := fleet.backend.redrives.get(job.id)) and stand.is_active and time.monotonic() < deadline:
            fleet.start()
            fleet.work()
        assert stand is not None
        holders = stand.seq
        print(f"{kills} killed, {holders} holders, {stand.put_back} put back")
        assert (RedriveState.DONE, 60 * kills, 0) == (stand.state, stand.put_back, stand.passed_over)
        assert {f"m-{number}": 1 for number in range(60 * kills)} == fleet.sent
        assert fleet.backend.dead_letters.stats().resolved == 60 * kills
        assert holders > 3, "no runner was killed while it held the redrive"
