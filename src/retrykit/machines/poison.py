"""What makes a message poison: workers that were lost with it, and what came of its payload.

Two things are counted, each within the window of a rule: how many workers were lost with a message, by its own history, and
the marks of its payload, by the payload's fingerprint. A mark is one internal failure, or one process that was lost, of any
message with that payload. So a payload that comes again and again under new ids is known, and many messages that die with
one process are one mark. A payload that has come through to a provider, which took it or refused it, is no poison: its marks
are gone. So are those of a letter that is put back.

Marks are evidence, not the record: a store may lose one. What is decided on them is decided under the claim record.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from ..checks import counted, whole
from ..decision import Attempt, DispositionKind
from ..errors import ConfigurationError
from ..failure import ErrorClass, ErrorGroup, Failure, Outcome
from ..lease import Lease
from ..message import CALL_MARK, Message
from ..times import Duration, plain, seconds

if TYPE_CHECKING:
    from .claim_record import ClaimRecord

__all__ = [
    "MARKS_KEPT",
    "Mark",
    "Marks",
    "PoisonRule",
    "cleared",
    "has_marks",
    "is_crash",
    "last_words",
    "lost_worker",
    "mark_of",
    "verdict",
    "with_mark",
]

MARKS_KEPT: Final = 16
"""Marks of one payload that a store keeps, the newest."""

_WORKER_LOST: Final = "worker_lost"
"""The error code of a try whose holder's lease ended without a word."""

_LAST_WORDS: Final = 200
"""Characters that are kept of how a process ended."""

_FAILED: Final = "failed:"
"""Begins the source of a mark that is an internal failure."""

_NO_PAYLOAD: Final = frozenset(Message("-", body).fingerprint for body in (b"", b"null", b"{}", b"[]", b'""'))
"""Of payloads that say nothing: messages that have them have nothing in common."""


def _limit(_: object, attribute: attrs.Attribute[int], value: int) -> None:
    whole(value, f"the {attribute.name} of a PoisonRule")


def _failures(_: object, __: object, value: int | None) -> None:
    if value is not None and whole(value, "the failures of a PoisonRule") > MARKS_KEPT:
        raise ConfigurationError(
            f"the failures of a PoisonRule is {value!r}; allowed are 1 to {MARKS_KEPT}, or None to count by message alone"
        )


def _window(value: Duration) -> float:
    return seconds(value, "the window of a PoisonRule", positive=True)


def _failure_window(value: Duration) -> float:
    return seconds(value, "the failure_window of a PoisonRule", positive=True)


@attrs.frozen
class PoisonRule:
    """How many crashes, and how many failures of one payload, within which time make a message poison.

    The default, three crashes in 72 hours, is that of Sidekiq's super_fetch.

    Raises:
        ConfigurationError: a value is not allowed.
    """

    limit: int = attrs.field(default=3, validator=_limit)
    """Workers that were lost with the message, >= 1."""
    window: float = attrs.field(default=seconds("72h"), converter=_window)
    """A duration > 0; longer than a lease, or no two crashes ever fall into it."""
    failures: int | None = attrs.field(default=3, validator=_failures, kw_only=True)
    """Internal failures and lost processes, 1 to 16, of all messages with the same payload; None: payloads are not counted."""
    failure_window: float = attrs.field(default=seconds("15m"), converter=_failure_window, kw_only=True)
    """For how long an internal failure counts against a payload, a duration > 0: code is repaired sooner than a payload
    that kills, and messages that have nothing but their recipients apart are then tried again by themselves."""


@attrs.frozen
class Mark:
    """One internal failure, or one lost process, of messages with a payload."""

    source: str
    """The hold that failed, said to have, or the process that was lost: the same source is one mark."""
    at: datetime


Marks: TypeAlias = Mapping[str, datetime]
"""The marks of one payload: when, by source."""


def has_marks(key: str, fingerprint: str | None) -> bool:
    """Tell whether marks are kept of a message: not of calls, and not where the payload is not known or empty."""
    return fingerprint is not None and fingerprint not in _NO_PAYLOAD and not key.startswith(CALL_MARK)


def mark_of(before: ClaimRecord | None, after: ClaimRecord, now: datetime) -> Mark | None:
    """Return the mark that a change of a record at `now` leaves on its payload, `after.fingerprint`; None: it leaves none."""
    if before is None or not _is_worse(before, after) or not has_marks(after.key, after.fingerprint):
        return None
    if after.counters.crashed > before.counters.crashed:
        lost = next(attempt for attempt in reversed(after.attempts) if is_crash(attempt))
        return Mark((lost.worker or "").partition("/")[0], lost.failed_at)
    latest = after.attempts[-1]
    return Mark(f"{_FAILED}{latest.worker or ''}", now) if latest.failure.group is ErrorGroup.INTERNAL else None


