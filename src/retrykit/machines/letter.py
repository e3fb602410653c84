"""What may become of a dead letter, and from where: pure functions that a store applies to a letter in one atomic command.

Each gives the letter afterwards. Where a letter stands elsewhere than the change allows, it is given as it is, so a change that was
repeated after a lost answer does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import attrs

from ..dead_letter import DeadLetter, DeadLetterState, Edit

__all__ = ["ALLOWED", "LetterChange", "discarded", "edited", "put_back", "superseded"]

LetterChange: TypeAlias = Callable[[DeadLetter], DeadLetter]
"""A change of a letter: pure, and without effect the second time."""

_S: Final = DeadLetterState

ALLOWED: Final[Mapping[DeadLetterState, frozenset[DeadLetterState]]] = {
    _S.QUARANTINED: frozenset({_S.REDRIVING, _S.RESOLVED, _S.SUPERSEDED, _S.DISCARDED}),
    _S.REDRIVING: frozenset({_S.RESOLVED, _S.SUPERSEDED}),
    _S.SUPERSEDED: frozenset({_S.RESOLVED}),
    _S.DISCARDED: frozenset({_S.RESOLVED}),
    _S.RESOLVED: frozenset(),
}
"""Where a letter may go from each state. That its message was sent is a fact, whatever was decided before."""


def put_back(letter: DeadLetter, redrive_id: str, note: str) -> DeadLetter:
    """Return the letter whose message was put back into circulation."""
    moved = _moved(letter, _S.REDRIVING)
    return letter if moved is letter else attrs.evolve(moved, redrive_id=redrive_id, note=note)


def superseded(letter: DeadLetter) -> DeadLetter:
    """Return the letter whose message was put back and came to another end."""
    return _moved(letter, _S.SUPERSEDED)


def discarded(letter: DeadLetter, note: str) -> DeadLetter:
    """Return the letter that somebody has given up for good."""
    moved = _moved(letter, _S.DISCARDED)
    return letter if moved is letter else attrs.evolve(moved, note=note)


def edited(letter: DeadLetter, edit: Edit) -> DeadLetter:
    """Return the letter with a repair in place of any before; only one that waits is repaired."""
    if letter.state is not _S.QUARANTINED:
        return letter
    return attrs.evolve(letter, edit=edit, note=edit.why)


def _moved(letter: DeadLetter, state: DeadLetterState) -> DeadLetter:
    return attrs.evolve(letter, state=state) if state in ALLOWED[letter.state] else letter
