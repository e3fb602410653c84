"""Cursors: where a search goes on, as text that survives a command line."""

from __future__ import annotations

from ..errors import ConfigurationError


def write_cursor(number: int) -> str:
    """Return the cursor of the row `number`: the next page holds rows before it."""
    return f"before-{number}"


def read_cursor(cursor: str) -> int:
    """Return the row number of a cursor.

    Raises:
        ConfigurationError: the text is not a cursor.
    """
    head, _, number = cursor.partition("-")
    if head != "before" or not number.isascii() or not number.isdigit() or len(number) > 18:
        raise ConfigurationError(f"the cursor is {cursor[:40]!r}; allowed is the cursor of the page before")
    return int(number)
