"""What a stored record that cannot be read leads to, whatever stores it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from ..errors import StoreCorruptError

__all__ = ["DAMAGE", "readable"]

DAMAGE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a damaged record may run into."""


@contextmanager
def readable(what: str) -> Generator[None]:
    """Turn whatever a damaged record leads to into the contract's error."""
    try:
        yield
    except DAMAGE as error:
        raise StoreCorruptError(f"{what} cannot be read: {error}") from error
