"""Compare one window of a provider's events with the delivery log.

Each event is applied to the log, after what it proves was recorded in the message's claim; then what was sent in the window is looked
through for messages of which the provider tells nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import Final, TypeAlias, cast

from ._steps import Steps, do
from .classification import ProviderEvent
from .clock import current_clock
from .decision import DispositionKind
from .delivery.conflicts import conflict_of
from .delivery.log import LogFlow
from .delivery.sources import AsyncProviderEvents, ProviderEvents
from .errors import ConfigurationError, EventSourceError
from .events import DeliveryMismatch, MessageHandled, MismatchKind, emit
from .machines.status import DeliveryStatus
from .projection import Projection, disposition_of
from .reconcile_options import SHOWN, CheckedReconcileOptions, ReconcileReport
from .stores import AsyncBackend, Backend, Delivery, DeliveryEvent
from .times import to_iso

__all__ = ["Comparison"]

_PAGE: Final = 500
_END: Final = object()


_Answer: TypeAlias = AsyncIterable[ProviderEvent] | Iterable[ProviderEvent]
_Source: TypeAlias = Callable[[datetime, datetime], Awaitable[_Answer] | _Answer]


class _Window:
    """What is found out while one window is compared."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self.start = start
        self.end = end
        self.events = 0
        self.elsewhere = 0
        """Messages that were sent through another provider."""
        self.told = set[str]()
        """Our ids of the messages that the provider told of."""
        self.kinds: dict[str, MismatchKind | None] = {}
        """What became of each message, by our id or the provider's."""
        self.mismatches: list[DeliveryMismatch] = []

    def holds(self, event: ProviderEvent) -> bool:
        """Whether an event happened in the window, and not while it was waited for."""
        return event.at is None or self.start <= event.at < self.end

    def note(self, key: str, mismatch: DeliveryMismatch | None) -> bool:
        """Take in what was found of a message; tell whether that is a new mismatch."""
        known = self.kinds.get(key)
        if mismatch is None:
            self.kinds.setdefault(key, None)
        elif known is not None:
            return False
        else:
            self.kinds[key] = mismatch.kind
            if len(self.mismatches) < SHOWN:
                self.mismatches.append(mismatch)
        return mismatch is not None

    def report(self) -> ReconcileReport:
        """Return what was found."""
        kinds = Counter(self.kinds.values())
        return ReconcileReport(
            events=self.events,
            elsewhere=self.elsewhere,
            matched=kinds[None],
            missing=kinds["missing"],
            unexpected=kinds["unexpected"],
            conflicting=kinds["conflicting"],
            mismatches=tuple(self.mismatches),
            window=(self.start, self.end),
        )


