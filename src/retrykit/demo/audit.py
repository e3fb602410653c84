"""The audit: what the stores say of each message beside what the servers accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from ..codec import JSON
from ..dead_letter import DeadLetterState
from ..decision import DispositionKind
from ..machines.status import ACCEPTED, FINAL
from ..stores import Backend, ClaimState, DeadLetterQuery
from .scenarios import SCENARIOS, DemoMessage
from .servers import Mailroom

__all__ = ["Audit", "ScenarioResult", "audit"]

_SHOWN: Final = 20
"""Problems that are spelled out."""


@attrs.define
class ScenarioResult:
    """How the messages of one scenario ended."""

    name: str
    promise: str
    expected: str
    messages: int = 0
    as_expected: int = 0


@attrs.frozen(kw_only=True)
class Audit:
    """The result: the counts, and every message that ended otherwise than it has to."""

    messages: int
    lost: int
    """Messages in no final place."""
    in_two_places: int
    """Messages in more than one final place."""
    sent_twice: int
    """Messages that the servers accepted more than once."""
    unexpected: int
    """Messages that ended otherwise than their scenario says."""
    unknown_settled: int
    """Messages whose unknown outcome was settled by asking."""
    unknown_left: int
    accepted: int
    """Acceptances in the servers' logs."""
    statuses: Mapping[str, int]
    scenarios: Sequence[ScenarioResult]
    problems: Sequence[str]
    top_error_classes: Sequence[tuple[str, int]]

    @property
    def passed(self) -> bool:
        """Whether every message ended as it has to."""
        return not (self.lost or self.in_two_places or self.sent_twice or self.unexpected or self.unknown_left)

    def to_dict(self) -> dict[str, JSON]:
        """Return the audit as JSON values."""
        return {
            "passed": self.passed,
            "messages": self.messages,
            "lost": self.lost,
            "in_two_places": self.in_two_places,
            "sent_twice": self.sent_twice,
            "unexpected": self.unexpected,
            "unknown_settled": self.unknown_settled,
            "unknown_left": self.unknown_left,
            "accepted": self.accepted,
            "statuses": dict(self.statuses),
            "scenarios": [attrs.asdict(result) for result in self.scenarios],
            "top_error_classes": [[name, count] for name, count in self.top_error_classes],
            "problems": list(self.problems),
        }


class _Ledger:
    """Looks up what the stores and the servers know of one message."""

    def __init__(self, backend: Backend, mailroom: Mailroom) -> None:
        self.backend = backend
        self.acceptances = mailroom.acceptances()

    def problems(self, message: DemoMessage) -> Mapping[str, str]:
        """Return what is wrong with a message, by the count it belongs to."""
        scenario = message.scenario
        record = self.backend.claims.get(message.id)
        delivery = self.backend.deliveries.get(message.id)
        letters = self.backend.dead_letters.search(DeadLetterQuery(message_id=message.id)).letters
        quarantined = [letter for letter in letters if letter.state is DeadLetterState.QUARANTINED]
        times = self.acceptances.get(message.id, 0)
        found: dict[str, str] = {}
        places = [
            delivery is not None and delivery.status in ACCEPTED,
            bool(quarantined),
            record is not None and record.disposition is DispositionKind.BOUNCED,
        ]
        if record is None or record.state is not ClaimState.DONE or not any(places):
            found["lost"] = f"is {'nowhere' if record is None else record.state.value} and in no final place"
        if sum(places) > 1 or len(quarantined) > 1:
            found["in_two_places"] = "is in more than one final place"
        if times > 1:
            found["sent_twice"] = f"was accepted {times} times"
        status = None if delivery is None else delivery.status
        if status is not scenario.end.status or (
            record is not None and record.disposition is not scenario.end.disposition
        ):
            found["unexpected"] = f"ended as {status}, {None if record is None else record.disposition}"
        elif (status in ACCEPTED) != (times > 0):
            found["unexpected"] = f"is called {status}, but the servers accepted it {times} times"
        elif scenario.provider and delivery is not None and delivery.provider != scenario.provider:
            found["unexpected"] = f"was taken by {delivery.provider}, not by {scenario.provider}"
        elif scenario.unknown and not (record and any(t.failure.outcome == "unknown" for t in record.tries)):
            found["unexpected"] = "was never unknown"
        elif quarantined and quarantined[0].original_payload != message.body:
            found["unexpected"] = "has a dead letter with another payload"
        return found


def audit(messages: Sequence[DemoMessage], backend: Backend, mailroom: Mailroom) -> Audit:
    """Compare the stores with the servers' logs, message by message.

    Args:
        messages: the day's messages.
        backend: the stores, at the end of the day.
        mailroom: the servers' logs.
    """
    ledger = _Ledger(backend, mailroom)
    results = {s.name: ScenarioResult(s.name, s.promise, s.end.disposition.value) for s in SCENARIOS}
    counts: Counter[str] = Counter()
    problems: list[str] = []
    settled = 0
    for message in messages:
        found = ledger.problems(message)
        counts.update(found.keys())
        problems += [f"{message.id} ({message.scenario.name}) {text}" for text in found.values()]
        result = results[message.scenario.name]
        result.messages += 1
        result.as_expected += not found
        record = backend.claims.get(message.id)
        was_unknown = record is not None and any(t.failure.outcome == "unknown" for t in record.tries)
        settled += was_unknown and "lost" not in found
    statuses = backend.deliveries.counts()
    return Audit(
        messages=len(messages),
        lost=counts["lost"],
        in_two_places=counts["in_two_places"],
        sent_twice=counts["sent_twice"],
        unexpected=counts["unexpected"],
        unknown_settled=settled,
        unknown_left=sum(count for status, count in statuses.items() if status not in FINAL),
        accepted=sum(ledger.acceptances.values()),
        statuses={status.value: count for status, count in sorted(statuses.items())},
        scenarios=list(results.values()),
        problems=problems[:_SHOWN],
        top_error_classes=backend.dead_letters.top("error_class"),
    )
