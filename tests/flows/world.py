"""A small world around one message: its copies in the application's queue, and what the provider does with it.

Flows are driven step by step, so a test may let a process die or stand still before any store operation. The world notes
what must never happen when it happens, and checks the invariants when everything has come to rest.
"""

from __future__ import annotations

import smtplib
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import count

from retrykit import Message
from retrykit._steps import Steps
from retrykit.dead_letter import DeadLetterState
from retrykit.decision import Action, DeadLetterReason, Disposition, DispositionKind
from retrykit.delivery import NotAccepted, Sent
from retrykit.errors import BreakerOpenError
from retrykit.machines.status import ACCEPTED
from retrykit.stores import ClaimState, DeadLetterQuery, DeliveryStatus
from retrykit.testing import Paused
from tests.flows.audit import audit
from tests.flows.fleet import LEASE, Fleet

NUMBERS = count(1)

PRECISION = 0.001
"""Seconds; instants are kept in milliseconds."""

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
    """One message of a fleet.

    Args:
        fleet: the processes around it.
        script: what the provider does at the first, second, ... send; afterwards it accepts.
        kills: whether the payload kills whoever parses it.
        lookups: "cannot tell" or "down" for each of the first lookups; afterwards they tell the truth.
        key: the message id; None: a new one.
    """

    def __init__(
        self,
        fleet: Fleet,
        script: Sequence[str] = (),
        *,
        kills: bool = False,
        lookups: Sequence[str] = (),
        key: str | None = None,
    ) -> None:
        self.fleet = fleet
        self.backend, self.clock = fleet.backend, fleet.clock
        self.script = list(script)
        self.kills = kills
        self.lookups = list(lookups)
        self.key = key or f"message-{next(NUMBERS):09}"  # in the order of their numbers as text, too
        # what is counted of a payload must condemn a killer at its third crash, and nobody of the others, who share one
        payload = {"to": self.key if kills else "somebody"}
        self.message = Message(self.key, payload, {"campaign_id": "spring", "recipient": "a@example.org"})
        self.queue: list[Message] = [self.message]
        self.failed_sends = 0
        self.crashes = 0
        self.dispositions: list[Disposition] = []
        self.violations: list[str] = []
        self.was_accepted_in_log = False
        fleet.worlds[self.key] = self

    @property
    def accepted(self) -> int:
        """How often the provider accepted it."""
        return sum(key == self.key for key, _ in self.fleet.acceptances)

    def parse(self, message: Message) -> Message:
        """Parse, unless the payload kills."""
        if self.kills:
            raise WorkerKilledError
        return message

    def send(self) -> str:
        """Do what the script says, and keep count."""
        self._look_at_send()
        outcome = self.script.pop(0) if self.script else "accepted"
        if outcome == "breaker open":  # no try: nobody was asked
            raise BreakerOpenError("ses", 30.0)
        if outcome != "accepted":
            self.failed_sends += 1
        if outcome in ("accepted", "reply lost"):
            self.fleet.acceptances.append((self.key, self.clock.now()))
        if outcome == "accepted":
            return f"provider-{self.key}"
        if outcome in ("reply lost", "request lost"):
            raise TimeoutError("timed out")
        if outcome == "refused connection":
            raise ConnectionRefusedError("refused")
        if outcome == "bug":
            raise ValueError("a bug in the sender")
        raise smtplib.SMTPResponseException(*REPLIES[outcome])

    def _look_at_send(self) -> None:
        """Note what forbids this send; an error raised here would be taken for the provider's."""
        record = self.backend.claims.get(self.key)
        delivery = self.backend.deliveries.get(self.key)
        if record is None or record.state is not ClaimState.SENDING:
            self.violations.append("a send that was not marked")
        for attempt in record.tries if record is not None else ():
            waited = (self.clock.now() - attempt.failed_at).total_seconds()
            if attempt.action is Action.RETRY and waited < attempt.delay - PRECISION:
                self.violations.append(f"a try after {waited} s of a wait of {attempt.delay} s")
        letters = self.backend.dead_letters.search(DeadLetterQuery(message_id=self.key)).letters
        if record is None or any(letter.generation >= record.generation for letter in letters):
            self.violations.append("sent while it stands in the dead letters")
        if delivery is not None and delivery.status is DeliveryStatus.BOUNCED_PERMANENT:
            self.violations.append("sent although it bounced")

    def lookup(self) -> Sent | NotAccepted | None:
        """Answer truthfully whether the message was accepted, if this lookup can tell."""
        answer = self.lookups.pop(0) if self.lookups else "truth"
        if answer == "down":
            raise ConnectionRefusedError("the provider's status service is down")
        if answer == "cannot tell":
            return None
        return Sent(f"provider-{self.key}") if self.accepted else NotAccepted()

    def handling(self, message: Message) -> Steps[Disposition]:
        """Return the flow of one `handle`."""
        return self.fleet.dispatcher._handle(message, None)

    def begin(self, steps: int = 0) -> Paused[Disposition]:
        """Let a worker take the first copy and make `steps` steps."""
        return self.fleet.begin(self.handling(self.queue.pop(0)), steps)

    def crash(self, steps: int) -> bool:
        """Let a worker die before its step number `steps`, its copy being delivered again; False: it had ended."""
        copy = self.queue[0]
        try:
            worker = self.begin(steps)
        except WorkerKilledError:
            pass
        else:
            if worker.done:
                self.end(worker)
                return False
        self.crashes += 1
        self.queue.append(copy)
        return True

    def end(self, worker: Paused[Disposition]) -> Disposition:
        """Let a worker finish; its copy is acked."""
        disposition = worker.finish()
        self.dispositions.append(disposition)
        self.look_at_log()
        return disposition

    def empty_queue(self) -> None:
        """Handle the copies in the queue without faults but those of a payload that kills."""
        while self.queue:
            copy = self.queue[0]
            try:
                self.end(self.begin())
            except WorkerKilledError:
                self.crashes += 1
                self.queue.append(copy)
                self.clock.advance(LEASE)

    def look_at_log(self) -> None:
        """Check that a known acceptance is never forgotten by the log."""
        delivery = self.backend.deliveries.get(self.key)
        accepted = delivery is not None and delivery.status in ACCEPTED
        assert accepted or not self.was_accepted_in_log, "the status moved backwards"
        self.was_accepted_in_log = accepted

    def settle(self) -> None:
        """Let the whole fleet run on without faults until nothing is left to do."""
        self.fleet.settle()

    def check(self) -> DispositionKind:
        """Check the invariants at rest, and return what became of the message."""
        record = audit(self.backend, self.message, self.accepted)
        assert not self.violations, f"{self.key}: {self.violations}"
        counters, failure = record.counters, record.failure
        unsent = failure is not None and failure.stage in ("parse", "validate", "render")
        assert counters.failed <= self.failed_sends + unsent, "a failed try counted that was none"
        assert counters.failed + counters.crashed <= self.failed_sends + self.crashes, "a try counted that was none"
        told = {disposition.kind for disposition in self.dispositions}
        assert DispositionKind.SENT not in told or record.disposition is DispositionKind.SENT, "an acceptance was lost"
        if record.reason is DeadLetterReason.POISON_MESSAGE and record.disposition is not DispositionKind.SENT:
            assert record.settled_at is not None
            recent = record.crashes_since(record.settled_at - timedelta(hours=72))
            assert recent == 3, f"condemned after {recent} crashes"
        if self.kills:
            assert record.reason is DeadLetterReason.POISON_MESSAGE, "a killer that is not condemned"
        letters = self.backend.dead_letters.search(DeadLetterQuery(message_id=self.key)).letters
        resolved = [letter.generation for letter in letters if letter.state is DeadLetterState.RESOLVED]
        last = max((letter.generation for letter in letters), default=0)
        assert (last in resolved) == (last > 0 and record.disposition is DispositionKind.SENT)
        assert not resolved or record.disposition is DispositionKind.SENT
        assert record.disposition is not None
        return record.disposition


WorldMaker = Callable[..., World]
"""Makes a world of its own fleet: `make(*script, **options)`, with the options of both."""
