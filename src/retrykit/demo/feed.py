"""What the providers tell of the messages they took: a log of their own, and webhook calls that come late, twice, in disorder or never.

The log is the truth of the audit. An event is written as SendGrid writes its own.
"""

from __future__ import annotations

import heapq
import json
import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Final

import attrs

from ..classification import EventKind, ProviderEvent
from ..clock import Clock
from ..delivery import parse_event
from .scenarios import DemoMessage, Travel

__all__ = ["Call", "Feed", "ToldEvent"]

_NEWS: Final = (10.0, 300.0)
"""Seconds from the acceptance to the first event, and from each event to the next: at least, at most."""
_TRAVEL: Final = (0.0, 1200.0)
"""Seconds from an event to its webhook call."""
_AGAIN: Final = 600.0
"""Seconds after which a webhook call that failed is made again."""

_WORDS: Final[Mapping[EventKind, Mapping[str, str]]] = {
    EventKind.DEFERRED: {"event": "deferred", "response": "451 4.3.0 Try again later"},
    EventKind.DELIVERED: {"event": "delivered", "response": "250 2.0.0 OK"},
    EventKind.BOUNCED: {"event": "bounce", "status": "5.1.1", "reason": "550 5.1.1 The account was closed"},
    EventKind.COMPLAINED: {"event": "spamreport"},
}


@attrs.frozen
class ToldEvent:
    """One event, as it stands in a provider's own log."""

    id: str
    provider: str
    message_id: str
    kind: EventKind
    at: datetime

    @property
    def body(self) -> bytes:
        """The webhook call's body."""
        fields: dict[str, object] = {
            "sg_event_id": self.id,
            "sg_message_id": f"{self.provider}-{self.message_id}",
            "message_id": self.message_id,
            "timestamp": self.at.timestamp(),
            **_WORDS[self.kind],
        }
        return json.dumps([fields]).encode()


@attrs.frozen(order=True)
class Call:
    """A webhook call on its way."""

    due: datetime
    number: int
    event: ToldEvent = attrs.field(order=False)


class Feed:
    """The events of all providers.

    Args:
        messages: the day's messages.
        seed: of when things happen.
        clock: where the time comes from.
    """

    def __init__(self, messages: Sequence[DemoMessage], *, seed: int, clock: Clock) -> None:
        self._scenarios: Final = {message.id: message.scenario for message in messages}
        self._seed: Final = seed
        self._clock: Final = clock
        self._lock = threading.Lock()
        self._log: list[ToldEvent] = []
        self._calls: list[Call] = []
        self._numbers = count(1)
        self._open = 0
        """Calls that wait, or are being answered."""
        self._told: Counter[str] = Counter()

    def accepted(self, provider: str, message_id: str) -> None:
        """Note that a provider has taken a message: what becomes of it will be told."""
        scenario = self._scenarios[message_id]
        rng = random.Random(f"{self._seed}/{message_id}")
        at, told = self._clock.now(), list[ToldEvent]()
        with self._lock:
            for kind in scenario.news:
                at += timedelta(seconds=round(rng.uniform(*_NEWS)))
                self._told[message_id] += 1
                event_id = f"{message_id}.{self._told[message_id]}"
                told.append(ToldEvent(event_id, provider, message_id, kind, at))
            self._log += told
            if scenario.travel is Travel.WEBHOOKS:
                for event in told:
                    self._call(event, event.at + timedelta(seconds=rng.uniform(*_TRAVEL)))
            elif scenario.travel is Travel.DISORDER:
                for place, event in enumerate([*reversed(told), *told]):
                    self._call(event, at + timedelta(seconds=place * _TRAVEL[1] / len(told)))

    def _call(self, event: ToldEvent, due: datetime) -> None:
        self._open += 1
        heapq.heappush(self._calls, Call(due, next(self._numbers), event))

    def take(self) -> Call | None:
        """Return the next webhook call that is due."""
        with self._lock:
            is_due = bool(self._calls) and self._calls[0].due <= self._clock.now()
            return heapq.heappop(self._calls) if is_due else None

    def answered(self, call: Call, *, well: bool) -> None:
        """Take the answer to a webhook call; one that was not taken well is made again."""
        with self._lock:
            self._open -= 1
            if not well:
                self._call(call.event, self._clock.now() + timedelta(seconds=_AGAIN))

    @property
    def is_quiet(self) -> bool:
        """Whether no webhook call is on its way."""
        with self._lock:
            return self._open == 0

    def log(self) -> Sequence[ToldEvent]:
        """Return all events, those that are yet to happen included."""
        with self._lock:
            return list(self._log)

    def is_lost(self, event: ToldEvent) -> bool:
        """Tell whether an event is told by no webhook call."""
        return self._scenarios[event.message_id].travel is Travel.LOST

    def events(self, start: datetime, end: datetime) -> Iterator[ProviderEvent]:
        """Give the events of a time, as a provider's events API does."""
        now = self._clock.now()
        for event in self.log():
            if start <= event.at < end and event.at <= now:
                yield parse_event(event.provider, event.body)
