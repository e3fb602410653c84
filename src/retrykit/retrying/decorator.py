"""`@retry`: call a function again when it failed and the policy says so.

A call that succeeds costs a `try`. Everything else is made at the first failure: which error it was, how often it has
failed, how long to wait. What leaves in the end is the last error itself, with a note that says why it was not retried.
Cancellation, KeyboardInterrupt, SystemExit and GeneratorExit pass untouched: they are not failures.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

from .._steps import is_async
from ..checks import whole
from ..clock import Clock, current_clock
from ..draining import Stop
from ..errors import ConfigurationError
from ..policy.backoff import Backoff, BackoffLike, Rng, as_backoff, exponential
from ..times import Duration, seconds
from .functions import check_function, check_parts, is_generator, refuse_awaitable
from .matching import OnError, matcher, types_of
from .wrappers import plain, plain_async

if TYPE_CHECKING:
    from ..budget import RetryBudget
    from ..classification import ErrorClassifier
    from ..events import Listener
    from ..policy import PolicyMatrix
    from .attempts import CurrentAttempt
    from .blocks import Try
    from .hooks import Hook

__all__ = ["Generators", "OnError", "Stop", "retry"]

P = ParamSpec("P")
R = TypeVar("R")

Generators: TypeAlias = Literal["restart", "before_first_item"]
"""How generator functions are retried."""


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
        on_result: tells of a result that it is to be tried again; when all attempts are used the last one is returned.
        attempts: calls in all of the short form, >= 1; default 3.
        backoff: the waits of the short form: a backoff, a list of durations, or a function of the retry's number; default
            `exponential(0.1, cap="10s")`.
        max_elapsed: no wait begins that would end later than this after the call began; None: no limit.
        max_inline_delay: a longer wait of the matrix form, or one that the other side asks for, raises `RetryLater`
            instead of sleeping.
        idempotent: whether the matrix form may repeat a call that may have had its effect.
        budget: pays for the retries; a denied retry does not wait.
        generators: how generator functions are retried: "restart" gives all items anew, "before_first_item" retries only until
            the first item was given.
        suppress_nested: whether retries inside the function do not retry, so that layers do not multiply.
        stop: ends all waits when it is set: a `threading.Event`, or what behaves like one. Waits by another clock than the
            system's end first. A `GracefulShutdown` cuts them short as all others.
        hooks: called before each wait; a context manager that one returns is entered before and left after the wait.
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
        on_result: Callable[[Any], bool] | None = ...,
        max_elapsed: Duration | None = ...,
        max_inline_delay: Duration = ...,
        idempotent: bool = ...,
        budget: RetryBudget | None = ...,
        generators: Generators | None = ...,
        suppress_nested: bool = ...,
        stop: Stop | None = ...,
        hooks: Iterable[Hook] = ...,
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
        on_result: Callable[[Any], bool] | None = ...,
        max_elapsed: Duration | None = ...,
        max_inline_delay: Duration = ...,
        budget: RetryBudget | None = ...,
        generators: Generators | None = ...,
        suppress_nested: bool = ...,
        stop: Stop | None = ...,
        hooks: Iterable[Hook] = ...,
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
        on_result: Callable[[Any], bool] | None = None,
        max_elapsed: Duration | None = None,
        max_inline_delay: Duration = "1m",
        idempotent: bool = False,
        budget: RetryBudget | None = None,
        generators: Generators | None = None,
        suppress_nested: bool = False,
        stop: Stop | None = None,
        hooks: Iterable[Hook] = (),
        classifier: ErrorClassifier | None = None,
        on_event: Iterable[Listener] = (),
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self._given: dict[str, Any] = given
        if matrix is not None and not hasattr(matrix, "decide"):
            hint = "; write @retry(on=...) with parentheses" if callable(matrix) else ""
            raise ConfigurationError(f"the matrix of retry() is {matrix!r}; allowed is a PolicyMatrix{hint}")
        if (matrix is None) == (on is None) or (matrix is not None and (attempts is not None or backoff is not None)):
            raise ConfigurationError(
                "retry() takes either a matrix, as retry(EMAIL_MATRIX), or on= with attempts= and backoff=, "
                "as retry(on=OSError, attempts=3)"
            )
        self.matrix = matrix
        self.matches = matcher(on) if on is not None else None
        self.attempts = _ATTEMPTS if attempts is None else whole(attempts, "attempts")
        self.backoff: Backoff = _BACKOFF if backoff is None else as_backoff(backoff)
        self.max_elapsed = None if max_elapsed is None else seconds(max_elapsed, "max_elapsed")
        self.idempotent = idempotent
        self.max_inline_delay = seconds(max_inline_delay, "max_inline_delay")
        if on_result is not None and not callable(on_result):
            raise ConfigurationError(f"on_result is {on_result!r}; allowed is a function of the result")
        if generators not in (None, "restart", "before_first_item"):
            raise ConfigurationError(f"generators is {generators!r}; allowed are 'restart' and 'before_first_item'")
        if idempotent and matrix is None:
            raise ConfigurationError("idempotent= is for the matrix form; whoever names `on` vouches for it anyway")
        check_parts(budget=budget, stop=stop, classifier=classifier, clock=clock, rng=rng)
        self.on_result = on_result
        self.budget = budget
        self.generators = generators
        self.suppress_nested = suppress_nested
        self.stop = stop
        self.hooks: tuple[Hook, ...] = () if hooks == () else _listeners(hooks, "hooks")  # type: ignore[arg-type]
        self.is_plain = on_result is None and max_elapsed is None and budget is None
        self.classifier = classifier
        self.listeners: tuple[Listener, ...] = () if on_event == () else _listeners(on_event)
        self._clock = clock
        self.rng = rng
        is_quick = self.is_plain and not self.listeners and not self.hooks and classifier is None
        self.quick_types = types_of(on) if is_quick and on is not None else ()
        self.waits_for_others = bool(self.hooks) or stop is not None
        self.never_waits = self.backoff.never_waits

    def but(self, **changes: Any) -> retry:
        """Return the same with some arguments changed: for one call, or for one function.

        Example:
            >>> patient = retry(on=OSError, attempts=2)
            >>> patient.but(attempts=9).attempts
            9
        """
        return retry(**{**self._given, **changes})

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Return `fn` with its calls retried.

        Raises:
            TypeError: `fn` is a generator function and `generators` was not given, a class, not callable, or no coroutine
            function although it says that it returns an awaitable.
            ConfigurationError: it is a generator function, and `on_result` was given.
        """
        if self.generators is not None and is_generator(fn):
            if self.on_result is not None:
                raise ConfigurationError(f"on_result= looks at the result of a function; {fn!r} gives items")
            from .generators import wrap_generator

            return cast("Callable[P, R]", wrap_generator(self, fn))
        check_function(fn, "retry()")
        return self._wrap(fn)

    def _wrap(self, fn: Callable[P, R]) -> Callable[P, R]:
        if self.suppress_nested:
            from .nested import marked

            fn = marked(fn)
        if self.is_plain:
            if is_async(fn):
                return cast("Callable[P, R]", plain_async(self, cast("Callable[P, Awaitable[object]]", fn)))
            return plain(self, fn)
        from .fused import Parts, fused, fused_async  # not needed by most

        parts = Parts(policy=self) if self.budget is None else Parts(policy=self, budget=self.budget)
        if is_async(fn):
            return cast("Callable[P, R]", fused_async(parts, cast("Callable[P, Awaitable[object]]", fn)))
        return fused(parts, fn)

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function or a coroutine function, retried.

        Raises:
            TypeError: `fn` is a generator function and `generators` was not given, or it returned an awaitable and is no
                coroutine function.

        Example:
            >>> retry(on=OSError).call(int, "5")
            5
        """
        if is_generator(fn):
            return self(fn)(*args, **kwargs)
        result = self._wrap(fn)(*args, **kwargs)
        if isawaitable(result) and not is_async(fn):
            refuse_awaitable(fn, result)
        return result

    def __iter__(self) -> Iterator[Try]:
        """Give a `Try` for each attempt: `for attempt in retry(...): with attempt: ...`."""
        from .blocks import Tries

        return Tries(self)

    def __aiter__(self) -> AsyncIterator[Try]:
        """Give a `Try` for each attempt: `async for attempt in retry(...): with attempt: ...`."""
        from .blocks import Tries

        return Tries(self)

    @property
    def current(self) -> CurrentAttempt:
        """The attempt that is running here: its number, and the failed ones before it.

        A call made within a repeated one, of the same or another function under this object, belongs to it until it fails.
        """
        from .attempts import attempt_of

        return attempt_of(self)

    def time(self) -> Clock:
        """Return the clock it waits by."""
        return self._clock or current_clock()


def _listeners(on_event: Iterable[Listener], name: str = "on_event") -> tuple[Listener, ...]:
    """Load what only those need who listen."""
    from ..events import listeners_of

    return listeners_of(on_event, name)
