"""Find out about a send whose outcome is unknown, and settle it.

A try that may have had its effect is never repeated before it was asked about: first the delivery log, then the
provider's `StatusLookup`. Accepted: it was sent. Not accepted: the policy goes on as after any failed try. Cannot tell:
ask again later, and at the message's maximum age hand it to a person.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import attrs

from ._steps import Steps, do
from .clock import Clock, current_clock
from .decision import Action, DeadLetterReason, Decision, DispositionKind
from .delivery import AsyncStatusLookup, NotAccepted, Sent, StatusLookup
from .errors import ConfigurationError
from .events import Listener, OutcomeVerified, emit, listeners_of
from .failure import Outcome
from .machines import claim as machine
from .machines.poison import is_crash
from .machines.status import DeliveryStatus
from .policy import PolicyMatrix, Rng
from .projection import Projection
from .stores import AsyncBackend, Backend, ClaimRecord, ClaimState
from .times import plain

__all__ = ["MAX_AGE", "Verification"]

MAX_AGE: Final = 3 * 86400.0
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
        answer = yield from self._evidence(record.key)
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

    def _evidence(self, key: str) -> Steps[Sent | NotAccepted | None]:
        delivery = yield from do(self._backend.deliveries.get, key)
        if delivery is not None and delivery.is_accepted:
            return Sent(delivery.provider_id, delivery.provider)
        return (yield from self.ask(key))

    def ask(self, key: str) -> Steps[Sent | NotAccepted | None]:
        """Ask the lookup whether a message was accepted; None when it cannot tell, or may not be asked."""
        answer: Sent | NotAccepted | None = None
        failed: str | None = None
        if self._lookup is not None and self._matrix.on_unknown is Action.VERIFY:
            try:
                answer = _answer(self._lookup, (yield from do(self._lookup, key)))
            except Exception as error:  # noqa: BLE001 - a lookup that fails cannot tell
                failed = f"{type(error).__name__}: {error}"
        emit(
            self._listeners,
            OutcomeVerified(
                at=self._now(),
                message_id=key,
                accepted=None if answer is None else isinstance(answer, Sent),
                error=failed,
            ),
        )
        return answer

    def _now(self) -> datetime:
        return (self._clock or current_clock()).now()

    def _decide(self, record: ClaimRecord, *, is_known: bool) -> Decision:
        """Decide on a message that was not accepted, or (`is_known` false) of which that cannot be told."""
        matrix, tries = self._matrix, record.tries
        if not is_known and matrix.on_unknown is Action.VERIFY:
            return self._ask_again(record)
        if not is_known and matrix.on_unknown is not Action.RETRY:
            return Decision(matrix.on_unknown, 0.0, "it may have been sent", DeadLetterReason.APPLICATION)
        again = Decision(Action.RETRY, 0.0, "the provider did not accept it, tried again at once")
        if not tries or is_crash(tries[-1]):
            if len(tries) < matrix.max_attempts:
                return again
            return Decision(Action.DEAD_LETTER, 0.0, "all attempts used", DeadLetterReason.RETRIES_EXHAUSTED)
        failure = attrs.evolve(tries[-1].failure, outcome=Outcome.NOT_SENT)
        decision = matrix.decide(failure, tries[:-1], age=record.age(self._now()), rng=self._rng)
        return again if decision.action is Action.RETRY else decision

    def _ask_again(self, record: ClaimRecord) -> Decision:
        """Decide when to ask again; what was interrupted or put back has no failed try to count from."""
        begin = record.tries[0].failed_at if record.tries else record.opened_at
        age = max(0.0, (self._now() - begin).total_seconds())
        limit = self._matrix.max_age or MAX_AGE
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
