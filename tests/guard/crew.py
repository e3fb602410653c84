"""Worker processes of the guard's tests: started, killed and stalled at random moments."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import attrs

ROOT = Path(__file__).parents[2]


@attrs.define
class Crew:
    """Processes that go through keys on the files of one folder."""

    module: str
    """Which worker of `tests.guard`."""
    folder: Path
    """For their files."""
    window: int = 120
    """How many keys a process goes through."""
    step: int = 40
    """How many keys further each new one begins than the one before, so that there is always something to do."""
    spread: float = 1e9
    """How much their orders differ."""
    size: int = 3
    """How many work at once."""
    more: tuple[str, ...] = ()
    """Further arguments."""
    seed: int = 0
    """Of their random choices, and of who is killed when."""
    started: int = 0
    """How many there were."""
    _rng: Random = attrs.field(init=False)
    _workers: list[subprocess.Popen[str]] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self._rng = Random(self.seed)

    @property
    def keys(self) -> list[str]:
        """Every key that one of them may have worked on."""
        return [f"key-{number}" for number in range(self.started * self.step + self.window)]

    def fill(self) -> None:
        """Start as many workers as are missing."""
        while len(self._workers) < self.size:
            first = self.started * self.step
            arguments = [self.folder, self._rng.randrange(10**9), first, first + self.window, self.spread, *self.more]
            command = [sys.executable, "-m", f"tests.guard.{self.module}", *map(str, arguments)]
            self._workers.append(
                subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            self.started += 1

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
        try:
            time.sleep(seconds)
        finally:
            worker.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End those that are left: each ends when its standard input does."""
        for worker in self._workers:
            worker.communicate(timeout=60)
        self._workers.clear()
