"""What may be wrapped: functions and coroutine functions in all their forms."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable
from typing import Any, Final, NoReturn, cast, get_origin

from .._steps import is_async
from ..errors import ConfigurationError

__all__ = ["check_function", "check_parts", "function_of", "is_generator", "name_of", "refuse_awaitable"]


def name_of(fn: object) -> str:
    """Return what a function is called in notes and events."""
    fn = inspect.unwrap(cast("Any", fn))
    return getattr(fn, "__qualname__", None) or repr(fn)


def function_of(fn: object) -> Any:
    """Return the function behind a partial, a wrapper or a callable object."""
    while isinstance(fn, functools.partial):
        fn = cast("object", fn.func)
    fn = inspect.unwrap(cast("Any", fn))
    return fn if hasattr(fn, "__code__") else getattr(fn, "__call__", fn)  # noqa: B004


def is_generator(fn: object) -> bool:
    """Tell whether calling `fn` gives a generator or an asynchronous generator."""
    plain = function_of(fn)
    return inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain)


def check_function(fn: object, decorator: str) -> None:
    """Refuse what cannot be wrapped.

    Raises:
        TypeError: `fn` is a generator function, a class, a staticmethod or classmethod object, not callable, or no coroutine
            function although it says that it returns an awaitable.
    """
    kind = type(fn).__name__
    if kind in ("staticmethod", "classmethod"):
        raise TypeError(f"{decorator} stands above @{kind}; put @{kind} above it")
    if isinstance(fn, type) or not callable(fn):
        raise TypeError(f"{decorator} decorates functions, not {fn!r}")
    if is_generator(fn):
        raise TypeError(
            f"{fn!r} is a generator function: items it has given cannot be taken back; decorate the call that makes each item"
            + (", or say generators=" if decorator == "retry()" else "")
        )
    if not is_async(fn) and _says_awaitable(function_of(fn)):
        raise TypeError(
            f"{fn!r} returns an awaitable, which fails only after {decorator} has seen it; write it as a coroutine function: async def"
        )


def refuse_awaitable(fn: object, result: object) -> NoReturn:
    """Refuse what a function gave that is no coroutine function: nobody would see it fail.

    Raises:
        TypeError: always.
    """
    if inspect.iscoroutine(result):
        result.close()  # one that is never awaited would be warned about
    raise TypeError(f"{fn!r} is no coroutine function and returned an awaitable; write it as one: async def")


_METHODS: Final = {
    "budget": ("take", "retried"),
    "stop": ("is_set", "wait"),
    "classifier": ("classify",),
    "clock": ("now", "monotonic", "sleep", "sleep_async"),
    "rng": ("random",),
}


def check_parts(**parts: object) -> None:
    """Refuse what is given in place of a part and cannot be one; only a failure would find that out.

    Raises:
        ConfigurationError: a part has not the methods that its kind has.
    """
    for name, part in parts.items():
        has_all = all(callable(getattr(part, method, None)) for method in _METHODS[name])
        if part is not None and (isinstance(part, type) or not has_all):
            raise ConfigurationError(f"{name} is {part!r}, which has no {' and '.join(_METHODS[name])}")


_AWAITABLE: Final = ("Awaitable", "Coroutine")


def _says_awaitable(fn: Any) -> bool:
    """Tell whether a function's return annotation is that of an awaitable."""
    said = getattr(fn, "__annotations__", {}).get("return")
    if isinstance(said, str):
        first, *rest = said.partition("[")[0].strip().split(".")
        found = getattr(fn, "__globals__", {}).get(first)
        for name in rest:
            found = getattr(found, name, None)
        if found is None:  # imported for type checkers only
            return (rest or [first])[-1] in _AWAITABLE
        said = found
    origin = get_origin(said) or said
    return isinstance(origin, type) and issubclass(origin, Awaitable)
