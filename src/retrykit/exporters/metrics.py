"""What is counted of events, as one table that every exporter of metrics is made from.

Names are written as OpenTelemetry writes them, `retry.delay`; Prometheus gets `retry_delay_seconds` for it. No label is of a
message: no ids, recipients or campaigns. Labels whose values others make up (error classes, providers, codes, breakers) take a
bounded number of them; further ones count as "other".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, get_args

import attrs

from ..checks import whole
from ..decision import Action, DeadLetterReason, DispositionKind
from ..events import (
    AttemptFailed,
    BreakerChanged,
    DeliveryMismatch,
    Event,
    MessageHandled,
    MessageQuarantined,
    MessageRepublished,
    MismatchKind,
    OutcomeVerified,
    PublishFailed,
    RedriveChanged,
    ShutdownChanged,
    UnknownCode,
)
from ..failure import BUILT_IN_CLASSES
from ..machines.breaker import BreakerState
from .labels import OTHER, Bounded

__all__ = ["BREAKER_STATES", "METRICS", "EventMetrics", "Measurement", "Metric"]


@attrs.frozen(kw_only=True)
class Metric:
    """Something that is counted, or measured into a histogram."""

    name: str
    """As OpenTelemetry writes it, without the namespace."""
    text: str
    """What it is, in one line."""
    labels: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """All values of its label, if it has one and they are known: they are there from the start, with zero."""
    buckets: tuple[float, ...] = ()
    """Upper bounds, for a histogram; none: it is a counter."""
    unit: str = ""
    """"s" for seconds."""


Measurement: TypeAlias = tuple[str, float, tuple[str, ...]]
"""The name of a metric, how much to add or to observe, and the values of its labels."""

BREAKER_STATES: Final = tuple(state.value for state in BreakerState)

METRICS: Final = (
    Metric(
        name="messages",
        text="Messages handled, by what became of them",
        labels=("disposition",),
        values=tuple(kind.value for kind in DispositionKind),
    ),
    Metric(
        name="message.attempts",
        text="Attempts that a message had when it was done; one is no retry",
        labels=("disposition",),
        buckets=(1, 2, 3, 4, 5, 6, 9, 12, 25),
    ),
    Metric(
        name="attempts.failed",
        text="Failed attempts, by who is at fault, and what was decided",
        labels=("error_group", "error_class", "action"),
    ),
    Metric(name="provider.failures", text="Failed attempts that name a provider", labels=("provider", "error_group")),
    Metric(
        name="retry.delay",
        text="Waits before retries, as they were decided",
        buckets=(1, 5, 15, 30, 60, 300, 900, 3600, 21600, 86400),
        unit="s",
    ),
    Metric(
        name="dead_letters",
        text="Messages taken out of circulation, by the reason",
        labels=("reason",),
        values=tuple(reason.value for reason in DeadLetterReason),
    ),
    Metric(name="quarantined", text="Messages taken out of circulation as poison"),
    Metric(name="unknown_codes", text="Codes that no rule knows, once each", labels=("provider", "code")),
    Metric(
        name="outcomes.verified",
        text="Unknown outcomes that were asked about, by the answer",
        labels=("answer",),
        values=("accepted", "not_accepted", "unknown", "failed"),
    ),
    Metric(name="messages.republished", text="Messages whose wait was over, back in the application's queue"),
    Metric(name="publish.failures", text="Due messages that could not be handed to the application's queue"),
    Metric(
        name="delivery.mismatches",
        text="Disagreements of the delivery log and a provider",
        labels=("kind",),
        values=get_args(MismatchKind),
    ),
    Metric(
        name="redrive.changes",
        text="Redrives that came into a state",
        labels=("state",),
        values=("running", "paused", "stopped", "done"),
    ),
    Metric(
        name="shutdown.steps",
        text="Steps of processes that were told to stop",
        labels=("state",),
        values=("quiet", "handing_back", "done"),
    ),
    Metric(name="messages.handed_back", text="Messages that processes gave back unfinished when they stopped"),
    Metric(name="breaker.changes", text="Breakers that came into a state", labels=("breaker", "state")),
)

_DONE: Final = frozenset(DispositionKind) - {
    DispositionKind.DUPLICATE,
    DispositionKind.RETRY_SCHEDULED,
    DispositionKind.VERIFYING,
}


class EventMetrics:
    """Says of each event what is to be counted.

    Args:
        max_values: distinct values of a label that others make up, >= 1.

    Raises:
        ConfigurationError: it is no whole number >= 1.
    """

    def __init__(self, max_values: int = 100) -> None:
        whole(max_values, "max_values")
        self._class = Bounded(max_values, known=BUILT_IN_CLASSES)
        self._provider = Bounded(max_values)
        self._code = Bounded(max_values)
        self._breaker = Bounded(max_values)
        self._redrive_state = Bounded(max_values)
        self.breakers: Final[dict[str, str]] = {}
        """The latest state of each breaker that has changed; of those beyond `max_values` nothing is known."""
        self._readers: Final[Mapping[type[Event], Callable[[Any], Iterator[Measurement]]]] = {
            AttemptFailed: self._attempt,
            BreakerChanged: self._breaker_changed,
            DeliveryMismatch: lambda event: iter((("delivery.mismatches", 1, (event.kind,)),)),
            MessageHandled: self._handled,
            MessageQuarantined: lambda _: iter((("quarantined", 1, ()),)),
            MessageRepublished: lambda _: iter((("messages.republished", 1, ()),)),
            OutcomeVerified: self._verified,
            PublishFailed: lambda _: iter((("publish.failures", 1, ()),)),
            RedriveChanged: lambda event: iter((("redrive.changes", 1, (self._redrive_state(event.state),)),)),
            ShutdownChanged: self._shutdown,
            UnknownCode: self._unknown_code,
        }

    def of(self, event: Event) -> Iterator[Measurement]:
        """Return what an event adds; nothing for one that is not known here."""
        reader = self._readers.get(type(event))
        return iter(()) if reader is None else reader(event)

    def _handled(self, event: MessageHandled) -> Iterator[Measurement]:
        disposition = event.disposition
        kind = disposition.kind
        yield "messages", 1, (kind.value,)
        if kind in _DONE:
            yield "message.attempts", disposition.attempts, (kind.value,)
            if disposition.dead_letter_id is not None:
                reason = disposition.dead_letter_reason
                yield "dead_letters", 1, (OTHER if reason is None else reason.value,)

    def _attempt(self, event: AttemptFailed) -> Iterator[Measurement]:
        failure, decision = event.failure, event.decision
        group = failure.group.value
        yield "attempts.failed", 1, (group, self._class(failure.error_class), decision.action.value)
        if failure.provider is not None:
            yield "provider.failures", 1, (self._provider(failure.provider), group)
        if decision.action is Action.RETRY:
            yield "retry.delay", decision.delay, ()

    def _breaker_changed(self, event: BreakerChanged) -> Iterator[Measurement]:
        name = self._breaker(event.name)
        if name != OTHER:
            self.breakers[name] = event.after
        yield "breaker.changes", 1, (name, event.after)

    def _shutdown(self, event: ShutdownChanged) -> Iterator[Measurement]:
        yield "shutdown.steps", 1, (event.state,)
        if event.state == "done" and event.handed_back:
            yield "messages.handed_back", event.handed_back, ()

    def _verified(self, event: OutcomeVerified) -> Iterator[Measurement]:
        if event.error is not None:
            answer = "failed"
        elif event.accepted is None:
            answer = "unknown"
        else:
            answer = "accepted" if event.accepted else "not_accepted"
        yield "outcomes.verified", 1, (answer,)

    def _unknown_code(self, event: UnknownCode) -> Iterator[Measurement]:
        yield "unknown_codes", 1, (self._provider(event.provider), self._code(event.code))
