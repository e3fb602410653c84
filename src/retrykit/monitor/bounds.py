"""Calls of notifiers that end in time, whatever the notifier does."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import cast

from .._steps import is_async
from .._threads import in_thread
from ..clock import in_trio
from ..errors import NotificationError
from ..machines.alerts import Alert
from ..times import short

__all__ = ["AsyncBounded", "Bounded", "name_of"]


def name_of(notifier: object) -> str:
    """Return what to call a notifier in log lines."""
    return getattr(notifier, "__qualname__", None) or repr(notifier)


class Bounded:
    """Calls a notifier in a thread of its own and waits for a time; while it hangs, it is not called again.

    Args:
        notifier: a function of an alert.
        limit: real seconds.
    """

    def __init__(self, notifier: Callable[[Alert], object], limit: float) -> None:
        self.name = name_of(notifier)
        self._notifier = notifier
        self._limit = limit
        self._thread: threading.Thread | None = None

    def __call__(self, alert: Alert) -> None:
        """Tell of an alert.

        Raises:
            NotificationError: it did not return in time, or still hangs in an earlier call.
        """
        if self._thread is not None and self._thread.is_alive():
            raise NotificationError(f"the notifier {self.name} still hangs in an earlier call")
        errors, context = list[BaseException](), copy_context()

        def call() -> None:
            try:
                context.run(self._notifier, alert)
            except BaseException as error:  # noqa: BLE001 - it comes out in the caller
                errors.append(error)

        self._thread = thread = threading.Thread(target=call, name="retrykit-notifier", daemon=True)
        thread.start()
        thread.join(self._limit)
        if thread.is_alive():
            raise NotificationError(f"the notifier {self.name} did not return within {short(self._limit)}")
        if errors:
            raise NotificationError(f"the notifier {self.name} raised {type(errors[0]).__name__}") from errors[0]


class AsyncBounded:
    """The same for asynchronous callers: a coroutine function is cancelled, a function is called in a thread."""

    def __init__(self, notifier: Callable[[Alert], Awaitable[object] | object], limit: float) -> None:
        self.name = name_of(notifier)
        self._notifier = notifier
        self._limit = limit
        self._sync = None if is_async(notifier) else Bounded(notifier, limit)

    async def __call__(self, alert: Alert) -> None:
        """Tell of an alert, as `Bounded`."""
        if self._sync is not None:
            await in_thread(self._sync, alert)
            return
        try:
            await _within(self._limit, self._notifier, alert)
        except TimeoutError as error:
            raise NotificationError(f"the notifier {self.name} did not return within {short(self._limit)}") from error
        except Exception as error:
            raise NotificationError(f"the notifier {self.name} raised {type(error).__name__}") from error


async def _within(limit: float, notifier: Callable[[Alert], Awaitable[object] | object], alert: Alert) -> None:
    async def call() -> None:
        await cast("Awaitable[object]", notifier(alert))

    if in_trio():
        import trio

        try:
            with trio.fail_after(limit):
                await call()
        except trio.TooSlowError:
            raise TimeoutError from None
    else:
        import asyncio

        await asyncio.wait_for(call(), limit)
