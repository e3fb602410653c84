"""A process with a breaker that does what it is told: `python -m tests.flows.breaker_worker URL START PROBES`.

Each line of standard input is a JSON list of an operation and its argument, and each is answered by a line of JSON. Time is
real and only goes on when the parent says so: the clock adds what it was told to wait to the instant of its start.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from datetime import datetime

from retrykit.backends import open_backend
from retrykit.breaker import CircuitBreaker
from retrykit.breaker_sync import BreakerSync
from retrykit.errors import BreakerOpenError
from retrykit.machines.breaker import Pass
from retrykit.policy import delays
from retrykit.testing import ManualClock

INTERVAL = 1.0
RECOVERY = 3.0
PROBE_TIMEOUT = 4.0


class Worker:
    """A process with one breaker on the backend that all share."""

    def __init__(self, url: str, start: str, probes: int) -> None:
        self.clock = ManualClock(datetime.fromisoformat(start))
        self.backend = open_backend(url, clock=self.clock)
        self.breaker = CircuitBreaker(
            "ses",
            failure_threshold=2,
            recovery_timeout=delays(RECOVERY, 2 * RECOVERY, jitter="none"),
            probes=probes,
            probe_timeout=PROBE_TIMEOUT,
            clock=self.clock,
        )
        self.sync = BreakerSync([self.breaker], self.backend, interval=INTERVAL, clock=self.clock)
        self.begun: list[Pass] = []

    def exchange(self) -> str:
        """Exchange once; return the state afterwards."""
        self.sync.run_once()
        return self.breaker.state.value

    def call(self, works: bool) -> str:
        """Make a call; return how it ended."""

        def send() -> None:
            if not works:
                raise ConnectionRefusedError("no answer")

        try:
            self.breaker.call(send)
        except BreakerOpenError:
            return "refused"
        except ConnectionRefusedError:
            return "failed"
        return "sent"

    def begin(self) -> bool:
        """Begin a call that never ends; return whether it was let through."""
        entered = self.breaker.gate or self.breaker.admit()
        if entered is not None:
            self.begun.append(entered)
        return entered is not None

    def move_to(self, instant: str) -> str:
        """Set the clock; return the state afterwards."""
        self.clock.move_to(datetime.fromisoformat(instant))
        return self.breaker.state.value


def main(url: str, start: str, probes: int) -> None:
    """Work until standard input ends."""
    worker = Worker(url, start, probes)
    with closing(worker.backend):
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            operation, *arguments = json.loads(line)
            print(json.dumps(getattr(worker, operation)(*arguments)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
