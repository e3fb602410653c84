"""The delivery log: where the delivery of each message stands, and the provider's own id for it.

Guarantees every store has to give:

- a record replaces another only as `retrykit.machines.status` allows, atomically, so that a status never moves backwards
  whatever comes twice, late or out of order;
- ids are ordered by their code points;
- nothing is deleted but by `purge`;
- every operation may be repeated after a lost answer.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from typing import final

import attrs

from .._steps import Steps, arun, do, run
from ..checks import check_limit
from ..errors import ConfigurationError
from ..machines.status import DeliveryStatus, may_follow
from ..message import check_id
from ..times import utc

__all__ = ["AsyncDeliveryStore", "Delivery", "DeliveryStatus", "DeliveryStore"]


def _utc(instant: datetime) -> datetime:
    return utc(instant, "updated_at")


@attrs.frozen(kw_only=True)
class Delivery:
    """Where the delivery of one message stands."""

    message_id: str
    status: DeliveryStatus
    version: int = 0
    """The `seq` of the claim this follows from."""
    provider: str | None = None
    provider_id: str | None = None
    """The provider's own id."""
    updated_at: datetime = attrs.field(converter=_utc)

    def after(self, stored: Delivery | None) -> Delivery | None:
        """Return what replaces `stored` when this is reported, or None when `stored` stays."""
        if stored is None:
            return self
        if not may_follow(stored.status, self.status, newer=self.version > stored.version):
            return None
        return attrs.evolve(
            self,
            version=max(self.version, stored.version),
            provider=self.provider or stored.provider,
            provider_id=self.provider_id or stored.provider_id,
        )


def _status(value: DeliveryStatus | str) -> DeliveryStatus:
    try:
        return DeliveryStatus(value)
    except ValueError:
        raise ConfigurationError(f"the status is {value!r}; allowed are {', '.join(DeliveryStatus)}") from None


class _Deliveries(abc.ABC):
    """The one logic of both colours: check, then call the primitive."""

    @abc.abstractmethod
    def _record(self, delivery: Delivery) -> Awaitable[Delivery] | Delivery: ...

    @abc.abstractmethod
    def _get(self, message_id: str) -> Awaitable[Delivery | None] | Delivery | None: ...

    @abc.abstractmethod
    def _with_status(
        self, status: DeliveryStatus, limit: int, after: str
    ) -> Awaitable[Sequence[Delivery]] | Sequence[Delivery]: ...

    @abc.abstractmethod
    def _counts(self) -> Awaitable[Mapping[DeliveryStatus, int]] | Mapping[DeliveryStatus, int]: ...

    @abc.abstractmethod
    def _purge(self, before: datetime, limit: int) -> Awaitable[int] | int: ...

    def _record_flow(self, delivery: Delivery) -> Steps[Delivery]:
        check_id(delivery.message_id)
        return (yield from do(self._record, delivery))

    def _get_flow(self, message_id: str) -> Steps[Delivery | None]:
        return (yield from do(self._get, check_id(message_id)))

    def _with_status_flow(self, status: DeliveryStatus, limit: int, after: str) -> Steps[Sequence[Delivery]]:
        return (yield from do(self._with_status, _status(status), check_limit(limit), after))

    def _counts_flow(self) -> Steps[Mapping[DeliveryStatus, int]]:
        return (yield from do(self._counts))

    def _purge_flow(self, before: datetime, limit: int) -> Steps[int]:
        return (yield from do(self._purge, utc(before, "before"), check_limit(limit)))


class DeliveryStore(_Deliveries):
    """The delivery log, for synchronous callers. Subclass it and write the five primitives."""

    @abc.abstractmethod
    def _record(self, delivery: Delivery) -> Delivery: ...

    @abc.abstractmethod
    def _get(self, message_id: str) -> Delivery | None: ...

    @abc.abstractmethod
    def _with_status(self, status: DeliveryStatus, limit: int, after: str) -> Sequence[Delivery]: ...

    @abc.abstractmethod
    def _counts(self) -> Mapping[DeliveryStatus, int]: ...

    @abc.abstractmethod
    def _purge(self, before: datetime, limit: int) -> int: ...

    @final
    def record(self, delivery: Delivery) -> Delivery:
        """Report a status, and return the one that stands afterwards."""
        return run(self._record_flow(delivery))

    @final
    def get(self, message_id: str) -> Delivery | None:
        """Return where a message stands, or None when nothing was reported."""
        return run(self._get_flow(message_id))

    @final
    def with_status(self, status: DeliveryStatus, *, limit: int = 100, after: str = "") -> Sequence[Delivery]:
        """Return the messages of a status in the order of their ids.

        Args:
            status: which.
            limit: how many at the most, at least 1.
            after: only ids greater than this; the last id of the page before.
        """
        return run(self._with_status_flow(status, limit, after))

    @final
    def counts(self) -> Mapping[DeliveryStatus, int]:
        """Return how many messages each status has, without those that none has."""
        return run(self._counts_flow())

    @final
    def purge(self, before: datetime, *, limit: int = 1000) -> int:
        """Delete records of a final status that were last reported before an instant, oldest first.

        Args:
            before: aware; not before the last event that a provider may still report, a bounce for example.
            limit: how many at the most, at least 1; repeat while it gives as many.

        Returns:
            How many were deleted.

        Raises:
            ConfigurationError: `before` is naive.
        """
        return run(self._purge_flow(before, limit))


class AsyncDeliveryStore(_Deliveries):
    """`DeliveryStore` for asynchronous callers: the same names, answers and guarantees."""

    @abc.abstractmethod
    async def _record(self, delivery: Delivery) -> Delivery: ...

    @abc.abstractmethod
    async def _get(self, message_id: str) -> Delivery | None: ...

    @abc.abstractmethod
    async def _with_status(self, status: DeliveryStatus, limit: int, after: str) -> Sequence[Delivery]: ...

    @abc.abstractmethod
    async def _counts(self) -> Mapping[DeliveryStatus, int]: ...

    @abc.abstractmethod
    async def _purge(self, before: datetime, limit: int) -> int: ...

    @final
    async def record(self, delivery: Delivery) -> Delivery:
        """Report a status, as `DeliveryStore.record`."""
        return await arun(self._record_flow(delivery))

    @final
    async def get(self, message_id: str) -> Delivery | None:
        """Return where a message stands, or None when nothing was reported."""
        return await arun(self._get_flow(message_id))

    @final
    async def with_status(self, status: DeliveryStatus, *, limit: int = 100, after: str = "") -> Sequence[Delivery]:
        """Return the messages of a status, as `DeliveryStore.with_status`."""
        return await arun(self._with_status_flow(status, limit, after))

    @final
    async def counts(self) -> Mapping[DeliveryStatus, int]:
        """Return how many messages each status has, as `DeliveryStore.counts`."""
        return await arun(self._counts_flow())

    @final
    async def purge(self, before: datetime, *, limit: int = 1000) -> int:
        """Delete records of a final status, as `DeliveryStore.purge`."""
        return await arun(self._purge_flow(before, limit))
