"""Delivery status: what our own reports and a provider's events come to, in whatever order they arrive.

A status has two sources that never overrule each other by coming late. What the provider has told counts by its severity: the
severest stands. What retrykit itself reports counts by the version of the claim: the newest stands, as long as the provider has told
nothing. A known acceptance is something that the provider has told, whoever reports it, and is never forgotten. So reports and
events that come twice, late or shuffled end in the same status.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from ..classification.provider_event import EventKind
from ..failure import ErrorGroup

__all__ = [
    "ACCEPTED",
    "FINAL",
    "OWN",
    "SEVERITY",
    "TOLD",
    "TRANSIENT_GROUPS",
    "UNREPORTED",
    "DeliveryStatus",
    "Standing",
    "combined",
    "severer",
    "told_by",
    "told_with",
]


class DeliveryStatus(StrEnum):
    """Where the delivery of a message stands."""

    PENDING = "pending"
    PROCESSING = "processing"
    SENT_TO_PROVIDER = "sent_to_provider"
    DELIVERED = "delivered"
    DEFERRED = "deferred"
    BOUNCED_TRANSIENT = "bounced_transient"
    BOUNCED_PERMANENT = "bounced_permanent"
    FAILED_INTERNAL = "failed_internal"
    UNKNOWN = "unknown"


_S = DeliveryStatus
_K = EventKind

ACCEPTED: Final = frozenset({_S.SENT_TO_PROVIDER, _S.DELIVERED})
"""Says by itself that the provider has taken the message. Whether it has in a deferred or bounced one, its record tells."""

FINAL: Final = ACCEPTED | {_S.BOUNCED_PERMANENT, _S.FAILED_INTERNAL}
"""Nothing more is tried."""

OWN: Final = (
    _S.PENDING,
    _S.PROCESSING,
    _S.DEFERRED,
    _S.BOUNCED_TRANSIENT,
    _S.UNKNOWN,
    _S.FAILED_INTERNAL,
    _S.BOUNCED_PERMANENT,
)
"""What retrykit reports of itself; of two the newer version stands."""

SEVERITY: Final = (_S.SENT_TO_PROVIDER, _S.DEFERRED, _S.BOUNCED_TRANSIENT, _S.DELIVERED, _S.BOUNCED_PERMANENT)
"""What a provider tells, from the least severe to the severest: it has taken the message, goes on trying, has given up for now, has
delivered it, and got it back all the same or never will deliver it. A bounce is the one way out of delivered."""

TOLD: Final[Mapping[EventKind, DeliveryStatus | None]] = {
    _K.ACCEPTED: _S.SENT_TO_PROVIDER,
    _K.DELIVERED: _S.DELIVERED,
    _K.DEFERRED: _S.DEFERRED,
    _K.BOUNCED: _S.BOUNCED_PERMANENT,
    _K.REJECTED: _S.BOUNCED_PERMANENT,
    _K.COMPLAINED: _S.SENT_TO_PROVIDER,
    _K.UNSUBSCRIBED: _S.SENT_TO_PROVIDER,
    _K.ENGAGED: _S.SENT_TO_PROVIDER,
    _K.OTHER: None,
}
"""What an event tells of the status. Complaints and opt-outs are facts beside it: of the status they tell no more than that the
provider has taken the message, since some are reported without a delivery."""

TRANSIENT_GROUPS: Final = frozenset(
    {ErrorGroup.TEMPORARY_MAILBOX, ErrorGroup.TRANSIENT_INFRASTRUCTURE, ErrorGroup.THROTTLING}
)
"""Groups of failures whose bounce is transient; every other that the provider gave up on is permanent."""

UNREPORTED: Final = -1
"""The version where retrykit itself has reported nothing."""

_RANK: Final[Mapping[DeliveryStatus | None, int]] = {
    None: -1,
    **{status: rank for rank, status in enumerate(SEVERITY)},
}


def told_by(kind: EventKind, group: ErrorGroup | None = None) -> DeliveryStatus | None:
    """Return what an event tells of the status.

    Args:
        kind: what has happened.
        group: of a failure, who is at fault.

    Returns:
        The status, or None when the event tells nothing of it.
    """
    if kind is EventKind.BOUNCED and group in TRANSIENT_GROUPS:
        return DeliveryStatus.BOUNCED_TRANSIENT
    return TOLD[kind]


def told_with(status: DeliveryStatus) -> DeliveryStatus | None:
    """Return what a report of our own says that the provider has told: that it took the message, or nothing."""
    return status if status in ACCEPTED else None


def severer(one: DeliveryStatus | None, other: DeliveryStatus | None) -> DeliveryStatus | None:
    """Return the severer of two things that the provider has told, None where it has told nothing."""
    return max(one, other, key=_RANK.__getitem__)


class Standing(NamedTuple):
    """What is known of a status."""

    status: DeliveryStatus
    """What is shown."""
    version: int
    """The newest version that retrykit has reported, `UNREPORTED` where it has reported none."""
    told: DeliveryStatus | None
    """The severest thing that the provider has told; then it is what is shown."""


def combined(stands: Standing, new: Standing) -> Standing:
    """Return what two standings come to.

    Combining is associative, commutative and idempotent, where each version of a claim reports one status.
    """
    told = severer(stands.told, new.told)
    newest = new if new.version > stands.version else stands
    return Standing(newest.status if told is None else told, newest.version, told)
