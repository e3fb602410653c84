"""How an operation is broken off: in its middle, by cancellation, and with its whole process."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar, cast

from .child import Child
from .colours import Driven
from .suite import BrokenClockError, Place, StoreSuite, SuiteClock

__all__ = ["TICKS", "broken_at_each_step", "call_cancelled", "cancelled_after", "interrupted", "said_before_kill"]

S = TypeVar("S")

TICKS: Final = 8
"""Rounds of the loop after which the operations of our own stores have ended."""


def broken_at_each_step(clock: SuiteClock, call: Callable[[], object]) -> Generator[bool]:
    """Make a call again and again, broken off one reading of the clock later each time, until it comes to its end.

    Yields:
        After each, whether it came to its end.
    """
    for step in count(1):
        clock.fails_at = step
        try:
            call()
        except BrokenClockError:
            yield False
        else:
            clock.fails_at = None
            yield True
            return


def call_cancelled(store: object, ticks: int, operation: str, /, *args: object, **kwargs: object) -> Any:
    """Call an operation of an asynchronous store and cancel it after some rounds of the loop; None when it was cancelled."""
    driven = cast("Driven", store)
    return driven.loop.call_cancelled(ticks, getattr(driven.driven, operation), *args, **kwargs)


class _Cancelled:
    """A store whose every operation is cancelled."""

    def __init__(self, store: object, ticks: int) -> None:
        self._store = store
        self._ticks = ticks

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(call_cancelled, self._store, self._ticks, name)


def cancelled_after(ticks: int, store: S) -> S:
    """Return an asynchronous store whose every operation is cancelled as by `call_cancelled`."""
    return cast("S", _Cancelled(store, ticks))


def interrupted(clock: SuiteClock, step: int, call: Callable[[], S]) -> tuple[bool, S | None]:
    """Make a call while one of its readings of the clock fails, counted from 1.

    Returns:
        Whether that broke it off, and otherwise its answer.
    """
    clock.fails_at = step
    try:
        return False, call()
    except BrokenClockError:
        return True, None
    finally:
        clock.fails_at = None


def said_before_kill(suite: StoreSuite[Any], place: Place, work: str, colour: str, *, kills: int = 3) -> list[Any]:
    """Let processes work without an end, kill each in the midst of it, and return all that they said was done."""
    said: list[Any] = []
    with ExitStack() as stack:
        children = [
            stack.enter_context(Child(suite, place, work, colour, by=f"process {number}")) for number in range(kills)
        ]
        for child in children:
            child.wait_until_ready()
            child.begin()
        for number, child in enumerate(children):
            said += child.said_until_killed(3 + number)
    return said
