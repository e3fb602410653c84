"""Where a worker gets its messages from: the application's own queue, behind five methods.

A worker calls its source from one thread or task only, one call after the other, so a client that is not safe for threads will do. What
a source raises is logged and tried again later; it may connect anew then.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Iterable, Sequence
from itertools import count
from queue import Empty, Queue
from typing import Final, Protocol

import attrs

from .._steps import is_async
from ..clock import Clock, current_clock
from ..dispatch import Raw
from ..errors import ConfigurationError

__all__ = ["AsyncSource", "Delivery", "QueueSource", "Source", "check_source"]


@attrs.frozen(eq=False)
class Delivery:
    """One copy of a message, as a source has handed it out."""

    raw: Raw
    """What goes to the dispatcher."""
    id: str | None = None
    """The queue's or envelope's id of the message; None: the payload has it."""
    handle: object = None
    """By which the source knows this copy again."""


class Source(Protocol):
    """A queue that hands a message out until it is acked.

    A source whose copies come back by themselves after a time may also have `extend(delivery)`, which is called every few seconds
    while a copy is held.
    """

    def receive(self, limit: int, wait: float, /) -> Sequence[Delivery]:
        """Hand out up to `limit` copies; wait up to `wait` seconds for the first, and no longer."""
        ...

    def ack(self, delivery: Delivery, /) -> object:
        """Forget a copy: what became of its message is recorded."""
        ...

    def nack(self, delivery: Delivery, delay: float, /) -> object:
        """Take a copy back, and hand it out again after `delay` seconds (or later, or sooner where there is no way to wait)."""
        ...

    def reject(self, delivery: Delivery, /) -> object:
        """Put a copy aside that no worker will ever be able to take in: its id or its size is not allowed."""
        ...


class AsyncSource(Protocol):
    """`Source` for an `AsyncWorker`: all its methods are coroutine functions."""

    def receive(self, limit: int, wait: float, /) -> Awaitable[Sequence[Delivery]]:
        """Hand out up to `limit` copies, as `Source.receive`."""
        ...

    def ack(self, delivery: Delivery, /) -> Awaitable[object]:
        """Forget a copy, as `Source.ack`."""
        ...

    def nack(self, delivery: Delivery, delay: float, /) -> Awaitable[object]:
        """Take a copy back, as `Source.nack`."""
        ...

    def reject(self, delivery: Delivery, /) -> Awaitable[object]:
        """Put a copy aside, as `Source.reject`."""
        ...


def check_source(source: object, *, wants_async: bool) -> None:
    """See that a source has its methods, and all of the worker's colour.

    Raises:
        ConfigurationError: it has not.
    """
    for name in ("receive", "ack", "nack", "reject", "extend"):
        method = getattr(source, name, None)
        if not callable(method):
            if name == "extend" and method is None:
                continue
            raise ConfigurationError(f"the source is {source!r}, which has no {name}(); see retrykit.worker.Source")
        if is_async(method) and not wants_async:
            raise ConfigurationError(
                f"the source is {source!r}, whose {name}() is a coroutine function; use AsyncWorker for an asynchronous source"
            )
        if wants_async and not is_async(method):
            raise ConfigurationError(
                f"the source is {source!r}, whose {name}() is no coroutine function and would stop the event loop; use Worker for a "
                "synchronous source, or make all its methods `async def`"
            )


class QueueSource:
    """A source in the memory of this process, for tests and examples: what is in it ends with the process.

    Args:
        messages: what is in it at first.
        clock: where delays are measured; None: the clock in force.

    Example:
        >>> source = QueueSource([b'{"id": "m1"}'])
        >>> (delivery,) = source.receive(10, 0)
        >>> source.nack(delivery, 0)
        >>> len(source.receive(10, 0))
        1
    """

    def __init__(self, messages: Iterable[Raw] = (), *, clock: Clock | None = None) -> None:
        self._queue: Final = Queue[Raw]()
        self._delayed: Final = list[tuple[float, int, Raw]]()
        self._order: Final = count()
        self._clock: Final = clock
        self.rejected: Final = list[Raw]()
        """What was put aside."""
        for raw in messages:
            self.put(raw)

    def put(self, raw: Raw) -> None:
        """Add a message; safe from every thread."""
        self._queue.put(raw)

    def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        """Hand out up to `limit` copies."""
        now = self._now()
        while self._delayed and self._delayed[0][0] <= now:
            self._queue.put(heapq.heappop(self._delayed)[2])
        taken = list[Delivery]()
        try:
            while len(taken) < limit:
                raw = self._queue.get_nowait() if taken or wait <= 0 else self._queue.get(timeout=wait)
                taken.append(Delivery(raw))
        except Empty:
            pass
        return taken

    def ack(self, delivery: Delivery) -> None:
        """Do nothing: what was handed out is not in the queue any more."""

    def nack(self, delivery: Delivery, delay: float) -> None:
        """Take a copy back."""
        if delay > 0:
            heapq.heappush(self._delayed, (self._now() + delay, next(self._order), delivery.raw))
        else:
            self.put(delivery.raw)

    def reject(self, delivery: Delivery) -> None:
        """Put a copy aside."""
        self.rejected.append(delivery.raw)

    def __len__(self) -> int:
        """Return how many copies could be handed out, now or later."""
        return self._queue.qsize() + len(self._delayed)

    def _now(self) -> float:
        return (self._clock or current_clock()).monotonic()
