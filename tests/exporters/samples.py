"""Events of each kind, and a dispatcher that makes some."""

from __future__ import annotations

from datetime import UTC, datetime

from retrykit.decision import Action, DeadLetterReason, Decision, Disposition, DispositionKind
from retrykit.events import (
    AttemptFailed,
    BreakerChanged,
    DeliveryMismatch,
    Event,
    MessageHandled,
    MessageQuarantined,
    MessageRepublished,
    OutcomeVerified,
    PublishFailed,
    RedriveChanged,
    UnknownCode,
)
from retrykit.failure import ErrorClass, Failure, Outcome

AT = datetime(2026, 1, 1, tzinfo=UTC)
ADDRESS = "ada@example.org"


def failure(error_class=ErrorClass.MAILBOX_FULL, *, provider="ses", code="452"):
    return Failure(
        error_class=error_class,
        outcome=Outcome.REJECTED,
        error_code=code,
        error_message=f"<{ADDRESS}> is over quota",
        provider=provider,
    )


def attempt(number=1, action=Action.RETRY, delay=900.0, **kwargs):
    decision = Decision(action, delay, "why")
    return AttemptFailed(at=AT, subject="welcome-17", attempt=number, failure=failure(**kwargs), decision=decision)


def handled(kind, **kwargs):
    return MessageHandled(at=AT, disposition=Disposition(kind=kind, message_id="welcome-17", **kwargs))


DEAD = handled(
    DispositionKind.DEAD_LETTERED,
    failure=failure(),
    dead_letter_id="letter-1",
    attempts=4,
    dead_letter_reason=DeadLetterReason.RETRIES_EXHAUSTED,
)

EVENTS: tuple[Event, ...] = (
    attempt(),
    BreakerChanged(at=AT, name="ses", before="closed", after="open", failure=failure()),
    DeliveryMismatch(
        at=AT, kind="missing", message_id="welcome-17", provider="ses", provider_id="p-1", detail=f"of {ADDRESS}"
    ),
    handled(DispositionKind.SENT, attempts=1),
    DEAD,
    MessageQuarantined(at=AT, message_id="welcome-17", dead_letter_id="letter-1", reason="3 crashes"),
    MessageRepublished(at=AT, message_id="welcome-17", due_at=AT),
    OutcomeVerified(at=AT, message_id="welcome-17", accepted=True),
    PublishFailed(at=AT, message_id="welcome-17", error=f"ConnectionError: not for {ADDRESS}"),
    RedriveChanged(at=AT, redrive_id="r-1", state="stopped", note="too many failed"),
    UnknownCode(at=AT, code="X-99", provider="ses", failure=failure()),
)
