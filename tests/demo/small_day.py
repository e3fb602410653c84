"""A day of a few messages without servers, workers and real time: what the audit is tried on."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retrykit import Dispatcher, Message
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.delivery import Sent
from retrykit.demo.audit import Audit, audit
from retrykit.demo.billing import Billing, bills
from retrykit.demo.feed import Feed
from retrykit.demo.scenarios import SCENARIOS, DemoMessage, Hour
from retrykit.demo.servers import Mailroom
from retrykit.reconcile import Reconciler, ReconcileReport
from retrykit.testing import ManualClock

NAMES = ("plain", "bounced_later", "complained_of", "events_in_disorder", "events_lost")
"""Scenarios whose messages need no server: each is accepted at the first try."""


def messages_of(*names: str) -> Sequence[DemoMessage]:
    """Return a message of each of some scenarios, with the scenario's name as its id."""
    scenarios = {scenario.name: scenario for scenario in SCENARIOS}
    return [DemoMessage(name, b"{}", scenarios[name], Hour.MORNING) for name in names]


class SmallDay:
    """Everything a day has, in one thread."""

    def __init__(self, folder: Path, names: Sequence[str] = NAMES) -> None:
        self.path = folder / "day.db"
        self.clock = ManualClock()
        self.began = self.clock.now()
        self.messages = messages_of(*names)
        self.feed = Feed(self.messages, seed=1, clock=self.clock)
        self.mailroom = Mailroom(self.messages, self.feed, hang=1.0)
        self.backend = SQLiteBackend(self.path, clock=self.clock, synchronous="normal")
        self.billing = Billing(self.path, self.backend, lease=60.0, clock=self.clock)
        self.windows: list[ReconcileReport] = []
        self.whole = ReconcileReport()

    def send(self, message: Message, key: str) -> Sent:
        """Let the provider take a message."""
        self.mailroom.accept("main", key)
        return Sent(f"main-{key}", "main")

    def live(self) -> SmallDay:
        """Send everything, and take all webhook calls."""
        dispatcher = Dispatcher(self.send, backend=self.backend, clock=self.clock)
        for message in self.messages:
            dispatcher.handle(message.body, id=message.id)
        while not self.feed.is_quiet:
            self.clock.advance("1m")
            while (call := self.feed.take()) is not None:
                self.billing.take(call.event.provider, call.event.body)
                self.feed.answered(call, well=True)
        return self

    def reconcile(self) -> SmallDay:
        """Compare the provider's log with ours until nothing is left, and bill what was found."""
        self.clock.advance("3h")
        reconciler = Reconciler(
            self.backend, events=self.feed.events, since=self.began, window="30m", patience="15m", clock=self.clock
        )
        while not self.windows or self.windows[-1].is_behind:
            self.windows.append(reconciler.run_once())
        self.whole = reconciler.compare(self.began, self.clock.now())
        self.billing.bill_all()
        return self

    def change(self, statement: str, *values: Any) -> None:
        """Do something to the file that nobody should."""
        with sqlite3.connect(self.path) as db:
            db.execute(statement, values)
        db.close()

    def audit(self) -> Audit:
        """Audit the day."""
        return audit(
            self.messages, self.backend, self.mailroom, bills=bills(self.path), windows=self.windows, whole=self.whole
        )

    def close(self) -> None:
        """Close the file."""
        self.billing.close()
        self.backend.close()
