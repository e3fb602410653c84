"""What is to be done about a failure, and what became of a message."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, cast

import attrs

from .codec import JSON
from .errors import InvalidPayloadError
from .failure import Failure
from .times import from_iso, to_iso, utc

__all__ = ["Action", "Attempt", "DeadLetterReason", "Decision", "Disposition", "DispositionKind"]


class Action(StrEnum):
    """What to do about a failure."""

    RETRY = "retry"
    """Try again after a delay."""
    VERIFY = "verify"
    """Find out whether it happened, then go on."""
    DEAD_LETTER = "dead_letter"
    """Take it out of circulation, with all evidence."""
    MARK_BOUNCED = "mark_bounced"
    """Record that the recipient cannot be reached."""
    MANUAL_REVIEW = "manual_review"
    """Take it out of circulation until a person has looked."""
    DISCARD = "discard"
    """Take it out of circulation for good; the evidence is kept."""


class DeadLetterReason(StrEnum):
    """Why a message was taken out of circulation."""

    RETRIES_EXHAUSTED = "retries_exhausted"
    EXPIRED = "expired"
    INVALID_PAYLOAD = "invalid_payload"
    RENDERING_FAILURE = "rendering_failure"
    POLICY_REJECTED = "policy_rejected"
    UNMAPPED_ERROR = "unmapped_error"
    POISON_MESSAGE = "poison_message"
    APPLICATION = "application"


@attrs.frozen
class Decision:
    """The answer of a policy to one failure."""

    action: Action
    """What to do."""
    delay: float
    """Seconds to wait first; 0 for final actions."""
    reason: str
    """The whole decision in one sentence, used alike in notes, logs, dead letters and on the command line."""
    dead_letter_reason: DeadLetterReason | None = None
    """Why circulation ends, for final actions."""
    audit: bool = False
    """Whether a bounced message leaves a dead letter as well."""

    @property
    def is_final(self) -> bool:
        """Whether nothing more is tried."""
        return self.action not in (Action.RETRY, Action.VERIFY)


def _utc(instant: datetime) -> datetime:
    return utc(instant, "failed_at")


def _started_at(instant: datetime) -> datetime:
    return utc(instant, "started_at")


@attrs.frozen(kw_only=True)
class Attempt:
    """One failed try in a message's history."""

    number: int
    """Counted from 1 within the generation."""
    generation: int
    """How often the message had been redriven, counted from 1."""
    failed_at: datetime = attrs.field(converter=_utc)
    """When it failed, aware, in UTC."""
    failure: Failure
    """How it failed."""
    action: Action
    """What was decided."""
    delay: float = 0.0
    """Seconds until the next try."""
    reason: str = ""
    """The decision in one sentence."""
    worker: str | None = None
    """Who tried."""
    started_at: datetime | None = attrs.field(default=None, converter=attrs.converters.optional(_started_at))
    """When a worker that was lost had been given the message, aware, in UTC."""
    extra: Mapping[str, JSON] = attrs.field(factory=dict[str, JSON], hash=False)
    """Fields that this version does not know, kept as they came."""

    def to_dict(self) -> dict[str, JSON]:
        """Return the attempt as JSON values."""
        return {
            **self.extra,
            "number": self.number,
            "generation": self.generation,
            "failed_at": to_iso(self.failed_at),
            "action": self.action.value,
            "delay": self.delay,
            "reason": self.reason,
            "worker": self.worker,
            **({} if self.started_at is None else {"started_at": to_iso(self.started_at)}),
            **self.failure.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, JSON]) -> Attempt:
        """Make an attempt of what `to_dict` gave.

        Raises:
            InvalidPayloadError: a field is missing or of another type; it is named.
        """
        number, generation = _whole(fields, "number"), _whole(fields, "generation")
        if isinstance(fields.get("delay", 0.0), bool) or not isinstance(fields.get("delay", 0.0), (int, float)):
            raise InvalidPayloadError("delay of an attempt is no number of seconds")
        for name in ("failed_at", "action", "error_class", "error_group", "outcome"):
            if not isinstance(fields.get(name), str):
                raise InvalidPayloadError(f"{name} of an attempt is missing or no text")
        return cls(
            number=number,
            generation=generation,
            failed_at=from_iso(cast("str", fields["failed_at"]), "failed_at"),
            failure=Failure.from_dict(fields),
            action=Action(cast("str", fields["action"])),
            delay=cast("float", fields.get("delay", 0.0)),
            reason=cast("str", fields.get("reason", "")),
            worker=cast("str | None", fields.get("worker")),
            started_at=_optional_instant(fields, "started_at"),
            extra={name: value for name, value in fields.items() if name not in _ATTEMPT_FIELDS},
        )


_ATTEMPT_FIELDS: Final = frozenset(
    {field.name for cls in (Attempt, Failure) for field in attrs.fields(cls)} - {"failure", "extra"} | {"error_group"}
)
"""Fields of an attempt as it is written down."""


def _optional_instant(fields: Mapping[str, JSON], name: str) -> datetime | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidPayloadError(f"{name} of an attempt is no text")
    return from_iso(value, name)


def _whole(fields: Mapping[str, JSON], name: str) -> int:
    """Return a whole number, which JSON may also write as 4.0."""
    value = fields.get(name)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidPayloadError(f"{name} of an attempt is no whole number")
    return value


class DispositionKind(StrEnum):
    """What became of a handled message."""

    SENT = "sent"
    """The provider accepted it."""
    DUPLICATE = "duplicate"
    """It was settled before; this copy changed nothing."""
    RETRY_SCHEDULED = "retry_scheduled"
    """It waits in the retry queue."""
    VERIFYING = "verifying"
    """It may have been sent; it waits until that is known."""
    DEAD_LETTERED = "dead_lettered"
    """It lies in the dead letter queue."""
    BOUNCED = "bounced"
    """The recipient cannot be reached."""
    HELD_FOR_REVIEW = "held_for_review"
    """It lies in the dead letter queue until a person has looked."""
    DISCARDED = "discarded"
    """It was taken out of circulation for good."""


@attrs.frozen(kw_only=True)
class Disposition:
    """What became of a handled message. Whatever it is, the application may now ack its copy."""

    kind: DispositionKind
    """What became of it."""
    message_id: str
    """Of which message."""
    settled: DispositionKind | None = None
    """For a duplicate: what became of the message before."""
    failure: Failure | None = None
    """The failure that led here, if one did."""
    due_at: datetime | None = None
    """When it is due again, if it waits."""
    dead_letter_id: str | None = None
    """Its dead letter, if it has one."""
    provider: str | None = None
    """Who accepted it, if it was sent and the sender said so."""
    provider_id: str | None = None
    """The provider's own id, if it was sent and the sender said so."""
    reason: str = ""
    """Why, in one sentence."""
    attempts: int = 0
    """How many tries it has had in this generation, the one that sent it included."""
    dead_letter_reason: DeadLetterReason | None = None
    """Why it was taken out of circulation, if it was."""
