"""Find out about sends whose outcome is unknown, and settle each.

A try that may have had its effect is never repeated before it was asked about: first the delivery log, then the
provider's `StatusLookup`. Accepted: it was sent. Not accepted: the policy goes on as after any failed try. Cannot tell:
ask again later, and at the message's maximum age hand it to a person.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import count
from typing import Final

import attrs

from ._steps import Steps, arun, do, run
from .clock import Clock, current_clock
from .decision import Action, DeadLetterReason, Decision, DispositionKind
from .delivery import AsyncStatusLookup, NotAccepted, Sent, StatusLookup
from .errors import ConfigurationError
from .events import Listener, OutcomeVerified, emit, listeners_of
from .failure import Outcome
from .lease import new_owner
from .machines import claim as machine
from .machines.status import DeliveryStatus
from .policy import EMAIL_MATRIX, PolicyMatrix, Rng
from .projection import Projection
from .stores import AsyncBackend, Backend, ClaimRecord, ClaimState
from .times import Duration, plain, seconds

__all__ = ["AsyncReconciler", "ReconcileReport", "Reconciler", "Verification"]

_MAX_AGE: Final = 3 * 86400.0
"""Seconds after which an unknown outcome goes to a person, where the matrix sets no limit."""


class Verification:
    """Settles one message whose outcome is unknown; shared by the dispatcher and the reconciler."""

    def __init__(
        self,
        backend: Backend | AsyncBackend,
        *,
        matrix: PolicyMatrix,
        lookup: StatusLookup | AsyncStatusLookup | None,
        on_event: Iterable[Listener],
        clock: Clock | None,
        rng: Rng | None,
    ) -> None:
        self._backend = backend
        self._matrix = matrix
        self._lookup = lookup
        self._listeners = listeners_of(on_event)
        self._clock = clock
        self._rng = rng
        self._projection = Projection(backend, clock)

    def settle(self, record: ClaimRecord) -> Steps[ClaimRecord | None]:
        """Find out about a record that the caller holds for verification.

        Returns:
            The record as settled: sent, waiting (not accepted, due now), unknown (to be asked again) or given up; None
            when somebody else has taken over.
        """
        answer = yield from self._evidence(record)
        if isinstance(answer, Sent):
            yield from self._projection.log(
                record, DeliveryStatus.SENT_TO_PROVIDER, provider=answer.provider, provider_id=answer.provider_id
            )
            sent = machine.sent(record, provider=answer.provider, provider_id=answer.provider_id)
            settled = yield from do(self._backend.claims.settle, sent, record.seq)
            if settled is None:  # somebody else has taken over, but that it was sent is a fact
                settled = yield from do(
                    self._backend.claims.confirm,
                    record.key,
                    provider=answer.provider,
                    provider_id=answer.provider_id,
                )
            return settled
        decision = self._decide(record, is_known=answer is not None)
        decided = machine.decided(record, decision, is_unsure=answer is None)
        settled = yield from do(self._backend.claims.settle, decided, record.seq, delay=decision.delay)
        return None if settled is None else (yield from self.reconsider(settled))

    def reconsider(self, record: ClaimRecord) -> Steps[ClaimRecord]:
        """Look once more at the log of a message that was settled unsent: who learned that it was sent may have died.

        Returns:
            The record, confirmed as sent if the log says so.
        """
        if record.state is not ClaimState.DONE or record.disposition is DispositionKind.SENT:
            return record
        delivery = yield from do(self._backend.deliveries.get, record.key)
        if delivery is None or not delivery.is_accepted:
            return record
        return (
            yield from do(
                self._backend.claims.confirm,
                record.key,
                provider=delivery.provider,
                provider_id=delivery.provider_id,
            )
        )

    def _evidence(self, record: ClaimRecord) -> Steps[Sent | NotAccepted | None]:
        delivery = yield from do(self._backend.deliveries.get, record.key)
        if delivery is not None and delivery.is_accepted:
            return Sent(delivery.provider_id, delivery.provider)
        answer: Sent | NotAccepted | None = None
        failed: str | None = None
        if self._lookup is not None and self._matrix.on_unknown is Action.VERIFY:
            try:
                answer = _answer(self._lookup, (yield from do(self._lookup, record.key)))
            except Exception as error:  # noqa: BLE001 - a lookup that fails cannot tell
                failed = f"{type(error).__name__}: {error}"
        emit(
            self._listeners,
            OutcomeVerified(
                at=self._now(),
                message_id=record.key,
                accepted=None if answer is None else isinstance(answer, Sent),
                error=failed,
            ),
        )
        return answer

    def _now(self) -> datetime:
        return (self._clock or current_clock()).now()

    def _decide(self, record: ClaimRecord, *, is_known: bool) -> Decision:
        """Decide on a message that was not accepted, or (`is_known` false) of which that cannot be told."""
        matrix, tries, age = self._matrix, record.tries, record.age(self._now())
        if not is_known and matrix.on_unknown is Action.VERIFY:
            return self._ask_again(record, age)
        if not is_known and matrix.on_unknown is not Action.RETRY:
            return Decision(matrix.on_unknown, 0.0, "it may have been sent", DeadLetterReason.APPLICATION)
        again = Decision(Action.RETRY, 0.0, "the provider did not accept it, tried again at once")
        if not tries or machine.is_crash(tries[-1]):
            if len(tries) < matrix.max_attempts:
                return again
            return Decision(Action.DEAD_LETTER, 0.0, "all attempts used", DeadLetterReason.RETRIES_EXHAUSTED)
        failure = attrs.evolve(tries[-1].failure, outcome=Outcome.NOT_SENT)
        decision = matrix.decide(failure, tries[:-1], age=age, rng=self._rng)
        return again if decision.action is Action.RETRY else decision

    def _ask_again(self, record: ClaimRecord, age: float) -> Decision:
        limit = self._matrix.max_age or _MAX_AGE
        delay = self._matrix.verify_backoff.delay(record.checks + 2, self._rng)
        if age + delay > limit:
            reason = f"it may have been sent, and after {plain(age)} s nobody can tell: manual review"
            return Decision(Action.MANUAL_REVIEW, 0.0, reason, DeadLetterReason.EXPIRED)
        return Decision(Action.VERIFY, delay, f"it may have been sent, asked again in {plain(delay)} s")


def _answer(lookup: object, value: object) -> Sent | NotAccepted | None:
    """Return a lookup's answer.

    Raises:
        ConfigurationError: it is none that a lookup may give. To take it for "not accepted" could send twice.
    """
    if value is None or isinstance(value, (Sent, NotAccepted)):
        return value
    raise ConfigurationError(
        f"the lookup {lookup!r} gave {type(value).__name__}; allowed are Sent(...), NotAccepted(), or None if it cannot tell"
    )


@attrs.frozen
class ReconcileReport:
    """What one run of a reconciler settled."""

    sent: int = 0
    """Had been accepted."""
    not_sent: int = 0
    """Had not been accepted; the policy went on."""
    unsure: int = 0
    """Could not be told yet."""
    given_up: int = 0
    """Went to a person or to the dead letters."""

    def plus(self, record: ClaimRecord | None) -> ReconcileReport:
        """Return the report with one more message."""
        if record is None:
            return self
        if record.disposition is DispositionKind.SENT:
            return attrs.evolve(self, sent=self.sent + 1)
        if record.state is ClaimState.UNKNOWN:
            return attrs.evolve(self, unsure=self.unsure + 1)
        if record.state is ClaimState.WAITING:
            return attrs.evolve(self, not_sent=self.not_sent + 1)
        return attrs.evolve(self, given_up=self.given_up + 1)


class _ReconcileFlow:
    """The one logic of both colours."""

    def __init__(
        self,
        backend: Backend | AsyncBackend,
        lookup: StatusLookup | AsyncStatusLookup | None,
        matrix: PolicyMatrix,
        lease: Duration,
        on_event: Iterable[Listener],
        clock: Clock | None,
    ) -> None:
        self._backend = backend
        self._lease = seconds(lease, "lease", positive=True)
        self._verification = Verification(
            backend, matrix=matrix, lookup=lookup, on_event=on_event, clock=clock, rng=None
        )
        self._projection = Projection(backend, clock)
        self._owner = new_owner()
        self._holds = count(1)

    def _run_once(self, limit: int) -> Steps[ReconcileReport]:
        report = ReconcileReport()
        for key in (yield from do(self._backend.claims.unsettled, limit)):
            owner = f"{self._owner}/{next(self._holds)}"
            record = yield from do(self._backend.claims.claim_unknown, key, owner=owner, lease=self._lease)
            if record is None:
                continue
            settled = yield from self._verification.settle(record)
            if settled is not None:
                yield from self._projection.show(settled, None)
            report = report.plus(settled)
        return report


class Reconciler(_ReconcileFlow):
    """Settles unknown outcomes where no copy of the message comes by.

    Args:
        backend: where the claims and the delivery log are.
        lookup: asks the provider; None relies on the delivery log alone.
        matrix: the policy that goes on when a message was not accepted; the dispatcher's.
        lease: for how long one message is held, longer than one lookup takes.
        on_event: listeners.
        clock: where the time comes from; None: the clock in force.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        lookup: StatusLookup | None = None,
        matrix: PolicyMatrix = EMAIL_MATRIX,
        lease: Duration = "1m",
        on_event: Iterable[Listener] = (),
        clock: Clock | None = None,
    ) -> None:
        super().__init__(backend, lookup, matrix, lease, on_event, clock)

    def run_once(self, limit: int = 100) -> ReconcileReport:
        """Settle up to `limit` messages whose time has come, and report what came out."""
        return run(self._run_once(limit))


class AsyncReconciler(_ReconcileFlow):
    """`Reconciler` for asynchronous callers."""

    def __init__(
        self,
        backend: AsyncBackend,
        *,
        lookup: AsyncStatusLookup | None = None,
        matrix: PolicyMatrix = EMAIL_MATRIX,
        lease: Duration = "1m",
        on_event: Iterable[Listener] = (),
        clock: Clock | None = None,
    ) -> None:
        super().__init__(backend, lookup, matrix, lease, on_event, clock)

    async def run_once(self, limit: int = 100) -> ReconcileReport:
        """Settle up to `limit` messages whose time has come, and report what came out."""
        return await arun(self._run_once(limit))