def _is_worse(before: ClaimRecord, after: ClaimRecord) -> bool:
    """Tell whether a change of a record was a failed try, or a lost worker."""
    old, new = before.counters, after.counters
    return (new.failed > old.failed or new.crashed > old.crashed) and after.generation == before.generation


def cleared(before: ClaimRecord | None, after: ClaimRecord) -> tuple[str, ...]:
    """Return the fingerprints of the payloads whose marks a change of a record takes away.

    It was sent, or refused by a provider: then it came through. Or it was put back, and somebody vouches for it.
    """
    known: tuple[str | None, ...] = ()
    if _came_through(before, after):
        known = (after.fingerprint,)
    elif after.redriven_from is not None and (before is None or after.generation > before.generation):
        known = (None if before is None else before.fingerprint, after.fingerprint, *after.replaced)
    return tuple(dict.fromkeys(each for each in known if each is not None and has_marks(after.key, each)))


def _came_through(before: ClaimRecord | None, after: ClaimRecord) -> bool:
    if after.disposition is DispositionKind.SENT:
        return before is None or before.disposition is not DispositionKind.SENT
    if before is None or not _is_worse(before, after):
        return False
    latest = after.attempts[-1].failure
    return latest.outcome is Outcome.REJECTED and latest.group is not ErrorGroup.INTERNAL


def with_mark(marks: Marks, mark: Mark | None) -> Marks:
    """Return the marks with one more, the newest of each source, and no more of them than are kept."""
    if mark is None:
        return marks
    latest = max(mark.at, marks.get(mark.source, mark.at))
    newest = sorted({**marks, mark.source: latest}.items(), key=lambda item: (item[1], item[0]))
    return dict(newest[-MARKS_KEPT:])


def verdict(record: ClaimRecord, marks: Marks, rule: PoisonRule, now: datetime) -> Failure | None:
    """Tell whether a message is poison, before it is started; None: it is not.

    Args:
        record: of the message, with no holder.
        marks: of its payload.
        rule: how much is too much.
        now: the store's time.
    """
    since = now - timedelta(seconds=rule.window)
    crashes = record.crashes_since(since)
    if crashes >= rule.limit:
        last = next(attempt for attempt in reversed(record.tries) if is_crash(attempt))
        within = f"{crashes} workers were lost while they had this message, within {plain(rule.window)} s"
        return _poison(within + (f"; the last was {last.worker}" if last.worker else ""))
    if rule.failures is None or len(marks) < rule.failures or not has_marks(record.key, record.fingerprint):
        return None
    failed_since = now - timedelta(seconds=rule.failure_window)
    failed = sum(at > failed_since for source, at in marks.items() if source.startswith(_FAILED))
    lost = sum(at > since for source, at in marks.items() if not source.startswith(_FAILED))
    if failed + lost < rule.failures:
        return None
    counts = {
        f"{counted(failed, 'internal failure')} within {plain(rule.failure_window)} s": failed,
        f"{counted(lost, 'lost worker')} within {plain(rule.window)} s": lost,
    }
    return _poison(f"{' and '.join(each for each, count in counts.items() if count)} had the same payload")


def _poison(why: str) -> Failure:
    return Failure(
        error_class=ErrorClass.POISON_MESSAGE, error_message=why, outcome=Outcome.NOT_SENT, rule="claim.poison"
    )


def lost_worker(lease: Lease, *, sending: bool) -> Failure:
    """Return the failure of a try whose holder's lease ended without a word."""
    stage = "while it was sending" if sending else "before it had sent"
    return Failure(
        error_class=ErrorClass.INTERNAL_ERROR,
        error_code=_WORKER_LOST,
        error_message=f"the lease of {lease.owner} ended {stage}" + (f": {lease.lost}" if lease.lost else ""),
        stage="send" if sending else None,
        outcome=Outcome.UNKNOWN if sending else Outcome.NOT_SENT,
        rule="claim.lease_ended",
    )


def is_crash(attempt: Attempt) -> bool:
    """Tell whether a try ended with its worker."""
    return attempt.failure.error_code == _WORKER_LOST and attempt.failure.error_class == ErrorClass.INTERNAL_ERROR


def last_words(lost: str | None) -> str | None:
    """Return how a process ended as it is written down: one line of up to 200 characters; None: nobody said.

    Raises:
        ConfigurationError: it is no text.
    """
    if lost is None:
        return None
    if not isinstance(lost, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"lost is {lost!r}; allowed is how the worker ended, such as 'signal 11 (SIGSEGV)'")
    line = "".join(each if each.isprintable() else " " for each in lost[: 4 * _LAST_WORDS])
    return " ".join(line.split())[:_LAST_WORDS] or None
