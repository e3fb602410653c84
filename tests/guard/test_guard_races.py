"""Many callers of one key: one does the work, all get its result, whoever is killed when."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from retrykit.backends.memory import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.errors import AlreadyInProgressError
from retrykit.guard import IdempotencyGuard
from tests.guard.guard_worker import Provider, make_guard

ROOT = Path(__file__).parents[2]
THREADS = 8
WORKERS = 3


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


class Crew:
    """Worker processes on one folder."""

    def __init__(self, folder: Path, keys: int, seed: int) -> None:
        self._folder = folder
        self._keys = keys
        self._rng = Random(seed)
        self._workers: list[subprocess.Popen[str]] = []

    def fill(self) -> None:
        """Start as many workers as are missing."""
        while len(self._workers) < WORKERS:
            arguments = [str(self._folder), str(self._rng.randrange(10**9)), str(self._keys)]
            command = [sys.executable, "-m", "tests.guard.guard_worker", *arguments]
            self._workers.append(
                subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )

    def kill_one(self) -> None:
        """Kill a worker at some moment after it has begun."""
        worker = self._workers.pop(self._rng.randrange(WORKERS))
        assert worker.stdout is not None and worker.stdin is not None
        worker.stdout.readline()
        try:
            worker.wait(self._rng.random() * 0.3)
        except subprocess.TimeoutExpired:
            worker.kill()
        worker.wait(30)
        worker.stdin.close()
        worker.stdout.close()

    def close(self) -> None:
        """End those that are left: each ends when its standard input does."""
        for worker in self._workers:
            worker.communicate(timeout=60)
        self._workers.clear()


@pytest.mark.soak
def test_workers_killed_in_the_middle_each_effect_happens_once(tmp_path: Path, scale: Callable[[int], int]) -> None:
    """1,000 are killed in a soak; what was lost in the middle is looked up, and nothing is done twice or left undone."""
    kills = max(20, scale(1_000))
    keys = kills * 4
    crew = Crew(tmp_path, keys, seed=1)
    try:
        for _ in range(kills):
            crew.fill()
            crew.kill_one()
    finally:
        crew.close()
    provider, backend = Provider(tmp_path), SQLiteBackend(tmp_path / "guard.db")
    guard = make_guard(backend, provider)
    results = {key: guard.call(key, lambda key=key: provider.book(key)) for key in map("key {}".format, range(keys))}
    booked = provider.receipts()
    assert {key: [receipt] for key, receipt in results.items()} == booked
    records = [record for key in results if (record := backend.claims.get(key)) is not None]
    crashed = sum(record.counters.crashed for record in records)
    backend.close()
    print({"kills": kills, "keys": keys, "lost in the middle": crashed})
    assert crashed > 0
