"""The dead letter: the full evidence of a message that was taken out of circulation.

The minimal record of nine fields (message_id, campaign_id, recipient, error_class, error_code, error_message,
attempt_count, last_failed_at, original_payload) loads; fields of a newer version are kept, not dropped.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, cast

import attrs

from . import codec
from .codec import JSON
from .decision import Attempt, DeadLetterReason
from .errors import InvalidPayloadError
from .failure import ErrorClass, ErrorGroup
from .times import from_iso, from_millis, to_iso, utc

__all__ = [
    "SCHEMA_VERSION",
    "DeadLetter",
    "DeadLetterState",
    "Edit",
    "PayloadState",
    "dead_letter_id",
    "dead_letter_schema",
]

SCHEMA_VERSION: Final = 1


class DeadLetterState(StrEnum):
    """Where a dead letter stands."""

    QUARANTINED = "quarantined"
    """Out of circulation, waiting for a person."""
    REDRIVING = "redriving"
    """Being put back."""
    RESOLVED = "resolved"
    """Its message was sent after all."""
    DISCARDED = "discarded"
    """Given up for good; the evidence stays."""
    SUPERSEDED = "superseded"
    """Put back, and its message came to another end, which its claim tells; if it died again, its next letter."""


class PayloadState(StrEnum):
    """What a dead letter holds of its message: of the payload and of the attributes."""

    COMPLETE = "complete"
    """All, as it came in."""
    ENCRYPTED = "encrypted"
    """All, for whoever has the cipher."""
    MASKED = "masked"
    """Enough to see what it was; some values are replaced for good."""
    WITHHELD = "withheld"
    """Nothing of the payload."""


def dead_letter_id(message_id: str, generation: int) -> str:
    """Return the id of the letter of a message's generation: derived, so that a repeated put is one letter."""
    return f"{message_id}#{generation}"


def dead_letter_schema() -> dict[str, JSON]:
    """Return the JSON Schema (2020-12) of what `DeadLetter.to_dict` gives and `DeadLetter.from_dict` takes.

    It describes the full record and the minimal one of nine fields, and leaves room for the fields of newer versions.
    The same schema is the file ``retrykit/schemas/dead_letter.v1.json`` of the installed package.

    Example:
        >>> dead_letter_schema()["required"]
        ['message_id', 'error_class', 'attempt_count', 'last_failed_at', 'original_payload']
    """
    from importlib.resources import files  # only here: few programs ask

    text = files("retrykit").joinpath(f"schemas/dead_letter.v{SCHEMA_VERSION}.json").read_bytes()
    return cast("dict[str, JSON]", codec.decode(text))


