"""Any sequence of operations on a delivery log, beside the memory store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ...backends.memory import MemoryBackend
from ...machines.status import ACCEPTED
from ...stores.deliveries import Delivery, DeliveryStatus, DeliveryStore
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
        if stands.status in ACCEPTED:
            self._accepted.add(message_id)
        assert message_id not in self._accepted or stands.status in ACCEPTED

    @rule(status=_statuses, limit=st.integers(1, 3), after=st.sampled_from(["", *_IDS]))
    def with_status(self, status: DeliveryStatus, limit: int, after: str) -> None:
        """A page."""
        pages = [list(store.with_status(status, limit=limit, after=after)) for store in (self._store, self._model)]
        assert pages[0] == pages[1]

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
