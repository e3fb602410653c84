"""The retry store: messages that wait for their due time.

Guarantees every store has to give:

- one entry per message id and generation; `schedule` replaces a waiting entry only by a newer version of the claim, and
  takes a leased entry back from its holder, whose `ack` then removes nothing;
- `claim_due` hands an entry to one caller at a time, never before it is due by the store's clock, earliest first;
- `ack`, `release` and `extend` need the token of the current hold, and change nothing without it;
- an entry whose holder is gone is due again when the lease ends; tokens never restart;
- every operation may be repeated after a lost answer.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import final

import attrs

from .._steps import Steps, arun, do, run
from ..checks import check_limit
from ..lease import Lease
from ..message import Message, check_id
from ..times import Duration, seconds, utc

__all__ = ["AsyncRetryStore", "DueMessage", "RetryStats", "RetryStore"]


@attrs.frozen(kw_only=True)
class DueMessage:
    """A message whose wait is over, held by the caller."""

    message: Message
    generation: int
    due_at: datetime
    lease: Lease


@attrs.frozen(kw_only=True)
class RetryStats:
    """How much waits."""

    waiting: int
    """Entries that are not leased."""
    leased: int
    due: int
    """Entries that `claim_due` would hand out now."""
    next_due_at: datetime | None
    """When the earliest entry is or was due; None when there is none."""


class _Retries(abc.ABC):
    """The one logic of both colours: check, then call the primitive."""

    @abc.abstractmethod
    def _schedule(
        self, message: Message, due_at: datetime, generation: int, version: int
    ) -> Awaitable[None] | None: ...

    @abc.abstractmethod
    def _claim_due(
        self, limit: int, owner: str, lease: float
    ) -> Awaitable[Sequence[DueMessage]] | Sequence[DueMessage]: ...

    @abc.abstractmethod
    def _ack(self, due: DueMessage) -> Awaitable[bool] | bool: ...

    @abc.abstractmethod
    def _release(self, due: DueMessage, delay: float) -> Awaitable[bool] | bool: ...

    @abc.abstractmethod
    def _extend(self, due: DueMessage, lease: float) -> Awaitable[DueMessage | None] | DueMessage | None: ...

    @abc.abstractmethod
    def _cancel(self, message_id: str) -> Awaitable[bool] | bool: ...

    @abc.abstractmethod
    def _stats(self) -> Awaitable[RetryStats] | RetryStats: ...

    def _schedule_flow(self, message: Message, due_at: datetime, generation: int, version: int) -> Steps[None]:
        yield from do(self._schedule, message, utc(due_at, "due_at"), generation, version)

    def _claim_due_flow(self, limit: int, owner: str, lease: Duration) -> Steps[Sequence[DueMessage]]:
        length = seconds(lease, "lease", positive=True)
        return (yield from do(self._claim_due, check_limit(limit), owner, length))

    def _ack_flow(self, due: DueMessage) -> Steps[bool]:
        return (yield from do(self._ack, due))

    def _release_flow(self, due: DueMessage, delay: Duration) -> Steps[bool]:
        return (yield from do(self._release, due, seconds(delay, "delay")))

    def _extend_flow(self, due: DueMessage, lease: Duration) -> Steps[DueMessage | None]:
        return (yield from do(self._extend, due, seconds(lease, "lease", positive=True)))

    def _cancel_flow(self, message_id: str) -> Steps[bool]:
        return (yield from do(self._cancel, check_id(message_id)))

    def _stats_flow(self) -> Steps[RetryStats]:
        return (yield from do(self._stats))


class RetryStore(_Retries):
    """Waiting messages, for synchronous callers. Subclass it and write the seven primitives."""

    @abc.abstractmethod
    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None: ...

    @abc.abstractmethod
    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]: ...

    @abc.abstractmethod
    def _ack(self, due: DueMessage) -> bool: ...

    @abc.abstractmethod
    def _release(self, due: DueMessage, delay: float) -> bool: ...

    @abc.abstractmethod
    def _extend(self, due: DueMessage, lease: float) -> DueMessage | None: ...

    @abc.abstractmethod
    def _cancel(self, message_id: str) -> bool: ...

    @abc.abstractmethod
    def _stats(self) -> RetryStats: ...

    @final
    def schedule(self, message: Message, due_at: datetime, *, generation: int = 1, version: int = 0) -> None:
        """Let `message` wait until `due_at`.

        Args:
            message: what is to be tried again.
            due_at: aware; an instant in the past is due at once.
            generation: how often the message has been put into circulation, from 1.
            version: the `seq` of the claim record this follows from; a waiting entry is replaced only by a newer one.

        Raises:
            ConfigurationError: `due_at` is naive.
        """
        run(self._schedule_flow(message, due_at, generation, version))

    @final
    def claim_due(self, limit: int = 100, *, owner: str, lease: Duration = 30.0) -> Sequence[DueMessage]:
        """Take hold of up to `limit` due messages, earliest first.

        Those that could be taken for the longest time are chosen: from their due time on, or from the end of a hold that
        lapsed. They come in the order of their due times. What is equal is ordered by id and generation.

        Args:
            limit: at least 1.
            owner: who takes them.
            lease: for how long, > 0; afterwards they are due again.
        """
        return run(self._claim_due_flow(limit, owner, lease))

    @final
    def ack(self, due: DueMessage) -> bool:
        """Remove an entry that was handed on; False, removing nothing, when it is not held with that token any more."""
        return run(self._ack_flow(due))

    @final
    def release(self, due: DueMessage, *, delay: Duration = 0.0) -> bool:
        """Give an entry back, due again `delay` seconds from now; False when it is not held with that token any more."""
        return run(self._release_flow(due, delay))

    @final
    def extend(self, due: DueMessage, *, lease: Duration = 30.0) -> DueMessage | None:
        """Hold an entry longer.

        Args:
            due: as `claim_due` gave it.
            lease: for how long from now on, > 0.

        Returns:
            The entry with its new deadline and the same token, or None when it is not held with that token any more.
        """
        return run(self._extend_flow(due, lease))

    @final
    def cancel(self, message_id: str) -> bool:
        """Remove the entries of a message in all its generations, also one that is leased; False when there was none.

        Cancel the message's claim before, or a copy of it lets the entry come back.
        """
        return run(self._cancel_flow(message_id))

    @final
    def stats(self) -> RetryStats:
        """Return how much waits."""
        return run(self._stats_flow())


class AsyncRetryStore(_Retries):
    """`RetryStore` for asynchronous callers: the same names, answers and guarantees."""

    @abc.abstractmethod
    async def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None: ...

    @abc.abstractmethod
    async def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]: ...

    @abc.abstractmethod
    async def _ack(self, due: DueMessage) -> bool: ...

    @abc.abstractmethod
    async def _release(self, due: DueMessage, delay: float) -> bool: ...

    @abc.abstractmethod
    async def _extend(self, due: DueMessage, lease: float) -> DueMessage | None: ...

    @abc.abstractmethod
    async def _cancel(self, message_id: str) -> bool: ...

    @abc.abstractmethod
    async def _stats(self) -> RetryStats: ...

    @final
    async def schedule(self, message: Message, due_at: datetime, *, generation: int = 1, version: int = 0) -> None:
        """Let `message` wait until `due_at`, as `RetryStore.schedule`."""
        await arun(self._schedule_flow(message, due_at, generation, version))

    @final
    async def claim_due(self, limit: int = 100, *, owner: str, lease: Duration = 30.0) -> Sequence[DueMessage]:
        """Take hold of due messages, as `RetryStore.claim_due`."""
        return await arun(self._claim_due_flow(limit, owner, lease))

    @final
    async def ack(self, due: DueMessage) -> bool:
        """Remove an entry that was handed on, as `RetryStore.ack`."""
        return await arun(self._ack_flow(due))

    @final
    async def release(self, due: DueMessage, *, delay: Duration = 0.0) -> bool:
        """Give an entry back, as `RetryStore.release`."""
        return await arun(self._release_flow(due, delay))

    @final
    async def extend(self, due: DueMessage, *, lease: Duration = 30.0) -> DueMessage | None:
        """Hold an entry longer, as `RetryStore.extend`."""
        return await arun(self._extend_flow(due, lease))

    @final
    async def cancel(self, message_id: str) -> bool:
        """Remove the entries of a message, as `RetryStore.cancel`."""
        return await arun(self._cancel_flow(message_id))

    @final
    async def stats(self) -> RetryStats:
        """Return how much waits."""
        return await arun(self._stats_flow())
