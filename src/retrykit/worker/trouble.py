"""What a worker depends on and cannot reach: asked again, never in a hot loop."""

from __future__ import annotations

import random
from typing import Final, cast

from ..clock import current_clock
from ..policy.backoff import Rng
from .health import Health
from .options import CheckedOptions

__all__ = ["Trouble"]

_PATIENCE: Final = 10.0
"""Seconds of failures in a row after which the process is not ready."""


class Trouble:
    """Failures in a row of one part, and when it is asked again.

    Args:
        part: what it is called where the health is told.
        options: have the waits.
        health: told when it lasts.
    """

    def __init__(self, part: str, options: CheckedOptions, health: Health) -> None:
        self._part = part
        self._options = options
        self._health = health
        self._clock = options.clock or current_clock()
        self._failures = 0
        self._since = 0.0
        self._again_at = 0.0

    def failed(self, error: BaseException) -> float:
        """Take in a failure; return the seconds until the part is asked again."""
        now = self._clock.monotonic()
        if not self._failures:
            self._since = now
        self._failures += 1
        delay = self._options.backoff.delay(self._failures, self._options.rng or cast("Rng", random))
        self._again_at = now + delay
        if now - self._since >= _PATIENCE:
            self._health.unready(self._part, f"{type(error).__name__}, {self._failures} times in a row")
        return delay

    def is_over(self) -> None:
        """Take in that the part works."""
        if self._failures:
            self._failures = 0
            self._again_at = 0.0
            self._health.ready(self._part)

    @property
    def left(self) -> float:
        """The seconds until the part is asked again."""
        return max(0.0, self._again_at - self._clock.monotonic())
