"""What a shutdown has to tell of itself: each message that was taken, in exactly one column."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Final

import attrs

from ..open_claims import End, OpenClaim

__all__ = ["Entry", "ShutdownReport", "Tally"]


@attrs.frozen(kw_only=True)
class ShutdownReport:
    """What became of the work of a process that was told to stop.

    Each message that was taken is in exactly one of the columns, so `taken` is the sum of all the others.
    """

    reason: str = ""
    """Who told it: the name of a signal, or "request"; "" when nobody has."""
    taken: int = 0
    """Messages that were taken; also those that were given back, where it is not known who took them."""
    finished: int = 0
    """Of these, how many came to their end."""
    returned: int = 0
    """Of these, how many went back to their source with nothing decided: nobody had begun them, or a store was down."""
    timed_out: int = 0
    """Of these, how many were over their time limit, and have failed."""
    handed_back: tuple[str, ...] = ()
    """Ids of messages that were given back before their send had begun."""
    unknown: tuple[str, ...] = ()
    """Ids of messages that were given back in mid-send; they are verified before they are sent again."""
    stranded: tuple[str, ...] = ()
    """Ids of messages that could not be given back: the lease of each ends by itself, as that of a lost worker."""
    in_work: int = 0
    """Of these, how many had come to no end when this was reported."""
    duration: float = 0.0
    """Seconds from the request to the end."""

    def __str__(self) -> str:
        """Return the report in one sentence."""
        rare = {"timed out": self.timed_out, "stranded": len(self.stranded), "in work": self.in_work}
        more = "".join(f"{count} {what}, " for what, count in rare.items() if count)
        return (
            f"{self.reason or 'the source ended'}, {self.taken} taken, {self.finished} finished, {self.returned} returned, "
            f"{len(self.handed_back)} given back, {len(self.unknown)} to be verified, {more}in {self.duration:.1f} s"
        )


_OF_COPIES: Final = frozenset({End.FINISHED, End.RETURNED})
"""What is said of a copy; all else is said of a claim, and counts more."""
_NAMED: Final = frozenset({End.HANDED_BACK, End.UNKNOWN, End.STRANDED})
"""Of whom a report has the ids."""


class Entry:
    """A message that was taken, and the column that it stands in.

    The first thing that is said of it counts; but what is said of its claim counts more than what is said of its copy.
    """

    __slots__ = ("end", "is_passed", "opened", "tally")

    def __init__(self, tally: Tally) -> None:
        self.tally: Final = tally
        self.end: End | None = None
        """What became of it; None: it is in work."""
        self.is_passed = False
        """Whether it counts as finished only because a loop has come for the next: somebody may still be at it."""
        self.opened: OpenClaim | None = None
        """Its claim, while there is one."""

    def ended(self, end: End, key: str = "") -> None:
        """Take in what became of it; `key` is its id."""
        self.tally.put(self, end, key)


class Tally:
    """Counts what a report tells; safe from all threads."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._taken = 0
        self._passed = 0
        self._counts: Final = Counter[End]()
        self._keys: Final = dict[End, list[str]]()
        self._in_work: Final = dict[Entry, None]()
        self._began: float | None = None
        self._ended: float | None = None

    def took(self) -> Entry:
        """Count a message that was taken."""
        with self._lock:
            return self._took()

    def passed(self, entry: Entry) -> None:
        """Count a message as finished, because a loop has come for the next."""
        with self._lock:
            if entry.end is None:
                entry.is_passed = True
                self._passed += 1
                self._put(entry, End.FINISHED)

    def adopt(self) -> Entry:
        """Return an entry for a message that was found in work: one that a loop has handed on, or else one that nobody has counted."""
        with self._lock:
            if self._passed:
                self._passed -= 1
                self._counts[End.FINISHED] -= 1
                self._taken -= 1
            return self._took()

    def put(self, entry: Entry, end: End, key: str = "") -> None:
        """Put a message into its column, and out of the one where it stood."""
        with self._lock:
            if entry.end is None or (entry.end in _OF_COPIES and end not in _OF_COPIES):
                self._put(entry, end, key)

    def _took(self) -> Entry:
        entry = Entry(self)
        self._taken += 1
        self._in_work[entry] = None
        return entry

    def _put(self, entry: Entry, end: End, key: str = "") -> None:
        if entry.end is None:
            del self._in_work[entry]
        else:
            self._counts[entry.end] -= 1
            self._passed -= entry.is_passed
            entry.is_passed = False
        entry.end = end
        self._counts[end] += 1
        if end in _NAMED:
            self._keys.setdefault(end, []).append(key)

    def still_held(self) -> list[OpenClaim]:
        """Return the claims of the messages that have come to no end."""
        with self._lock:
            return [entry.opened for entry in self._in_work if entry.opened is not None]

    def begin(self) -> None:
        """Note when the shutdown began."""
        self._began = time.monotonic()

    def end(self) -> None:
        """Note when it ended."""
        self._ended = time.monotonic()

    def report(self, reason: str) -> ShutdownReport:
        """Return what there is to tell."""
        now = time.monotonic()
        with self._lock:
            return ShutdownReport(
                reason=reason,
                taken=self._taken,
                finished=self._counts[End.FINISHED],
                returned=self._counts[End.RETURNED],
                timed_out=self._counts[End.TIMED_OUT],
                handed_back=tuple(self._keys.get(End.HANDED_BACK, ())),
                unknown=tuple(self._keys.get(End.UNKNOWN, ())),
                stranded=tuple(self._keys.get(End.STRANDED, ())),
                in_work=len(self._in_work),
                duration=0.0 if self._began is None else (self._ended or now) - self._began,
            )
