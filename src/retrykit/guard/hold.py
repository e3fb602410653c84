"""One call under a key: what it knows of itself while it runs."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Final

from ..machines.claim import ClaimRecord

__all__ = ["Hold", "current_hold"]


class Hold:
    """A key that is held, or that was done before.

    Attributes are read by the call; `result` is written by a `with` block.
    """

    __slots__ = ("_deadline", "is_completed", "is_lost", "is_new", "is_over", "key", "record", "result", "store_key")

    def __init__(self, key: str, store_key: str, record: ClaimRecord, deadline: float, *, is_new: bool) -> None:
        self.key: Final = key
        """As the caller gave it: hand it to the provider, so that it can recognise a repetition too."""
        self.store_key: Final = store_key
        """As it stands in the store, with its namespace, and apart from the ids of messages."""
        self.record: Final = record
        """The claim."""
        self.is_new: Final = is_new
        """Whether the work is to be done; False: it was done before, and `result` is what it gave."""
        self.result: object = None
        """What the work gave."""
        self.is_completed = False
        """Whether `complete` has settled it within a transaction: then the transaction decides whether it is done."""
        self.is_lost = False
        """Whether somebody else may have taken over meanwhile: stop if you can. A result is reported all the same."""
        self.is_over = False
        """Whether the call has ended: there is nothing to complete any more."""
        self._deadline = deadline

    @property
    def is_live(self) -> bool:
        """Whether the lease has not ended yet, as far as is known here."""
        return time.monotonic() < self._deadline

    def renewed(self, deadline: float) -> None:
        """Take in when the lease ends, by the monotonic clock: counted from before the store was asked, so never too late."""
        self._deadline = deadline

    def __repr__(self) -> str:
        return f"<Hold {self.key!r}>"


_current: ContextVar[Hold | None] = ContextVar("retrykit.guard", default=None)


def current_hold() -> Hold | None:
    """Return the hold of the innermost guarded call that is running here, or None."""
    return _current.get()