class Comparison:
    """Compares windows with the events of one source.

    Args:
        backend: where the claims and the delivery log are.
        events: the source.
        source: its name.
        options: the reconciler's.
    """

    def __init__(
        self,
        backend: Backend | AsyncBackend,
        events: ProviderEvents | AsyncProviderEvents,
        source: str,
        options: CheckedReconcileOptions,
    ) -> None:
        self._backend = backend
        self._events = events
        self._source = source
        self._options = options
        self._projection = Projection(backend, options.clock)
        self._log = LogFlow(backend.deliveries, options.classifier, options.clock)

    def _now(self) -> datetime:
        return (self._options.clock or current_clock()).now()

    def compare(self, start: datetime, end: datetime) -> Steps[ReconcileReport]:
        """Apply a window's events to the log, and tell where the two do not agree."""
        window = _Window(start, end)
        until = min(end + timedelta(seconds=self._options.patience), self._now())
        take = yield from self._reader(start, max(end, until))
        while (event := (yield from self._next_event(take, start, end))) is not None:
            yield from self._take(window, event)
        yield from self._miss(window)
        return window.report()

    def _reader(self, start: datetime, end: datetime) -> Steps[Callable[[], Awaitable[object] | object]]:
        """Ask the source; return what gives one event after the other, and `_END` after the last."""
        try:
            answer = cast("_Answer", (yield from do(cast("_Source", self._events), start, end)))
            if isinstance(answer, AsyncIterable):
                anew = aiter(answer)
                return lambda: anext(anew, _END)
            iterator = iter(answer)
        except Exception as error:
            raise EventSourceError(self._source, start, end, error) from error
        return lambda: next(iterator, _END)

    def _next_event(
        self, take: Callable[[], Awaitable[object] | object], start: datetime, end: datetime
    ) -> Steps[ProviderEvent | None]:
        try:
            event = yield from do(take)
        except Exception as error:
            raise EventSourceError(self._source, start, end, error) from error
        if event is _END:
            return None
        if not isinstance(event, ProviderEvent):
            raise ConfigurationError(
                f"the source of events of {self._source!r} gave {type(event).__name__}; allowed are ProviderEvents, "
                "as parse_events makes them"
            )
        return event

    def _take(self, window: _Window, event: ProviderEvent) -> Steps[None]:
        """Apply one event, after what it proves was recorded: who dies in between does it again."""
        found = yield from self._log.find(event)
        reported = self._log.as_reported(event, found)
        is_in = window.holds(event)
        window.events += is_in
        if reported is not None:
            window.told.add(reported.message_id)
        if is_in and (reported is None or reported.told is not None):
            key = reported.message_id if reported is not None else f"{event.provider_id}"
            mismatch = self._mismatch(event, found, reported)
            if window.note(key, mismatch) and mismatch is not None:
                emit(self._options.on_event, mismatch)
        if reported is not None:
            if found is not None and reported.told is not None and not found.is_accepted:
                yield from self._confirm(found, reported)
            yield from do(self._backend.deliveries.apply, reported)

    def _mismatch(
        self, event: ProviderEvent, found: Delivery | None, reported: DeliveryEvent | None
    ) -> DeliveryMismatch | None:
        kind: MismatchKind = "unexpected"
        detail: str | None = f"{event.provider!r} tells of it, and the log does not know it"
        if found is not None and reported is not None and not found.is_unexpected:
            kind, detail = "conflicting", conflict_of(found, reported)
        if detail is None:
            return None
        return DeliveryMismatch(
            at=self._now(),
            kind=kind,
            message_id=event.message_id if found is None else found.message_id,
            provider=event.provider,
            provider_id=event.provider_id,
            detail=detail,
        )

    def _confirm(self, found: Delivery, event: DeliveryEvent) -> Steps[None]:
        """Record in the claim what an event proves: the provider has taken the message, so it is not sent again."""
        if found.status is event.told:
            return
        claim = yield from do(self._backend.claims.get, found.message_id)
        if claim is None or claim.disposition is DispositionKind.SENT:
            return
        confirmed = yield from do(
            self._backend.claims.confirm,
            found.message_id,
            provider=event.provider,
            provider_id=event.provider_id,
        )
        yield from self._projection.close_letters(confirmed)
        emit(self._options.on_event, MessageHandled(at=self._now(), disposition=disposition_of(confirmed)))

    def _miss(self, window: _Window) -> Steps[None]:
        """Tell of what was sent in a window and of which the provider tells nothing."""
        after: Delivery | None = None
        while True:
            page = yield from do(
                self._backend.deliveries.updated_between,
                window.start,
                window.end,
                status=DeliveryStatus.SENT_TO_PROVIDER,
                limit=_PAGE,
                after=after,
            )
            for delivery in page:
                if self._options.provider is not None and delivery.provider not in (None, self._options.provider):
                    window.elsewhere += 1
                elif self._is_missing(window, delivery):
                    mismatch = DeliveryMismatch(
                        at=self._now(),
                        kind="missing",
                        message_id=delivery.message_id,
                        provider=delivery.provider,
                        provider_id=delivery.provider_id,
                        detail=f"the log has it as sent at {to_iso(delivery.updated_at)}, and the provider tells nothing of it",
                    )
                    window.note(delivery.message_id, mismatch)
                    emit(self._options.on_event, mismatch)
            if len(page) < _PAGE:
                return
            after = page[-1]

    def _is_missing(self, window: _Window, delivery: Delivery) -> bool:
        return delivery.is_plain and not delivery.is_unexpected and delivery.message_id not in window.told
