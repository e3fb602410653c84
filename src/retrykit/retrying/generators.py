"""Retried generator functions, in the mode that was asked for.

"restart" begins anew after a failure and gives all items again; whoever takes them has to bear repeated ones.
"before_first_item" retries only until the first item was given: afterwards a failure leaves at once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any, cast

from .attempts import Attempts

if TYPE_CHECKING:
    from .decorator import retry

__all__ = ["wrap_generator"]


def wrap_generator(policy: retry, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a generator function or asynchronous generator function with its iteration retried."""
    plain = inspect.unwrap(fn.func if isinstance(fn, functools.partial) else fn)
    if inspect.isasyncgenfunction(plain):
        return _wrap_async(policy, cast("Callable[..., AsyncGenerator[Any, Any]]", fn))
    return _wrap(policy, cast("Callable[..., Generator[Any, Any, Any]]", fn))


def _wrap(policy: retry, fn: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Generator[Any, Any, Any]]:
    restarts = policy.generators == "restart"

    @functools.wraps(fn)
    def iterate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        attempts = Attempts(policy, fn, policy.time().monotonic())
        while True:
            given = False
            items = fn(*args, **kwargs)
            try:
                sent: Any = None
                while True:
                    try:
                        item = items.send(sent)
                    except StopIteration as done:
                        attempts.leave()
                        return done.value
                    given = True
                    sent = yield item
            except Exception as error:
                if (given and not restarts) or not attempts.again_after(error):
                    raise
            finally:
                items.close()

    return iterate


def _wrap_async(policy: retry, fn: Callable[..., AsyncGenerator[Any, Any]]) -> Callable[..., AsyncGenerator[Any, Any]]:
    restarts = policy.generators == "restart"

    @functools.wraps(fn)
    async def iterate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        attempts = Attempts(policy, fn, policy.time().monotonic())
        while True:
            given = False
            items = fn(*args, **kwargs)
            try:
                sent: Any = None
                while True:
                    try:
                        item = await items.asend(sent)
                    except StopAsyncIteration:
                        attempts.leave()
                        return
                    given = True
                    sent = yield item
            except Exception as error:
                if (given and not restarts) or not await attempts.again_after_async(error):
                    raise
            finally:
                await items.aclose()

    return iterate
