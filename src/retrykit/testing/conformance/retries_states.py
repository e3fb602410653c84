"""How the suite of the retry store's contract fills a store, and what it then does to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

from ...lease import Lease
from ...message import Message
from ...stores.retries import DueMessage, RetryStore
from .suite import SuiteClock

__all__ = ["OPERATIONS", "STATES", "at", "contents", "due", "held", "ids", "with_token"]

_FIRST: Final = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return the instant so many seconds after the first one of the clock."""
    return _FIRST + timedelta(seconds=seconds)


def due(store: RetryStore, limit: int = 100, owner: str = "me", lease: float = 30) -> list[DueMessage]:
    """Take what is due."""
    return list(store.claim_due(limit, owner=owner, lease=lease))


def held(store: RetryStore) -> DueMessage:
    """Take the only message that is due."""
    (only,) = due(store)
    return only


def ids(entries: Sequence[DueMessage]) -> list[str]:
    """Return the ids of entries."""
    return [entry.message.id for entry in entries]


def with_token(entry: DueMessage, token: int) -> DueMessage:
    """Return an entry as if it had been handed out under another token."""
    return attrs.evolve(entry, lease=Lease(entry.lease.owner, token, entry.lease.deadline))


def contents(store: RetryStore, clock: SuiteClock) -> list[tuple[str, int, datetime]]:
    """Return id, generation and due time of all entries, which are due and leased afterwards; time goes on for it."""
    clock.advance("10d")
    return sorted((entry.message.id, entry.generation, entry.due_at) for entry in due(store, 10_000, lease=86400))


def _scheduled(clock: SuiteClock, stores: Sequence[RetryStore]) -> list[list[DueMessage]]:
    for store in stores:
        for number, name in enumerate("abc"):
            due_at = clock.now() + timedelta(seconds=number)
            store.schedule(Message(name, {"n": number}, {"tenant": "acme"}), due_at, version=number)
    return [[] for _ in stores]


def _leased(clock: SuiteClock, stores: Sequence[RetryStore]) -> list[list[DueMessage]]:
    _scheduled(clock, stores)
    clock.advance("1s")
    return [due(store, lease=30) for store in stores]


def _lapsed(clock: SuiteClock, stores: Sequence[RetryStore]) -> list[list[DueMessage]]:
    entries = _leased(clock, stores)
    clock.advance("30s")
    return entries


STATES: Final[dict[str, Callable[[SuiteClock, Sequence[RetryStore]], list[list[DueMessage]]]]] = {
    "scheduled": _scheduled,
    "leased": _leased,
    "lapsed": _lapsed,
}
"""Put the messages "a", "b" and "c" into stores, and return what is held of each."""


def _first(entries: Sequence[DueMessage]) -> DueMessage:
    if entries:
        return entries[0]
    return DueMessage(message=Message("a", 1), generation=1, due_at=_FIRST, lease=Lease("me", 1, _FIRST))


OPERATIONS: Final[dict[str, Callable[[RetryStore, Sequence[DueMessage]], object]]] = {
    "schedule": lambda store, _: store.schedule(Message("a", "new"), at(50), version=9),
    "claim_due": lambda store, _: store.claim_due(owner="me", lease=30),
    "claim_due of one": lambda store, _: store.claim_due(1, owner="other", lease=30),
    "ack": lambda store, entries: store.ack(_first(entries)),
    "release": lambda store, entries: store.release(_first(entries), delay=7),
    "extend": lambda store, entries: store.extend(_first(entries), lease=60),
    "cancel": lambda store, _: store.cancel("b"),
    "stats": lambda store, _: store.stats(),
}
"""Every operation, with what the caller holds."""
