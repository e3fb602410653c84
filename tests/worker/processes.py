"""Processes that are told to stop, and what they leave behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0


class Worker:
    """A process that runs a module of the tests, and says on its standard output where it is."""

    def __init__(self, module: str, *arguments: object) -> None:
        program = [module] if module.endswith(".py") else ["-m", module]
        command = [sys.executable, "-W", "error", *program, *map(str, arguments)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        )
        self.said: list[str] = []

    def wait_until(self, line: str) -> None:
        """Read until it says a line."""
        assert self._process.stdout is not None
        for said in self._process.stdout:
            self.said.append(said.strip())
            if self.said[-1] == line:
                return
        raise AssertionError(f"it ended: {self.end()}")

    def send(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self, patience: float = PATIENCE) -> tuple[int, str]:
        """Wait for its end, and kill it after so many seconds; return its exit code and what it logged."""
        try:
            said, logged = self._process.communicate(timeout=patience)
        finally:
            self._process.kill()
        self.said += said.split("\n")
        return self._process.returncode, logged
