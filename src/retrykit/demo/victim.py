"""A worker that will be killed while it sends: `python -m retrykit.demo.victim`, told on standard input what to do."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence

import attrs

__all__ = ["Victim"]


@attrs.frozen(kw_only=True)
class Victim:
    """What the worker is to do."""

    path: str
    message_id: str
    body: bytes
    providers: Sequence[tuple[str, int]]
    speed: float
    epoch: float
    lease: float

    def to_json(self) -> bytes:
        """Return it as JSON."""
        fields = attrs.asdict(self) | {"body": base64.b64encode(self.body).decode("ascii")}
        return json.dumps(fields).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Victim:
        """Make it of what `to_json` gave."""
        fields = json.loads(data)
        fields["body"] = base64.b64decode(fields["body"])
        fields["providers"] = [(name, port) for name, port in fields["providers"]]
        return cls(**fields)

    def work(self) -> None:
        """Handle the message as any worker does; the server never answers, and this process is killed."""
        from ..backends.sqlite import SQLiteBackend
        from ..clock import ScaledClock
        from ..dispatch import Dispatcher
        from .sender import Sender, render, validate

        clock = ScaledClock(self.speed, epoch=self.epoch)
        backend = SQLiteBackend(self.path, clock=clock)
        sender = Sender(self.providers, timeout=60.0, clock=clock)
        dispatcher = Dispatcher(
            sender.send, backend=backend, validate=validate, render=render, lease=self.lease, clock=clock
        )
        dispatcher.handle(self.body, id=self.message_id)


if __name__ == "__main__":
    Victim.from_json(sys.stdin.buffer.read()).work()
