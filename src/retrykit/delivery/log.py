"""The delivery log fed by a provider's events: each finds its message and settles where its delivery stands.

An event may come twice, late, and before what happened earlier; the statuses end the same. So a webhook's request may be applied
again as a whole, by any process.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from .._steps import Steps, arun, do, run
from ..checks import has_methods
from ..classification.classifier import ErrorClassifier
from ..classification.provider_event import EventKind, ProviderEvent
from ..clock import Clock, current_clock
from ..errors import ConfigurationError, InvalidMessageError
from ..message import check_id
from ..stores.deliveries import AsyncDeliveryStore, Delivery, DeliveryEvent, DeliveryStore

__all__ = ["AsyncDeliveryLog", "DeliveryLog", "LogFlow", "delivery_event"]


def delivery_event(
    event: ProviderEvent, message_id: str, *, at: datetime, classifier: ErrorClassifier | None = None
) -> DeliveryEvent:
    """Return an event in the form in which a delivery store takes it.

    Args:
        event: as it was parsed.
        message_id: our own id of its message.
        at: when it happened, where the event does not say.
        classifier: says what kind of failure it is; None: one without rules of an application.
    """
    failure = (classifier or ErrorClassifier()).classify(event) if event.kind.is_failure else None
    return DeliveryEvent(
        message_id=message_id,
        kind=event.kind,
        provider=event.provider,
        provider_id=event.provider_id or None,
        event_id=event.event_id or None,
        at=event.at or at,
        error_class=None if failure is None else str(failure.error_class),
        error_group=None if failure is None else failure.group,
        error_code=None if failure is None else failure.error_code,
    )


def _own_id(event: ProviderEvent) -> str | None:
    """Return our own id of the message. What can be none of ours came from somewhere else."""
    try:
        return None if event.message_id is None else check_id(event.message_id)
    except InvalidMessageError:
        return None


def _provider_ids(event: ProviderEvent) -> list[str]:
    """Return the forms in which the id may have been recorded: a Message-ID is told with its brackets, or without."""
    known = event.provider_id
    if not known:
        return []
    bare = known[1:-1] if known.startswith("<") and known.endswith(">") else known
    return [known, bare if bare != known else f"<{known}>"]


def _check_store(store: object, kind: type[DeliveryStore | AsyncDeliveryStore]) -> None:
    """Refuse what is no delivery store of the right colour, and say so of a backend, which has one."""
    if isinstance(store, kind):
        return
    if hasattr(store, "deliveries"):
        raise ConfigurationError(f"store is the backend {store!r}; give its delivery log: backend.deliveries")
    other = " as_async(backend).deliveries is one" if isinstance(store, DeliveryStore) else ""
    other = " AsyncDeliveryLog takes it" if isinstance(store, AsyncDeliveryStore) else other
    raise ConfigurationError(f"store is {store!r}; allowed is a {kind.__name__}{';' + other if other else ''}")


class LogFlow:
    """The one logic of both colours, in steps."""

    def __init__(
        self, store: DeliveryStore | AsyncDeliveryStore, classifier: ErrorClassifier | None, clock: Clock | None
    ) -> None:
        has_methods(classifier, "classifier", "classify")
        has_methods(clock, "clock", "now monotonic")
        self._store = store
        self._classifier = classifier or ErrorClassifier()
        self._clock = clock

    def _apply(self, event: ProviderEvent) -> Steps[Delivery | None]:
        reported = self.as_reported(event)
        if reported is None:
            found = yield from self.find(event)
            if found is None or event.kind is EventKind.OTHER:
                return found
            reported = self.as_reported(event, found)
            assert reported is not None, "a record has an id"
        return (yield from do(self._store.apply, reported))

    def as_reported(self, event: ProviderEvent, found: Delivery | None = None) -> DeliveryEvent | None:
        """Return an event in the form in which the store takes it; None where nobody knows its message.

        Args:
            event: as it was parsed.
            found: the record of its message, where one was found; else our own id in the event has to do.
        """
        message_id = _own_id(event) if found is None else found.message_id
        if message_id is None or (found is None and message_id == event.provider_id):
            return None  # a bounce mail may quote no other id
        now = (self._clock or current_clock()).now()
        return delivery_event(event, message_id, at=now, classifier=self._classifier)

    def find(self, event: ProviderEvent) -> Steps[Delivery | None]:
        """Return the record of the message: by our own id, else by the provider's, else by one that is both."""
        message_id = _own_id(event)
        if message_id is not None and message_id != event.provider_id:
            return (yield from do(self._store.get, message_id))
        for provider_id in _provider_ids(event):
            found = yield from do(self._store.by_provider_id, event.provider, provider_id)
            if found is not None:
                return found
        return None if message_id is None else (yield from do(self._store.get, message_id))

    def _apply_all(self, events: Iterable[ProviderEvent]) -> Steps[list[Delivery | None]]:
        applied: list[Delivery | None] = []
        for event in events:
            applied.append((yield from self._apply(event)))  # noqa: PERF401 - a comprehension cannot yield
        return applied


class DeliveryLog(LogFlow):
    """Applies the events of providers to the delivery log.

    Args:
        store: the delivery store of your backend.
        classifier: says what kind of failure a bounce is; None: one without rules of your own.
        clock: where the time comes from, for events that do not say when they happened; None: the clock in force.

    Raises:
        ConfigurationError: one of these is something else, for example the backend itself.

    Example:
        >>> from retrykit import open_backend
        >>> from retrykit.delivery import parse_event
        >>> log = DeliveryLog(open_backend("memory://").deliveries)
        >>> event = parse_event("postmark", '{"RecordType": "Delivery", "Metadata": {"message_id": "welcome-17"}}')
        >>> log.apply(event).status.value
        'delivered'
    """

    def __init__(
        self, store: DeliveryStore, classifier: ErrorClassifier | None = None, *, clock: Clock | None = None
    ) -> None:
        _check_store(store, DeliveryStore)
        super().__init__(store, classifier, clock)

    def apply(self, event: ProviderEvent) -> Delivery | None:
        """Apply one event; it may be applied again.

        The message is found by `event.message_id`, and where that is missing or can be no id by the provider's own id of it.

        Returns:
            Where the message stands now; None when the event is of no message that is known.

        Raises:
            StoreError: the store failed. Let the provider send its request again.
        """
        return run(self._apply(event))

    def apply_all(self, events: Iterable[ProviderEvent]) -> list[Delivery | None]:
        """Apply events one after the other, and return what `apply` gives for each.

        Raises:
            StoreError: the store failed at one of them. What was applied before stands, and may be applied again.
        """
        return run(self._apply_all(events))


class AsyncDeliveryLog(LogFlow):
    """`DeliveryLog` for asynchronous callers."""

    def __init__(
        self, store: AsyncDeliveryStore, classifier: ErrorClassifier | None = None, *, clock: Clock | None = None
    ) -> None:
        _check_store(store, AsyncDeliveryStore)
        super().__init__(store, classifier, clock)

    async def apply(self, event: ProviderEvent) -> Delivery | None:
        """Apply one event, as `DeliveryLog.apply`."""
        return await arun(self._apply(event))

    async def apply_all(self, events: Iterable[ProviderEvent]) -> list[Delivery | None]:
        """Apply events one after the other, as `DeliveryLog.apply_all`."""
        return await arun(self._apply_all(events))
