"""Codes that no rule knows, announced once each."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

from ..clock import current_clock
from ..events import Listener, UnknownCode, emit, listeners_of
from ..failure import Failure

__all__ = ["UnknownCodes"]

MAX_CODES: Final = 1_000
"""Codes that are announced; servers that make up a new one for each answer are not followed further."""


class UnknownCodes:
    """Announces each code once.

    Args:
        on_event: the listeners.
    """

    __slots__ = ("_lock", "_seen", "listeners")

    def __init__(self, on_event: Iterable[Listener]) -> None:
        self.listeners: Final = listeners_of(on_event)
        self._seen: Final = set[tuple[str | None, str]]()
        self._lock: Final = threading.Lock()

    def met(self, failure: Failure, code: str | None) -> None:
        """Take in that no rule knows a code of a failure."""
        if not self.listeners or code is None:
            return
        key = (failure.provider, code)
        with self._lock:
            if key in self._seen or len(self._seen) >= MAX_CODES:
                return
            self._seen.add(key)
        emit(
            self.listeners, UnknownCode(at=current_clock().now(), provider=failure.provider, code=code, failure=failure)
        )
