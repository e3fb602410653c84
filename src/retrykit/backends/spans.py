"""Windows of time, cut into spans that are counted as a whole. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..stores.dead_letter_query import DeadLetterQuery
from ..times import to_millis

__all__ = ["Piece", "pieces", "window"]

Piece: TypeAlias = tuple[int, int | None, int | None]
"""A length in milliseconds, and from which to before which multiple of it; None: without an end."""


def window(query: DeadLetterQuery) -> tuple[int | None, int | None]:
    """Return a query's window in milliseconds: the first, and the one after the last."""
    since, until = query.since, query.until
    return None if since is None else to_millis(since), None if until is None else to_millis(until)


def pieces(start: int | None, end: int | None, lengths: Sequence[int]) -> list[Piece]:
    """Cut a window into pieces of whole lengths, as long as can be.

    Args:
        start: the first millisecond, or None; a multiple of the shortest length.
        end: the one after the last, or None; a multiple as well.
        lengths: in milliseconds, ascending, each a multiple of the one before.

    Returns:
        The pieces, none of them empty; they do not overlap, and are all of the window.

    Example:
        >>> pieces(50, 250, (1, 100))
        [(1, 50, 100), (1, 200, 250), (100, 1, 2)]
    """
    if start is not None and end is not None and start >= end:
        return []
    length, *longer = lengths
    if longer:
        inner_start = None if start is None else -(-start // longer[0]) * longer[0]
        inner_end = None if end is None else end // longer[0] * longer[0]
        if inner_start is None or inner_end is None or inner_start < inner_end:
            outer = [] if start is None else pieces(start, inner_start, [length])
            outer += [] if end is None else pieces(inner_end, end, [length])
            return outer + pieces(inner_start, inner_end, longer)
    return [(length, None if start is None else start // length, None if end is None else end // length)]
