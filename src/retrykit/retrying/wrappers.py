"""The wrappers of `@retry` by itself: what stands between a caller and a decorated function.

A call that succeeds passes one frame: nothing is made, asked or locked before something has failed. What a failure needs is
loaded at the first one.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from .functions import refuse_awaitable
from .signatures import exact

if TYPE_CHECKING:
    from .attempts import Attempts
    from .decorator import retry

__all__ = ["begin", "plain", "plain_async"]

P = ParamSpec("P")
R = TypeVar("R")


def plain(policy: retry, fn: Callable[P, R]) -> Callable[P, R]:
    """Return `fn` with its calls retried."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            result = fn(*args, **kwargs)
        except Exception as error:
            attempts = begin(policy, fn)
            if not attempts.again_after(error):
                raise
        else:
            if result.__class__ is CoroutineType:
                refuse_awaitable(fn, result)
            return result
        while True:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                if not attempts.again_after(error):
                    raise
            else:
                attempts.leave()
                if result.__class__ is CoroutineType:
                    refuse_awaitable(fn, result)
                return result

    return exact(call, fn)


def plain_async(policy: retry, fn: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Return the coroutine function `fn` with its calls retried."""

    @functools.wraps(fn)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await fn(*args, **kwargs)
        except Exception as error:
            attempts = begin(policy, fn)
            if not await attempts.again_after_async(error):
                raise
        while True:
            try:
                result = await fn(*args, **kwargs)
            except BaseException as error:
                if not await attempts.again_after_async(error):
                    raise
            else:
                attempts.leave()
                return result

    return exact(call, fn)


def begin(policy: retry, fn: object, began: float | None = None) -> Attempts:
    """Load what only a failed call needs."""
    global _attempts  # noqa: PLW0603 - loaded once: looking for the module again costs as much as the rest
    if _attempts is None:
        from .attempts import Attempts

        _attempts = Attempts
    return _attempts(policy, fn, began)


_attempts: type[Attempts] | None = None
