"""Retried generator functions, in the mode that was asked for.

"restart" begins anew after a failure and gives all items again; whoever takes them has to bear repeated ones.
"before_first_item" retries only until the first item was given: afterwards a failure leaves at once. What the consumer sends
or throws in reaches the generator, and what he threw is no failure when it comes out again.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, cast

from .attempts import Attempts, nesting
from .functions import function_of

if TYPE_CHECKING:
    from .decorator import retry

__all__ = ["wrap_generator"]

_GIVEN: Final = "some items were given already"


def wrap_generator(policy: retry, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a generator function or asynchronous generator function with its iteration retried."""
    if inspect.isasyncgenfunction(function_of(fn)):
        return _wrap_async(policy, cast("Callable[..., AsyncGenerator[Any, Any]]", fn))
    return _wrap(policy, cast("Callable[..., Generator[Any, Any, Any]]", fn))


def _wrap(policy: retry, fn: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Generator[Any, Any, Any]]:
    restarts = policy.generators == "restart"

    @functools.wraps(fn)
    def iterate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        attempts = Attempts(policy, fn, policy.time().monotonic())
        thrown: BaseException | None = None
        while True:
            has_given = False
            items = fn(*args, **kwargs)
            step: Callable[[Any], Any] = items.send
            value: Any = None
            try:
                while True:
                    attempts.enter()  # it runs only while an item is made, not while the consumer has it
                    try:
                        with nesting() if policy.suppress_nested else nullcontext():
                            item = step(value)
                    except StopIteration as done:
                        attempts.succeeded()
                        return done.value
                    finally:
                        attempts.leave()
                    has_given = True
                    try:
                        step, value = items.send, (yield item)
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # noqa: BLE001 - whatever the consumer throws
                        step, value, thrown = items.throw, error, error
            except Exception as error:
                final = _GIVEN if has_given and not restarts else None
                if error is thrown or not attempts.again_after(error, final):
                    raise
            finally:
                items.close()
                value = thrown = None  # an exception holds this frame: without this they would keep each other alive

    return iterate


def _wrap_async(policy: retry, fn: Callable[..., AsyncGenerator[Any, Any]]) -> Callable[..., AsyncGenerator[Any, Any]]:
    restarts = policy.generators == "restart"

    @functools.wraps(fn)
    async def iterate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        attempts = Attempts(policy, fn, policy.time().monotonic())
        thrown: BaseException | None = None
        while True:
            has_given = False
            items = fn(*args, **kwargs)
            step: Callable[[Any], Any] = items.asend
            value: Any = None
            try:
                while True:
                    attempts.enter()
                    try:
                        with nesting() if policy.suppress_nested else nullcontext():
                            item = await step(value)
                    except StopAsyncIteration:
                        attempts.succeeded()
                        return
                    finally:
                        attempts.leave()
                    has_given = True
                    try:
                        step, value = items.asend, (yield item)
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # noqa: BLE001 - as above
                        step, value, thrown = items.athrow, error, error
            except Exception as error:
                final = _GIVEN if has_given and not restarts else None
                if error is thrown or not await attempts.again_after_async(error, final):
                    raise
            finally:
                await items.aclose()
                value = thrown = None

    return iterate
