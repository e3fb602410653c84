"""The lease: whatever is held for a time is held by an owner, a fencing token and a deadline.

A lost holder never blocks, since its deadline passes; a late holder never writes, since its token has been replaced.
"""

from __future__ import annotations

import os
import secrets
import socket
from datetime import datetime

import attrs

from .times import later

__all__ = ["Lease", "new_owner"]


@attrs.frozen
class Lease:
    """A timed exclusive hold."""

    owner: str
    """Who holds it, for people who look; the token decides."""
    token: int
    """The fencing token: larger than that of every earlier holder."""
    deadline: datetime
    """When it ends unless renewed, by the clock of the store that granted it."""
    granted_at: datetime | None = None
    """When its holder was given it, where that is kept."""
    lost: str | None = None
    """How its holder ended, where somebody has said so before it lapsed."""

    @classmethod
    def granted(cls, owner: str, token: int, now: datetime, length: float) -> Lease:
        """Return a hold of `length` seconds from `now` on."""
        return cls(owner, token, later(now, length))

    def renewed(self, now: datetime, length: float) -> Lease:
        """Return the same hold with its end moved to `length` seconds from `now`: the token stays."""
        return Lease(self.owner, self.token, later(now, length), self.granted_at)

    def is_over(self, now: datetime) -> bool:
        """Tell whether the hold has ended at `now`: at its deadline it has."""
        return now >= self.deadline


def new_owner() -> str:
    """Return a name for a holder in this process: host, process id and a random part."""
    return f"{socket.gethostname()[:64]}:{os.getpid()}:{secrets.token_hex(4)}"
