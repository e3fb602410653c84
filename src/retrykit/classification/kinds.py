"""What there is to know about a type of exception: worked out once, and remembered."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from ..errors import CallRefusedError, RetryLater
from .exceptions import CANCELLATIONS, REPLY_READERS, WRAPPERS
from .http import HttpReply
from .rules import Rule, qualified_name
from .smtp import SmtpReply
from .tags import TaggedError

__all__ = ["Kind", "Kinds"]

_MAX_TYPES: Final = 1_024
_SAYS_MORE: Final = (BaseExceptionGroup, CallRefusedError, RetryLater, TaggedError)
"""Types whose instances have a say of their own."""


@attrs.frozen
class Kind:
    """One type of exception."""

    names: tuple[str, ...]
    """The qualified names of its MRO."""
    code: str
    """What stands as the error code."""
    rules: tuple[Rule, ...]
    """The rules that can fit, nearest class first."""
    is_cancellation: bool
    read: Callable[[BaseException], Sequence[SmtpReply | HttpReply]] | None
    """Reads what a server answered."""
    wraps: str | None
    """The attribute that holds another exception."""
    is_settled: bool
    """Whether the type decides, with attributes perhaps, on an instance that nobody has marked."""


@functools.cache
def _by_name() -> dict[str, list[Rule]]:
    from .exception_rules import (
        EXCEPTION_RULES,
    )  # only here: the table is built when the first classifier is, for all of them

    rules: dict[str, list[Rule]] = {}
    for rule in EXCEPTION_RULES:
        for name in rule.exceptions:
            rules.setdefault(name, []).append(rule)
    return rules


class Kinds:
    """All types that were met."""

    __slots__ = ("_by_name", "known")

    def __init__(self) -> None:
        self.known: Final[dict[type[BaseException], Kind]] = {}
        """Those that were met lately."""
        self._by_name: Final = _by_name()

    def of(self, cls: type[BaseException]) -> Kind:
        """Return what there is to know about a type."""
        kind = self.known.get(cls)
        if kind is None:
            if len(self.known) >= _MAX_TYPES:
                self.known.clear()
            kind = self.known[cls] = self._work_out(cls)
        return kind

    def _work_out(self, cls: type[BaseException]) -> Kind:
        names = tuple(qualified_name(base) for base in cls.__mro__)
        rules = tuple(rule for name in names for rule in self._by_name.get(name, ()))
        is_cancellation = not issubclass(cls, Exception) and not CANCELLATIONS.isdisjoint(names)
        read = next((REPLY_READERS[name] for name in names if name in REPLY_READERS), None)
        wraps = next((WRAPPERS[name] for name in names if name in WRAPPERS), None)
        has_say = (
            is_cancellation
            or read is not None
            or wraps is not None
            or issubclass(cls, _SAYS_MORE)
            or any(hasattr(cls, name) for name in ("provider", "smtp_phase"))
        )
        return Kind(
            names=names,
            code=names[0].removeprefix("builtins."),
            rules=rules,
            is_cancellation=is_cancellation,
            read=read,
            wraps=wraps,
            is_settled=not has_say and all(rule.asks_for_type for rule in rules),
        )
