"""How the tables of exceptions are written: rows of names, and cases that look at what an exception carries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

from ..failure import ErrorClass, Outcome
from .exception_facts import Predicate
from .rules import Rule

__all__ = ["NOT_SENT", "REJECTED", "UNKNOWN", "Meanings", "case", "rows"]

NOT_SENT: Final = Outcome.NOT_SENT
REJECTED: Final = Outcome.REJECTED
UNKNOWN: Final = Outcome.UNKNOWN
"""For classes that mostly stand for a refusal, where this one may come after the effect."""

Meanings: TypeAlias = Mapping[tuple[ErrorClass, Outcome | None], str]
"""Names of classes, separated by spaces, by what they mean."""


def rows(module: str, meanings: Meanings) -> Iterable[Rule]:
    """Give a rule for each class of a module that means something whatever it carries."""
    for (error_class, outcome), names in meanings.items():
        for name in names.split():
            qualified = f"{module}.{name}"
            yield Rule(f"exception.{qualified}", error_class, exceptions=(qualified,), outcome=outcome)


def case(
    exceptions: str,
    suffix: str,
    error_class: ErrorClass,
    outcome: Outcome | None = None,
    *,
    words: Iterable[str] | str = (),
    also: Iterable[str] | str = (),
    attribute: tuple[str, Collection[object]] | None = None,
    predicate: Predicate | None = None,
) -> Rule:
    """Make a rule for classes, by their qualified names, that mean this only where they carry what is looked for.

    It is called after the class and the suffix; a rule for several classes after the suffix alone.
    """
    names = tuple(exceptions.split())
    return Rule(
        f"exception.{names[0]}.{suffix}" if len(names) == 1 else f"exception.{suffix}",
        error_class,
        exceptions=names,
        outcome=outcome,
        words=words,
        also=also,
        attribute=attribute,
        predicate=predicate,
    )
