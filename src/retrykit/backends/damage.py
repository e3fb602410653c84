"""What a stored record that cannot be read leads to, whatever stores it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Final

from ..errors import StoreCorruptError
from ..stores import DueMessage

__all__ = ["DAMAGE", "due_messages", "readable"]

_logger = logging.getLogger("retrykit.backends")

DAMAGE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a damaged record may run into."""


@contextmanager
def readable(what: str) -> Generator[None]:
    """Turn whatever a damaged record leads to into the contract's error."""
    try:
        yield
    except DAMAGE as error:
        raise StoreCorruptError(f"{what} cannot be read: {error}") from error


def due_messages(found: Iterable[tuple[str, Callable[[], DueMessage]]]) -> list[DueMessage]:
    """Return what is due, in its order; one that is damaged does not hold up the others: it stays, and is reported at each of its turns.

    Args:
        found: the message id of each entry, and what reads it.
    """
    due: list[DueMessage] = []
    for message_id, read in found:
        try:
            due.append(read())
        except DAMAGE as error:
            _logger.error(  # noqa: TRY400 - the traceback tells nothing more
                "the waiting message %r cannot be read: %s; it stays in the retry queue, and has to be repaired by hand",
                message_id,
                error,
            )
    due.sort(key=lambda entry: (entry.due_at, entry.message.id, entry.generation))
    return due
