"""Delivery status: which status may follow which.

The log is a lattice, not last-writer-wins: a known acceptance is never forgotten, `delivered` is final, and between
retrykit's own statuses the newer version of the claim wins. So records that come twice, late or out of order end in the
same status.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["ACCEPTED", "FINAL", "DeliveryStatus", "may_follow"]


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

ACCEPTED: Final = frozenset({_S.SENT_TO_PROVIDER, _S.DELIVERED})
"""The provider is known to have taken the message."""

FINAL: Final = ACCEPTED | {_S.BOUNCED_PERMANENT, _S.FAILED_INTERNAL}
"""Nothing more is tried."""

_OWN: Final = frozenset(
    {_S.PENDING, _S.PROCESSING, _S.DEFERRED, _S.BOUNCED_TRANSIENT, _S.BOUNCED_PERMANENT, _S.FAILED_INTERNAL, _S.UNKNOWN}
)

_ALWAYS: Final[dict[DeliveryStatus, frozenset[DeliveryStatus]]] = {
    **dict.fromkeys(_OWN, ACCEPTED),
    _S.SENT_TO_PROVIDER: frozenset({_S.DELIVERED}),
    _S.DELIVERED: frozenset(),
}
"""What may follow whatever its version."""

_IF_NEWER: Final[dict[DeliveryStatus, frozenset[DeliveryStatus]]] = {
    **dict.fromkeys(_OWN, _OWN),
    _S.SENT_TO_PROVIDER: frozenset(),
    _S.DELIVERED: frozenset(),
}
"""What may follow when it comes from a newer version of the claim."""


def may_follow(current: DeliveryStatus, new: DeliveryStatus, *, newer: bool) -> bool:
    """Tell whether `new` replaces `current`.

    Args:
        current: the status on record.
        new: the status reported.
        newer: whether the report comes from a newer version of the claim than the record.
    """
    return new in _ALWAYS[current] or (newer and new in _IF_NEWER[current])
