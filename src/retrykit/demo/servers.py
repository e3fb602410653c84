"""Two real SMTP servers on the loopback interface that act by the script and keep a log of what they accepted.

The log is the truth of the audit. A server also answers `VRFY <message id>`: whether it has itself accepted that message.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email import message_from_bytes
from typing import Final, cast

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from .feed import Feed
from .scenarios import Act, DemoMessage, Reply, Scenario

__all__ = ["Mailroom", "Provider"]

_HOLD: Final = 30.0
"""Real seconds for which a held line is kept, unless the client goes away before."""


class Mailroom:
    """What the servers know together: the script of every recipient, and the log of what was accepted.

    Args:
        messages: the day's messages.
        feed: tells what becomes of those that are accepted.
        hang: real seconds for which a server says nothing; longer than the client waits.
    """

    def __init__(self, messages: Sequence[DemoMessage], feed: Feed, *, hang: float) -> None:
        self.feed: Final = feed
        self.hang: Final = hang
        self._scenarios: Final[Mapping[str, Scenario]] = {m.id: m.scenario for m in messages}
        self._lock = threading.Lock()
        self._tries: Counter[str] = Counter()
        self._accepted: Counter[tuple[str, str]] = Counter()
        self._held: dict[str, threading.Event] = {m.id: threading.Event() for m in messages}

    def next_act(self, message_id: str) -> Reply | Act:
        """Return what is to be done at this try to send the message."""
        with self._lock:
            number = self._tries[message_id]
            self._tries[message_id] += 1
        scenario = self._scenarios.get(message_id)
        if scenario is None or not scenario.script:
            return Act.ACCEPT
        if number < len(scenario.script):
            return scenario.script[number]
        return scenario.script[-1] if scenario.forever else Act.ACCEPT

    def accept(self, provider: str, message_id: str) -> None:
        """Note that a provider has taken a message."""
        with self._lock:
            self._accepted[provider, message_id] += 1
        self.feed.accepted(provider, message_id)

    def hold(self, message_id: str) -> None:
        """Note that the line of a message is being held."""
        self._held[message_id].set()

    def wait_until_held(self, message_id: str, timeout: float) -> bool:
        """Wait until the line of a message is held; False when that did not happen within `timeout` real seconds."""
        return self._held[message_id].wait(timeout)

    def acceptances(self) -> Mapping[str, int]:
        """Return how often each message was accepted, by message id."""
        with self._lock:
            times: Counter[str] = Counter()
            for (_, message_id), number in self._accepted.items():
                times[message_id] += number
            return times

    def has_accepted(self, provider: str, message_id: str) -> bool:
        """Tell whether a provider has accepted a message."""
        with self._lock:
            return (provider, message_id) in self._accepted


def _message_id(address: str) -> str:
    """Return the message id that a recipient's address carries."""
    return address.partition("@")[0].rpartition(".")[2]


class _Handler:
    """The hooks of one provider's server."""

    def __init__(self, name: str, mailroom: Mailroom) -> None:
        self._name = name
        self._mailroom = mailroom
        self._acts: dict[int, Act | Reply] = {}

    async def handle_VRFY(self, _server: SMTP, _session: Session, _envelope: Envelope, address: str) -> str:  # noqa: N802
        """Answer whether a message was accepted."""
        taken = self._mailroom.has_accepted(self._name, address.strip("<>"))
        return "250 2.1.5 accepted" if taken else "550 5.1.1 not accepted"

    async def handle_RCPT(  # noqa: N802
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        """Refuse a recipient, or remember what to do with the text."""
        act = self._mailroom.next_act(_message_id(address))
        if isinstance(act, Reply) and not act.after_text:
            return act.text
        envelope.rcpt_tos.append(address)
        self._acts[id(envelope)] = act
        return "250 2.1.5 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Take the text, or do what the script says."""
        act = self._acts.pop(id(envelope))
        content = envelope.original_content or b""
        message_id = str(message_from_bytes(content).get("X-Message-ID", ""))
        if isinstance(act, Reply):
            return act.text
        if act is Act.HANG_UP:
            cast("asyncio.Transport", server.transport).abort()
            return "421 4.3.0 gone"
        if act is Act.HOLD:
            self._mailroom.hold(message_id)
            await asyncio.sleep(_HOLD)
            return "421 4.3.0 held too long"
        self._mailroom.accept(self._name, message_id)
        if act is Act.ACCEPT_THEN_HANG:
            await asyncio.sleep(self._mailroom.hang)
        elif act is Act.ACCEPT_THEN_HOLD:
            self._mailroom.hold(message_id)
            await asyncio.sleep(_HOLD)
        return f"250 2.0.0 queued as {self._name}-{message_id}"


class _Resetter:
    """Takes every connection and drops it with a reset instead of an orderly end."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    def stop(self) -> None:
        """Stop listening."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._listener.close()
        self._thread.join(timeout=10)


class Provider:
    """One provider's SMTP server, on a port of its own that it keeps while it is down.

    Args:
        name: the provider's name.
        mailroom: the script and the log.
    """

    def __init__(self, name: str, mailroom: Mailroom) -> None:
        self.name: Final = name
        self._handler = _Handler(name, mailroom)
        self._listening: _Controller | _Resetter | None = None
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: Final[int] = probe.getsockname()[1]

    def serve(self) -> None:
        """Take connections and talk SMTP."""
        self.stop()
        controller = _Controller(self._handler, self.name, self.port)
        controller.start()
        self._listening = controller

    def refuse(self) -> None:
        """Refuse connections: nothing listens on the port."""
        self.stop()

    def reset(self) -> None:
        """Take connections and reset them."""
        self.stop()
        self._listening = _Resetter(self.port)

    def stop(self) -> None:
        """Stop listening and end all conversations."""
        if self._listening is not None:
            self._listening.stop()
            self._listening = None


class _Controller(Controller):
    """Runs one SMTP server in a thread of its own."""

    def __init__(self, handler: _Handler, name: str, port: int) -> None:
        super().__init__(handler, "127.0.0.1", port, ready_timeout=10.0)  # pyright: ignore[reportUnknownMemberType]
        self._name = f"{name}.example.net"

    def factory(self) -> SMTP:
        """Return the protocol of one conversation."""
        return SMTP(self.handler, hostname=self._name, enable_SMTPUTF8=True)
