"""Replay: what another matrix would have decided about failures on record.

Each attempt of a dead letter's history is put to the matrix again, with the attempts before it and the age it had then. The
matrix is followed as long as it agrees with what was done; from where it would have gone another way, what follows on the
record says nothing about it any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs

from ..codec import JSON
from ..dead_letter import DeadLetter
from ..decision import Action, Attempt, Decision
from .matrix import PolicyMatrix

__all__ = ["Divergence", "ReplayReport", "replay"]

_SHOWN = 20


@attrs.frozen(kw_only=True)
class Divergence:
    """Where the matrix would have gone another way."""

    letter_id: str
    attempt: int
    """The attempt's number, counted from 1."""
    error_class: str
    decided: Action
    """What was decided then."""
    would: Decision
    """What the matrix decides."""

    def to_dict(self) -> dict[str, JSON]:
        """Return it as JSON values."""
        return {
            "letter_id": self.letter_id,
            "attempt": self.attempt,
            "error_class": self.error_class,
            "decided": self.decided.value,
            "would": self.would.action.value,
            "reason": self.would.reason,
        }


@attrs.frozen(kw_only=True)
class ReplayReport:
    """What a matrix would have done with dead letters."""

    letters: int
    """Looked at."""
    without_history: int
    """Of these, without attempts on record: nothing can be said of them."""
    same: int
    """Would have ended as they did, after as many attempts."""
    changes: Mapping[tuple[str, str, str], int]
    """Letters by (error class, what was decided, what would be decided), where the matrix goes another way first."""
    examples: Sequence[Divergence]
    """The first of them."""

    @property
    def different(self) -> int:
        """Letters that would have gone another way."""
        return sum(self.changes.values())

    def to_dict(self) -> dict[str, JSON]:
        """Return the report as JSON values."""
        return {
            "letters": self.letters,
            "without_history": self.without_history,
            "same": self.same,
            "different": self.different,
            "changes": [
                {"error_class": name, "decided": then, "would": now, "letters": count}
                for (name, then, now), count in sorted(self.changes.items(), key=lambda item: (-item[1], item[0]))
            ],
            "examples": [example.to_dict() for example in self.examples],
        }


class _Highest:
    """Draws the longest wait."""

    def random(self) -> float:
        return 1 - 2**-53


def replay(matrix: PolicyMatrix, letters: Iterable[DeadLetter], *, idempotent: bool = False) -> ReplayReport:
    """Put the attempts on record to a matrix.

    Args:
        matrix: the matrix that is thought of.
        letters: dead letters with their history; read once, one at a time.
        idempotent: whether the calls were declared so.

    Returns:
        What would have been decided beside what was.
    """
    total = bare = same = 0
    changes: Counter[tuple[str, str, str]] = Counter()
    examples: list[Divergence] = []
    for letter in letters:
        total += 1
        tries = [attempt for attempt in letter.attempts if attempt.generation == letter.generation]
        if not tries:
            bare += 1
            continue
        divergence = _first_divergence(matrix, letter.id, tries, idempotent)
        if divergence is None:
            same += 1
            continue
        key = (divergence.error_class, divergence.decided.value, divergence.would.action.value)
        changes[key] += 1
        if len(examples) < _SHOWN:
            examples.append(divergence)
    return ReplayReport(letters=total, without_history=bare, same=same, changes=dict(changes), examples=examples)


def _first_divergence(
    matrix: PolicyMatrix, letter_id: str, tries: Sequence[Attempt], idempotent: bool
) -> Divergence | None:
    for number, attempt in enumerate(tries):
        if attempt.failure.rule.startswith("claim."):
            continue  # a lost worker or a poison verdict: the claim decides these, not a matrix
        age = (attempt.failed_at - tries[0].failed_at).total_seconds()
        would = matrix.decide(attempt.failure, tries[:number], age=age, idempotent=idempotent)
        # The jitter of then is not known: near the maximum age either end of it may have decided.
        longest = matrix.decide(attempt.failure, tries[:number], age=age, rng=_Highest(), idempotent=idempotent)
        if attempt.action not in (would.action, longest.action):
            return Divergence(
                letter_id=letter_id,
                attempt=attempt.number,
                error_class=str(attempt.failure.error_class),
                decided=attempt.action,
                would=would,
            )
    return None
