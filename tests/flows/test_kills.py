"""Real processes on one SQLite file, killed at random moments: nothing is lost and nothing is sent twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.flows.workshop import Workshop

pytestmark = pytest.mark.unmeasured


@pytest.mark.soak
def test_workers_killed_at_random_every_message_ends_in_one_place(tmp_path: Path, scale: Callable[[int], int]) -> None:
    """300 workers are killed in a soak, while three at a time handle, republish and verify; then the rest go on."""
    workshop = Workshop(f"sqlite:///{tmp_path}/flows.db", tmp_path, seed=1)
    try:
        workshop.survive(max(5, scale(300)))
        with closing(sqlite3.connect(tmp_path / "flows.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        workshop.close()


def test_worker_ends_when_its_parent_is_gone(tmp_path: Path) -> None:
    """No worker outlives the test that started it."""
    workshop = Workshop(f"sqlite:///{tmp_path}/flows.db", tmp_path, seed=2)
    try:
        workshop.start()
        for worker in workshop.workers:
            assert worker.stdin is not None and worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
            worker.stdin.close()
            assert worker.wait(30) == 0
            worker.stdin = None
    finally:
        workshop.close()
