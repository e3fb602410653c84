"""A redrive: dead letters put back into circulation a few at a time, as long as that goes well.

First the canary, a handful of letters whose messages have to come to an end before anything else moves. Then slices that double, each
only when most of the one before has come to an end, and not faster than the rate. Too many messages that die again, or fail again for
the reason they had died of, stop it.

Every function is pure: it takes the job, the runner's token and the store's `now`, and returns the job afterwards; where it may not
act, the job as it is. Letters are reserved before they are put back, so a runner that dies leaves behind which ones it was at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal, TypeAlias, cast

import attrs

from .. import codec
from ..codec import JSON
from ..lease import Lease
from ..times import from_millis, later, short, to_millis, utc

__all__ = [
    "AuditEntry",
    "Ending",
    "PutBack",
    "RedriveJob",
    "RedriveState",
    "Watched",
    "allowance",
    "becomes_active",
    "due",
    "gained",
    "hold",
    "holds",
    "observe",
    "pause",
    "postpone",
    "put_back",
    "reserve",
    "resume",
    "stop",
]

SLICE: Final = 500
"""Letters that are put back at once, at the most."""

_RECENT: Final = 100
"""Endings that the share of failures is taken of."""

_ENOUGH: Final = 20
"""Endings after the canary from which on a share says something."""

_RATE_SPAN: Final = 10.0
"""Seconds for which a slice may keep a limited rate busy."""

PutBack: TypeAlias = Literal["put_back", "already_sent", "passed_over"]
"""What became of a reserved letter: its message is in circulation again; it had been sent after all; or it is in other hands, has
another state by now, is gone, or cannot be put back."""

Ending: TypeAlias = Literal["succeeded", "failed", "lost"]
"""What became of a message that was put back: it was sent; it died again or fails again for the same reason; nobody knows any more."""


class RedriveState(StrEnum):
    """Where a redrive stands."""

    RUNNING = "running"
    """A runner may go on with it."""
    PAUSED = "paused"
    """It goes on when somebody resumes it."""
    STOPPED = "stopped"
    """Ended before all letters were put back: by a person, or since too much failed again."""
    DONE = "done"
    """All letters were put back or passed over."""


def _utc(instant: datetime) -> datetime:
    return utc(instant)


@attrs.frozen(kw_only=True)
class AuditEntry:
    """Who did what to dead letters, why, and with what result."""

    at: datetime = attrs.field(converter=_utc)
    by: str
    action: str
    """Such as ``redrive started``, ``edited``, ``discarded``."""
    subject: str
    """What it was done to: the id of a redrive or of a letter, or a query."""
    why: str = ""
    result: str = ""
    step: int = 0
    """Of several in one millisecond the later one has the larger number."""

    @property
    def key(self) -> str:
        """The whole entry as text: entries with the same are the same."""
        return codec.encode(self.to_dict()).decode("ascii")

    @property
    def position(self) -> tuple[int, int, str]:
        """Where it stands in the audit log: the latest first."""
        return -to_millis(self.at), -self.step, self.key

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry as JSON values, its instant in epoch milliseconds."""
        return {**attrs.asdict(self), "at": to_millis(self.at)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, JSON]) -> AuditEntry:
        """Make an entry of what `to_dict` gave."""
        texts = {name: str(fields[name]) for name in ("by", "action", "subject", "why", "result")}
        return cls(at=from_millis(cast("int", fields["at"])), step=cast("int", fields["step"]), **texts)


@attrs.frozen
class Watched:
    """A message that was put back, until it comes to an end."""

    letter_id: str
    message_id: str
    generation: int
    """The letter's: the message is in the one after it, or further."""
    error_class: str
    """What it had died of."""
    is_earlier: bool = False
    """Whether it was put back before the redrive was stopped: what becomes of it is counted, and says nothing of the new canary."""


