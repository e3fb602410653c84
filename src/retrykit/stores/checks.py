"""Checks that several contracts share."""

from __future__ import annotations

from ..errors import ConfigurationError


def check_limit(limit: int, name: str = "limit") -> int:
    """Return `limit` if it is a whole number >= 1, cut to what every store can count.

    Raises:
        ConfigurationError: it is not.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{name} is {limit!r}; allowed are whole numbers >= 1")
    return min(limit, 1_000_000_000)
