"""What a shutdown has to tell of itself."""

from __future__ import annotations

import threading
import time

import attrs

from ..open_claims import HandedBack

__all__ = ["ShutdownReport", "Tally"]


@attrs.frozen(kw_only=True)
class ShutdownReport:
    """What became of the work of a process that was told to stop."""

    reason: str = ""
    """Who told it: the name of a signal, or "request"; "" when nobody has."""
    taken: int = 0
    """Messages that were taken."""
    finished: int = 0
    """Of these, how many came to their end."""
    returned: int = 0
    """Of these, how many went back to their source without having been begun."""
    handed_back: tuple[str, ...] = ()
    """Ids of messages that were given back before their send had begun."""
    unknown: tuple[str, ...] = ()
    """Ids of messages that were given back in mid-send; they are verified before they are sent again."""
    duration: float = 0.0
    """Seconds from the request to the end."""

    def __str__(self) -> str:
        """Return the report in one sentence."""
        return (
            f"{self.reason or 'the source ended'}, {self.taken} taken, {self.finished} finished, {self.returned} returned unbegun, "
            f"{len(self.handed_back)} given back, {len(self.unknown)} to be verified, in {self.duration:.1f} s"
        )


class Tally:
    """Counts what a report tells; safe from all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0
        self._finished = 0
        self._returned = 0
        self._given = HandedBack()
        self._began: float | None = None
        self._ended: float | None = None

    def took(self) -> None:
        """Count a message that was taken."""
        with self._lock:
            self._taken += 1

    def finished(self) -> None:
        """Count a message that came to its end."""
        with self._lock:
            self._finished += 1

    def returned(self) -> None:
        """Count a message that went back to its source unbegun."""
        with self._lock:
            self._returned += 1

    def gave_back(self, given: HandedBack) -> None:
        """Take in what was given back."""
        with self._lock:
            self._given += given

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
                finished=self._finished,
                returned=self._returned,
                handed_back=self._given.free,
                unknown=self._given.unknown,
                duration=0.0 if self._began is None else (self._ended or now) - self._began,
            )
