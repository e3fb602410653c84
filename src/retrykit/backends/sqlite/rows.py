"""How values stand in the tables, and what a damaged row leads to."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from ...errors import StoreCorruptError

__all__ = ["DAMAGE", "optional_text", "readable", "text"]

DAMAGE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a damaged row may run into."""


@contextmanager
def readable(what: str) -> Generator[None]:
    """Turn whatever a damaged record leads to into the contract's error."""
    try:
        yield
    except DAMAGE as error:
        raise StoreCorruptError(f"{what} cannot be read: {error}") from error


def text(value: str) -> str:
    """Return text as SQLite can hold it: it has no form for lone surrogates, so these are written as escapes."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def optional_text(value: str | None) -> str | None:
    """Return text as SQLite can hold it, None as it is."""
    return None if value is None else text(value)
