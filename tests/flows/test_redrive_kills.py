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

pytestmark = pytest.mark.unmeasured

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

    def kill_holder(self, redrive_id: str) -> bool:
        """Kill the runner that holds the redrive, at any moment; tell whether it was at it."""
        deadline = time.monotonic() + PATIENCE
        while (runner := self._holder(redrive_id)) is None and time.monotonic() < deadline:
            self.work()
        until = time.monotonic() + self.rng.uniform(0, 0.3)
        while time.monotonic() < until:
            self.work()
        was_at_it = runner is not None and runner is self._holder(redrive_id)
        self.bury(runner or self.runners[0])
        return was_at_it

    def _holder(self, redrive_id: str) -> subprocess.Popen[bytes] | None:
        job = self.backend.redrives.get(redrive_id)
        owner = "" if job is None or job.lease is None else job.lease.owner
        return next((runner for runner in self.runners if f":{runner.pid}:" in owner), None)

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
    letters = 60 * kills
    with closing(Fleet(tmp_path, letters)) as fleet:
        queue = DeadLetterQueue(fleet.backend)
        plan = queue.plan("class:rendering_failure")
        job = queue.redrive(plan, root_cause="repaired", by="ada", canary=20, rate=60)  # a second for each kill
        killed_at_it = 0
        for _ in range(kills):
            fleet.start()
            killed_at_it += fleet.kill_holder(job.id)
        deadline = time.monotonic() + PATIENCE + kills
        while (stand := fleet.backend.redrives.get(job.id)) and stand.is_active and time.monotonic() < deadline:
            fleet.start()
            fleet.work()
        assert stand is not None
        print(f"{killed_at_it} of {kills} killed while they held it, {stand.put_back} put back")
        assert (RedriveState.DONE, letters, 0) == (stand.state, stand.put_back, stand.passed_over)
        assert {f"m-{number}": 1 for number in range(letters)} == fleet.sent
        assert fleet.backend.dead_letters.stats().resolved == letters
        assert killed_at_it > kills / 2, "too few were killed while they held the redrive"
