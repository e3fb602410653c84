"""Checks of values that are given in many places."""

from __future__ import annotations

from .errors import ConfigurationError

__all__ = ["check_limit", "whole"]


def whole(value: int, name: str, *, least: int = 1) -> int:
    """Return `value` if it is a whole number >= `least`.

    Raises:
        ConfigurationError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{name} is {value!r}; allowed are whole numbers >= {least}")
    return value


def check_limit(limit: int, name: str = "limit") -> int:
    """Return `limit` if it is a whole number >= 1, cut to what every store can count.

    Raises:
        ConfigurationError: it is not.
    """
    return min(whole(limit, name), 1_000_000_000)
