"""A real SMTP server that keeps a log of what it has accepted, and is not always easy to talk to."""

from __future__ import annotations

import asyncio
import socket
from random import Random
from types import TracebackType
from typing import Self, cast

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

ACTS = "accept accept accept slow slow slow slow busy reply_lost request_lost".split()


class Mailbox:
    """A server on the loopback interface, in a thread of its own; `with` gives it.

    What becomes of a message is drawn by a seed. `VRFY` tells whether a message to that address was accepted.
    """

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self.accepted: dict[str, list[str]] = {}
        """The ids under which messages to an address were accepted."""
        self._controller = Controller(self, hostname="127.0.0.1", port=_free_port())
        self.port = self._controller.port

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._controller.stop()

    async def handle_VRFY(self, _server: SMTP, _session: Session, _envelope: Envelope, address: str) -> str:  # noqa: N802
        """Tell whether a message to an address was accepted."""
        ids = self.accepted.get(address.strip("<>"))
        return f"250 2.1.5 {ids[0]}" if ids else "550 5.1.1 not accepted"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Accept a message, or do not, and say so, or do not."""
        act = self._rng.choice(ACTS)
        if act == "slow":
            await asyncio.sleep(self._rng.random() * 0.05)
        if act == "busy":
            return "451 4.3.0 try again later"
        if act != "request_lost":
            number = f"queue-{self._rng.randrange(10**9)}"
            self.accepted.setdefault(envelope.rcpt_tos[0], []).append(number)
            if act == "slow":
                await asyncio.sleep(self._rng.random() * 0.05)
            if act != "reply_lost":
                return f"250 2.0.0 {number}"
        cast("asyncio.Transport", server.transport).abort()
        return "421 4.3.0 gone"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
