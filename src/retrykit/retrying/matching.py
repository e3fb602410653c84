"""Which errors are meant: exception types, error groups and classes, predicates, or several of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

from ..errors import ConfigurationError
from ..failure import ErrorClass, ErrorGroup, Failure

__all__ = ["Matcher", "OnError", "matcher", "types_of"]

OnError: TypeAlias = type[Exception] | ErrorGroup | ErrorClass | Callable[[Exception], bool] | tuple["OnError", ...]
"""What is meant: an exception type, an error group or class, a predicate, or a tuple of these."""

Matcher: TypeAlias = Callable[[Exception, Failure], bool]


def types_of(on: OnError) -> tuple[type[Exception], ...]:
    """Return the exception types that `on` names; none if it names anything else as well."""
    members = cast("tuple[OnError, ...]", on if isinstance(on, tuple) else (on,))  # type: ignore[redundant-cast]
    types = tuple(each for each in members if isinstance(each, type))
    return types if len(types) == len(members) else ()


def matcher(on: OnError, name: str = "on") -> Matcher:
    """Return the test that `on` stands for."""
    if isinstance(on, tuple):
        tests = [matcher(item, name) for item in on]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if tests:
            return lambda error, failure: any(test(error, failure) for test in tests)
    elif isinstance(on, type):
        if not issubclass(on, Exception):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{name} is {on!r}; allowed are subclasses of Exception: others are not failures")
        return lambda error, _: isinstance(error, on)
    elif isinstance(on, ErrorGroup):
        return lambda _, failure: failure.group is on
    elif isinstance(on, ErrorClass):
        return lambda _, failure: failure.error_class == on
    elif callable(on):
        return lambda error, _: on(error)
    raise ConfigurationError(
        f"{name} is {on!r}; allowed are exception types, ErrorGroup, ErrorClass, a predicate, or a tuple of these"
    )
