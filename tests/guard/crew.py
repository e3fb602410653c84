"""Worker processes of the guard's tests: started, killed and stalled at random moments."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[2]


class Crew:
    """Processes that go through the same keys on the files of one folder.

    Args:
        module: which worker of `tests.guard`.
        folder: for their files.
        keys: how many there are.
        seed: of their random choices, and of who is killed when.
        spread: how much their orders differ.
        size: how many work at once.
        more: further arguments.
    """

    def __init__(
        self,
        module: str,
        folder: Path,
        keys: int,
        *,
        seed: int,
        spread: float = 1e9,
        size: int = 3,
        more: tuple[str, ...] = (),
    ) -> None:
        self._command = [sys.executable, "-m", f"tests.guard.{module}", str(folder)]
        self._rest = [str(keys), str(spread), *more]
        self._size = size
        self._rng = Random(seed)
        self._workers: list[subprocess.Popen[str]] = []

    def fill(self) -> None:
        """Start as many workers as are missing."""
        while len(self._workers) < self._size:
            command = [*self._command, str(self._rng.randrange(10**9)), *self._rest]
            self._workers.append(
                subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )

    def kill_one(self) -> None:
        """Kill a worker at some moment after it has begun."""
        worker = self._workers.pop(self._rng.randrange(len(self._workers)))
        assert worker.stdout is not None and worker.stdin is not None
        worker.stdout.readline()
        try:
            worker.wait(self._rng.random() * 0.3)
        except subprocess.TimeoutExpired:
            worker.kill()
        worker.wait(30)
        worker.stdin.close()
        worker.stdout.close()

    def stall_one(self, seconds: float) -> None:
        """Let a worker stand still at some moment, as a machine under load does."""
        time.sleep(self._rng.random() * 0.1)
        worker = self._rng.choice(self._workers)
        worker.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        worker.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End those that are left: each ends when its standard input does."""
        for worker in self._workers:
            worker.communicate(timeout=60)
        self._workers.clear()
