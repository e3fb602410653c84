"""Make the other stores show what a claim record says.

A decision is first settled in the claim record, then shown in the retry queue, the dead letters and the delivery log.
Showing is idempotent and carries the record's version, so any later copy of the message that meets a settled record may
do it again: a death between settling and showing heals at the next copy.
"""

from __future__ import annotations

from datetime import datetime

from ._steps import Steps, do
from .clock import Clock, current_clock
from .dead_letter import DeadLetter, DeadLetterState
from .deadletter.capture import Capture
from .decision import DeadLetterReason, Disposition, DispositionKind
from .failure import ErrorClass, Failure, Outcome
from .fingerprint import fingerprint
from .message import Message
from .stores import AsyncBackend, Backend, ClaimRecord, ClaimState, Delivery, DeliveryStatus

__all__ = ["Projection", "dead_letter_of", "disposition_of"]


class Projection:
    """Shows claim records in the other stores of a backend."""

    def __init__(self, backend: Backend | AsyncBackend, clock: Clock | None, capture: Capture | None = None) -> None:
        self._backend = backend
        self._clock = clock
        self._capture = capture

    def show(self, record: ClaimRecord, message: Message | None) -> Steps[None]:
        """Show a waiting, unknown or settled record.

        Args:
            record: as the claim store holds it.
            message: a copy of the message; None where there is none, and then what needs one is left to the next copy.
        """
        if message is not None:
            if record.state in (ClaimState.WAITING, ClaimState.UNKNOWN):
                due_at = record.not_before or self._now()
                yield from do(
                    self._backend.retries.schedule,
                    message,
                    due_at,
                    generation=record.generation,
                    version=record.seq,
                )
            elif record.dead_letter_id is not None and record.disposition is not DispositionKind.SENT:
                letter = dead_letter_of(record, message)
                if self._capture is not None:
                    letter = self._capture.apply(letter)
                yield from do(self._backend.dead_letters.put, letter)
        if message is not None or record.dead_letter_id is None or record.disposition is DispositionKind.SENT:
            yield from self.close_letters(record)
        yield from self.log(record, _status(record))

    def close_letters(self, record: ClaimRecord) -> Steps[None]:
        """Show in the letters of a settled record's message that they are not waiting any more.

        What was sent has resolved its letters. What was put back and came to another end has left the letter that it came from
        behind, and, if it died again, has a new one, which has to be there before.
        """
        letters = self._backend.dead_letters
        if record.disposition is DispositionKind.SENT:
            for letter_id in (record.dead_letter_id, record.redriven_from):
                if letter_id is not None:
                    yield from do(letters.resolve, letter_id)
        elif record.state is ClaimState.DONE and record.redriven_from is not None:
            yield from do(letters.supersede, record.redriven_from)

    def log(
        self,
        record: ClaimRecord,
        status: DeliveryStatus,
        *,
        provider: str | None = None,
        provider_id: str | None = None,
    ) -> Steps[None]:
        """Report a status of the record's message to the delivery log."""
        delivery = Delivery(
            message_id=record.key,
            status=status,
            version=record.seq,
            provider=provider or record.provider,
            provider_id=provider_id or record.provider_id,
            updated_at=self._now(),
        )
        yield from do(self._backend.deliveries.record, delivery)

    def _now(self) -> datetime:
        return (self._clock or current_clock()).now()


def _status(record: ClaimRecord) -> DeliveryStatus:
    if record.state is ClaimState.WAITING:
        return DeliveryStatus.DEFERRED
    if record.disposition is DispositionKind.SENT:
        return DeliveryStatus.SENT_TO_PROVIDER
    if record.disposition is DispositionKind.BOUNCED:
        return DeliveryStatus.BOUNCED_PERMANENT
    if record.state is ClaimState.UNKNOWN or record.is_unsure:
        return DeliveryStatus.UNKNOWN  # also when it was given up: nobody knows that it was not sent
    return DeliveryStatus.FAILED_INTERNAL


def disposition_of(record: ClaimRecord) -> Disposition:
    """Return what became of a waiting, unknown or settled record's message."""
    kind = record.disposition
    if kind is None:
        unknown = record.state is ClaimState.UNKNOWN
        kind = DispositionKind.VERIFYING if unknown else DispositionKind.RETRY_SCHEDULED
    is_sent = kind is DispositionKind.SENT
    return Disposition(
        kind=kind,
        message_id=record.key,
        failure=None if is_sent else record.failure,
        due_at=record.not_before,
        dead_letter_id=None if is_sent else record.dead_letter_id,
        provider=record.provider,
        provider_id=record.provider_id,
        reason=record.note,
        attempts=len(record.tries) + is_sent,
        dead_letter_reason=None if is_sent else record.reason,
    )


_NO_FAILURE = Failure(error_class=ErrorClass.UNKNOWN, outcome=Outcome.NOT_SENT, rule="none")


def dead_letter_of(record: ClaimRecord, message: Message) -> DeadLetter:
    """Return the evidence of a record that is settled without having been sent."""
    tries = record.tries
    failure = record.failure or _NO_FAILURE
    died = record.settled_at or record.opened_at
    discarded = record.disposition is DispositionKind.DISCARDED
    return DeadLetter(
        id=record.dead_letter_id or "",
        message_id=record.key,
        generation=record.generation,
        source=message.attributes.get("source"),
        campaign_id=message.attributes.get("campaign_id"),
        recipient=message.attributes.get("recipient"),
        provider=failure.provider or message.attributes.get("provider"),
        error_class=failure.error_class,
        error_code=failure.error_code,
        enhanced_code=failure.enhanced_code,
        error_message=failure.error_message,
        stage=failure.stage,
        reason=record.reason or DeadLetterReason.POLICY_REJECTED,
        attempt_count=record.counters.failed + record.counters.crashed,
        first_failed_at=tries[0].failed_at if tries else None,
        last_failed_at=tries[-1].failed_at if tries else died,
        dead_lettered_at=died,
        attempts=record.attempts,
        decision=record.note,
        fingerprint=fingerprint(failure),
        state=DeadLetterState.DISCARDED if discarded else DeadLetterState.QUARANTINED,
        redrive_count=record.generation - 1,
        original_payload=message.body,
        attributes=message.attributes,
    )
