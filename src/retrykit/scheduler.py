"""The retry scheduler: messages whose wait is over go back to the application's own queue.

Claim a batch, publish each message, then remove it. A scheduler that dies in between publishes again when its lease
ends: a message may come twice, which its claim sorts out, but none is lost. Any number of schedulers may run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import Final

from ._steps import Steps, arun, do, is_async, run
from .checks import check_limit
from .clock import Clock, SystemClock, current_clock
from .errors import ConfigurationError, StoreError
from .events import Listener, MessageRepublished, PublishFailed, emit, listeners_of
from .exporters.logs import LOGGED
from .lease import new_owner
from .message import Message
from .stores import AsyncBackend, Backend
from .times import Duration, seconds

__all__ = ["AsyncRetryScheduler", "RetryScheduler"]

_RELEASE_DELAY: Final = 5.0
"""Seconds until a message that could not be published is due again."""


class _SchedulerFlow:
    """The one logic of both colours."""

    def __init__(
        self,
        backend: Backend | AsyncBackend,
        publish: Callable[[Message], object],
        batch: int,
        lease: Duration,
        poll: Duration,
        on_event: Iterable[Listener],
        clock: Clock | None,
    ) -> None:
        self._retries = backend.retries
        self._wait_for_due: Callable[[float], bool] | None = getattr(backend, "wait_for_due", None)
        self._publish = publish
        self._batch = check_limit(batch, "batch")
        self._lease = seconds(lease, "lease", positive=True)
        self._poll = seconds(poll, "poll", positive=True)
        self._listeners = listeners_of(on_event)
        self._clock = clock
        self._owner = new_owner()
        self._claims = count(1)
        self._stopped = False

    def stop(self) -> None:
        """Let `run` end after the batch it is at; safe from other threads and from signal handlers."""
        self._stopped = True

    def _time(self) -> Clock:
        return self._clock or current_clock()

    def _run_once(self) -> Steps[int]:
        owner = f"{self._owner}/{next(self._claims)}"
        batch = yield from do(self._retries.claim_due, self._batch, owner=owner, lease=self._lease)
        published = 0
        for due in batch:
            try:
                yield from do(self._publish, due.message)
            except Exception as error:  # noqa: BLE001 - the application's queue: whatever it says, the message stays
                failed = PublishFailed(
                    at=self._time().now(), message_id=due.message.id, error=f"{type(error).__name__}: {error}"
                )
                emit(self._listeners, failed)
                yield from do(self._retries.release, due, delay=_RELEASE_DELAY)
            else:
                yield from do(self._retries.ack, due)
                published += 1
                event = MessageRepublished(at=self._time().now(), message_id=due.message.id, due_at=due.due_at)
                emit(self._listeners, event)
        return published

    def _run(self, sleep: Callable[[float], Awaitable[None] | None]) -> Steps[None]:
        while not self._stopped:
            try:
                published = yield from self._run_once()
                is_over = published == self._batch or self._stopped or (yield from self._was_told())
            except StoreError as error:
                _log_store_error(error)
                is_over = self._stopped  # whatever it held is due again when its lease ends
            if not is_over:
                yield from do(sleep, self._poll)

    def _was_told(self) -> Steps[bool]:
        """Let the backend wait, where it is told of what is due; return False at once where it is not, or where time is not the system's."""
        if self._wait_for_due is None or not isinstance(self._time(), SystemClock):
            return False
        return (yield from do(self._wait_for_due, self._poll))


def _log_store_error(error: StoreError) -> None:
    import logging  # only on the failing path

    logging.getLogger("retrykit.scheduler").warning("the retry queue cannot be used now, trying again: %s", error)


class RetryScheduler(_SchedulerFlow):
    """Republishes due messages.

    Args:
        backend: where the retry queue is.
        publish: puts a message into the application's own queue; when it raises, the message stays.
        batch: messages taken at once, >= 1.
        lease: for how long a batch is held, longer than publishing it takes.
        poll: the pause when nothing is due, at the most. A backend with a method `wait_for_due`, such as PostgreSQL's, ends it once
            something is.
        on_event: listeners. Default a `LogListener`.
        clock: where the time comes from; None: the clock in force.

    Raises:
        ConfigurationError: a value is not allowed, or `publish` is a coroutine function.
    """

    def __init__(
        self,
        backend: Backend,
        publish: Callable[[Message], object],
        *,
        batch: int = 100,
        lease: Duration = "1m",
        poll: Duration = 1.0,
        on_event: Iterable[Listener] = LOGGED,
        clock: Clock | None = None,
    ) -> None:
        if is_async(publish):
            raise ConfigurationError(f"publish is the coroutine function {publish!r}; use AsyncRetryScheduler for it")
        super().__init__(backend, publish, batch, lease, poll, on_event, clock)

    def run_once(self) -> int:
        """Republish one batch of due messages and return how many there were."""
        return run(self._run_once())

    def run(self) -> None:
        """Republish due messages until `stop` is called. A store that fails is logged and tried again."""
        run(self._run(self._time().sleep))


class AsyncRetryScheduler(_SchedulerFlow):
    """`RetryScheduler` for asynchronous callers."""

    def __init__(
        self,
        backend: AsyncBackend,
        publish: Callable[[Message], Awaitable[object]],
        *,
        batch: int = 100,
        lease: Duration = "1m",
        poll: Duration = 1.0,
        on_event: Iterable[Listener] = LOGGED,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(backend, publish, batch, lease, poll, on_event, clock)

    async def run_once(self) -> int:
        """Republish one batch of due messages and return how many there were."""
        return await arun(self._run_once())

    async def run(self) -> None:
        """Republish due messages until `stop` is called."""
        await arun(self._run(self._time().sleep_async))
