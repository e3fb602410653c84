"""One retry around others: the inner ones do not retry, so that layers do not multiply."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar, cast

from .._steps import is_async
from .attempts import nesting

__all__ = ["marked"]

P = ParamSpec("P")
R = TypeVar("R")


def marked(fn: Callable[P, R]) -> Callable[P, R]:
    """Return `fn`, in which no retry retries."""
    if is_async(fn):
        awaited = cast("Callable[P, Awaitable[object]]", fn)

        @functools.wraps(fn)
        async def call_async(*args: P.args, **kwargs: P.kwargs) -> object:
            with nesting():
                return await awaited(*args, **kwargs)

        return cast("Callable[P, R]", call_async)

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with nesting():
            return fn(*args, **kwargs)

    return call
