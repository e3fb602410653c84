"""One logic, two colours: a flow is a generator that yields the calls it wants made.

A flow is written once. `run` makes its calls one after the other, `arun` also awaits those that give an awaitable; a
test harness may stop before any of them. Because a flow yields the *call* and not its result, whoever drives it sees
each step before it happens.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Generator
from types import GeneratorType
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast

from .errors import ConfigurationError

P = ParamSpec("P")
T = TypeVar("T")


class Step(NamedTuple):
    """One call that a flow asks its driver to make."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self) -> Any:
        """Make the call."""
        return self.fn(*self.args, **self.kwargs)


def is_async(fn: object) -> bool:
    """Tell whether calling `fn` gives a coroutine: a coroutine function, a partial or a callable object of one."""
    while isinstance(fn, functools.partial):
        fn = fn.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if inspect.iscoroutinefunction(fn):
        return True
    return not isinstance(fn, type) and inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


Steps: TypeAlias = Generator[Step, Any, T]


def do(fn: Callable[P, Awaitable[T] | T], /, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
    """Ask the driver for one call, and give back its result."""
    result: T = yield Step(fn, args, kwargs)
    return result


def run(flow: Steps[T]) -> T:
    """Drive `flow` to its end in the calling thread and return its result.

    Raises:
        ConfigurationError: a call gave an awaitable, which nobody here can await; the flow is given up at once.
    """
    value: Any = None
    thrown: BaseException | None = None
    try:
        step = flow.send(None)
        while True:
            try:
                value = step.fn(*step.args, **step.kwargs)
                thrown = None
            except BaseException as error:  # noqa: BLE001 - every error belongs to the flow
                thrown = error
            if thrown is not None:
                step = flow.throw(thrown)
            elif _is_awaitable(value):
                raise _wrong_colour(step, value)
            else:
                step = flow.send(value)
    except StopIteration as done:
        result: T = done.value
        return result
    except RuntimeError as error:
        if not isinstance(thrown, StopIteration) or error.__cause__ is not thrown:
            raise
        stopped = thrown  # the caller's function raised it, and the generator turned it into this error (PEP 479)
    finally:
        flow.close()
        thrown = None  # the exception holds this frame: without this they would keep each other alive
    try:
        raise stopped  # type: ignore[possibly-undefined]  # every other way has returned or raised
    finally:
        del stopped  # type: ignore[possibly-undefined]


def _is_awaitable(value: object) -> bool:
    """Tell what `inspect.isawaitable` tells, at a fifth of its cost for what is none."""
    if hasattr(type(value), "__await__"):
        return True
    return type(value) is GeneratorType and inspect.isawaitable(cast("object", value))


def _wrong_colour(step: Step, value: object) -> ConfigurationError:
    close = getattr(value, "close", None)
    if close is not None:
        close()  # a coroutine that is never awaited would be warned about
    name = getattr(step.fn, "__qualname__", None) or repr(step.fn)
    return ConfigurationError(
        f"{name} gave {type(value).__name__}, which has to be awaited; use the asynchronous twin for it (AsyncDispatcher, "
        "AsyncRetryScheduler, open_async_backend, ...)"
    )


async def arun(flow: Steps[T]) -> T:
    """Drive `flow` to its end, awaiting what is awaitable, under asyncio or trio.

    When the caller is cancelled the cancellation passes through the flow and no further step is taken: one that the flow
    asks for on its way out is refused with the same cancellation.
    """
    value: Any = None
    thrown: BaseException | None = None
    try:
        while True:
            step = flow.send(value) if thrown is None else flow.throw(thrown)
            if thrown is not None and not isinstance(thrown, Exception):
                continue
            try:
                value, thrown = step(), None
                if _is_awaitable(value):
                    value = await value
            except BaseException as error:  # noqa: BLE001 - as in `run`
                value, thrown = None, error
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        flow.close()
        thrown = None
