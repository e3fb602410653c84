"""Figures that a store counts by going through what it has, which takes long where that is a lot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, Generic, TypeVar, cast

import attrs

from ..clock import Clock, current_clock

__all__ = ["Figure", "Figures"]

T = TypeVar("T")

_REST: Final = 50
"""How many times as long as it was counted a figure is shown: counting keeps a store busy for a fiftieth of the time at most."""
_QUICK: Final = 0.02
"""Seconds in which a figure may be counted for everybody who looks."""


@attrs.frozen
class Figure(Generic[T]):
    """What was counted."""

    value: T
    at: datetime
    """When."""
    until: float
    """When it is to be counted again, by the clock's monotonic time."""


class Figures:
    """Remembers what took long to count, for a time in proportion to that. What is counted quickly is counted for each page.

    Args:
        clock: where the time comes from; None: the clock in force.
    """

    def __init__(self, clock: Clock | None) -> None:
        self._clock: Final = clock
        self._known = dict[str, Figure[object]]()

    async def of(self, name: str, count: Callable[[], Awaitable[T]]) -> Figure[T]:
        """Return a figure as it was counted last, or count it.

        Args:
            name: which figure.
            count: counts it.
        """
        clock = self._clock or current_clock()
        known = cast("Figure[T] | None", self._known.get(name))
        began = clock.monotonic()
        if known is None or began >= known.until:
            value = await count()
            ended = clock.monotonic()
            took = ended - began
            known = Figure(value, clock.now(), ended + (_REST * took if took > _QUICK else 0))
            self._known[name] = cast("Figure[object]", known)
        return known
