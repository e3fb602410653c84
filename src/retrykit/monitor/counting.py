"""What one process met: events in, a contribution out. Its size is bounded, whatever the events hold."""

from __future__ import annotations

import os
import threading
from typing import Any, Final

from ..decision import DispositionKind
from ..events import AttemptFailed, BreakerChanged, Event, MessageHandled, MessageQuarantined, UnknownCode
from ..lease import new_owner
from ..machines.breaker import BreakerState
from ..machines.signals import Backlog, Contribution, Occurrence, class_key, limited

__all__ = ["Counting"]

_SAMPLES: Final = 10
_OCCURRENCES: Final = 200
"""Codes and messages kept by name until they are handed over; of further ones only their number."""
_BREAKERS: Final = 50
_TEXT: Final = 64

_DEAD: Final = frozenset({DispositionKind.DEAD_LETTERED, DispositionKind.HELD_FOR_REVIEW})
_DONE: Final = _DEAD | {DispositionKind.SENT, DispositionKind.BOUNCED, DispositionKind.DISCARDED}
_OPEN: Final = frozenset({BreakerState.OPEN.value, BreakerState.HALF_OPEN.value})


class Counting:
    """Counts events, in any thread; a forked child counts for itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self.instance = new_owner()
        """Which process this is, for the others."""
        self._seq = 0
        self._waiting: Contribution | None = None
        self._open: dict[str, None] = {}
        self._clear()

    def _clear(self) -> None:
        self._counts: dict[str, int] = {}
        self._samples: list[str] = []
        self._occurrences: dict[tuple[str, str], Occurrence] = {}
        self._more: dict[str, int] = {}
        self._were_open = dict(self._open)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        add = _KINDS.get(type(event))
        if add is not None:
            with self._lock:
                add(self, event)

    def take(self, backlog: Backlog | None) -> Contribution:
        """Return what has been counted, or once more what was taken before and never handed over."""
        with self._lock:
            if self._pid != os.getpid():
                self._begin()
            if self._waiting is None:
                self._seq += 1
                more = (Occurrence(kind=kind, subject="", count=count) for kind, count in self._more.items())
                self._waiting = Contribution(
                    instance=self.instance,
                    seq=self._seq,
                    counts=self._counts,
                    samples=tuple(self._samples),
                    occurrences=(*self._occurrences.values(), *more),
                    open_breakers=tuple(self._were_open | self._open),
                    backlog=backlog,
                )
                self._clear()
            return self._waiting

    def handed_over(self) -> None:
        """Forget what was taken: the store has it."""
        self._waiting = None

    def _add(self, name: str) -> None:
        if name in self._counts:
            self._counts[name] += 1
        else:
            self._counts = limited(self._counts, {name: 1})

    def _attempt(self, event: AttemptFailed) -> None:
        self._add("failed")
        self._add(class_key(event.failure.error_class))

    def _handled(self, event: MessageHandled) -> None:
        disposition = event.disposition
        if disposition.kind not in _DONE:
            return
        self._add("handled")
        if disposition.kind is DispositionKind.SENT:
            self._add("sent")
        elif disposition.kind in _DEAD:
            self._add("dead")
            if len(self._samples) < _SAMPLES:
                self._samples.append(disposition.message_id)

    def _breaker(self, event: BreakerChanged) -> None:
        if event.after not in _OPEN:
            self._open.pop(event.name, None)
        elif len(self._were_open) < _BREAKERS or event.name in self._were_open:
            self._open[event.name] = self._were_open[event.name] = None

    def _once(self, kind: str, subject: str, detail: str) -> None:
        key = (kind, subject)
        if key not in self._occurrences and len(self._occurrences) >= _OCCURRENCES:
            self._more[kind] = self._more.get(kind, 0) + 1
        else:
            self._occurrences[key] = Occurrence(kind=kind, subject=subject, detail=detail)

    def _unknown_code(self, event: UnknownCode) -> None:
        provider = event.provider or "unknown provider"
        said = f"it was taken for {event.failure.error_class}"
        self._once("unknown_code", f"{provider[:_TEXT]}: {event.code[:_TEXT]}", said)

    def _quarantined(self, event: MessageQuarantined) -> None:
        self._once("poison", event.dead_letter_id, event.reason[:500])


_KINDS: Final[dict[type[Event], Any]] = {
    AttemptFailed: Counting._attempt,
    MessageHandled: Counting._handled,
    BreakerChanged: Counting._breaker,
    UnknownCode: Counting._unknown_code,
    MessageQuarantined: Counting._quarantined,
}
