"""The audit: what the stores and the bills say of each message, beside what the servers accepted and the providers told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import attrs

from ..classification import EventKind
from ..codec import JSON
from ..dead_letter import DeadLetterState
from ..decision import DispositionKind
from ..machines.status import FINAL
from ..reconcile import ReconcileReport
from ..stores import Backend, ClaimRecord, ClaimState, DeadLetterQuery, Delivery, DeliveryStatus
from .feed import ToldEvent
from .scenarios import SCENARIOS, DemoMessage, Scenario
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
class Reconciled:
    """What the reconciler found in the providers' own logs: window by window, and once more in the whole day when that was over."""

    windows: int
    events: int
    """Events that it read in the windows."""
    matched: int
    """Messages of which the log and the providers tell the same, at the end of the day as the following."""
    missing: int
    """Messages called sent, of which the providers tell nothing."""
    unexpected: int
    """Messages that the delivery log knows from the providers alone."""
    conflicting: int
    """Messages of which the log and the providers tell what cannot both be true."""


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
    """Messages whose unknown outcome was settled, by asking or by what the provider told."""
    unknown_left: int
    accepted: int
    """Acceptances in the servers' logs."""
    events: int
    """Events in the providers' logs."""
    events_lost: int
    """Events of which no webhook call told."""
    events_found: int
    """Of those, the events that the reconciler has brought into the delivery log."""
    events_unseen: int
    """Events that the delivery log does not have."""
    disagreeing: int
    """Messages of which the delivery log says something else than the provider's own log."""
    delivered: int
    """Messages that the providers' logs have as delivered."""
    bills: int
    misbilled: int
    """Messages billed twice, billed without having been delivered, or delivered and not billed."""
    reconciled: Reconciled
    statuses: Mapping[str, int]
    scenarios: Sequence[ScenarioResult]
    problems: Sequence[str]
    top_error_classes: Sequence[tuple[str, int]]

    @property
    def passed(self) -> bool:
        """Whether every message ended as it has to."""
        wrong = (
            self.lost,
            self.in_two_places,
            self.sent_twice,
            self.unexpected,
            self.unknown_left,
            self.events_lost - self.events_found,
            self.events - self.reconciled.events,
            self.events_unseen,
            self.disagreeing,
            self.misbilled,
            self.reconciled.missing,
            self.reconciled.unexpected,
            self.reconciled.conflicting,
        )
        return not any(wrong)

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
            "events": self.events,
            "events_lost": self.events_lost,
            "events_found": self.events_found,
            "events_unseen": self.events_unseen,
            "disagreeing": self.disagreeing,
            "delivered": self.delivered,
            "bills": self.bills,
            "misbilled": self.misbilled,
            "reconciled": attrs.asdict(self.reconciled),
            "statuses": dict(self.statuses),
            "scenarios": [attrs.asdict(result) for result in self.scenarios],
            "top_error_classes": [[name, count] for name, count in self.top_error_classes],
            "problems": list(self.problems),
        }


class _Evidence:
    """Everything that is known of each message, and by whom."""

    def __init__(self, backend: Backend, mailroom: Mailroom, bills: Mapping[str, int]) -> None:
        self.backend = backend
        self.acceptances = mailroom.acceptances()
        self.bills = bills
        self.feed = mailroom.feed
        self.log = self.feed.log()
        self.told: dict[str, list[ToldEvent]] = {}
        for event in self.log:
            self.told.setdefault(event.message_id, []).append(event)
        self.seen: set[str] = set()
        """The ids of the events that the delivery log has."""

    def problems(self, message: DemoMessage) -> Mapping[str, str]:
        """Return what is wrong with a message, by the count it belongs to."""
        delivery = self.backend.deliveries.get(message.id)
        seen = {event_id for _, event_id in (() if delivery is None else delivery.event_ids)}
        self.seen |= seen
        told = self.told.get(message.id, [])
        found = self._ending(message, delivery)
        unseen = [event for event in told if event.id not in seen]
        if unseen:
            found["events_unseen"] = f"has {len(unseen)} events that the delivery log does not know"
        kinds = {event.kind for event in told}
        if difference := _difference(delivery, kinds):
            found["disagreeing"] = difference
        times, due = self.bills.get(message.id, 0), int(EventKind.DELIVERED in kinds)
        if times != due:
            found["misbilled"] = f"was billed {times} times, and delivered {due} times"
        return found

    def _ending(self, message: DemoMessage, delivery: Delivery | None) -> dict[str, str]:
        """Return what is wrong with the way in which a message was sent, or not."""
        record = self.backend.claims.get(message.id)
        letters = self.backend.dead_letters.search(DeadLetterQuery(message_id=message.id)).letters
        quarantined = [letter for letter in letters if letter.state is DeadLetterState.QUARANTINED]
        times = self.acceptances.get(message.id, 0)
        found: dict[str, str] = {}
        places = [
            delivery is not None and delivery.is_accepted,
            bool(quarantined),
            record is not None and record.disposition is DispositionKind.BOUNCED,
        ]
        if record is None or record.state is not ClaimState.DONE or not any(places):
            found["lost"] = f"is {'nowhere' if record is None else record.state.value} and in no final place"
        if sum(places) > 1 or len(quarantined) > 1:
            found["in_two_places"] = "is in more than one final place"
        if times > 1:
            found["sent_twice"] = f"was accepted {times} times"
        otherwise = _otherwise(message.scenario, record, delivery, times)
        if otherwise is not None:
            found["unexpected"] = otherwise
        elif quarantined and quarantined[0].original_payload != message.body:
            found["unexpected"] = "has a dead letter with another payload"
        return found


