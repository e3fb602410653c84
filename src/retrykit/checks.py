"""Checks of values that are given in many places."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from .errors import ConfigurationError

__all__ = [
    "check_limit",
    "check_note",
    "check_options",
    "counted",
    "has_methods",
    "having",
    "instance_with",
    "printable",
    "provider_name",
    "provider_name_or_none",
    "whole",
]

_NOTE: Final = 10_000
"""Characters that a note of a person's may have."""


def counted(count: int, noun: str) -> str:
    """Return a number with what is counted: "1 letter", "1,200 letters"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def printable(text: str) -> str:
    """Return text with what a terminal would obey or a log would break at, such as escape sequences and ends of lines, spelled out."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def whole(value: int, name: str, *, least: int = 1) -> int:
    """Return `value` if it is a whole number >= `least`.

    Raises:
        ConfigurationError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{name} is {value!r}; allowed are whole numbers >= {least}")
    return value


def check_options(options: Iterable[str], allowed: Iterable[str], whose: str) -> None:
    """See that there are options of all the names given.

    Args:
        options: the names.
        allowed: those that there are.
        whose: whose options, such as "a dispatcher".

    Raises:
        TypeError: there is no option of a name.
    """
    unknown = set(options).difference(allowed)
    if unknown:
        raise TypeError(f"{whose} has no option {min(unknown)!r}; allowed are {', '.join(allowed)}")


def has_methods(value: object, name: str, methods: str) -> None:
    """See that a part has the methods by which it is used.

    Args:
        value: the part; None is no part, and passes.
        name: what it was given as.
        methods: names, separated by spaces.

    Raises:
        ConfigurationError: one is missing.
    """
    missing = [each for each in methods.split() if not hasattr(value, each)]
    if value is not None and missing:
        raise ConfigurationError(f"{name} is {value!r}, which has no {missing[0]}()")


def instance_with(value: object, name: str, methods: str, allowed: str) -> None:
    """See that a part is an object, not a class, with the methods by which it is used.

    Args:
        value: the part.
        name: what it was given as.
        methods: names, separated by spaces.
        allowed: what it may be, for the error.

    Raises:
        ConfigurationError: it is a class, or one is missing.
    """
    missing = [each for each in methods.split() if not hasattr(value, each)]
    if isinstance(value, type) or missing:
        said = f"the class {value.__name__}" if isinstance(value, type) else f"{value!r}, which has no {missing[0]}"
        raise ConfigurationError(f"{name} is {said}; allowed is {allowed}")


def having(methods: str) -> Callable[[object, attrs.Attribute[Any], object], None]:
    """Return `has_methods` as a validator of an attrs field."""

    def check(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
        has_methods(value, attribute.name, methods)

    return check


def provider_name(value: str) -> str:
    """Return a provider's name as it is compared everywhere: in lower case.

    Raises:
        ConfigurationError: it is no text.
    """
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"the provider is {value!r}; allowed is text, such as 'ses'")
    return value.lower()


def provider_name_or_none(value: str | None) -> str | None:
    """Return a provider's name in lower case, None where nobody is named.

    Raises:
        ConfigurationError: it is no text.
    """
    return None if value is None else provider_name(value)


def check_limit(limit: int, name: str = "limit") -> int:
    """Return `limit` if it is a whole number >= 1, cut to what every store can count.

    Raises:
        ConfigurationError: it is not.
    """
    return min(whole(limit, name), 1_000_000_000)


def check_note(value: str, name: str, *, least: int = 0) -> str:
    """Return what a person has written, if it is text of `least` to 10,000 characters and not blank.

    Raises:
        ConfigurationError: it is not.
    """
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{name} is of type {type(value).__name__}; allowed is text")
    if len(value) > _NOTE or len(value.strip()) < least:
        raise ConfigurationError(f"{name} has {len(value.strip()):,} characters; allowed are {least} to {_NOTE:,}")
    return value
