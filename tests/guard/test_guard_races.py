"""Many threads that call one key: one does the work, all get its result."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from retrykit.backends.memory import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.errors import AlreadyInProgressError
from retrykit.guard import IdempotencyGuard, current_hold

THREADS = 8


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = MemoryBackend() if request.param == "memory" else SQLiteBackend(tmp_path / "guard.db")
    yield made
    made.close()


def at_once(work: Callable[[int], object]) -> None:
    start = threading.Barrier(THREADS)

    def run(number: int) -> None:
        start.wait()
        work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("key", range(5))
def test_threads_racing_for_a_key_one_does_the_work_and_all_get_the_result(backend: Any, key: int) -> None:
    """Those who wait get it when it is there."""
    guard, done, results = IdempotencyGuard(backend.claims, wait="30s"), list[int](), list[Any]()

    def work(number: int) -> int:
        done.append(number)
        return number

    at_once(lambda number: results.append(guard.call(f"key {key}", work, number)))
    assert len(done) == 1
    assert results == done * THREADS


@pytest.mark.parametrize("key", range(3))
def test_threads_racing_with_transactions_of_their_own_one_commits_and_all_get_the_result(
    tmp_path: Path, key: int
) -> None:
    """Each on a connection of its own; the losers find it done."""
    backend, results = SQLiteBackend(tmp_path / "guard.db", synchronous="normal"), list[Any]()
    guard = IdempotencyGuard(backend.claims, transactional=True, wait="30s")

    def place(db: sqlite3.Connection, number: int) -> int:
        with db:
            db.execute("INSERT INTO orders VALUES (?)", (number,))
            guard.complete(current_hold(), number, within=backend.using(db).claims)
        return number

    def race(number: int) -> None:
        with closing(sqlite3.connect(tmp_path / "guard.db", timeout=30)) as db:
            results.append(guard.call(f"key {key}", place, db, number))

    with closing(sqlite3.connect(tmp_path / "guard.db")) as db:
        db.execute("CREATE TABLE orders (number INTEGER)")
        at_once(race)
        (winner,) = (number for (number,) in db.execute("SELECT number FROM orders"))
    assert results == [winner] * THREADS
    backend.close()


def test_threads_that_do_not_wait_are_told_to_come_again(backend: Any) -> None:
    """While the one is at work."""
    guard, entered, leave = IdempotencyGuard(backend.claims), threading.Event(), threading.Event()

    def work() -> str:
        entered.set()
        leave.wait(30)
        return "receipt"

    holder = threading.Thread(target=guard.call, args=("k", work))
    holder.start()
    assert entered.wait(30)
    refused: list[AlreadyInProgressError] = []

    def knock(_: int) -> None:
        try:
            guard.call("k", work)
        except AlreadyInProgressError as error:
            refused.append(error)

    at_once(knock)
    leave.set()
    holder.join()
    assert [0 < error.retry_after <= 30 for error in refused] == [True] * THREADS
    assert guard.call("k", work) == "receipt"
