"""Whole workers that are told to stop at any moment: no message is lost, sent twice or blamed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest
from worker import SQLiteQueue

from retrykit import Message
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.decision import DispositionKind
from retrykit.stores import ClaimState, DeliveryStatus
from tests.worker.processes import ROOT, Worker

MODULE = "tests.worker.work_worker"


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the workers find the queue of the example."""
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "examples"), *([before] if before else [])]))


def put(folder: Path, count: int) -> None:
    queue = SQLiteQueue(folder / "queue.db")
    for number in range(count):
        queue.put(Message(f"m{number}", {}))
    queue._db.close()


def copies(folder: Path) -> int:
    queue = SQLiteQueue(folder / "queue.db")
    (count,) = queue._db.execute("SELECT count(*) FROM copies").fetchone()
    queue._db.close()
    return int(count)


def test_workers_that_are_told_to_stop_at_any_moment_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """Worker after worker is stopped, some with a second signal in the middle; each message is accepted exactly once."""
    rng, count = Random(7), 60
    put(tmp_path, count)
    for run in range(5):
        worker = Worker(MODULE, tmp_path, "sends", 30, 5)
        for _ in range(rng.randrange(1, 10)):
            worker.wait_until("begun")
        worker.send()
        if run % 2:
            worker.wait_until("quiet")
            worker.send()
        code, _ = worker.end()
        assert 0 == code
    last = Worker(MODULE, tmp_path, "sends", 30, 5)
    backend = SQLiteBackend(tmp_path / "work.db")
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline and backend.deliveries.counts().get(DeliveryStatus.SENT_TO_PROVIDER, 0) < count:
        time.sleep(0.05)
    last.send()
    assert 0 == last.end()[0]
    assert sorted(f"m{number}" for number in range(count)) == sorted((tmp_path / "accepted.txt").read_text().split())
    records = [backend.claims.get(f"m{number}") for number in range(count)]
    backend.close()
    assert {DispositionKind.SENT} == {record.disposition for record in records if record is not None}
    assert (count, 0) == (len(records), sum(record.counters.crashed for record in records if record is not None))


def test_worker_whose_handlers_hang_gives_all_back_in_time(tmp_path: Path) -> None:
    """What hangs is unknown, what nobody began is in the queue, and the process leaves with 0."""
    put(tmp_path, 7)
    worker = Worker(MODULE, tmp_path, "hangs", 0.9, 0.7)
    for _ in range(4):
        worker.wait_until("begun")
    worker.send()
    code, _ = worker.end()
    backend = SQLiteBackend(tmp_path / "work.db")
    records = [backend.claims.get(f"m{number}") for number in range(7)]
    backend.close()
    assert 0 == code
    assert [ClaimState.UNKNOWN] * 4 == [record.state for record in records if record is not None]
    assert 7 == copies(tmp_path)
    assert any("7 taken, 0 finished, 3 returned, 0 given back, 4 to be verified" in line for line in worker.said)


def test_worker_that_is_stuck_ends_as_a_failure(tmp_path: Path) -> None:
    """No zombie: whoever supervises it starts another."""
    put(tmp_path, 1)
    worker = Worker(MODULE, tmp_path, "sticks", 30, 5)
    code, logged = worker.end()
    assert (1, True) == (code, "WorkerStuckError: 1 handlers hang for more than 0.2 s" in logged)
    assert 1 == copies(tmp_path)


def test_example_worker_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """It sends, prints its report, and leaves with 0."""
    script = str(ROOT / "examples" / "worker.py")
    assert 0 == Worker(script, tmp_path, "put", 12).end()[0]
    worker = Worker(script, tmp_path)
    worker.wait_until("sent ")  # any: each tenth is greylisted
    worker.send()
    code, _ = worker.end()
    assert (0, True) == (code, any(line.startswith("SIGTERM, 12 taken, ") for line in worker.said))


def test_worker_whose_store_is_down_at_the_hard_limit_says_so_and_fails(tmp_path: Path) -> None:
    """Its log names what could not be given back, its exit code is 1, and it has left before the platform would kill it."""
    put(tmp_path, 2)
    worker = Worker(MODULE, tmp_path, "locks", 6, 4)
    for _ in range(2):
        worker.wait_until("begun")
    worker.wait_until("locked")
    worker.send()
    began = time.monotonic()
    code, logged = worker.end()
    took = time.monotonic() - began
    assert (1, True) == (code, took < 6)
    stopped = [line for line in logged.splitlines() if "could not be given back before the process had to stop" in line]
    assert 1 == len(stopped)
    assert {"'m0'", "'m1'"} <= set(stopped[0].replace(";", ",").replace(",", " ").split())
    assert "the process does not end by itself and is left behind" in logged  # another thread waits for the store


def test_worker_whose_queue_does_not_answer_leaves_in_time(tmp_path: Path) -> None:
    """Its claims were given back before, so nothing is lost and nobody is blamed."""
    put(tmp_path, 2)
    worker = Worker(MODULE, tmp_path, "unreachable", 5, 4)
    for _ in range(2):
        worker.wait_until("begun")
    worker.send()
    began = time.monotonic()
    code, logged = worker.end()
    took = time.monotonic() - began
    assert (0, True) == (code, took < 5)
    assert "the worker does not end by itself and is left behind" in logged
    backend = SQLiteBackend(tmp_path / "work.db")
    records = [backend.claims.get(f"m{number}") for number in range(2)]
    backend.close()
    assert [(ClaimState.UNKNOWN, 1)] * 2 == [(each.state, each.counters.interrupted) for each in records if each]


@pytest.mark.parametrize(("spare", "expected"), [(0, 1), (9, 0)], ids=["stuck", "told to stop"])
def test_worker_whose_handlers_take_no_cancellation_leaves_at_the_limit(spare: int, expected: int) -> None:
    """Its loop could not be closed for ever: no zombie, and a failure only where it was one."""
    worker = Worker("tests.worker.stubborn_worker", spare, 1.0)
    worker.wait_until("back ")
    if spare:
        worker.wait_until("back ")
        worker.send()
    code, logged = worker.end()
    assert (expected, True) == (code, "a handler that takes no cancellation does not end by itself" in logged)
    assert (spare == 0) == ("handlers hang for more than 0.2 s" in logged)
