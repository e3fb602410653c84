"""Run the scripted day: servers, queue, workers, webhook calls, retry scheduler and reconciler, until every message is settled.

Time runs scaled, so that ladders of hours pass in seconds; the conversations with the servers are real.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from ..backends.sqlite import SQLiteBackend
from ..clock import ScaledClock
from ..dispatch import Dispatcher
from ..errors import AlreadyInProgressError, ConfigurationError, HoldLostError, StoreError
from ..events import AttemptFailed, Event, MessageHandled, OutcomeVerified
from ..machines.status import FINAL, DeliveryStatus
from ..reconcile import Reconciler, ReconcileReport
from ..scheduler import RetryScheduler
from .audit import Audit, audit
from .billing import Billing, bills
from .broker import Broker
from .feed import Call, Feed
from .scenarios import Death, DemoMessage, Hour
from .sender import Sender, render, validate
from .servers import Mailroom, Provider
from .victim import BillingVictim, SendingVictim

__all__ = ["Day", "Progress", "run_day"]

_LEASE: Final = 8.0
"""Real seconds for which a worker holds a message."""
_BILLING_LEASE: Final = 2.0
"""Real seconds for which a message is held while it is billed."""
_TIMEOUT: Final = 1.0
"""Real seconds that a worker waits for a server's answer."""
_WINDOW: Final = 3600.0
"""Seconds of the providers' logs that are compared at once."""
_PATIENCE: Final = 900.0
"""Seconds after which the first event of a message is in the provider's log."""
_CLERKS: Final = 2
"""Threads that take webhook calls."""
_LIMIT: Final = 600.0
"""Real seconds after which the day ends, settled or not."""


@attrs.frozen(kw_only=True)
class Day:
    """What to run."""

    messages: int = 2000
    seed: int = 1
    path: Path
    """The SQLite file; made anew."""
    speed: float = 1500.0
    """Seconds of the day in one real second."""
    workers: int = 8


@attrs.define
class Progress:
    """How far the day has come; read by the display while it runs."""

    total: int
    began: float = attrs.field(factory=time.monotonic)
    hour: Hour = Hour.MORNING
    delivered: int = 0
    """Copies handed to a worker."""
    failed_tries: Counter[str] = attrs.field(factory=Counter[str])
    """By error class."""
    dispositions: Counter[str] = attrs.field(factory=Counter[str])
    """By kind."""
    verified: Counter[str] = attrs.field(factory=Counter[str])
    """Lookups by answer."""
    killed: int = 0
    webhooks: Counter[str] = attrs.field(factory=Counter[str])
    """Webhook calls by answer."""
    waiting: int = 0
    """Messages that are to be tried or asked about again."""
    settled: int = 0

    def take(self, counts: Mapping[DeliveryStatus, int]) -> None:
        """Take in how many messages have which status; all of it from one look, so that the numbers add up."""
        self.settled = sum(number for status, number in counts.items() if status in FINAL)
        self.waiting = sum(counts.get(status, 0) for status in (DeliveryStatus.DEFERRED, DeliveryStatus.UNKNOWN))


