"""Whether a guarded call got into its function: one that did not has had no effect."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

from ..retrying.functions import refuse_awaitable

__all__ = ["NotEnteredError", "plainly", "was_entered_by"]


class NotEnteredError(TypeError):
    """A function gave something to await that nobody awaits; callers see a plain `TypeError`."""


def plainly(fn: Callable[[], object]) -> Callable[[], object]:
    """Return a call that refuses what would have to be awaited: its effect would come later, or never."""

    def call() -> object:
        result = fn()
        if inspect.isawaitable(result):
            try:
                refuse_awaitable(fn.func if isinstance(fn, functools.partial) else fn, result)
            except TypeError as error:
                raise NotEnteredError(str(error)) from None
        return result

    return call


def was_entered_by(fn: Callable[[], object], error: BaseException) -> bool:
    """Tell whether a call that failed got into the function: not if its arguments do not fit."""
    if not isinstance(error, TypeError) or not isinstance(fn, functools.partial):
        return True
    try:
        inspect.signature(fn.func).bind(*fn.args, **fn.keywords)
    except TypeError:
        return False
    except ValueError:  # a builtin that does not tell
        return True
    return True
