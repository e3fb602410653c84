"""Workers that will be killed: `python -m retrykit.demo.victim`, told on standard input what to do."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import IO, Final

import attrs

from .scenarios import Death

__all__ = ["BillingVictim", "SendingVictim", "Victim"]

_LONG: Final = 60.0
"""Real seconds for which a worker waits to be killed."""
_READY: Final = b"ready to die\n"


@attrs.frozen(kw_only=True)
class Victim(ABC):
    """What the worker is to do, and with what."""

    path: str
    speed: float
    epoch: float
    lease: float
    body: bytes = attrs.field(repr=False)

    def kill(self, wait: Callable[[IO[bytes]], bool]) -> None:
        """Let another process do the work, and kill it.

        Args:
            wait: waits until it is time, and tells whether that has come; given the output of the process.

        Raises:
            RuntimeError: it has not.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "retrykit.demo.victim"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self.to_json())
            process.stdin.close()
            if not wait(process.stdout):
                raise RuntimeError(f"the worker that should be killed has not come so far: {self}")
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def to_json(self) -> bytes:
        """Return it as JSON."""
        body = base64.b64encode(self.body).decode("ascii")
        return json.dumps(attrs.asdict(self) | {"body": body, "work": type(self).__name__}).encode()

    @abstractmethod
    def work(self) -> None:
        """Do it; this process is killed before the end."""


@attrs.frozen(kw_only=True)
class SendingVictim(Victim):
    """Sends a message to a server that never answers."""

    message_id: str
    providers: Sequence[tuple[str, int]]

    def work(self) -> None:
        """Handle the message as any worker does."""
        from ..backends.sqlite import SQLiteBackend
        from ..clock import ScaledClock
        from ..dispatch import Dispatcher
        from .sender import Sender, render, validate

        clock = ScaledClock(self.speed, epoch=self.epoch)
        backend = SQLiteBackend(self.path, clock=clock)
        sender = Sender([(name, port) for name, port in self.providers], timeout=_LONG, clock=clock)
        dispatcher = Dispatcher(
            sender.send, backend=backend, validate=validate, render=render, lease=self.lease, clock=clock
        )
        dispatcher.handle(self.body, id=self.message_id)


@attrs.frozen(kw_only=True)
class BillingVictim(Victim):
    """Takes a webhook call, and bills the message that it tells of."""

    provider: str
    death: Death

    def work(self) -> None:
        """Take the call as any worker does, up to the instant of death."""
        from ..backends.sqlite import SQLiteBackend
        from ..clock import ScaledClock
        from .billing import Billing

        clock = ScaledClock(self.speed, epoch=self.epoch)
        before_commit = _die if self.death == Death.BEFORE_COMMIT else None
        billing = Billing(
            self.path,
            SQLiteBackend(self.path, clock=clock),
            lease=self.lease,
            clock=clock,
            before_commit=before_commit,
        )
        billing.take(self.provider, self.body)
        _die()

    @staticmethod
    def is_ready(output: IO[bytes]) -> bool:
        """Wait until the instant of death; False when the process ended before."""
        return output.readline() == _READY


def _die() -> None:
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    time.sleep(_LONG)


def _main() -> None:
    fields = json.loads(sys.stdin.buffer.read())
    kind = {each.__name__: each for each in (SendingVictim, BillingVictim)}[fields.pop("work")]
    kind(**fields | {"body": base64.b64decode(fields["body"])}).work()


if __name__ == "__main__":
    _main()
