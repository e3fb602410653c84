"""How the suite of the claim store's contract brings a key into each state, and what it then does to it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import attrs

from ...decision import Action, DeadLetterReason, Decision
from ...failure import ErrorClass, Failure, Outcome
from ...machines import claim as machine
from ...stores.claims import (
    ClaimAnswer,
    Claimed,
    ClaimRecord,
    ClaimState,
    ClaimStore,
    Done,
    InProgress,
    NotDue,
    ReopenTerms,
    Unknown,
)

__all__ = [
    "DEAD",
    "HELD",
    "OPERATIONS",
    "RETRY",
    "STATES",
    "TIMEOUT",
    "UNHELD",
    "VERIFY",
    "Prepare",
    "answer_to_another",
    "buried",
    "claimed",
    "following",
    "is_answer_to",
    "sending",
    "settled",
]

TIMEOUT: Final = Failure(error_class=ErrorClass.NETWORK_TIMEOUT, outcome=Outcome.NOT_SENT, error_message="timed out")
RETRY: Final = Decision(Action.RETRY, 5.0, "network_timeout, retry 1 of 5, waits 5 s")
VERIFY: Final = Decision(Action.VERIFY, 60.0, "network_timeout, may have been sent, verified in 60 s")
DEAD: Final = Decision(Action.DEAD_LETTER, 0.0, "all used", DeadLetterReason.RETRIES_EXHAUSTED)


def claimed(store: ClaimStore, key: str = "k", owner: str = "me") -> ClaimRecord:
    """Claim a key that can be claimed, for 30 seconds, and return the record."""
    answer = store.claim(key, owner=owner, lease=30)
    assert isinstance(answer, Claimed)
    return answer.record


def sending(store: ClaimStore, key: str = "k", owner: str = "me") -> ClaimRecord:
    """Claim a key, begin to send, and return the record."""
    record = store.begin_send(key, claimed(store, key, owner).seq, lease=30)
    assert record is not None
    return record


def following(record: ClaimRecord, decision: Decision) -> ClaimRecord:
    """Return the record after a failed try and the decision on it, to be settled."""
    return machine.failed(record, TIMEOUT, decision, failed_at=record.opened_at)


def settled(store: ClaimStore, record: ClaimRecord, decision: Decision) -> ClaimRecord:
    """Settle a failed try of a record that is held."""
    stored = store.settle(following(record, decision), record.seq, delay=decision.delay)
    assert stored is not None
    return stored


def buried(store: ClaimStore, key: str = "k", *, is_unsure: bool = False) -> ClaimRecord:
    """Let a message die, with or without knowing that it was not sent, and return its record."""
    held = sending(store, key)
    failure = attrs.evolve(TIMEOUT, outcome=Outcome.UNKNOWN if is_unsure else Outcome.NOT_SENT)
    stored = store.settle(machine.failed(held, failure, DEAD, failed_at=held.opened_at), held.seq)
    assert stored is not None
    assert is_unsure is stored.is_unsure
    return stored


def _absent(_store: ClaimStore, _key: str) -> ClaimRecord | None:
    return None


def _free(store: ClaimStore, key: str) -> ClaimRecord | None:
    held = claimed(store, key)
    return store.settle(machine.interrupted(held), held.seq)


def _waiting(store: ClaimStore, key: str) -> ClaimRecord:
    return settled(store, sending(store, key), RETRY)


def _unknown(store: ClaimStore, key: str) -> ClaimRecord:
    return settled(store, sending(store, key), VERIFY)


def _verifying(store: ClaimStore, key: str) -> ClaimRecord | None:
    settled(store, sending(store, key), attrs.evolve(VERIFY, delay=0.0))
    return store.claim_unknown(key, owner="me", lease=30)


def _sent(store: ClaimStore, key: str) -> ClaimRecord | None:
    held = sending(store, key)
    return store.settle(machine.sent(held, provider="ses"), held.seq)


def _dead(store: ClaimStore, key: str) -> ClaimRecord:
    return settled(store, sending(store, key), DEAD)


def _reopen(store: ClaimStore, key: str) -> ClaimRecord:
    return store.reopen(key, ReopenTerms(letter_id=f"{key}#1", generation=1))


def _reopened(store: ClaimStore, key: str) -> ClaimRecord:
    buried(store, key)
    return _reopen(store, key)


def _reopened_unsure(store: ClaimStore, key: str) -> ClaimRecord:
    buried(store, key, is_unsure=True)
    return _reopen(store, key)


Prepare = Callable[[ClaimStore, str], ClaimRecord | None]

HELD: Final[dict[str, Prepare]] = {"claimed": claimed, "sending": sending, "verifying": _verifying}
"""Bring a key into the named state, held by "me" for 30 seconds, and return its record."""

UNHELD: Final[dict[str, Prepare]] = {
    "free": _free,
    "waiting": _waiting,
    "unknown": _unknown,
    "sent": _sent,
    "dead": _dead,
    "reopened": _reopened,
    "reopened, unsure": _reopened_unsure,
}
"""Bring a key into the named state, in which nobody holds it, and return its record."""

STATES: Final[dict[str, tuple[Prepare, float]]] = {
    "absent": (_absent, 0.0),
    **{name: (prepare, 0.0) for name, prepare in (HELD | UNHELD).items()},
    **{f"{name}, lapsed": (prepare, 30.0) for name, prepare in HELD.items()},
    "waiting, due": (_waiting, 5.0),
    "unknown, due": (_unknown, 60.0),
}
"""How a key gets into each state, and the seconds that have to pass then."""


def _record(key: str, record: ClaimRecord | None) -> ClaimRecord:
    return record or ClaimRecord(key=key, opened_at=datetime(2026, 1, 1, tzinfo=UTC))


def _settle(store: ClaimStore, key: str, record: ClaimRecord | None, decision: Decision) -> ClaimRecord | None:
    held = _record(key, record)
    return store.settle(following(held, decision), held.seq, delay=decision.delay)


def _settle_sent(store: ClaimStore, key: str, record: ClaimRecord | None) -> ClaimRecord | None:
    held = _record(key, record)
    return store.settle(machine.sent(held, provider="ses", provider_id="p-1"), held.seq)


OPERATIONS: Final[dict[str, Callable[[ClaimStore, str, ClaimRecord | None], object]]] = {
    "claim": lambda store, key, _: store.claim(key, owner="me", lease=30),
    "claim by another": lambda store, key, _: store.claim(key, owner="other", lease=30),
    "claim_unknown": lambda store, key, _: store.claim_unknown(key, owner="other", lease=30),
    "begin_send": lambda store, key, record: store.begin_send(key, _record(key, record).seq, lease=60),
    "renew": lambda store, key, record: store.renew(key, _record(key, record).seq, lease=60),
    "settle as sent": _settle_sent,
    "settle to retry": lambda store, key, record: _settle(store, key, record, RETRY),
    "settle to verify": lambda store, key, record: _settle(store, key, record, VERIFY),
    "settle as dead": lambda store, key, record: _settle(store, key, record, DEAD),
    "confirm": lambda store, key, _: store.confirm(key, provider="smtp", provider_id="p-2"),
    "cancel": lambda store, key, _: store.cancel(key),
    "reopen": lambda store, key, _: _reopen(store, key),
    "get": lambda store, key, _: store.get(key),
}
"""Every operation on one key, with the record that the caller knows."""


def answer_to_another(record: ClaimRecord | None, now: datetime) -> ClaimAnswer | type[Claimed | Unknown]:
    """Return what somebody who holds nothing has to be answered, as far as it follows from the record alone."""
    if record is None:
        return Claimed
    if record.lease is not None and record.lease.deadline > now:
        return InProgress(record, record.lease.deadline)
    if record.state is ClaimState.DONE:
        return Done(record)
    if record.not_before is not None and record.not_before > now:
        return NotDue(record, record.not_before)
    return Unknown if record.state in (ClaimState.SENDING, ClaimState.UNKNOWN) else Claimed


def is_answer_to(record: ClaimRecord | None, answer: ClaimAnswer, now: datetime) -> bool:
    """Tell whether somebody who holds nothing was answered what the record says."""
    expected = answer_to_another(record, now)
    return type(answer) is expected if isinstance(expected, type) else answer == expected