@attrs.frozen(kw_only=True)
class RedriveJob:
    """One redrive: what was asked for, how far it is, and what came of it."""

    id: str
    query: str
    """Which letters, in the text form; quarantined ones, dead before the cut-off."""
    group: str | None = None
    """The fingerprint, if all letters are of one group; None: several, and no other redrive runs beside this one."""
    root_cause: str
    by: str
    created_at: datetime = attrs.field(converter=_utc)
    planned: int
    """Letters that the plan had counted."""
    canary: int = 10
    rate: float | None = None
    """Messages a second; None: as fast as they come to an end."""
    tolerance: float = 0.1
    """The share of messages that may fail again."""
    patience: float = 900.0
    """Seconds that a slice may take to come to an end."""
    max_redrives: int = 3
    """Letters that were put back so often before are passed over: they are parked."""
    not_sent: bool = False
    """Whether somebody has made sure that messages with an unknown outcome were not sent."""
    state: RedriveState = RedriveState.RUNNING
    note: str = ""
    """Why it stands where it stands, in one sentence."""
    cursor: str | None = None
    is_exhausted: bool = False
    """Whether there are no more letters to be reserved."""
    canary_passed: bool = False
    size: int = 0
    """Letters of the slice that was reserved last."""
    taken: tuple[str, ...] = ()
    """The ids of letters that are reserved and may not have been put back yet."""
    watched: tuple[Watched, ...] = ()
    put_back: int = 0
    already_sent: int = 0
    passed_over: int = 0
    succeeded: int = 0
    failed: int = 0
    recent: str = ""
    """The latest endings since the canary was begun or had passed, one letter each: s or f."""
    tried_from: int = 0
    """How many were put back when the canary was begun."""
    next_at: datetime | None = None
    """Before that nothing is reserved."""
    slice_at: datetime | None = None
    """When the last slice was put back, or the job was resumed."""
    lease: Lease | None = None
    seq: int = 0
    """Grows with every holder; the fencing token."""
    finished_at: datetime | None = None
    history: tuple[AuditEntry, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether it may still put letters back."""
        return self.state in (RedriveState.RUNNING, RedriveState.PAUSED)

    @property
    def position(self) -> tuple[int, str]:
        """Where it stands among all redrives: the one created last first."""
        return -to_millis(self.created_at), self.id

    @property
    def pending(self) -> int:
        """Messages that were put back and have not come to an end yet."""
        return len(self.watched)

    @property
    def tried(self) -> int:
        """Messages that were put back since the canary was begun."""
        return self.put_back - self.tried_from

    def conflicts_with(self, other: RedriveJob) -> bool:
        """Tell whether the two may not be active at once: only redrives of different groups may."""
        return self.id != other.id and (self.group is None or other.group is None or self.group == other.group)

    def to_dict(self) -> dict[str, JSON]:
        """Return the job as JSON values, instants in epoch milliseconds."""
        lease = self.lease
        instants = {name: _millis(getattr(self, name)) for name in _INSTANTS}
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            **instants,
            "state": self.state.value,
            "taken": list(self.taken),
            "watched": [list(attrs.astuple(each)) for each in self.watched],
            "lease": None if lease is None else [lease.owner, lease.token, to_millis(lease.deadline)],
            "history": [entry.to_dict() for entry in self.history],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, JSON]) -> RedriveJob:
        """Make a job of what `to_dict` gave."""
        lease = cast("list[str | int] | None", fields["lease"])
        watched = cast("list[tuple[str, str, int, str]]", fields["watched"])
        history = cast("list[dict[str, JSON]]", fields["history"])
        instants = {
            name: None if fields[name] is None else from_millis(cast("int", fields[name])) for name in _INSTANTS
        }
        plain_fields = {name: fields[name] for name in _PLAIN}
        return cls(
            **plain_fields,  # type: ignore[arg-type]
            **instants,  # type: ignore[arg-type]
            state=RedriveState(cast("str", fields["state"])),
            taken=tuple(cast("list[str]", fields["taken"])),
            watched=tuple(Watched(*each) for each in watched),
            lease=None if lease is None else Lease(str(lease[0]), int(lease[1]), from_millis(int(lease[2]))),
            history=tuple(map(AuditEntry.from_dict, history)),
        )


_INSTANTS: Final = ("created_at", "next_at", "slice_at", "finished_at")
_PLAIN: Final = tuple(
    field.name
    for field in attrs.fields(RedriveJob)
    if field.name not in (*_INSTANTS, "state", "taken", "watched", "lease", "history")
)


def _millis(instant: datetime | None) -> int | None:
    return None if instant is None else to_millis(instant)


# What a runner does


def hold(job: RedriveJob, owner: str, lease: float, now: datetime) -> RedriveJob:
    """Return the job held by a runner, if it runs and nobody else holds it; a holder that asks again goes on holding it."""
    if job.state is not RedriveState.RUNNING:
        return job
    if job.lease is not None and not job.lease.is_over(now):
        return attrs.evolve(job, lease=job.lease.renewed(now, lease)) if job.lease.owner == owner else job
    seq = job.seq + 1
    return attrs.evolve(job, seq=seq, lease=Lease.granted(owner, seq, now, lease))


def release(job: RedriveJob, owner: str) -> RedriveJob:
    """Return the job that a runner has left, if it was held by that one."""
    if job.lease is None or job.lease.owner != owner:
        return job
    return attrs.evolve(job, seq=job.seq + 1, lease=None)


def holds(job: RedriveJob, token: int) -> bool:
    """Tell whether the runner with a token may still act."""
    return job.state is RedriveState.RUNNING and job.lease is not None and job.lease.token == token


def allowance(job: RedriveJob, now: datetime) -> int:
    """Return how many letters may be reserved now."""
    if job.state is not RedriveState.RUNNING or job.is_exhausted or job.taken:
        return 0
    if job.next_at is not None and now < job.next_at:
        return 0
    if not job.canary_passed:
        return max(0, job.canary - job.tried)
    size = min(SLICE, max(job.size * 2, job.canary)) if job.canary else SLICE
    if job.rate is not None:
        size = min(size, max(1, int(job.rate * _RATE_SPAN)))
    return size if len(job.watched) * 2 <= job.size else 0


def due(job: RedriveJob) -> tuple[str, ...]:
    """Return the ids of the reserved letters that may be put back now: of those left from before a stop, no more than the canary."""
    return job.taken if job.canary_passed else job.taken[: max(0, job.canary - job.tried)]


def reserve(job: RedriveJob, token: int, letter_ids: Sequence[str], cursor: str | None, now: datetime) -> RedriveJob:
    """Return the job with letters reserved; no `cursor` means that these are the last."""
    if not holds(job, token) or job.taken:
        return job
    next_at = None if job.rate is None or not letter_ids else later(now, len(letter_ids) / job.rate)
    return attrs.evolve(
        job,
        taken=tuple(letter_ids),
        cursor=cursor,
        is_exhausted=cursor is None,
        size=len(letter_ids) or job.size,
        next_at=next_at,
        note="",
    )


def postpone(job: RedriveJob, token: int, reason: str, until: datetime, now: datetime) -> RedriveJob:
    """Return the job that waits for something outside, such as a pause that somebody has set."""
    return attrs.evolve(job, note=reason, next_at=until, slice_at=now) if holds(job, token) else job


def put_back(
    job: RedriveJob, token: int, results: Iterable[tuple[PutBack, Watched | None]], now: datetime
) -> RedriveJob:
    """Return the job after the reserved letters that were due were put back or passed over, one result for each."""
    found = list(results)
    if not holds(job, token) or not found or not job.taken:
        return job
    return attrs.evolve(
        job,
        taken=job.taken[len(found) :],
        watched=(*job.watched, *(watched for _, watched in found if watched is not None)),
        put_back=job.put_back + sum(result == "put_back" for result, _ in found),
        already_sent=job.already_sent + sum(result == "already_sent" for result, _ in found),
        passed_over=job.passed_over + sum(result == "passed_over" for result, _ in found),
        slice_at=now,
    )


def observe(job: RedriveJob, token: int, endings: Mapping[str, Ending], now: datetime) -> RedriveJob:
    """Return the job after it was looked what became of watched messages, by the ids of their letters; it may stop or end there."""
    if not holds(job, token):
        return job
    seen = [(each, endings[each.letter_id]) for each in job.watched if each.letter_id in endings]
    marks = "".join(ending[0] for each, ending in seen if ending != "lost" and not each.is_earlier)
    job = attrs.evolve(
        job,
        watched=tuple(each for each in job.watched if each.letter_id not in endings),
        succeeded=job.succeeded + sum(ending == "succeeded" for _, ending in seen),
        failed=job.failed + sum(ending == "failed" for _, ending in seen),
        recent=(job.recent + marks)[-_RECENT:],
    )
    if not job.canary_passed:
        return _judge_canary(job, now)
    failed = job.recent.count("f")
    if len(job.recent) >= _ENOUGH and failed > job.tolerance * len(job.recent):
        return _ended(job, RedriveState.STOPPED, f"{failed} of the last {len(job.recent)} messages failed again", now)
    if not job.is_exhausted and _is_overdue(job, now) and len(job.watched) * 2 > job.size:
        note = f"waits: {job.pending} messages have not come to an end within {short(job.patience)}"
        job = attrs.evolve(job, note=note)
    return _finished(job, now)


def _judge_canary(job: RedriveJob, now: datetime) -> RedriveJob:
    sent, failed = job.recent.count("s"), job.recent.count("f")
    if failed > job.tolerance * job.tried:
        note = f"the canary failed: {failed} of {job.tried} messages failed again"
        return _ended(job, RedriveState.STOPPED, note, now)
    if job.tried < job.canary and (job.taken or not job.is_exhausted):
        return job
    if all(each.is_earlier for each in job.watched):
        job = attrs.evolve(job, canary_passed=True, recent="")
        if sent or failed:
            job = _noted(job, _RUNNER, "canary passed", "", f"{sent} sent, {failed} failed again", now)
    elif (job.taken or not job.is_exhausted) and _is_overdue(job, now):
        waiting = sum(not each.is_earlier for each in job.watched)
        note = (
            f"{waiting} messages of the canary have not come to an end within {short(job.patience)}; does a worker run?"
        )
        return _let_go(job, RedriveState.PAUSED, _RUNNER, "paused", note, now)
    return _finished(job, now)


def _finished(job: RedriveJob, now: datetime) -> RedriveJob:
    """Return the job, done if there is nothing left to put back and nothing left to wait for."""
    if not job.is_exhausted or job.taken or (job.watched and not _is_overdue(job, now)):
        return job
    left = f", {job.pending} have not come to an end yet" if job.watched else ""
    said = f"{job.put_back} put back, {job.succeeded} sent, {job.failed} failed again{left}"
    return _ended(job, RedriveState.DONE, said, now)


def _is_overdue(job: RedriveJob, now: datetime) -> bool:
    return job.slice_at is not None and now >= job.slice_at + timedelta(seconds=job.patience)


def gained(before: RedriveJob | None, after: RedriveJob) -> Sequence[AuditEntry]:
    """Return what a change has added to the history: what a store adds to the audit log."""
    return after.history[0 if before is None else len(before.history) :]


def becomes_active(before: RedriveJob | None, after: RedriveJob) -> bool:
    """Tell whether a change makes a job active, which conflicts with others: a store looks for those first."""
    return after.is_active and (before is None or not before.is_active)


# What a person does


def pause(job: RedriveJob, by: str, why: str, now: datetime) -> RedriveJob:
    """Return the job that rests until it is resumed; its runner may not go on."""
    return _let_go(job, RedriveState.PAUSED, by, "paused", why, now) if job.state is RedriveState.RUNNING else job


def resume(job: RedriveJob, by: str, why: str, now: datetime) -> RedriveJob:
    """Return the job that goes on; one that had been stopped begins with a canary again."""
    if job.state not in (RedriveState.PAUSED, RedriveState.STOPPED):
        return job
    if job.state is RedriveState.STOPPED:
        job = attrs.evolve(
            job,
            canary_passed=not job.canary,
            recent="",
            tried_from=job.put_back,
            watched=tuple(attrs.evolve(each, is_earlier=True) for each in job.watched),
            finished_at=None,
        )
    job = attrs.evolve(job, state=RedriveState.RUNNING, note="", next_at=None, slice_at=now)
    return _noted(job, by, "redrive resumed", why, "", now)


def stop(job: RedriveJob, by: str, why: str, now: datetime) -> RedriveJob:
    """Return the job that ends here; what was put back goes on."""
    if not job.is_active:
        return job
    return _ended(job, RedriveState.STOPPED, why, now, by=by)


_RUNNER: Final = "retrykit"


def _ended(job: RedriveJob, state: RedriveState, note: str, now: datetime, *, by: str = _RUNNER) -> RedriveJob:
    return attrs.evolve(_let_go(job, state, by, state.value, note, now), finished_at=now)


def _let_go(job: RedriveJob, state: RedriveState, by: str, action: str, note: str, now: datetime) -> RedriveJob:
    job = attrs.evolve(job, state=state, note=note, seq=job.seq + 1, lease=None)
    return _noted(job, by, f"redrive {action}", note, "", now)


def _noted(job: RedriveJob, by: str, action: str, why: str, result: str, now: datetime) -> RedriveJob:
    entry = AuditEntry(at=now, by=by, action=action, subject=job.id, why=why, result=result, step=len(job.history))
    return attrs.evolve(job, history=(*job.history, entry))
