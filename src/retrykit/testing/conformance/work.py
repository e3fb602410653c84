"""What other processes do to a store while a suite watches. Each function gets the store and returns JSON."""

from __future__ import annotations

from ...codec import JSON
from ...stores.circuits import CircuitStore

__all__ = ["pause_many"]


def pause_many(store: CircuitStore, keys: list[str], by: str) -> JSON:
    """Pause all keys, and return the pauses in force afterwards."""
    for key in keys:
        store.pause(key, reason="a race", by=by)
    return [pause.key for pause in store.pauses()]
