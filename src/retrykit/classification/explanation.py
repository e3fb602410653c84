"""Why a failure got its class: the rules that were asked."""

from __future__ import annotations

import attrs

from ..codec import JSON
from ..failure import Failure
from .rules import Rule, Tried

__all__ = ["Explanation"]


@attrs.frozen
class Explanation:
    """A failure, and how the classifier came to it."""

    failure: Failure
    """What `classify` answers."""
    tried: tuple[Tried, ...]
    """The rules that were asked, in order. Those that ask for other codes, phases or providers are left out."""

    @property
    def rule(self) -> Rule | None:
        """The rule that chose the class; None where none did: a tag, or an exception that nobody knows."""
        return next(
            (each.rule for each in reversed(self.tried) if each.matched and each.rule.name == self.failure.rule), None
        )

    def to_dict(self) -> dict[str, JSON]:
        """Return it as JSON values."""
        rule = self.rule
        return {
            "failure": self.failure.to_dict(),
            "source": rule.source if rule else "",
            "tried": [{"rule": each.rule.name, "matched": each.matched} for each in self.tried],
        }
