"""What may be wrapped: functions and coroutine functions in all their forms."""

from __future__ import annotations

import functools
import inspect

__all__ = ["check_function", "is_generator", "name_of"]


def name_of(fn: object) -> str:
    """Return what a function is called in notes and events."""
    return getattr(fn, "__qualname__", None) or repr(fn)


def is_generator(fn: object) -> bool:
    """Tell whether calling `fn` gives a generator or an asynchronous generator."""
    plain = inspect.unwrap(fn.func if isinstance(fn, functools.partial) else fn)  # type: ignore[arg-type]
    return inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain)


def check_function(fn: object, decorator: str) -> None:
    """Refuse what cannot be wrapped.

    Raises:
        TypeError: `fn` is a generator function, a class, a staticmethod or classmethod object, or not callable.
    """
    kind = type(fn).__name__
    if kind in ("staticmethod", "classmethod"):
        raise TypeError(f"{decorator} stands above @{kind}; put @{kind} above it")
    if isinstance(fn, type) or not callable(fn):
        raise TypeError(f"{decorator} decorates functions, not {fn!r}")
    if is_generator(fn):
        raise TypeError(
            f"{fn!r} is a generator function: items it has given cannot be taken back; decorate the call that makes each item, or say generators="
        )
