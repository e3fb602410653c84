"""Saying what a failure is where it is raised, instead of having it recognised later.

Three ways: an exception class of your own (`TaggedError`), a tag on exceptions of others that pass a place (`tag`), and
the name of the place itself (`stage`). A tag and a stage are written on the exception, which keeps its type, its
traceback and its `__cause__`; they survive pickling. The innermost one counts. Cancellation passes unmarked.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import inspect
import math
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, cast, final

import attrs

from ..errors import ConfigurationError, PicklableError
from ..failure import ErrorClass, Outcome
from ..times import Duration, seconds

__all__ = ["MARKS", "Boundary", "Tag", "TaggedError", "is_unsure", "mark_unsure", "stage", "stages_of", "tag", "tag_of"]

P = ParamSpec("P")
R = TypeVar("R")

_TAG: Final = "__retrykit_tag__"
_UNSURE: Final = "__retrykit_unsure__"
_STAGES: Final = "__retrykit_stages__"
_MAX_STAGES: Final = 16

MARKS: Final = frozenset({_TAG, _UNSURE, _STAGES})
"""The names under which something is written on exceptions."""


@attrs.frozen
class Tag:
    """What was said about one exception."""

    error_class: ErrorClass
    """What kind of failure it is."""
    outcome: Outcome | None = None
    """Whether the side effect may have happened; None: what follows from the exception and the stage."""
    retry_after: float | None = None
    """Seconds to wait at least."""
    error_code: str | None = None
    """The provider's own code."""


class TaggedError(PicklableError):
    """Base of an application's own exceptions that say themselves what kind of failure they are.

    A subclass names its `error_class`. `outcome`, `retry_after` (seconds) and `error_code` may be set on the class or
    on the instance. Instances pickle with all their attributes, whatever the signature of `__init__`.

    Raises:
        ConfigurationError: at the definition of a subclass, when `error_class` is missing or a value is not allowed.

    Example:
        >>> class CardDeclined(TaggedError):
        ...     error_class = ErrorClass("card_declined", group="permanent_recipient")
        >>> CardDeclined("no funds").error_class.group.value
        'permanent_recipient'
    """

    error_class: ErrorClass
    """What kind of failure it is; every subclass has one."""
    outcome: Outcome | None = None
    """Whether the side effect may have happened; None: what follows from the stage."""
    retry_after: float | None = None
    """Seconds to wait at least; None: what the policy says."""
    error_code: str | None = None
    """The provider's own code; None: the name of the exception."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check what the subclass says."""
        super().__init_subclass__(**kwargs)
        error_class = getattr(cls, "error_class", None)
        if not isinstance(error_class, ErrorClass):
            raise ConfigurationError(
                f"{cls.__qualname__}.error_class is {error_class!r}; a TaggedError names an ErrorClass, for example "
                "error_class = ErrorClass.PROVIDER_UNAVAILABLE"
            )
        cls.outcome = _outcome(cls.outcome, cls.__qualname__)
        if cls.retry_after is not None:
            cls.retry_after = seconds(cls.retry_after, f"{cls.__qualname__}.retry_after")


def _outcome(value: str | None, where: str) -> Outcome | None:
    if value is None:
        return None
    try:
        return Outcome(value)
    except ValueError:
        raise ConfigurationError(
            f"the outcome of {where} is {value!r}; allowed are {', '.join(Outcome)}, and None"
        ) from None


def tag_of(error: BaseException) -> Tag | None:
    """Return what was said about an exception, or None. What an instance says wrongly counts as not said."""
    if not isinstance(error, TaggedError):
        found = error.__dict__.get(_TAG)
        return found if isinstance(found, Tag) else None
    error_class: object = getattr(error, "error_class", None)
    if not isinstance(error_class, ErrorClass):
        return None
    outcome, delay, code = error.outcome, error.retry_after, error.error_code
    return Tag(
        error_class,
        outcome if isinstance(outcome, Outcome) else None,
        delay if isinstance(delay, (int, float)) and math.isfinite(delay) and delay >= 0 else None,
        None if code is None else str(code),
    )


def stages_of(error: BaseException) -> tuple[str, ...]:
    """Return the stages that an exception has left, innermost first."""
    found = error.__dict__.get(_STAGES, ())
    return cast("tuple[str, ...]", found) if isinstance(found, tuple) else ()


def mark_unsure(error: BaseException) -> None:
    """Say that the side effect may have happened, whatever the exception itself says: before it came, somebody had tried."""
    _write(error, _UNSURE, True)


def is_unsure(error: BaseException) -> bool:
    """Tell whether that was said."""
    return error.__dict__.get(_UNSURE) is True


