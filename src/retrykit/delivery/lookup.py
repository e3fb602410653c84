"""What a send answers, and how to ask a provider afterwards whether it took a message."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

import attrs

from ..checks import provider_name

__all__ = ["AsyncStatusLookup", "NotAccepted", "Sent", "StatusLookup"]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _name(value: object) -> str | None:
    return None if value is None else provider_name(str(value))  # whatever it is: the message has been sent


@attrs.frozen
class Sent:
    """The provider accepted the message."""

    provider_id: str | None = attrs.field(default=None, converter=_text)
    """The provider's own id, where it gave one; numbers become text."""
    provider: str | None = attrs.field(default=None, converter=_name)
    """Who accepted it, where several could; kept in lower case."""


@attrs.frozen
class NotAccepted:
    """The provider is certain that it did not accept the message."""


class StatusLookup(Protocol):
    """Ask the provider whether it accepted a message."""

    def __call__(self, key: str, /) -> Sent | NotAccepted | None:
        """Return what the provider knows of the message id `key`; None when it cannot tell."""
        ...


class AsyncStatusLookup(Protocol):
    """`StatusLookup` for asynchronous callers."""

    def __call__(self, key: str, /) -> Awaitable[Sent | NotAccepted | None]:
        """Return what the provider knows of the message id `key`; None when it cannot tell."""
        ...
