"""The signals of the memory backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Final

from ..stores.signals import SignalChange, Signals, SignalStore

__all__ = ["MemorySignals"]


class MemorySignals(SignalStore):
    """Records of signals.

    Args:
        locked: holds the backend's lock, and gives the instant of the operation.
    """

    def __init__(self, locked: Callable[[], AbstractContextManager[datetime]]) -> None:
        self._locked: Final = locked
        self._known: dict[str, Signals] = {}

    def _change(self, name: str, change: SignalChange) -> Signals:
        with self._locked() as now:
            self._known[name] = changed = change(self._known.get(name), now)
            return changed

    def _get(self, name: str) -> Signals | None:
        with self._locked():
            return self._known.get(name)

    def _names(self) -> Sequence[str]:
        with self._locked():
            return list(self._known)

    def _mend(self, name: str) -> bool:
        return False  # nothing is written down that could be damaged