def _whole(value: JSON) -> JSON:
    """Return 4 for 4.0, which JSON takes for the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _instant(value: JSON, name: str) -> datetime:
    value = _whole(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InvalidPayloadError(
            f"{name} is {value!r}; allowed are ISO 8601 text with a timezone, or epoch milliseconds"
        )
    try:
        return from_iso(value, name) if isinstance(value, str) else from_millis(value)
    except OverflowError:
        raise InvalidPayloadError(f"{name} is {value!r}; allowed are the years 1 to 9999") from None


def _utc(instant: datetime) -> datetime:
    return utc(instant)


@attrs.frozen(kw_only=True)
class Edit:
    """A repair: what is put back in place of the original, which stays."""

    payload: bytes
    """JSON; or that encrypted, with the attributes, where `cipher` says so."""
    attributes: Mapping[str, str] = attrs.field(factory=dict[str, str], hash=False)
    cipher: str | None = None
    """The name of the cipher that the payload is for."""
    by: str
    """Who repaired it."""
    why: str
    at: datetime = attrs.field(converter=_utc)

    def to_dict(self) -> dict[str, JSON]:
        """Return the edit as JSON values."""
        payload, encoding = _written(self.payload)
        return {
            "payload": payload,
            "payload_encoding": encoding,
            "attributes": dict(self.attributes),
            "cipher": self.cipher,
            "by": self.by,
            "why": self.why,
            "at": to_iso(self.at),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, JSON]) -> Edit:
        """Make an edit of what `to_dict` gave."""
        rest = dict(fields)
        return cls(
            payload=_read_payload(rest, "payload"),
            attributes=_texts(rest, "attributes"),
            cipher=_text(rest, "cipher"),
            by=_text(rest, "by") or "",
            why=_text(rest, "why") or "",
            at=_instant(rest["at"], "at"),
        )


@attrs.frozen(kw_only=True)
class DeadLetter:
    """The evidence of one death."""

    id: str
    """Derived from message id and generation."""
    message_id: str
    generation: int = 1
    """How often the message had been put into circulation when it died, counted from 1."""
    source: str | None = None
    """The application's name for where the message came from."""
    campaign_id: str | None = None
    recipient: str | None = None
    provider: str | None = None
    error_class: ErrorClass
    error_code: str | None = None
    enhanced_code: str | None = None
    error_message: str = ""
    stage: str | None = None
    reason: DeadLetterReason
    attempt_count: int
    """Failed and crashed tries of this generation."""
    first_failed_at: datetime | None = attrs.field(default=None, converter=attrs.converters.optional(_utc))
    last_failed_at: datetime = attrs.field(converter=_utc)
    dead_lettered_at: datetime = attrs.field(converter=_utc)
    attempts: tuple[Attempt, ...] = ()
    """The history, oldest first."""
    decision: str = ""
    """The decision that ended its circulation, in one sentence."""
    fingerprint: str | None = None
    """Equal for letters of one cause."""
    state: DeadLetterState = DeadLetterState.QUARANTINED
    redrive_count: int = 0
    redrive_id: str | None = None
    """The redrive that puts it back, or did."""
    note: str = ""
    """What a person said who put it back, edited or discarded it: the latest."""
    edit: Edit | None = None
    """What is to be put back in place of the original, where somebody has repaired it."""
    original_payload: bytes
    """What came in, byte for byte; or what is kept of it, as `payload_state` says."""
    payload_state: PayloadState = PayloadState.COMPLETE
    """What is kept of the message. Only a complete or encrypted one can be put back into circulation."""
    payload_cipher: str | None = None
    """The name of the cipher that an encrypted payload is for."""
    capture_note: str = ""
    """What was left out when the letter was written, and why; empty where nothing was."""
    attributes: Mapping[str, str] = attrs.field(factory=dict[str, str], hash=False)
    schema_version: int = SCHEMA_VERSION
    extra: Mapping[str, JSON] = attrs.field(factory=dict[str, JSON], hash=False)
    """Fields that this version does not know, kept as they came."""

    @property
    def error_group(self) -> ErrorGroup:
        """Who is at fault: the class's group."""
        return self.error_class.group

    def to_dict(self) -> dict[str, JSON]:
        """Return the letter as JSON values; bytes that are not UTF-8 become base64, and the record says so."""
        payload, encoding = _written(self.original_payload)
        return {
            **self.extra,
            "schema_version": self.schema_version,
            "id": self.id,
            "message_id": self.message_id,
            "generation": self.generation,
            "source": self.source,
            "campaign_id": self.campaign_id,
            "recipient": self.recipient,
            "provider": self.provider,
            "error_group": self.error_group.value,
            "error_class": str(self.error_class),
            "error_code": self.error_code,
            "enhanced_code": self.enhanced_code,
            "error_message": self.error_message,
            "stage": self.stage,
            "reason": self.reason.value,
            "attempt_count": self.attempt_count,
            "first_failed_at": None if self.first_failed_at is None else to_iso(self.first_failed_at),
            "last_failed_at": to_iso(self.last_failed_at),
            "dead_lettered_at": to_iso(self.dead_lettered_at),
            "attempts": [attempt.to_dict() for attempt in self.attempts],
            "decision": self.decision,
            "fingerprint": self.fingerprint,
            "state": self.state.value,
            "redrive_count": self.redrive_count,
            "redrive_id": self.redrive_id,
            "note": self.note,
            "edit": None if self.edit is None else self.edit.to_dict(),
            "original_payload": payload,
            "original_payload_encoding": encoding,
            "payload_state": self.payload_state.value,
            "payload_cipher": self.payload_cipher,
            "capture_note": self.capture_note,
            "attributes": dict(self.attributes),
        }

    def to_json(self) -> str:
        """Return the letter as one line of JSON."""
        return codec.encode(self.to_dict()).decode("ascii")

    @classmethod
    def from_json(cls, text: str | bytes) -> DeadLetter:
        """Make a letter of what `to_json` gave.

        Raises:
            InvalidPayloadError: as for `from_dict`, or the text is not JSON.
        """
        value = codec.decode(text)
        if not isinstance(value, Mapping):
            raise InvalidPayloadError(f"a dead letter is a JSON object, not {type(value).__name__}")
        return cls.from_dict(value)

    @classmethod
    def from_dict(cls, fields: Mapping[str, JSON]) -> DeadLetter:
        """Make a letter of what `to_dict` gave, or of a record with the nine minimal fields.

        Raises:
            InvalidPayloadError: a required field is missing or has a value that is not allowed; the field is named.
        """
        required = ("message_id", "error_class", "attempt_count", "last_failed_at", "original_payload")
        missing = [name for name in required if fields.get(name) is None]
        if missing:
            raise InvalidPayloadError(f"a dead letter needs the fields {', '.join(missing)}")
        optional = {field.name for field in attrs.fields(cls)}
        rest = {name: value for name, value in fields.items() if value is not None or name not in optional}
        try:
            return cls._read(rest)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InvalidPayloadError(f"the dead letter of {fields['message_id']!r} cannot be read: {error}") from error

    @classmethod
    def _read(cls, rest: dict[str, JSON]) -> DeadLetter:
        body = _read_payload(rest, "original_payload")
        name, group = cast("str", _text(rest, "error_class")), _text(rest, "error_group")
        message_id = cast("str", _text(rest, "message_id"))
        generation = _number(rest, "generation", 1)
        last = _instant(rest.pop("last_failed_at"), "last_failed_at")
        first, died = rest.pop("first_failed_at", None), rest.pop("dead_lettered_at", None)
        attempts = cast("list[dict[str, JSON]]", rest.pop("attempts", []))
        return cls(
            id=_text(rest, "id") or dead_letter_id(message_id, generation),
            message_id=message_id,
            generation=generation,
            error_class=_class_of(name, group),
            reason=DeadLetterReason(cast("str", rest.pop("reason", DeadLetterReason.APPLICATION.value))),
            first_failed_at=None if first is None else _instant(first, "first_failed_at"),
            last_failed_at=last,
            dead_lettered_at=last if died is None else _instant(died, "dead_lettered_at"),
            attempts=tuple(Attempt.from_dict(attempt) for attempt in attempts),
            state=DeadLetterState(cast("str", rest.pop("state", DeadLetterState.QUARANTINED.value))),
            original_payload=body,
            payload_state=PayloadState(cast("str", rest.pop("payload_state", PayloadState.COMPLETE.value))),
            payload_cipher=_text(rest, "payload_cipher"),
            capture_note=_text(rest, "capture_note") or "",
            attributes=_texts(rest, "attributes"),
            source=_text(rest, "source"),
            campaign_id=_text(rest, "campaign_id"),
            recipient=_text(rest, "recipient"),
            provider=_text(rest, "provider"),
            error_code=_text(rest, "error_code"),
            enhanced_code=_text(rest, "enhanced_code"),
            error_message=_text(rest, "error_message") or "",
            stage=_text(rest, "stage"),
            attempt_count=_number(rest, "attempt_count", 0),
            decision=_text(rest, "decision") or "",
            fingerprint=_text(rest, "fingerprint"),
            redrive_count=_number(rest, "redrive_count", 0),
            redrive_id=_text(rest, "redrive_id"),
            note=_text(rest, "note") or "",
            edit=_edit(rest.pop("edit", None)),
            schema_version=_number(rest, "schema_version", SCHEMA_VERSION),
            extra=rest,
        )


