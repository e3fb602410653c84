"""Keeping a lease alive while a call runs.

Calls are mostly over long before their lease: then nothing happens here. One thread renews for all synchronous calls of a guard
and ends when there are none; an asynchronous call is renewed by a timer of its loop, or a task of trio's, that ends with it. A
renewal that fails is tried again until the lease is over; a lease that was taken over, or is over, is told to the call.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..clock import in_trio
from .hold import Hold

if TYPE_CHECKING:
    import asyncio

__all__ = ["AsyncRenewals", "Renewals"]

SHARE: Final = 1 / 3
"""Of the lease that passes before it is renewed."""
AGAIN: Final = 1 / 12
"""Of the lease that passes before a renewal that failed is tried again."""


_GLANCE: Final = 1.0
"""Seconds between two looks at whether there is still a call; for so long a thread may outlive the last one."""


class _Renew(Protocol):
    def __call__(self, hold: Hold, /) -> object:
        """Renew; None when somebody else has taken over."""
        ...


class Renewals:
    """The thread of a guard's synchronous calls.

    Args:
        lease: seconds.
        renew: renews one hold.
    """

    def __init__(self, lease: float, renew: _Renew) -> None:
        self._lease: Final = lease
        self._renew: Final = renew
        self._lock: Final = threading.Condition()
        self._due: Final = dict[Hold, float]()
        self._thread: threading.Thread | None = None

    def start(self, hold: Hold) -> None:
        """Begin to renew a hold when it is time."""
        with self._lock:
            self._due[hold] = time.monotonic() + self._lease * SHARE
            if self._thread is None or not self._thread.is_alive():  # also after a fork, which copies no threads
                self._thread = threading.Thread(target=self._run, name="retrykit guard", daemon=True)
                self._thread.start()

    def stop(self, hold: Hold) -> None:
        """Leave a hold alone."""
        with self._lock:
            self._due.pop(hold, None)

    def _run(self) -> None:
        while True:
            with self._lock:
                now = time.monotonic()
                first = min(self._due, key=self._due.__getitem__, default=None)
                if first is None:
                    self._lock.wait(_GLANCE)  # the next call may be about to come
                    if not self._due:
                        self._thread = None
                        return
                    continue
                wait = self._due[first] - now
                if wait > 0:
                    self._lock.wait(min(wait, _GLANCE))
                    continue
            self._one(first)

    def _one(self, hold: Hold) -> None:
        asked = time.monotonic()
        try:
            is_held = self._renew(hold) is not None
        except Exception as error:  # noqa: BLE001 - whatever a store raises: the other calls go on
            self._take_in(hold, functools.partial(failed, hold, error, self._lease))
        else:
            self._take_in(hold, functools.partial(went_on, hold, asked, self._lease, is_held=is_held))

    def _take_in(self, hold: Hold, answer: Callable[[], float | None]) -> None:
        with self._lock:
            if hold not in self._due:  # it was settled meanwhile, and the answer says nothing about it
                return
            next_in = answer()
            if next_in is None:
                del self._due[hold]
            else:
                self._due[hold] = time.monotonic() + next_in


def went_on(hold: Hold, asked: float, lease: float, *, is_held: bool) -> float | None:
    """Take in the answer to a renewal, and return when to renew next; None: another has taken over."""
    if not is_held:
        hold.is_lost = True
        return None
    hold.renewed(asked + lease)
    return lease * SHARE


def failed(hold: Hold, error: Exception, lease: float) -> float | None:
    """Take in that a renewal failed, and return when to try again; None: the lease is over."""
    import logging  # only on the failing path

    logging.getLogger("retrykit.guard").warning("the lease of %r could not be renewed: %s", hold.key, error)
    if hold.is_live:
        return lease * AGAIN
    hold.is_lost = True
    return None


class AsyncRenewals:
    """The timers and tasks of a guard's asynchronous calls."""

    def __init__(self, lease: float, renew: Callable[[Hold], Awaitable[object]]) -> None:
        self._lease: Final = lease
        self._renew: Final = renew
        self._running: Final = dict[Any, Any]()

    def start(self, hold: Hold) -> None:
        """Begin to renew a hold when it is time."""
        if in_trio():
            import trio

            scope = trio.CancelScope()
            trio.lowlevel.spawn_system_task(self._in_trio, scope, hold)
            self._running[hold] = scope
            return
        import asyncio

        loop = asyncio.get_running_loop()
        self._running[hold] = loop.call_later(self._lease * SHARE, self._in_asyncio, loop, hold)

    def stop(self, hold: Hold) -> None:
        """Leave a hold alone."""
        running = self._running.pop(hold, None)
        if running is not None:
            running.cancel()

    def _in_asyncio(self, loop: asyncio.AbstractEventLoop, hold: Hold) -> None:
        self._running[hold] = loop.create_task(self._keep(hold))

    async def _in_trio(self, scope: Any, hold: Hold) -> None:
        import trio

        with scope:
            await trio.sleep(self._lease * SHARE)
            await self._keep(hold)

    async def _keep(self, hold: Hold) -> None:
        while True:
            asked = time.monotonic()
            try:
                is_held = await self._renew(hold) is not None
            except Exception as error:  # noqa: BLE001 - whatever a store raises
                answer = functools.partial(failed, hold, error, self._lease)
            else:
                answer = functools.partial(went_on, hold, asked, self._lease, is_held=is_held)
            if hold not in self._running:  # as in `Renewals`: trio waits for a thread that it cannot stop
                return
            next_in = answer()
            if next_in is None:
                return
            await _sleep(next_in)


async def _sleep(seconds: float) -> None:
    if in_trio():
        import trio

        await trio.sleep(seconds)
        return
    import asyncio

    await asyncio.sleep(seconds)
