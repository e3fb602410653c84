"""A small world around one message: the application's queue, a provider that keeps count, and a clock that is moved.

Flows are driven step by step, so a test may let a process die or stand still before any store operation. The provider
remembers what it accepted, and the world checks the invariants when everything has come to rest.
"""

from __future__ import annotations

import smtplib
from collections.abc import Callable, Sequence
from itertools import count

from retrykit import EMAIL_MATRIX, Dispatcher, Message, PolicyMatrix, RetryScheduler
from retrykit._steps import Steps
from retrykit.dead_letter import DeadLetterState
from retrykit.decision import Action, Disposition, DispositionKind
from retrykit.delivery import NotAccepted, Sent
from retrykit.machines.status import ACCEPTED
from retrykit.reconcile import Reconciler
from retrykit.stores import Backend, ClaimState, DeadLetterQuery, DeliveryStatus
from retrykit.testing import ManualClock, Paused, run_until

LEASE = 120.0
NUMBERS = count(1)

REPLIES = {
    "temporary": (451, b"4.7.1 Greylisted, please come back later"),
    "throttled": (421, b"4.7.0 Too many messages, slow down"),
    "full": (452, b"4.2.2 The mailbox is full"),
    "unknown user": (550, b"5.1.1 The account does not exist"),
    "refused": (554, b"5.7.1 Message refused as spam"),
}


class WorkerKilledError(BaseException):
    """The payload kills the worker; nothing catches this."""


