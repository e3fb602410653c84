"""The delivery log: where the delivery of each message stands, and the provider's own id for it.

Guarantees every store has to give:

- what is reported is combined with the record as `Delivery.after` says, atomically, so that reports and events end in the same status
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

from .._steps import Steps, arun, do, run
from ..checks import check_limit, provider_name
from ..errors import ConfigurationError
from ..machines.status import DeliveryStatus
from ..message import check_id
from ..times import utc
from .delivery_records import Delivery, DeliveryEvent, DeliveryFailure

__all__ = ["AsyncDeliveryStore", "Delivery", "DeliveryEvent", "DeliveryFailure", "DeliveryStatus", "DeliveryStore"]


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
    def _by_provider_id(self, provider: str, provider_id: str) -> Awaitable[Delivery | None] | Delivery | None: ...

    @abc.abstractmethod
    def _with_status(
        self, status: DeliveryStatus, limit: int, after: str
    ) -> Awaitable[Sequence[Delivery]] | Sequence[Delivery]: ...

    @abc.abstractmethod
    def _unexpected(self, limit: int, after: str) -> Awaitable[Sequence[Delivery]] | Sequence[Delivery]: ...

    @abc.abstractmethod
    def _updated_between(
        self, start: datetime, end: datetime, status: DeliveryStatus, limit: int, after: Delivery | None
    ) -> Awaitable[Sequence[Delivery]] | Sequence[Delivery]: ...

    @abc.abstractmethod
    def _bookmark(self, source: str) -> Awaitable[datetime | None] | datetime | None: ...

    @abc.abstractmethod
    def _move_bookmark(self, source: str, to: datetime) -> Awaitable[datetime] | datetime: ...

    @abc.abstractmethod
    def _counts(self) -> Awaitable[Mapping[DeliveryStatus, int]] | Mapping[DeliveryStatus, int]: ...

    @abc.abstractmethod
    def _purge(self, before: datetime, limit: int) -> Awaitable[int] | int: ...

    def _record_flow(self, delivery: Delivery) -> Steps[Delivery]:
        check_id(delivery.message_id)
        return (yield from do(self._record, delivery))

    def _apply_flow(self, event: DeliveryEvent) -> Steps[Delivery | None]:
        told = event.to_delivery()
        return (yield from self._get_flow(event.message_id) if told is None else self._record_flow(told))

    def _get_flow(self, message_id: str) -> Steps[Delivery | None]:
        return (yield from do(self._get, check_id(message_id)))

    def _by_provider_id_flow(self, provider: str, provider_id: str) -> Steps[Delivery | None]:
        return (yield from do(self._by_provider_id, provider_name(provider), provider_id))

    def _with_status_flow(self, status: DeliveryStatus, limit: int, after: str) -> Steps[Sequence[Delivery]]:
        return (yield from do(self._with_status, _status(status), check_limit(limit), after))

    def _unexpected_flow(self, limit: int, after: str) -> Steps[Sequence[Delivery]]:
        return (yield from do(self._unexpected, check_limit(limit), after))

    def _updated_between_flow(
        self, start: datetime, end: datetime, status: DeliveryStatus, limit: int, after: Delivery | None
    ) -> Steps[Sequence[Delivery]]:
        begin, until = utc(start, "start"), utc(end, "end")
        return (yield from do(self._updated_between, begin, until, _status(status), check_limit(limit), after))

    def _bookmark_flow(self, source: str) -> Steps[datetime | None]:
        return (yield from do(self._bookmark, check_id(source, "source")))

    def _move_bookmark_flow(self, source: str, to: datetime) -> Steps[datetime]:
        return (yield from do(self._move_bookmark, check_id(source, "source"), utc(to, "to")))

    def _counts_flow(self) -> Steps[Mapping[DeliveryStatus, int]]:
        return (yield from do(self._counts))

    def _purge_flow(self, before: datetime, limit: int) -> Steps[int]:
        return (yield from do(self._purge, utc(before, "before"), check_limit(limit)))


class DeliveryStore(_Deliveries):
    """The delivery log, for synchronous callers. Subclass it and write the ten primitives."""

    @abc.abstractmethod
    def _record(self, delivery: Delivery) -> Delivery: ...

    @abc.abstractmethod
    def _get(self, message_id: str) -> Delivery | None: ...

    @abc.abstractmethod
    def _by_provider_id(self, provider: str, provider_id: str) -> Delivery | None: ...

    @abc.abstractmethod
    def _with_status(self, status: DeliveryStatus, limit: int, after: str) -> Sequence[Delivery]: ...

    @abc.abstractmethod
    def _unexpected(self, limit: int, after: str) -> Sequence[Delivery]: ...

    @abc.abstractmethod
    def _updated_between(
        self, start: datetime, end: datetime, status: DeliveryStatus, limit: int, after: Delivery | None
    ) -> Sequence[Delivery]: ...

    @abc.abstractmethod
    def _bookmark(self, source: str) -> datetime | None: ...

    @abc.abstractmethod
    def _move_bookmark(self, source: str, to: datetime) -> datetime: ...

    @abc.abstractmethod
    def _counts(self) -> Mapping[DeliveryStatus, int]: ...

    @abc.abstractmethod
    def _purge(self, before: datetime, limit: int) -> int: ...

    @final
    def record(self, delivery: Delivery) -> Delivery:
        """Report a status, and return the one that stands afterwards."""
        return run(self._record_flow(delivery))

    @final
    def apply(self, event: DeliveryEvent) -> Delivery | None:
        """Apply what a provider reported, and return the record that stands afterwards.

        An event may come as often, as late and in whatever order it likes. One of a message that retrykit has reported nothing of
        makes a record that is unexpected, until a report of our own arrives. One of the kind "other" changes nothing.

        Returns:
            The record; None when the event tells nothing, and there is none.
        """
        return run(self._apply_flow(event))

    @final
    def get(self, message_id: str) -> Delivery | None:
        """Return where a message stands, or None when nothing was reported."""
        return run(self._get_flow(message_id))

    @final
    def by_provider_id(self, provider: str, provider_id: str) -> Delivery | None:
        """Return the record of the message that a provider knows by an id.

        Args:
            provider: who, in any case. A record that does not say its provider could be of any.
            provider_id: the provider's id of the message.

        Returns:
            The record; None when there is none, and when there are several: then nobody can tell which is meant.
        """
        return run(self._by_provider_id_flow(provider, provider_id))

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
    def unexpected(self, *, limit: int = 100, after: str = "") -> Sequence[Delivery]:
        """Return the messages that a provider told of and retrykit did not, in the order of their ids.

        A few may be there for a moment, since an event can overtake our own report.

        Args:
            limit: how many at the most, at least 1.
            after: only ids greater than this; the last id of the page before.
        """
        return run(self._unexpected_flow(limit, after))

    @final
    def updated_between(
        self,
        start: datetime,
        end: datetime,
        *,
        status: DeliveryStatus,
        limit: int = 100,
        after: Delivery | None = None,
    ) -> Sequence[Delivery]:
        """Return the messages of a status of which the latest news is of a time, the longest silent first.

        Args:
            start: from this instant on, aware.
            end: up to this instant, itself not included, aware.
            status: which they have now.
            limit: how many at the most, at least 1.
            after: only what comes after this one, the last of the page before; ties are in the order of their ids.

        Raises:
            ConfigurationError: an instant is naive.
        """
        return run(self._updated_between_flow(start, end, status, limit, after))

    @final
    def bookmark(self, source: str) -> datetime | None:
        """Return up to which instant the events of a source have been compared with the log, or None.

        Args:
            source: the name of the source of events, 1 to 255 characters.
        """
        return run(self._bookmark_flow(source))

    @final
    def move_bookmark(self, source: str, to: datetime) -> datetime:
        """Record that the events of a source have been compared up to an instant; it never goes back.

        Args:
            source: as for `bookmark`.
            to: aware.

        Returns:
            Where it stands: at `to`, or further on, where somebody else had moved it.

        Raises:
            ConfigurationError: `to` is naive.
        """
        return run(self._move_bookmark_flow(source, to))

    @final
    def counts(self) -> Mapping[DeliveryStatus, int]:
        """Return how many messages each status has, without those that none has."""
        return run(self._counts_flow())

    @final
    def purge(self, before: datetime, *, limit: int = 1000) -> int:
        """Delete settled records that were last reported before an instant, oldest first.

        Settled is a final status, and whatever a provider has told of: retrykit has no more to do with it.

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
    async def _by_provider_id(self, provider: str, provider_id: str) -> Delivery | None: ...

    @abc.abstractmethod
    async def _with_status(self, status: DeliveryStatus, limit: int, after: str) -> Sequence[Delivery]: ...

    @abc.abstractmethod
    async def _unexpected(self, limit: int, after: str) -> Sequence[Delivery]: ...

    @abc.abstractmethod
    async def _updated_between(
        self, start: datetime, end: datetime, status: DeliveryStatus, limit: int, after: Delivery | None
    ) -> Sequence[Delivery]: ...

    @abc.abstractmethod
    async def _bookmark(self, source: str) -> datetime | None: ...

    @abc.abstractmethod
    async def _move_bookmark(self, source: str, to: datetime) -> datetime: ...

    @abc.abstractmethod
    async def _counts(self) -> Mapping[DeliveryStatus, int]: ...

    @abc.abstractmethod
    async def _purge(self, before: datetime, limit: int) -> int: ...

    @final
    async def record(self, delivery: Delivery) -> Delivery:
        """Report a status, as `DeliveryStore.record`."""
        return await arun(self._record_flow(delivery))

    @final
    async def apply(self, event: DeliveryEvent) -> Delivery | None:
        """Apply what a provider reported, as `DeliveryStore.apply`."""
        return await arun(self._apply_flow(event))

    @final
    async def get(self, message_id: str) -> Delivery | None:
        """Return where a message stands, or None when nothing was reported."""
        return await arun(self._get_flow(message_id))

    @final
    async def by_provider_id(self, provider: str, provider_id: str) -> Delivery | None:
        """Return the record of a provider's id, as `DeliveryStore.by_provider_id`."""
        return await arun(self._by_provider_id_flow(provider, provider_id))

    @final
    async def with_status(self, status: DeliveryStatus, *, limit: int = 100, after: str = "") -> Sequence[Delivery]:
        """Return the messages of a status, as `DeliveryStore.with_status`."""
        return await arun(self._with_status_flow(status, limit, after))

    @final
    async def unexpected(self, *, limit: int = 100, after: str = "") -> Sequence[Delivery]:
        """Return the messages that only a provider told of, as `DeliveryStore.unexpected`."""
        return await arun(self._unexpected_flow(limit, after))

    @final
    async def updated_between(
        self,
        start: datetime,
        end: datetime,
        *,
        status: DeliveryStatus,
        limit: int = 100,
        after: Delivery | None = None,
    ) -> Sequence[Delivery]:
        """Return the messages whose latest news is of a time, as `DeliveryStore.updated_between`."""
        return await arun(self._updated_between_flow(start, end, status, limit, after))

    @final
    async def bookmark(self, source: str) -> datetime | None:
        """Return up to where a source has been compared, as `DeliveryStore.bookmark`."""
        return await arun(self._bookmark_flow(source))

    @final
    async def move_bookmark(self, source: str, to: datetime) -> datetime:
        """Record up to where a source has been compared, as `DeliveryStore.move_bookmark`."""
        return await arun(self._move_bookmark_flow(source, to))

    @final
    async def counts(self) -> Mapping[DeliveryStatus, int]:
        """Return how many messages each status has, as `DeliveryStore.counts`."""
        return await arun(self._counts_flow())

    @final
    async def purge(self, before: datetime, *, limit: int = 1000) -> int:
        """Delete old records, as `DeliveryStore.purge`."""
        return await arun(self._purge_flow(before, limit))