class Boundary(abc.ABC):
    """A place that marks the exceptions leaving it: a context manager, and a decorator of functions of either colour.

    It holds no state: one may be shared by threads and tasks, nested and used again. In async code it is used in a
    plain `with`.
    """

    @abc.abstractmethod
    def _mark(self, error: BaseException) -> None:
        """Write on the exception."""

    @final
    def __enter__(self) -> Self:
        """Begin."""
        return self

    @final
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Mark a failure that leaves; it goes on as it is."""
        if isinstance(error, (Exception, BaseExceptionGroup)):
            self._mark(cast("BaseException", error))

    @final
    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function.

        Args:
            fn: a function or coroutine function, also a static or class method.

        Returns:
            A function with the same signature and colour.

        Raises:
            ConfigurationError: `fn` is a generator function, whose body runs after the call has returned.
        """
        if isinstance(fn, (staticmethod, classmethod)):
            method = cast("Any", fn)
            return cast("Callable[P, R]", type(method)(self(method.__func__)))
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise ConfigurationError(f"{fn!r} is a generator function; use a `with` block inside it instead")
        if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__):
            coroutine_function = cast("Callable[P, Any]", fn)

            @functools.wraps(coroutine_function)
            async def marking_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                with self:
                    return await coroutine_function(*args, **kwargs)

            return cast("Callable[P, R]", marking_async)

        @functools.wraps(fn)
        def marking(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return fn(*args, **kwargs)

        return marking


def _write(error: BaseException, name: str, value: object) -> None:
    with contextlib.suppress(Exception):  # an exception that refuses attributes goes on without
        setattr(error, name, value)


@final
@attrs.frozen
class _Tagging(Boundary):
    what: Tag
    on: tuple[type[BaseException], ...]

    def _mark(self, error: BaseException) -> None:
        if isinstance(error, self.on) and tag_of(error) is None:
            _write(error, _TAG, self.what)


@final
@attrs.frozen
class _Stage(Boundary):
    name: str

    def _mark(self, error: BaseException) -> None:
        left = stages_of(error)
        if left[-1:] != (self.name,) and len(left) < _MAX_STAGES:
            _write(error, _STAGES, (*left, self.name))


def tag(
    error_class: ErrorClass,
    *,
    on: type[Exception] | tuple[type[Exception], ...] = Exception,
    outcome: Outcome | None = None,
    retry_after: Duration | None = None,
) -> Boundary:
    """Say what kind of failure an exception is that leaves a block or a function.

    The exception keeps its type. What it says already, as a `TaggedError` or by an inner tag, stands.

    Args:
        error_class: the class it gets.
        on: the exceptions that are tagged; others pass untouched.
        outcome: what is known about the side effect; None: what follows from the exception and the stage.
        retry_after: seconds to wait at least, >= 0; None: what the policy says.

    Returns:
        A context manager that is a decorator as well.

    Raises:
        ConfigurationError: an argument has a value that is not allowed.

    Example:
        >>> with tag(ErrorClass.PROVIDER_UNAVAILABLE, on=ConnectionResetError):
        ...     pass
        >>> @tag(ErrorClass.INVALID_PAYLOAD, on=(KeyError, ValueError))
        ... def amount(order: dict[str, str]) -> int:
        ...     return int(order["amount"])
    """
    if not isinstance(error_class, ErrorClass):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a checker
        error_class = ErrorClass(error_class)
    kinds = on if isinstance(on, tuple) else (on,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"on is {on!r}; allowed are an exception class and a tuple of exception classes")
    wait = None if retry_after is None else seconds(retry_after, "retry_after")
    return _Tagging(Tag(error_class, _outcome(outcome, "the tag"), wait), kinds)


def stage(name: str) -> Boundary:
    """Name the boundary where a failure happens: "parse", "validate", "render", "send", or your own.

    What fails in any stage but "send", and not within one, counts as not sent: give your own to what has no side effect, or put it
    inside `stage("send")`.

    Args:
        name: text of 1 to 64 characters.

    Returns:
        A context manager that is a decorator as well.

    Raises:
        ConfigurationError: the name is not allowed.

    Example:
        >>> @stage("render")
        ... def greeting(person: dict[str, str]) -> str:
        ...     return f"Hello {person['name']}"
        >>> try:
        ...     greeting({})
        ... except KeyError as error:
        ...     stages_of(error)
        ('render',)
    """
    if not isinstance(name, str) or not 0 < len(name) <= 64:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"the name of a stage is {name!r}; allowed is text of 1 to 64 characters")
    return _Stage(name)
