"""Any sequence of operations on a delivery log, beside the memory store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ...backends.memory import MemoryBackend
from ...classification.provider_event import EventKind
from ...failure import ErrorGroup
from ...machines.status import ACCEPTED
from ...stores.deliveries import Delivery, DeliveryEvent, DeliveryStatus, DeliveryStore
from .suite import SuiteClock

__all__ = ["DeliveryModel"]

_IDS = ["a", "b", "ä"]
_ids = st.sampled_from(_IDS)
_statuses = st.sampled_from(DeliveryStatus)
_texts = st.sampled_from([None, "", "ses", "p-1"])


class DeliveryModel(RuleBasedStateMachine):
    """The log under test and the memory store, on the same clock.

    Args:
        opening: gives an empty log and its clock.
    """

    def __init__(self, opening: AbstractContextManager[tuple[DeliveryStore, SuiteClock]]) -> None:
        super().__init__()
        self._opening = opening
        self._store, self._clock = opening.__enter__()
        self._model = MemoryBackend(clock=self._clock).deliveries
        self._accepted = set[str]()

    @rule(
        message_id=_ids,
        status=_statuses,
        version=st.integers(0, 5),
        provider=_texts,
        provider_id=_texts,
        seconds=st.integers(-50, 50),
    )
    def record(
        self,
        message_id: str,
        status: DeliveryStatus,
        version: int,
        provider: str | None,
        provider_id: str | None,
        seconds: int,
    ) -> None:
        """Reports come in any order, no two of them of one instant."""
        self._clock.advance("1ms")
        reported = self._clock.now() + timedelta(seconds=seconds)
        new = Delivery(
            message_id=message_id,
            status=status,
            version=version,
            provider=provider,
            provider_id=provider_id,
            updated_at=reported,
        )
        stands = self._store.record(new)
        assert stands == self._model.record(new)
        if status in ACCEPTED:
            self._accepted.add(message_id)
        assert (message_id in self._accepted) is stands.is_accepted

    @rule(
        message_id=_ids,
        kind=st.sampled_from(EventKind),
        group=st.none() | st.sampled_from(ErrorGroup),
        event_id=st.none() | st.integers(0, 3).map(str),
        provider=st.sampled_from(["ses", "p-1"]),
        provider_id=_texts,
        seconds=st.integers(-50, 50),
    )
    def apply(
        self,
        message_id: str,
        kind: EventKind,
        group: ErrorGroup | None,
        event_id: str | None,
        provider: str,
        provider_id: str | None,
        seconds: int,
    ) -> None:
        """Events come in any order too."""
        self._clock.advance("1ms")
        told = DeliveryEvent(
            message_id=message_id,
            kind=kind,
            error_group=group,
            event_id=event_id,
            provider=provider,
            provider_id=provider_id,
            at=self._clock.now() + timedelta(seconds=seconds),
        )
        stands = self._store.apply(told)
        assert stands == self._model.apply(told)
        if kind is not EventKind.OTHER:
            self._accepted.add(message_id)

    @rule(provider=_texts.filter(bool), provider_id=_texts.filter(bool))
    def by_provider_id(self, provider: str, provider_id: str) -> None:
        """One, or none of several."""
        found = [store.by_provider_id(provider, provider_id) for store in (self._store, self._model)]
        assert found[0] == found[1]

    @rule(limit=st.integers(1, 3), after=st.sampled_from(["", *_IDS]))
    def unexpected(self, limit: int, after: str) -> None:
        """A page."""
        pages = [list(store.unexpected(limit=limit, after=after)) for store in (self._store, self._model)]
        assert pages[0] == pages[1]

    @rule(status=_statuses, limit=st.integers(1, 3), after=st.sampled_from(["", *_IDS]))
    def with_status(self, status: DeliveryStatus, limit: int, after: str) -> None:
        """A page."""
        pages = [list(store.with_status(status, limit=limit, after=after)) for store in (self._store, self._model)]
        assert pages[0] == pages[1]

    @rule(status=_statuses, start=st.integers(-60, 60), end=st.integers(-60, 60), limit=st.integers(1, 2))
    def updated_between(self, status: DeliveryStatus, start: int, end: int, limit: int) -> None:
        """All pages of a time, however short."""
        window = [self._clock.now() + timedelta(seconds=seconds) for seconds in (start, end)]
        after: Delivery | None = None
        while True:
            found = [
                list(store.updated_between(*window, status=status, limit=limit, after=after))
                for store in (self._store, self._model)
            ]
            assert found[0] == found[1]
            if not found[0]:
                break
            after = found[0][-1]

    @rule(source=_ids, seconds=st.integers(-60, 60))
    def move_bookmark(self, source: str, seconds: int) -> None:
        """On, or not back."""
        to = self._clock.now() + timedelta(seconds=seconds)
        assert self._store.move_bookmark(source, to) == self._model.move_bookmark(source, to)
        assert self._store.bookmark(source) == self._model.bookmark(source)

    @rule(seconds=st.integers(-60, 60), limit=st.integers(1, 2))
    def purge(self, seconds: int, limit: int) -> None:
        """Of some or of all."""
        before = self._clock.now() + timedelta(seconds=seconds)
        assert self._store.purge(before, limit=limit) == self._model.purge(before, limit=limit)
        self._accepted = {message_id for message_id in self._accepted if self._model.get(message_id)}

    @invariant()
    def reports_are_those_of_the_model(self) -> None:
        """One by one and counted."""
        for message_id in _IDS:
            assert self._store.get(message_id) == self._model.get(message_id)
        assert dict(self._store.counts()) == dict(self._model.counts())

    def teardown(self) -> None:
        """Close the log."""
        self._opening.__exit__(None, None, None)
