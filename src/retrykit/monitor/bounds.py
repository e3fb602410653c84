"""Calls of notifiers that end in time, whatever the notifier does."""

from __future__ import annotations

import functools
import inspect
import os
import threading
import traceback
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, cast

from .._steps import is_async
from .._threads import in_thread
from ..checks import printable
from ..clock import in_trio
from ..errors import NotificationError
from ..machines.alerts import Alert
from ..times import short
from .notifiers import LogNotifier, WebhookNotifier

if TYPE_CHECKING:
    import asyncio

__all__ = ["AsyncBounded", "Bounded", "name_of", "why_not"]

_HANGS: Final = "it still hangs in an earlier call"
_UNAWAITED: Final = (
    "it returned an awaitable, which nobody awaits; give a coroutine function to an AsyncMonitor, or a plain function"
)


_TEXT: Final = 500
"""Characters that are logged of why a notifier failed."""


def name_of(notifier: object) -> str:
    """Return what to call a notifier in log lines: by its kind, since an address or a token may be among its attributes."""
    while isinstance(notifier, functools.partial):
        notifier = notifier.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(notifier, (LogNotifier, WebhookNotifier)):
        return repr(notifier)
    return str(getattr(notifier, "__qualname__", None) or type(notifier).__qualname__)


def why_not(error: BaseException) -> str:
    """Return why a notifier did not tell of an alert: what was said for people, else the kind of the error and the place.

    Never its text: the errors of HTTP clients like to repeat the address, which may be a secret.
    """
    if isinstance(error, NotificationError):
        said = printable(str(error))
        return said if len(said) <= _TEXT else f"{said[:_TEXT]}..."
    said, frames = f"it raised {type(error).__qualname__}", traceback.extract_tb(error.__traceback__)
    return f"{said} in line {frames[-1].lineno} of {os.path.basename(frames[-1].filename)}" if frames else said


class Bounded:
    """Calls a notifier in a thread of its own and waits for a time; while it hangs, it is not called again.

    Args:
        notifier: a function of an alert.
        limit: real seconds.
    """

    def __init__(self, notifier: Callable[[Alert], object], limit: float) -> None:
        self.name = name_of(notifier)
        self._notifier = notifier
        self.limit = limit
        self._thread: threading.Thread | None = None

    def __call__(self, alert: Alert) -> None:
        """Tell of an alert.

        Raises:
            NotificationError: it raised, did not return in time, still hangs in an earlier call, or would have to be awaited.
        """
        if self._thread is not None and self._thread.is_alive():
            raise NotificationError(_HANGS)
        errors, context = list[BaseException](), copy_context()

        def call() -> None:
            try:
                answer = context.run(self._notifier, alert)
                if inspect.isawaitable(answer):
                    if inspect.iscoroutine(answer):
                        answer.close()
                    errors.append(NotificationError(_UNAWAITED))
            except BaseException as error:  # noqa: BLE001 - it comes out in the caller
                errors.append(error)

        self._thread = thread = threading.Thread(target=call, name="retrykit-notifier", daemon=True)
        thread.start()
        thread.join(self.limit)
        if thread.is_alive():
            raise NotificationError(f"it did not return within {short(self.limit)}")
        if errors:
            raise NotificationError(why_not(errors[0])) from errors[0]


class AsyncBounded:
    """The same for asynchronous callers: a coroutine function is cancelled, a function is called in a thread."""

    def __init__(self, notifier: Callable[[Alert], Awaitable[object] | object], limit: float) -> None:
        self.name = name_of(notifier)
        self._notifier = notifier
        self.limit = limit
        self._sync = None if is_async(notifier) else Bounded(notifier, limit)
        self._task: asyncio.Future[None] | None = None

    async def __call__(self, alert: Alert) -> None:
        """Tell of an alert, as `Bounded`."""
        if self._sync is not None:
            await in_thread(self._sync, alert)
            return
        try:
            await (self._in_trio if in_trio() else self._in_asyncio)(alert)
        except NotificationError:
            raise
        except Exception as error:
            raise NotificationError(why_not(error)) from error

    async def _call(self, alert: Alert) -> None:
        await cast("Awaitable[object]", self._notifier(alert))

    async def _in_trio(self, alert: Alert) -> None:
        import trio

        with trio.move_on_after(self.limit) as scope:
            await self._call(alert)
        if scope.cancelled_caught:
            raise NotificationError(f"it did not return within {short(self.limit)}")

    async def _in_asyncio(self, alert: Alert) -> None:
        import asyncio

        if self._task is not None and not self._task.done():
            raise NotificationError(_HANGS)
        self._task = task = asyncio.ensure_future(self._call(alert))
        try:
            done, _ = await asyncio.wait([task], timeout=self.limit)
        except BaseException:
            task.cancel()
            raise
        if not done:  # it is not waited for: it may not heed its cancellation
            task.cancel()
            task.add_done_callback(lambda late: late.cancelled() or late.exception())
            raise NotificationError(f"it did not return within {short(self.limit)}")
        task.result()
