"""The claim record: everything that decisions about one message rest on, as it is kept.

One record per message: its state, the lease of whoever works on it, what was decided, the counters and the bounded
history. `claim` says how it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, cast

import attrs

from ..codec import JSON
from ..decision import Attempt, DeadLetterReason, DispositionKind
from ..failure import Failure
from ..lease import Lease
from ..message import CALL_MARK
from ..times import from_millis, to_millis
from .poison import is_crash

__all__ = ["ClaimRecord", "ClaimState", "Counters", "changed"]

SCHEMA_VERSION: Final = 1
"""Of the stored shape of a record."""


class ClaimState(StrEnum):
    """Where the work on a message stands."""

    FREE = "free"
    """Nobody works on it, and anybody may."""
    CLAIMED = "claimed"
    """Somebody works on it and has not begun to send."""
    SENDING = "sending"
    """Somebody has begun to send."""
    WAITING = "waiting"
    """A retry is due at `not_before`."""
    UNKNOWN = "unknown"
    """It may have been sent; to be verified from `not_before` on. With a lease: somebody verifies."""
    DONE = "done"
    """Settled for good."""


@attrs.frozen
class Counters:
    """How often what happened in this generation; only `failed` and `crashed` count against limits."""

    started: int = 0
    failed: int = 0
    crashed: int = 0
    interrupted: int = 0

    def plus(self, *, started: int = 0, failed: int = 0, crashed: int = 0, interrupted: int = 0) -> Counters:
        """Return the counters after so many more."""
        return Counters(
            self.started + started, self.failed + failed, self.crashed + crashed, self.interrupted + interrupted
        )


@attrs.frozen(kw_only=True, slots=False)  # with a dictionary it is copied at a tenth of the cost
class ClaimRecord:
    """Everything that decisions about one message rest on."""

    key: str
    state: ClaimState = ClaimState.FREE
    seq: int = 0
    """Grows with every change but a renewal, and never restarts: version and fencing token in one."""
    lease: Lease | None = None
    generation: int = 1
    fingerprint: str | None = None
    opened_at: datetime
    """When this generation was first claimed."""
    not_before: datetime | None = None
    disposition: DispositionKind | None = None
    reason: DeadLetterReason | None = None
    dead_letter_id: str | None = None
    """The letter that exists, or is to exist, for this message."""
    provider: str | None = None
    provider_id: str | None = None
    settled_at: datetime | None = None
    counters: Counters = Counters()
    checks: int = 0
    """Verifications in a row that could not tell."""
    note: str = ""
    """The latest decision in one sentence."""
    is_unsure: bool = False
    """Settled without having been sent, and without knowing that it was not."""
    result: str | None = None
    """What the call gave, packed as JSON, where that is kept."""
    redriven_from: str | None = None
    """The letter from which this generation was put back into circulation."""
    replaced: tuple[str, ...] = ()
    """The fingerprints of payloads that edited ones have replaced: copies of them are never worked on again."""
    attempts: tuple[Attempt, ...] = ()
    schema_version: int = SCHEMA_VERSION
    """Of the shape it was written in; what a newer retrykit wrote keeps its number."""
    extra: Mapping[str, JSON] = attrs.field(factory=dict[str, JSON], hash=False)
    """Fields that this version does not know, kept as they came."""

    @property
    def is_call(self) -> bool:
        """Whether it is of a guarded call, by its key: nobody finds out about it but who calls again, or says what became of it."""
        return self.key.startswith(CALL_MARK)

    @property
    def tries(self) -> tuple[Attempt, ...]:
        """The failed and crashed tries of this generation, oldest first."""
        return tuple(attempt for attempt in self.attempts if attempt.generation == self.generation)

    @property
    def failure(self) -> Failure | None:
        """The latest failure, or None."""
        return self.attempts[-1].failure if self.attempts else None

    def age(self, now: datetime) -> float:
        """Return the seconds since the first failed try of this generation; 0 when there is none."""
        tries = self.tries
        return max(0.0, (now - tries[0].failed_at).total_seconds()) if tries else 0.0

    def crashes_since(self, instant: datetime) -> int:
        """Return how many tries of this generation crashed after `instant`."""
        if not self.attempts:  # as mostly
            return 0
        return sum(is_crash(attempt) and attempt.failed_at > instant for attempt in self.tries)

    def to_dict(self) -> dict[str, JSON]:
        """Return the record as JSON values, instants in epoch milliseconds."""
        lease = self.lease
        return {
            **self.extra,
            "schema_version": self.schema_version,
            "key": self.key,
            "state": self.state.value,
            "seq": self.seq,
            "lease": None if lease is None else _packed(lease),
            "generation": self.generation,
            "fingerprint": self.fingerprint,
            "opened_at": to_millis(self.opened_at),
            "not_before": None if self.not_before is None else to_millis(self.not_before),
            "disposition": self.disposition,
            "reason": self.reason,
            "dead_letter_id": self.dead_letter_id,
            "provider": self.provider,
            "provider_id": self.provider_id,
            "settled_at": None if self.settled_at is None else to_millis(self.settled_at),
            "counters": list(attrs.astuple(self.counters)),
            "checks": self.checks,
            "note": self.note,
            "is_unsure": self.is_unsure,
            **({} if self.result is None else {"result": self.result}),
            **({} if self.redriven_from is None else {"redriven_from": self.redriven_from}),
            **({"replaced": list(self.replaced)} if self.replaced else {}),
            "attempts": [attempt.to_dict() for attempt in self.attempts],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, JSON]) -> ClaimRecord:
        """Make a record of what `to_dict` gave."""
        rest = dict(fields)
        lease = cast("list[str | int | None] | None", rest.pop("lease"))
        disposition, reason = rest.pop("disposition"), rest.pop("reason")
        attempts = cast("list[dict[str, JSON]]", rest.pop("attempts"))
        plain = {name: rest.pop(name) for name in _PLAIN}
        return cls(
            state=ClaimState(cast("str", rest.pop("state"))),
            lease=None if lease is None else _unpacked(*lease),  # type: ignore[arg-type]
            opened_at=from_millis(cast("int", rest.pop("opened_at"))),
            not_before=_instant(rest.pop("not_before")),
            settled_at=_instant(rest.pop("settled_at")),
            disposition=None if disposition is None else DispositionKind(cast("str", disposition)),
            reason=None if reason is None else DeadLetterReason(cast("str", reason)),
            counters=Counters(*cast("list[int]", rest.pop("counters"))),
            attempts=tuple(Attempt.from_dict(attempt) for attempt in attempts),
            result=cast("str | None", rest.pop("result", None)),
            redriven_from=cast("str | None", rest.pop("redriven_from", None)),
            replaced=tuple(cast("list[str]", rest.pop("replaced", []))),
            **plain,  # type: ignore[arg-type]
            extra=rest,
        )


_PLAIN = (
    "schema_version key seq generation fingerprint dead_letter_id provider provider_id checks note is_unsure".split()
)


def _packed(lease: Lease) -> list[JSON]:
    granted_at = None if lease.granted_at is None else to_millis(lease.granted_at)
    packed: list[JSON] = [lease.owner, lease.token, to_millis(lease.deadline), granted_at, lease.lost]
    while packed[-1] is None:
        packed.pop()
    return packed


def _unpacked(
    owner: str, token: int, deadline: int, granted_at: int | None = None, lost: str | None = None, *_: JSON
) -> Lease:
    """Return a lease as it was packed: by this version, by one before that kept less, or by a newer one."""
    return Lease(str(owner), int(token), from_millis(int(deadline)), _instant(granted_at), lost)


def _instant(millis: JSON) -> datetime | None:
    return None if millis is None else from_millis(cast("int", millis))


def changed(record: ClaimRecord, **changes: object) -> ClaimRecord:
    """Return the record with some fields changed; what `attrs.evolve` does, without its checks, of which there are none here."""
    new = object.__new__(ClaimRecord)
    new.__dict__.update(record.__dict__)
    new.__dict__.update(changes)
    return new