def _written(payload: bytes) -> tuple[str, str]:
    """Return bytes as text, and the encoding that this text is in."""
    try:
        return payload.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(payload).decode("ascii"), "base64"


def _read_payload(rest: dict[str, JSON], name: str) -> bytes:
    """Take a payload with its encoding; one that is no text is any JSON value."""
    payload, encoding = rest.pop(name), rest.pop(f"{name}_encoding", "utf-8")
    if not isinstance(payload, str):
        return codec.encode(payload)
    if encoding not in ("utf-8", "base64"):
        raise ValueError(f"{name}_encoding is {encoding!r}; allowed are 'utf-8' and 'base64'")
    if encoding == "utf-8":
        return payload.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(payload, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name} is not base64: {error}") from None


def _edit(value: JSON) -> Edit | None:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidPayloadError(f"edit is of type {type(value).__name__}; allowed is an object")
    return None if value is None else Edit.from_dict(value)


def _text(rest: dict[str, JSON], name: str) -> str | None:
    """Take a field that is text; a whole number, as other tools write codes and ids, becomes text."""
    value = rest.pop(name, None)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is not None and not isinstance(value, str):
        raise InvalidPayloadError(f"{name} is of type {type(value).__name__}; allowed is text")
    return value


def _number(rest: dict[str, JSON], name: str, default: int) -> int:
    """Take a count, which is no less than the one that stands for a missing one."""
    value = _whole(rest.pop(name, default))
    if isinstance(value, bool) or not isinstance(value, int) or value < default:
        raise InvalidPayloadError(f"{name} is {value!r}; allowed are whole numbers >= {default}")
    return value


def _texts(rest: dict[str, JSON], name: str) -> dict[str, str]:
    value = rest.pop(name, {})
    if not isinstance(value, Mapping) or not all(isinstance(item, str) for item in value.values()):
        raise InvalidPayloadError(f"{name} is of type {type(value).__name__}; allowed is text by name")
    return cast("dict[str, str]", dict(value))


def _class_of(name: str, group: str | None) -> ErrorClass:
    """Return the class; a record without a group may name an application's class, whose group nobody knows."""
    try:
        return ErrorClass(name, group=group)
    except ValueError:
        if group is not None:
            raise
        return ErrorClass(name, group=ErrorGroup.UNMAPPED)
