"""How the exceptions of one answer are walked through: along their chains, within bounds, and where each belongs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from .rules import Tried
from .tags import is_unsure, stages_of

__all__ = ["MAX_DEPTH", "MAX_EXCEPTIONS", "Place", "Walk", "chain", "is_any_unsure"]

MAX_DEPTH: Final = 32
"""Exceptions along one chain, groups included, that are looked at."""
MAX_EXCEPTIONS: Final = 256
"""Exceptions in all that are looked at for one answer."""

_BEFORE_SEND: Final = frozenset({"parse", "validate", "render"})


@attrs.frozen
class Place:
    """Where a failure happened."""

    provider: str | None
    stages: tuple[str, ...]
    """Innermost first."""
    tried: list[Tried] | None = None
    """Where to note the rules that are asked."""

    @property
    def stage(self) -> str | None:
        """The innermost stage, or None where nobody says."""
        return self.stages[0] if self.stages else None

    @property
    def may_have_sent(self) -> bool:
        """Whether the side effect can have begun: in `send`, inside of it, or where nobody says."""
        return not self.stages or (self.stages[0] not in _BEFORE_SEND and "send" in self.stages)

    def within(self, error: BaseException) -> Place:
        """Return the place with the stages that `error` is marked with."""
        marks = stages_of(error)
        return attrs.evolve(self, stages=(*marks, *self.stages)) if marks else self


@attrs.define
class Walk:
    """What was looked at so far for one answer."""

    path: dict[int, None] = attrs.field(factory=dict[int, None])
    """Identities of the exceptions from the outermost to the one looked at, in order: meeting one again is a cycle."""
    left: int = MAX_EXCEPTIONS


def chain(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
    """Give an exception and those behind it, with whether an implicit `__context__` lies on the way; may be endless."""
    is_implicit = False
    behind: BaseException | None = error
    while behind is not None:
        yield behind, is_implicit
        if behind.__cause__ is not None:
            behind = behind.__cause__
        elif behind.__suppress_context__:
            behind = None
        else:
            behind, is_implicit = behind.__context__, True


def is_any_unsure(error: BaseException) -> bool:
    """Tell whether the last of several attempts was marked, of which an earlier one may have had its effect."""
    behind: BaseException | None = error
    for _ in range(MAX_DEPTH):  # as `chain` goes, at a third of its cost
        if behind is None:
            return False
        if is_unsure(behind):
            return True
        behind = behind.__cause__ or (None if behind.__suppress_context__ else behind.__context__)
    return False