def _otherwise(scenario: Scenario, record: ClaimRecord | None, delivery: Delivery | None, times: int) -> str | None:
    """Return in what a message has ended otherwise than its scenario says."""
    status = None if delivery is None else delivery.status
    disposition = None if record is None else record.disposition
    if status is not scenario.end.status or (record is not None and disposition is not scenario.end.disposition):
        return f"ended as {status}, {disposition}"
    if (delivery is not None and delivery.is_accepted) != (times > 0):
        return f"is called {status}, but the servers accepted it {times} times"
    if scenario.provider and delivery is not None and delivery.provider != scenario.provider:
        return f"was taken by {delivery.provider}, not by {scenario.provider}"
    if scenario.unknown and not _was_unknown(record):
        return "was never unknown"
    return None


def _was_unknown(record: ClaimRecord | None) -> bool:
    return record is not None and any(each.failure.outcome == "unknown" for each in record.tries)


def _difference(delivery: Delivery | None, kinds: AbstractSet[EventKind]) -> str | None:
    """Return in what the delivery log and the kinds of events in the provider's own log differ."""
    status = None if delivery is None or not delivery.is_accepted else delivery.status
    told = DeliveryStatus.DELIVERED if EventKind.DELIVERED in kinds else None
    if EventKind.BOUNCED in kinds:
        told = DeliveryStatus.BOUNCED_PERMANENT
    if status is not told:
        return f"is called {status}, and by the provider {told}"
    was_noted = delivery is not None and delivery.complained_at is not None
    if was_noted != (EventKind.COMPLAINED in kinds):
        return "has a complaint that only the log, or only the provider, knows of"
    return None


def audit(
    messages: Sequence[DemoMessage],
    backend: Backend,
    mailroom: Mailroom,
    *,
    bills: Mapping[str, int],
    windows: Sequence[ReconcileReport],
    whole: ReconcileReport,
) -> Audit:
    """Compare the stores and the bills with the servers' logs, message by message.

    Args:
        messages: the day's messages.
        backend: the stores, at the end of the day.
        mailroom: the servers' logs.
        bills: how often each message was billed, by message id.
        windows: what the reconciler found in each window.
        whole: what it found in the whole day, after the last window.
    """
    evidence = _Evidence(backend, mailroom, bills)
    results = {s.name: ScenarioResult(s.name, s.promise, str(s.end)) for s in SCENARIOS}
    counts: Counter[str] = Counter()
    problems: list[str] = []
    settled = 0
    for message in messages:
        found = evidence.problems(message)
        counts.update(found.keys())
        problems += [f"{message.id} ({message.scenario.name}) {text}" for text in found.values()]
        result = results[message.scenario.name]
        result.messages += 1
        result.as_expected += not found
        settled += "lost" not in found and _was_unknown(backend.claims.get(message.id))
    problems += [f"{each.message_id} is {each.kind}: {each.detail}" for each in whole.mismatches]
    statuses = backend.deliveries.counts()
    lost = [event for event in evidence.log if evidence.feed.is_lost(event)]
    return Audit(
        messages=len(messages),
        lost=counts["lost"],
        in_two_places=counts["in_two_places"],
        sent_twice=counts["sent_twice"],
        unexpected=counts["unexpected"],
        unknown_settled=settled,
        unknown_left=sum(count for status, count in statuses.items() if status not in FINAL),
        accepted=sum(evidence.acceptances.values()),
        events=len(evidence.log),
        events_lost=len(lost),
        events_found=sum(event.id in evidence.seen for event in lost),
        events_unseen=sum(event.id not in evidence.seen for event in evidence.log),
        disagreeing=counts["disagreeing"],
        delivered=len({event.message_id for event in evidence.log if event.kind is EventKind.DELIVERED}),
        bills=sum(bills.values()),
        misbilled=counts["misbilled"] + len(bills.keys() - {message.id for message in messages}),
        reconciled=Reconciled(
            windows=len(windows),
            events=sum(report.events for report in windows),
            matched=whole.matched,
            missing=whole.missing,
            unexpected=whole.unexpected,
            conflicting=whole.conflicting,
        ),
        statuses={status.value: count for status, count in sorted(statuses.items())},
        scenarios=list(results.values()),
        problems=problems[:_SHOWN],
        top_error_classes=backend.dead_letters.top("error_class"),
    )
