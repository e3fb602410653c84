"""What many processes noted while some of them stood still past their leases: one live holder at a time, and no late write counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from retrykit.backends.sqlite import SQLiteBackend
from tests.guard.crew import Crew
from tests.guard.guards import stored
from tests.guard.history import Checked, History
from tests.guard.outbox_worker import Shop

LEASE = 0.2

KEYS = 100_000
"""More than are worked on before all stalls are over."""


@pytest.fixture
def stalls(scale: Callable[[int], int]) -> int:
    """How often a process stands still: 300 times in a soak."""
    return max(8, scale(300))


def stall(module: str, folder: Path, stalls: int, seen: Callable[[Checked], int]) -> None:
    """Let four processes work on nearly the same keys, and one after the other stand still for longer than its lease."""
    crew = Crew(module, folder, seed=6, window=KEYS, step=0, spread=10, size=4, more=(str(LEASE),))
    history = History(folder)
    try:
        crew.fill()
        while stalls > 0 or not seen(history.check()):
            crew.stall_one(LEASE * 3)
            stalls -= 1
    finally:
        crew.close()
        history.close()


@pytest.mark.soak
def test_processes_that_stall_past_their_lease_hold_no_key_together_and_store_no_late_result(
    tmp_path: Path, stalls: int
) -> None:
    """Calls that may happen twice are repeated meanwhile; the record never tells the result of an earlier holder."""
    stall("stall_worker", tmp_path, stalls, lambda checked: checked.handed_over)
    history = History(tmp_path)
    checked = history.check()
    history.close()
    last = checked.last
    backend = SQLiteBackend(tmp_path / "guard.db")
    records = {key: backend.claims.get(stored(key)) for key in last}
    backend.close()
    for key, record in records.items():
        assert record is not None and record.result in (None, str(last[key])), (key, record, last[key])
    print({"stalls": stalls, "keys": len(last), "taken over": checked.handed_over})


@pytest.mark.soak
def test_processes_that_stall_past_their_lease_commit_nothing_late(tmp_path: Path, stalls: int) -> None:
    """Their completion is refused and their transaction rolled back: one effect for each key, that of its last holder."""
    stall("outbox_worker", tmp_path, stalls, lambda checked: checked.refused)
    shop, history = Shop(tmp_path), History(tmp_path)
    checked = history.check()
    results = {key: shop.guard.call(key, shop.place, key, Random(7), history) for key in checked.last}
    assert {key: [receipt] for key, receipt in results.items()} == shop.receipts()
    shop.close()
    history.close()
    print({"stalls": stalls, "keys": len(results), "late completions refused": checked.refused})