class World:
    """One message and everything around it.

    Args:
        backend: shared by the worlds of a test; each world has a message id of its own.
        clock: the backend's.
        script: what the provider does at the first, second, ... send; afterwards it accepts.
        matrix: the policy.
        kills: whether the payload kills whoever parses it.
        lookup: whether the provider can be asked.
    """

    def __init__(
        self,
        backend: Backend,
        clock: ManualClock,
        script: Sequence[str] = (),
        *,
        matrix: PolicyMatrix = EMAIL_MATRIX,
        kills: bool = False,
        lookup: bool = True,
    ) -> None:
        self.backend = backend
        self.clock = clock
        self.script = list(script)
        self.kills = kills
        self.key = f"message-{next(NUMBERS)}"
        self.message = Message(self.key, {"to": "somebody"}, {"campaign_id": "spring", "recipient": "a@example.org"})
        self.queue: list[Message] = [self.message]
        self.accepted = 0
        self.failed_sends = 0
        self.crashes = 0
        self.dispositions: list[Disposition] = []
        self.was_accepted_in_log = False
        asked = self.lookup if lookup else None
        self.dispatcher = Dispatcher(
            self.send, backend=backend, parse=self.parse, lookup=asked, matrix=matrix, lease=LEASE, clock=clock
        )
        self.scheduler = RetryScheduler(backend, self.queue.append, lease=LEASE, clock=clock)
        self.reconciler = Reconciler(backend, lookup=asked, matrix=matrix, lease=LEASE, clock=clock)

    def parse(self, message: Message) -> Message:
        """Parse, unless the payload kills."""
        if self.kills:
            raise WorkerKilledError
        return message

    def send(self, message: Message, key: str) -> str:
        """Do what the script says, and keep count."""
        record = self.backend.claims.get(key)
        assert record is not None and record.state is ClaimState.SENDING
        for attempt in record.tries:
            if attempt.action is Action.RETRY:
                waited = (self.clock.now() - attempt.failed_at).total_seconds()
                assert waited >= attempt.delay, "a try before its wait was over"
        letters = self.backend.dead_letters.search(DeadLetterQuery(message_id=key)).letters
        assert not letters, "sent while it stands in the dead letters"
        outcome = self.script.pop(0) if self.script else "accepted"
        if outcome not in ("accepted", "reply lost"):
            self.failed_sends += 1
        if outcome == "accepted":
            self.accepted += 1
            return f"provider-{key}"
        if outcome == "reply lost":
            self.accepted += 1
            self.failed_sends += 1
            raise TimeoutError("timed out")
        if outcome == "request lost":
            raise TimeoutError("timed out")
        if outcome == "refused connection":
            raise ConnectionRefusedError("refused")
        if outcome == "bug":
            raise ValueError("a bug in the sender")
        raise smtplib.SMTPResponseException(*REPLIES[outcome])

    def lookup(self, key: str) -> Sent | NotAccepted | None:
        """Answer truthfully whether the message was accepted."""
        return Sent(f"provider-{key}") if self.accepted else NotAccepted()

    def begin(self, steps: int) -> Paused[Disposition]:
        """Let a worker take the first copy and make `steps` steps; the copy stays until `end`."""
        return run_until(self.handling(self.queue[0]), steps)

    def handling(self, message: Message) -> Steps[Disposition]:
        """Return the flow of one `handle`."""
        return self.dispatcher._handle(message, None)

    def crash(self, steps: int) -> bool:
        """Let a worker die before its step number `steps`, its copy being delivered again; False: it had ended."""
        try:
            worker = self.begin(steps)
        except WorkerKilledError:
            self.crashes += 1
            return True
        if worker.done:
            self.end(worker)
            return False
        self.crashes += 1
        return True

    def end(self, worker: Paused[Disposition]) -> None:
        """Let a worker finish and ack its copy."""
        self.dispositions.append(worker.finish())
        self.queue.pop(0)
        self.look_at_log()

    def look_at_log(self) -> None:
        """Check that a known acceptance is never forgotten by the log."""
        delivery = self.backend.deliveries.get(self.key)
        accepted = delivery is not None and delivery.status in ACCEPTED
        assert accepted or not self.was_accepted_in_log, "the status moved backwards"
        self.was_accepted_in_log = accepted

    def settle(self) -> None:
        """Let everything run on without faults until nothing is left to do."""
        for _ in range(80):
            while self.queue:
                try:
                    self.end(self.begin(0))
                except WorkerKilledError:
                    self.crashes += 1
                    self.clock.advance(LEASE)
            self.reconciler.run_once()
            self.look_at_log()
            if self.scheduler.run_once():
                continue
            next_due = self.backend.retries.stats().next_due_at
            if next_due is None:
                return
            self.clock.move_to(max(next_due, self.clock.now()))
        raise AssertionError("it goes round for ever")

    def check(self) -> DispositionKind:
        """Check the invariants at rest, and return what became of the message."""
        record = self.backend.claims.get(self.key)
        delivery = self.backend.deliveries.get(self.key)
        letters = self.backend.dead_letters.search(DeadLetterQuery(message_id=self.key)).letters
        assert record is not None and record.state is ClaimState.DONE, record
        assert record.disposition is not None and delivery is not None
        assert self.accepted <= 1, "sent twice"
        assert len(letters) <= 1, "two letters for one death"
        sent = delivery.status in ACCEPTED
        quarantined = [letter for letter in letters if letter.state is DeadLetterState.QUARANTINED]
        bounced = delivery.status is DeliveryStatus.BOUNCED_PERMANENT
        assert [sent, bool(quarantined), bounced].count(True) == 1, (record, delivery, letters)
        assert sent == (record.disposition is DispositionKind.SENT)
        if record.failure is None or record.failure.outcome != "unknown":
            assert sent == (self.accepted == 1), "what the provider has and what is recorded differ"
        if sent:
            assert self.accepted == 1
        counters = record.counters
        assert counters.failed <= self.failed_sends + (record.failure is not None and record.failure.stage == "parse")
        assert counters.failed + counters.crashed <= self.failed_sends + self.crashes, "a try counted that was none"
        for letter in quarantined:
            assert letter.original_payload == self.message.body
            assert letter.attempts == record.attempts
        return record.disposition


WorldMaker = Callable[..., World]
