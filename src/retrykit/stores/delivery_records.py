"""The records of the delivery log: what is known of one message, and what a provider's event adds to it.

Two records of a message are combined field by field, so that it does not matter in which order, how often and how late what they
tell arrives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Self, cast

import attrs

from ..checks import provider_name, provider_name_or_none
from ..classification.provider_event import EventKind, event_kind
from ..codec import JSON
from ..errors import ConfigurationError, InvalidPayloadError
from ..failure import ErrorGroup
from ..machines.status import (
    FINAL,
    SEVERITY,
    UNREPORTED,
    DeliveryStatus,
    Standing,
    combined,
    severer,
    told_by,
    told_with,
)
from ..times import from_iso, to_iso, utc

__all__ = ["MAX_EVENT_IDS", "SCHEMA_VERSION", "Delivery", "DeliveryEvent", "DeliveryFailure"]

SCHEMA_VERSION: Final = 2
"""Version 1 had no more than status, version, provider and its id."""

MAX_EVENT_IDS: Final = 100
"""How many events of a message are remembered, the last that came."""


def _updated(instant: datetime) -> datetime:
    return utc(instant, "updated_at")


def _at(instant: datetime) -> datetime:
    return utc(instant, "at")


def _optional(instant: datetime | None) -> datetime | None:
    return None if instant is None else utc(instant)


def _group(value: ErrorGroup | str | None) -> ErrorGroup | None:
    try:
        return None if value is None else ErrorGroup(value)
    except ValueError:
        raise ConfigurationError(f"the error group is {value!r}; allowed are {', '.join(ErrorGroup)}") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


_FAILURES: Final = (DeliveryStatus.DEFERRED, DeliveryStatus.BOUNCED_TRANSIENT, DeliveryStatus.BOUNCED_PERMANENT)


def _one_of(value: object, allowed: Sequence[DeliveryStatus]) -> DeliveryStatus:
    status = DeliveryStatus(_text(value))
    if status not in allowed:
        raise ValueError(f"{value!r} is none of {', '.join(allowed)}")
    return status


@attrs.frozen(kw_only=True)
class DeliveryFailure:
    """Why a provider did not deliver a message, as it told."""

    status: DeliveryStatus
    """What came of it: deferred or bounced."""
    at: datetime = attrs.field(converter=_at)
    """When it happened."""
    error_class: str | None = None
    error_group: str | None = None
    error_code: str | None = None
    """The provider's own code."""

    def to_dict(self) -> dict[str, JSON]:
        """Return the failure as JSON values."""
        return {
            "status": self.status.value,
            "at": to_iso(self.at),
            "error_class": self.error_class,
            "error_group": self.error_group,
            "error_code": self.error_code,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gives."""
        return cls(
            status=_one_of(data["status"], _FAILURES),
            at=from_iso(data["at"]),
            **{name: _optional_text(data.get(name)) for name in ("error_class", "error_group", "error_code")},
        )

    def _order(self) -> tuple[int, datetime, list[str]]:
        texts = [self.error_class or "", self.error_group or "", self.error_code or ""]
        return SEVERITY.index(self.status), self.at, texts

    def or_severer(self, other: DeliveryFailure | None) -> DeliveryFailure:
        """Return the severer of two, of equal ones the later."""
        return self if other is None or self._order() >= other._order() else other


@attrs.frozen(kw_only=True)
class DeliveryEvent:
    """What a provider reported of one message, classified: the form in which the log takes it."""

    message_id: str
    kind: EventKind = attrs.field(converter=event_kind)
    provider: str = attrs.field(converter=provider_name)
    """Who reported it; kept in lower case."""
    at: datetime = attrs.field(converter=_at)
    """When it happened."""
    provider_id: str | None = None
    """The provider's id of the message."""
    event_id: str | None = None
    """The provider's id of the event; None: it is not told from others, which does no harm."""
    error_class: str | None = None
    """Of a failure: what kind it is."""
    error_group: ErrorGroup | None = attrs.field(default=None, converter=_group)
    """Of a failure: who is at fault. It decides whether a bounce is transient."""
    error_code: str | None = None
    """Of a failure: the provider's own code."""

    @property
    def told(self) -> DeliveryStatus | None:
        """What it tells of the status; None: nothing."""
        return told_by(self.kind, self.error_group)

    def to_delivery(self) -> Delivery | None:
        """Return all that it tells of the message, or None when that is nothing."""
        told, kind = self.told, self.kind
        if told is None:
            return None
        failure = DeliveryFailure(
            status=told,
            at=self.at,
            error_class=self.error_class,
            error_group=self.error_group,
            error_code=self.error_code,
        )
        bounced = kind in (EventKind.BOUNCED, EventKind.REJECTED)
        return Delivery(
            message_id=self.message_id,
            status=told,
            version=UNREPORTED,
            told=told,
            provider=self.provider,
            provider_id=self.provider_id,
            delivered_at=self.at if kind is EventKind.DELIVERED else None,
            bounced_at=self.at if bounced else None,
            complained_at=self.at if kind is EventKind.COMPLAINED else None,
            unsubscribed_at=self.at if kind is EventKind.UNSUBSCRIBED else None,
            failure=failure if kind.is_failure else None,
            event_ids=() if self.event_id is None else ((self.provider, self.event_id),),
            updated_at=self.at,
        )

    def to_dict(self) -> dict[str, JSON]:
        """Return the event as JSON values."""
        return {**attrs.asdict(self), "at": to_iso(self.at)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gives; fields of a newer version are left out."""
        fields: dict[str, Any] = {each.name: data[each.name] for each in attrs.fields(cls) if each.name in data}
        fields["at"] = from_iso(data["at"])
        return cls(**fields)


def _told(delivery: Delivery) -> DeliveryStatus | None:
    return told_with(delivery.status)


_INSTANTS: Final = ("delivered_at", "bounced_at", "complained_at", "unsubscribed_at")


@attrs.frozen(kw_only=True)
class Delivery:
    """Where the delivery of one message stands."""

    message_id: str
    status: DeliveryStatus
    """What the provider has told, and where it has told nothing, what retrykit has reported last."""
    version: int = 0
    """The `seq` of the claim this follows from, -1 while retrykit itself has reported nothing."""
    provider: str | None = attrs.field(default=None, converter=provider_name_or_none)
    """Who took it, or tells of it; kept in lower case."""
    provider_id: str | None = None
    """The provider's own id."""
    told: DeliveryStatus | None = attrs.field(default=attrs.Factory(_told, takes_self=True))
    """The severest thing that the provider has told, an acceptance that we saw ourselves included; None: nothing yet."""
    delivered_at: datetime | None = attrs.field(default=None, converter=_optional)
    """When the recipient's server took it, by the provider's events; also when it bounced afterwards."""
    bounced_at: datetime | None = attrs.field(default=None, converter=_optional)
    """When the provider gave up, by its events."""
    complained_at: datetime | None = attrs.field(default=None, converter=_optional)
    """When the recipient first called it spam."""
    unsubscribed_at: datetime | None = attrs.field(default=None, converter=_optional)
    """When the recipient first opted out by it."""
    failure: DeliveryFailure | None = None
    """Why the provider did not deliver it: the severest failure that it told of, of equal ones the latest."""
    event_ids: tuple[tuple[str, str], ...] = ()
    """Provider and id of the events that counted, the last 100 that came. One that is forgotten may come again without harm."""
    updated_at: datetime = attrs.field(converter=_updated)
    """The latest instant of what counted."""
    schema_version: int = SCHEMA_VERSION
    extra: Mapping[str, JSON] = attrs.field(factory=dict[str, JSON], hash=False)
    """Fields of a newer version, kept as they came."""

    @property
    def is_accepted(self) -> bool:
        """Whether the provider is known to have taken the message, whatever came of it there."""
        return self.told is not None

    @property
    def is_unexpected(self) -> bool:
        """Whether the provider told of it and retrykit itself did not, or not yet."""
        return self.version == UNREPORTED

    @property
    def is_settled(self) -> bool:
        """Whether retrykit has no more to do with it: the provider has it, or nothing more is tried."""
        return self.is_accepted or self.status in FINAL

    @property
    def is_plain(self) -> bool:
        """Whether status, version, provider, its id and the instant tell everything, so that a store need keep no more."""
        facts = (self.event_ids, self.failure, self.extra, *(getattr(self, name) for name in _INSTANTS))
        return not any(facts) and self.told is told_with(self.status) and self.schema_version == SCHEMA_VERSION

    def after(self, stored: Delivery | None) -> Delivery | None:
        """Return what replaces `stored` when this is reported, or None when `stored` stays."""
        if stored is None:
            return self if self.told in (None, self.status) else attrs.evolve(self, status=self.told)
        if self.event_ids and set(self.event_ids) <= set(stored.event_ids):
            return None
        status, version, told = combined(stored._standing(), self._standing())
        last, first = (self, stored) if self.version > stored.version else (stored, self)
        instants: dict[str, Any] = {name: _earlier(getattr(self, name), getattr(stored, name)) for name in _INSTANTS}
        new = attrs.evolve(
            stored,
            status=status,
            version=version,
            told=told,
            provider=last.provider or first.provider,
            provider_id=last.provider_id or first.provider_id,
            failure=stored.failure if self.failure is None else self.failure.or_severer(stored.failure),
            event_ids=tuple(dict.fromkeys(stored.event_ids + self.event_ids))[-MAX_EVENT_IDS:],
            schema_version=max(stored.schema_version, self.schema_version),
            extra={**self.extra, **stored.extra},
            **instants,
        )
        return None if new == stored else attrs.evolve(new, updated_at=max(stored.updated_at, self.updated_at))

    def _standing(self) -> Standing:
        return Standing(self.status, self.version, severer(self.told, told_with(self.status)))

    def to_dict(self) -> dict[str, JSON]:
        """Return the record as JSON values; fields of a newer version stand among them."""
        instants: dict[str, JSON] = {name: to_iso(at) for name in _INSTANTS if (at := getattr(self, name)) is not None}
        return {
            **self.extra,
            "schema_version": self.schema_version,
            "message_id": self.message_id,
            "status": self.status.value,
            "version": self.version,
            "provider": self.provider,
            "provider_id": self.provider_id,
            "told": None if self.told is None else self.told.value,
            **instants,
            "failure": None if self.failure is None else self.failure.to_dict(),
            "event_ids": [list(each) for each in self.event_ids],
            "updated_at": to_iso(self.updated_at),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` of this or of any earlier version gives.

        Raises:
            InvalidPayloadError: it is no such record.
        """
        try:
            return cls._read(dict(data))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidPayloadError(f"not a record of a delivery: {type(error).__name__}: {error}") from None

    @classmethod
    def _read(cls, rest: dict[str, Any]) -> Self:
        status = DeliveryStatus(rest.pop("status"))
        failure, told = rest.pop("failure", None), rest.pop("told", None)
        fields: dict[str, Any] = {name: _optional_text(rest.pop(name, None)) for name in ("provider", "provider_id")}
        fields |= {name: from_iso(at) for name in _INSTANTS if (at := rest.pop(name, None)) is not None}
        return cls(
            message_id=_text(rest.pop("message_id")),
            status=status,
            version=int(rest.pop("version", 0)),
            told=told_with(status) if told is None else _one_of(told, SEVERITY),
            failure=None if failure is None else DeliveryFailure.from_dict(failure),
            event_ids=tuple((_text(provider), _text(event_id)) for provider, event_id in rest.pop("event_ids", ())),
            updated_at=from_iso(rest.pop("updated_at")),
            schema_version=int(rest.pop("schema_version", 1)),
            extra=cast("Mapping[str, JSON]", rest),
            **fields,
        )


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return min(one, other) if one and other else one or other
