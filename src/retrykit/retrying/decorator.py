"""`@retry`: call a function again when it failed and the policy says so.

A call that succeeds costs a `try`. Everything else is made at the first failure: which error it was, how often it has
failed, how long to wait. What leaves in the end is the last error itself, with a note that says why it was not retried.
Cancellation, KeyboardInterrupt, SystemExit and GeneratorExit pass untouched: they are not failures.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar, cast, overload

from .._steps import is_async
from ..clock import Clock, current_clock
from ..errors import ConfigurationError
from ..failure import ErrorClass, ErrorGroup, Failure
from ..policy.backoff import Backoff, BackoffLike, Rng, as_backoff, exponential
from ..times import Duration, seconds

if TYPE_CHECKING:
    from ..classification import ErrorClassifier
    from ..events import Listener
    from ..policy import PolicyMatrix
    from .failures import Failures

__all__ = ["OnError", "retry"]

P = ParamSpec("P")
R = TypeVar("R")

OnError: TypeAlias = type[Exception] | ErrorGroup | ErrorClass | Callable[[Exception], bool] | tuple["OnError", ...]
"""What the short form retries: an exception type, an error group or class, a predicate, or a tuple of these."""


_ATTEMPTS = 3
_BACKOFF = exponential(0.1, cap="10s")


class retry:  # noqa: N801 - used as a decorator
    """Retry the calls of a function.

    The matrix form, `@retry(EMAIL_MATRIX)`, classifies each error and lets the matrix decide. The short form,
    `@retry(on=OSError, attempts=3)`, retries what `on` names and nothing else; whoever writes it vouches that a repeated
    call does no harm.

    Args:
        matrix: the policy of the matrix form.
        on: what the short form retries.
        attempts: calls in all of the short form, >= 1; default 3.
        backoff: the waits of the short form: a backoff, a list of durations, or a function of the retry's number; default
            `exponential(0.1, cap="10s")`.
        max_elapsed: no wait begins that would end later than this after the call began; None: no limit.
        max_inline_delay: a longer wait of the matrix form, or one that the other side asks for, raises `RetryLater`
            instead of sleeping.
        idempotent: whether the matrix form may repeat a call that may have had its effect.
        classifier: how failures are recognised.
        on_event: listeners; told of every failed attempt.
        clock: where the time comes from; None: the clock in force.
        rng: the source of the jitter; None: the `random` module.

    Raises:
        ConfigurationError: both forms are mixed, or a value is not allowed.

    Example:
        >>> calls = []
        >>> @retry(on=ConnectionError, attempts=3, backoff=[0])
        ... def fetch() -> str:
        ...     calls.append(1)
        ...     if len(calls) < 3:
        ...         raise ConnectionResetError("gone")
        ...     return "there"
        >>> fetch(), len(calls)
        ('there', 3)
    """

    @overload
    def __init__(
        self,
        matrix: PolicyMatrix,
        *,
        max_elapsed: Duration | None = ...,
        max_inline_delay: Duration = ...,
        idempotent: bool = ...,
        classifier: ErrorClassifier | None = ...,
        on_event: Iterable[Listener] = ...,
        clock: Clock | None = ...,
        rng: Rng | None = ...,
    ) -> None: ...

    @overload
    def __init__(
        self,
        *,
        on: OnError,
        attempts: int = ...,
        backoff: BackoffLike = ...,
        max_elapsed: Duration | None = ...,
        max_inline_delay: Duration = ...,
        classifier: ErrorClassifier | None = ...,
        on_event: Iterable[Listener] = ...,
        clock: Clock | None = ...,
        rng: Rng | None = ...,
    ) -> None: ...

    def __init__(
        self,
        matrix: PolicyMatrix | None = None,
        *,
        on: OnError | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
        max_elapsed: Duration | None = None,
        max_inline_delay: Duration = "1m",
        idempotent: bool = False,
        classifier: ErrorClassifier | None = None,
        on_event: Iterable[Listener] = (),
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        if matrix is not None and not hasattr(matrix, "decide"):
            hint = "; write @retry(on=...) with parentheses" if callable(matrix) else ""
            raise ConfigurationError(f"the matrix of retry() is {matrix!r}; allowed is a PolicyMatrix{hint}")
        if (matrix is None) == (on is None) or (matrix is not None and (attempts is not None or backoff is not None)):
            raise ConfigurationError(
                "retry() takes either a matrix, as retry(EMAIL_MATRIX), or on= with attempts= and backoff=, "
                "as retry(on=OSError, attempts=3)"
            )
        attempts = _ATTEMPTS if attempts is None else attempts
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise ConfigurationError(f"attempts is {attempts!r}; allowed are whole numbers >= 1")
        self.matrix = matrix
        self.matches = _matcher(on) if on is not None else None
        self.attempts = attempts
        self.backoff: Backoff = _BACKOFF if backoff is None else as_backoff(backoff)
        self.max_elapsed = None if max_elapsed is None else seconds(max_elapsed, "max_elapsed")
        self.idempotent = idempotent
        self.max_inline_delay = seconds(max_inline_delay, "max_inline_delay")
        self.classifier = classifier
        self.listeners: tuple[Listener, ...] = () if on_event == () else _listeners(on_event)
        self._clock = clock
        self.rng = rng

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Return `fn` with its calls retried.

        Raises:
            TypeError: `fn` is a generator function, whose items cannot be taken back, a class, or not callable.
        """
        _refuse(fn)
        if is_async(fn):
            return cast("Callable[P, R]", self._wrap_async(cast("Callable[P, Awaitable[object]]", fn)))
        return self._wrap(fn)

    def _wrap(self, fn: Callable[P, R]) -> Callable[P, R]:
        timed = self.max_elapsed is not None

        @functools.wraps(fn)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            failures: Failures | None = None
            began = self.time().monotonic() if timed else None
            while True:
                try:
                    return fn(*args, **kwargs)
                except Exception as error:
                    if failures is None:
                        failures = _failures(self, fn, began)
                    delay = failures.delay_after(error)
                    if delay is None:
                        raise
                if delay:
                    self.time().sleep(delay)

        return call

    def _wrap_async(self, fn: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        timed = self.max_elapsed is not None

        @functools.wraps(fn)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            failures: Failures | None = None
            began = self.time().monotonic() if timed else None
            while True:
                try:
                    return await fn(*args, **kwargs)
                except Exception as error:
                    if failures is None:
                        failures = _failures(self, fn, began)
                    delay = failures.delay_after(error)
                    if delay is None:
                        raise
                if delay:
                    await self.time().sleep_async(delay)

        return call

    def time(self) -> Clock:
        """Return the clock it waits by."""
        return self._clock or current_clock()


def _failures(policy: retry, fn: Callable[..., object], began: float | None) -> Failures:
    """Load what only a failed call needs."""
    from .failures import Failures

    return Failures(policy, fn, began)


def _listeners(on_event: Iterable[Listener]) -> tuple[Listener, ...]:
    """Load what only those need who listen."""
    from ..events import listeners_of

    return listeners_of(on_event)


def _matcher(on: OnError) -> Callable[[Exception, Failure], bool]:
    """Return the test that `on` stands for."""
    if isinstance(on, tuple):
        tests = [_matcher(item) for item in on]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if tests:
            return lambda error, failure: any(test(error, failure) for test in tests)
    elif isinstance(on, type):
        if not issubclass(on, Exception):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"on is {on!r}; allowed are subclasses of Exception: others are not failures")
        return lambda error, _: isinstance(error, on)
    elif isinstance(on, ErrorGroup):
        return lambda _, failure: failure.group is on
    elif isinstance(on, ErrorClass):
        return lambda _, failure: failure.error_class == on
    elif callable(on):
        return lambda error, _: on(error)
    raise ConfigurationError(
        f"on is {on!r}; allowed are exception types, ErrorGroup, ErrorClass, a predicate, or a tuple of these"
    )


def _refuse(fn: object) -> None:
    kind = type(fn).__name__
    if kind in ("staticmethod", "classmethod"):
        raise TypeError(f"retry() stands above @{kind}; put @{kind} above it")
    if isinstance(fn, type) or not callable(fn):
        raise TypeError(f"retry() decorates functions, not {fn!r}")
    plain = inspect.unwrap(fn.func if isinstance(fn, functools.partial) else fn)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise TypeError(
            f"{fn!r} is a generator function: items it has given cannot be taken back; retry the call that makes each item"
        )
