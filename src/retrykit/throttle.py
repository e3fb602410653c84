"""The adaptive throttle: send as fast as the other side takes it.

It lets everything through until a call is throttled. Then the rate falls, and climbs back along a cubic curve, so that it soon
is a little below what the other side allows. One throttle is one object: share it between all functions that call the same
provider.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from ._steps import is_async
from .clock import Clock, current_clock
from .draining import sleep, sleep_async
from .errors import CallRefusedError, ThrottledError
from .failure import ErrorGroup, Failure
from .machines.throttle import Throttle
from .message import check_name
from .retrying.functions import check_function, check_parts, refuse_awaitable
from .times import Duration, seconds

if TYPE_CHECKING:
    from .classification import ErrorClassifier

__all__ = ["AdaptiveThrottle"]

P = ParamSpec("P")
R = TypeVar("R")


class AdaptiveThrottle:
    """Lowers the rate of calls while the other side throttles them.

    Args:
        name: what it is called in errors, 1 to 255 characters.
        max_wait: a call that would have to wait longer than this for its turn raises `ThrottledError`; so does one whose
            wait would outlive the shutdown of the process.
        classifier: how failures are recognised.
        clock: where the time comes from; None: the clock in force.

    Raises:
        ConfigurationError: a value is not allowed.

    Example:
        >>> throttle = AdaptiveThrottle("ses")
        >>> throttle.delay()
        0.0
    """

    def __init__(
        self,
        name: str = "throttle",
        *,
        max_wait: Duration = "1m",
        classifier: ErrorClassifier | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_parts(classifier=classifier, clock=clock)
        self.name = check_name(name, "name of a throttle")
        self.max_wait = seconds(max_wait, "max_wait")
        self._classifier = classifier
        self._clock = clock
        self._machine = Throttle(self._now())
        self._lock = threading.Lock()

    def turn(self) -> float:
        """Ask for a call; return 0 when it may be made, else the seconds after which to ask again."""
        with self._lock:
            return self._machine.wait(self._now())

    def delay(self, waited: float = 0.0) -> float:
        """Ask for a call, as `turn`.

        Args:
            waited: the seconds that the call has waited already; others may have taken its turn meanwhile.

        Raises:
            ThrottledError: the wait would be longer than `max_wait` in all.
        """
        wait = self.turn()
        if wait and waited + wait > self.max_wait:
            raise ThrottledError(self.name, wait)
        return wait

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Return `fn`, whose calls wait for their turn.

        Raises:
            TypeError: `fn` is a generator function, a class, or not callable.
        """
        check_function(fn, "a throttle")
        if is_async(fn):
            return cast("Callable[P, R]", self._wrap_async(cast("Callable[P, Awaitable[object]]", fn)))
        return self._wrap(fn)

    def _wrap(self, fn: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(fn)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            waited = 0.0
            while wait := self.delay(waited):
                if left := sleep(self._time(), wait):
                    raise ThrottledError(self.name, left)
                waited += wait
            try:
                result = fn(*args, **kwargs)
                if result.__class__ is CoroutineType:
                    refuse_awaitable(fn, result)
            except Exception as error:
                self._failed(error)
                raise
            self.note()
            return result

        return call

    def _wrap_async(self, fn: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        @functools.wraps(fn)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            waited = 0.0
            while wait := self.delay(waited):
                if left := await sleep_async(self._time(), wait):
                    raise ThrottledError(self.name, left)
                waited += wait
            try:
                result = await fn(*args, **kwargs)
            except Exception as error:
                self._failed(error)
                raise
            self.note()
            return result

        return call

    def _failed(self, error: Exception) -> None:
        if isinstance(error, CallRefusedError):
            return  # nothing was called
        from .retrying.attempts import default_classifier  # only on the failing path

        self.failed((self._classifier or default_classifier()).classify(error))

    def note(self) -> None:
        """Take in a call that was not throttled."""
        with self._lock:
            self._machine.succeeded(self._now())

    def failed(self, failure: Failure) -> None:
        """Take in a call that failed; only throttling lowers the rate."""
        with self._lock:
            if failure.group is ErrorGroup.THROTTLING:
                self._machine.throttled(self._now(), failure.retry_after)
            else:
                self._machine.succeeded(self._now())

    @property
    def rate(self) -> float | None:
        """The calls a second that are let through; None while it lets everything through."""
        with self._lock:
            return self._machine.bucket.rate if self._machine.is_active else None

    def _time(self) -> Clock:
        return self._clock or current_clock()

    def _now(self) -> float:
        return self._time().monotonic()