class _Run:
    """One run of a day."""

    def __init__(self, day: Day, progress: Progress, messages: Sequence[DemoMessage]) -> None:
        self.day = day
        self.progress = progress
        self.messages = messages
        self.clock = ScaledClock(day.speed)
        self.began = self.clock.now()
        self.feed = Feed(messages, seed=day.seed, clock=self.clock)
        self.mailroom = Mailroom(messages, self.feed, hang=_TIMEOUT * 3)
        self.main, self.backup = Provider("main", self.mailroom), Provider("backup", self.mailroom)
        self.backend = SQLiteBackend(day.path, clock=self.clock, synchronous="normal")
        self.queue = Broker()
        self.sender = Sender([(p.name, p.port) for p in (self.main, self.backup)], timeout=_TIMEOUT, clock=self.clock)
        self.to_kill = {message.id for message in messages if message.scenario.kills}
        self.billers_to_kill = {m.id: m.scenario.biller_dies for m in messages if m.scenario.biller_dies}
        self.reconciler = Reconciler(
            self.backend,
            lookup=self.sender.lookup,
            events=self.feed.events,
            since=self.began,
            window=_WINDOW,
            patience=_PATIENCE,
            lease=_LEASE * day.speed,
            on_event=[self.listen],
            clock=self.clock,
        )
        self.windows: list[ReconcileReport] = []
        self.errors: list[BaseException] = []
        self._lock = threading.Lock()
        self._over = threading.Event()

    def listen(self, event: Event) -> None:
        """Count what happens."""
        with self._lock:
            match event:
                case AttemptFailed():
                    self.progress.failed_tries[str(event.failure.error_class)] += 1
                case MessageHandled():
                    self.progress.dispositions[event.disposition.kind.value] += 1
                case OutcomeVerified():
                    answer = {True: "accepted", False: "not accepted", None: "cannot tell"}[event.accepted]
                    self.progress.verified[answer] += 1
                case _:
                    pass

    def work(self) -> None:
        """Take copies from the queue and handle them, as an application's worker does."""
        dispatcher = Dispatcher(
            self.sender.send,
            backend=self.backend,
            validate=validate,
            render=render,
            lookup=self.sender.lookup,
            lease=_LEASE * self.day.speed,
            on_event=[self.listen],
            clock=self.clock,
            rng=random.Random(self.day.seed),
        )
        while (item := self.queue.take()) is not None:
            message_id, body = item
            with self._lock:
                self.progress.delivered += 1
                kill = message_id in self.to_kill
                self.to_kill.discard(message_id)
            try:
                if kill:
                    self.kill_a_worker(message_id, body)
                    self.queue.put(message_id, body)  # it was not acked, so it is delivered again
                else:
                    dispatcher.handle(body, id=message_id)
            except StoreError:
                self.queue.put(message_id, body)
            finally:
                self.queue.ack()

    def kill_a_worker(self, message_id: str, body: bytes) -> None:
        """Let another process send the message, and kill it while the server holds the line."""
        victim = SendingVictim(
            path=str(self.day.path),
            message_id=message_id,
            body=body,
            providers=self.sender.providers,
            speed=self.clock.speed,
            epoch=self.clock.epoch,
            lease=_LEASE * self.day.speed,
        )
        victim.kill(lambda _: self.mailroom.wait_until_held(message_id, timeout=30))
        with self._lock:
            self.progress.killed += 1

    def attend(self) -> None:
        """Take webhook calls, as an application's web server does."""
        billing = self.billing()
        try:
            while not self._over.is_set():
                call = self.feed.take()
                if call is None:
                    self._over.wait(0.05)
                else:
                    self.answer(call, billing)
        finally:
            billing.close()

    def billing(self) -> Billing:
        """Return the billing of the calling thread."""
        return Billing(self.day.path, self.backend, lease=_BILLING_LEASE * self.day.speed, clock=self.clock)

    def answer(self, call: Call, billing: Billing) -> None:
        """Take one webhook call; one that failed comes again."""
        with self._lock:
            death = self.billers_to_kill.pop(call.event.message_id, None)
        try:
            if death is None:
                billing.take(call.event.provider, call.event.body)
            else:
                self.kill_a_biller(call, death)
        except (StoreError, AlreadyInProgressError, HoldLostError, sqlite3.OperationalError):
            well = False
        else:
            well = death is None
        self.feed.answered(call, well=well)
        with self._lock:
            self.progress.webhooks["taken" if well else "to come again"] += 1

    def kill_a_biller(self, call: Call, death: Death) -> None:
        """Let another process take a webhook call, and kill it while it bills."""
        victim = BillingVictim(
            path=str(self.day.path),
            provider=call.event.provider,
            body=call.event.body,
            death=death,
            speed=self.clock.speed,
            epoch=self.clock.epoch,
            lease=_BILLING_LEASE * self.day.speed,
        )
        victim.kill(victim.is_ready)
        with self._lock:
            self.progress.killed += 1

    def reconcile(self) -> None:
        """Settle unknown outcomes and compare the log with the providers' own, again and again."""
        is_behind = False
        while not self._over.wait(0 if is_behind else 0.25):
            report = self.reconciler.run_once()
            is_behind = report.is_behind
            if report.window is not None:
                self.windows.append(report)

    def is_reconciled(self) -> bool:
        """Tell whether no webhook call is on its way, and all that the providers have told was compared with the log."""
        until = max((report.window[1] for report in self.windows if report.window), default=self.began)
        return self.feed.is_quiet and all(event.at < until for event in self.feed.log())

    def watch(self) -> None:
        """Keep the slower counts of the display up to date."""
        while not self._over.wait(0.2):
            self.progress.take(self.backend.deliveries.counts())

    def guarded(self, loop: Callable[[], None]) -> Callable[[], None]:
        """Return `loop`, noting the error that ends it: the day then ends as well."""

        def run() -> None:
            try:
                loop()
            except BaseException as error:  # noqa: BLE001 - raised again in the main thread
                self.errors.append(error)

        return run

    def run(self) -> Audit:
        """Live through the day and audit it."""
        scheduler = RetryScheduler(
            self.backend,
            self.queue.publish,
            lease=_LEASE * self.day.speed,
            poll=0.05 * self.day.speed,
            clock=self.clock,
        )
        workers = [threading.Thread(target=self.guarded(self.work), daemon=True) for _ in range(self.day.workers)]
        others = [
            threading.Thread(target=self.guarded(loop), daemon=True)
            for loop in (scheduler.run, self.reconcile, self.watch, *[self.attend] * _CLERKS)
        ]
        self.backup.serve()
        for thread in [*workers, *others]:
            thread.start()
        try:
            for hour in Hour:
                self.live(hour)
            self.wait_until(self.all_is_quiet)
            self.wait_until(self.is_reconciled)
            self.bill_the_rest()
            return audit(
                self.messages,
                self.backend,
                self.mailroom,
                bills=bills(self.day.path),
                windows=self.windows,
                whole=self.reconciler.compare(self.began, self.clock.now()),
            )
        finally:
            scheduler.stop()
            self._over.set()
            self.queue.close(len(workers))
            for thread in [*workers, *others]:
                thread.join(timeout=10)
            self.main.stop()
            self.backup.stop()
            self.backend.close()

    def bill_the_rest(self) -> None:
        """Bill what is delivered and not billed: the reconciler has found that out, and no webhook call has told."""
        billing = self.billing()
        try:
            billing.bill_all()
        finally:
            billing.close()

    def live(self, hour: Hour) -> None:
        """Deliver one part of the day's messages, and wait until each was tried."""
        self.progress.hour = hour
        if hour is Hour.REFUSING:
            self.main.refuse()
        elif hour is Hour.RESETTING:
            self.main.reset()
        else:
            self.main.serve()
        for message in self.messages:
            if message.hour is hour:
                for _ in range(message.scenario.copies):
                    self.queue.put(message.id, message.body)
        self.wait_until(lambda: self.queue.empty)

    def all_is_quiet(self) -> bool:
        """Tell whether both queues are empty, and nothing went from one to the other while they were looked at."""
        copies = self.queue.copies
        if not self.queue.empty:
            return False
        stats = self.backend.retries.stats()
        return stats.waiting == 0 and stats.leased == 0 and self.queue.empty and self.queue.copies == copies

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, an error or the end of all patience."""
        deadline = time.monotonic() + _LIMIT
        while not condition() and time.monotonic() < deadline:
            if self.errors:
                raise self.errors[0]
            time.sleep(0.02)


def run_day(day: Day, progress: Progress, messages: Sequence[DemoMessage]) -> Audit:
    """Run a day and audit it.

    Args:
        day: what to run.
        progress: updated while it runs.
        messages: the day's messages, from `messages_of`.

    Raises:
        ConfigurationError: the file exists and holds an earlier run.
        StoreError: the file cannot be used.
    """
    if day.path.exists() and day.path.stat().st_size:
        raise ConfigurationError(
            f"{day.path} exists and may hold an earlier run; name another file, or remove it first"
        )
    return _Run(day, progress, messages).run()
