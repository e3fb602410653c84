"""A process that sends mail through a guard: `python -m tests.guard.smtp_worker FOLDER SEED FIRST LAST SPREAD PORT`."""

from __future__ import annotations

import random
import smtplib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.delivery.lookup import NotAccepted, Sent
from retrykit.guard import IdempotencyGuard, current_hold
from tests.guard.guard_worker import Call, go_through
from tests.guard.history import History

LEASE = 1.0
"""Seconds; a send ends long before."""


class Mailer:
    """Sends and looks up mail at the server of a port."""

    def __init__(self, port: int) -> None:
        self._port = port

    def _connected(self) -> smtplib.SMTP:
        return smtplib.SMTP("127.0.0.1", self._port, timeout=10)

    def send(self, key: str) -> str:
        """Send a message and return the id under which it was accepted."""
        body = f"From: shop@example.org\r\nTo: {key}@example.org\r\nSubject: order {key}\r\n\r\nThank you.\r\n"
        with self._connected() as smtp:
            smtp.ehlo()
            smtp.mail("shop@example.org")
            smtp.rcpt(f"{key}@example.org")
            code, text = smtp.data(body)
            if code != 250:
                raise smtplib.SMTPDataError(code, text)
            return text.split()[-1].decode()

    def lookup(self, key: str) -> Sent | NotAccepted:
        """Ask whether a message was accepted."""
        with self._connected() as smtp:
            code, text = smtp.verify(f"{key}@example.org")
        return Sent(text.split()[-1].decode()) if code == 250 else NotAccepted()


def make_guard(backend: SQLiteBackend, mailer: Mailer) -> IdempotencyGuard:
    return IdempotencyGuard(
        backend.claims, lease=LEASE, lookup=mailer.lookup, recover=lambda number: number, wait="30s", ttl=None
    )


def caller(folder: Path, rng: random.Random) -> Call:
    """Return what sends a message."""
    mailer, history = Mailer(int(sys.argv[6])), History(folder)
    guard = make_guard(SQLiteBackend(folder / "guard.db"), mailer)

    def send(key: str) -> str:
        history.note(current_hold())
        time.sleep(rng.random() * 0.02)
        number = mailer.send(key)
        time.sleep(rng.random() * 0.02)
        history.note(current_hold())
        return number

    return persistently(guard, send)


def persistently(guard: IdempotencyGuard, send: Callable[[str], str]) -> Call:
    """Return what sends a message, again where it failed: the guard knows whether that may be done."""

    def call(key: str) -> object:
        while True:
            try:
                return guard.call(key, send, key)
            except (smtplib.SMTPException, OSError):
                time.sleep(0.01)

    return call


if __name__ == "__main__":
    go_through(caller)
