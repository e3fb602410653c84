"""Real processes and real signals: what is finished, what is given back, and how soon the process has left."""

from __future__ import annotations

import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.clock import SystemClock
from retrykit.stores import ClaimRecord, ClaimState
from tests.capabilities import require
from tests.worker.processes import Worker

require("trio")

LONG, SHORT = (30, 5), (0.9, 0.6)
"""A limit and its reserve, in seconds."""


def start(way: str, folder: Path, limits: tuple[float, float]) -> Worker:
    return Worker("tests.worker.stop_worker", way, folder, *limits)


def left_behind(folder: Path) -> tuple[ClaimRecord, int]:
    """Return the claim of the message, and how many copies of it are in the retry queue."""
    backend = SQLiteBackend(folder / "stop.db")
    record = backend.claims.get("m1")
    copies = backend.retries.stats().waiting
    backend.close()
    assert record is not None
    return record, copies


def report(worker: Worker) -> str:
    (line,) = [line for line in worker.said if line.startswith("report")]
    return line


@pytest.mark.parametrize(
    ("way", "number"),
    [
        ("ends", signal.SIGTERM),
        ("ends", signal.SIGINT),
        ("asyncio", signal.SIGINT),
        ("asyncio", signal.SIGTERM),
        ("trio", signal.SIGINT),
    ],
)
def test_signal_in_mid_send_lets_the_send_end(way: str, number: signal.Signals, tmp_path: Path) -> None:
    """What runs is finished, nothing new is taken, and the process leaves with 0 long before its limit."""
    worker = start(way, tmp_path, LONG)
    worker.wait_until("begun")
    worker.send(number)
    code, _ = worker.end()
    assert (0, True) == (code, report(worker).startswith(f"report {number.name}, 1 taken, 1 finished, 0 returned"))
    assert "idle" not in worker.said
    assert ClaimState.DONE is left_behind(tmp_path)[0].state


@pytest.mark.parametrize("way", ["ends", "trio"])
def test_signal_while_idle_ends_the_process_at_once(way: str, tmp_path: Path) -> None:
    """A source that waits keeps nobody."""
    worker = start(way, tmp_path, LONG)
    worker.wait_until("idle")
    worker.send()
    code, _ = worker.end()
    assert (0, True) == (code, ", 1 finished" in report(worker))


@pytest.mark.parametrize("way", ["hangs", "unnamed", "thread", "asyncio hangs", "trio hangs"])
def test_send_that_hangs_is_given_back_at_the_hard_limit(way: str, tmp_path: Path) -> None:
    """It may have been sent: unknown, which counts as no try, and the process leaves with 0."""
    worker = start(way, tmp_path, SHORT)
    worker.wait_until("begun")
    worker.send()
    code, logged = worker.end()
    record, copies = left_behind(tmp_path)
    assert (0, ClaimState.UNKNOWN) == (code, record.state)
    assert (1, 0, 0) == (record.counters.interrupted, record.counters.failed, record.counters.crashed)
    assert "the time for what runs is over, it is given back" in logged
    if way != "unnamed":  # nobody told the shutdown whose message it was
        assert (1, True) == (copies, "1 to be verified" in report(worker))


def test_render_that_hangs_is_given_back_free(tmp_path: Path) -> None:
    """Its send had not begun: anybody may go on at once, and a copy is in the retry queue."""
    worker = start("renders", tmp_path, SHORT)
    worker.wait_until("begun")
    worker.send()
    code, _ = worker.end()
    record, copies = left_behind(tmp_path)
    assert (0, ClaimState.FREE, 1, 1) == (code, record.state, record.counters.interrupted, copies)
    assert "1 given back, 0 to be verified" in report(worker)


@pytest.mark.parametrize("way", ["hangs", "asyncio hangs"])
def test_second_signal_ends_the_drain(way: str, tmp_path: Path) -> None:
    """It does not wait for the limit."""
    worker = start(way, tmp_path, LONG)
    worker.wait_until("begun")
    worker.send()
    worker.wait_until("quiet")
    worker.send()
    began = time.monotonic()
    code, _ = worker.end()
    assert (0, ClaimState.UNKNOWN, True) == (
        code,
        left_behind(tmp_path)[0].state,
        time.monotonic() - began < LONG[0] / 2,
    )


@pytest.mark.parametrize("way", ["waits", "asked"])
def test_wait_for_a_retry_is_handed_to_the_retry_queue(way: str, tmp_path: Path) -> None:
    """An hour's wait in the process ends with the signal, and goes on in the retry queue."""
    worker = start(way, tmp_path, LONG)
    worker.wait_until("begun")
    worker.send()
    code, _ = worker.end()
    record, copies = left_behind(tmp_path)
    assert (0, ClaimState.WAITING, 1) == (code, record.state, copies)
    assert record.not_before is not None
    assert timedelta(minutes=50) < record.not_before - SystemClock().now() < timedelta(minutes=70)


def test_handler_of_a_framework_is_called_and_restored(tmp_path: Path) -> None:
    """The framework's own shutdown goes on beside ours."""
    worker = start("framework", tmp_path, LONG)
    worker.wait_until("begun")
    worker.send()
    code, _ = worker.end()
    assert (0, True, True) == (code, "framework told" in worker.said, "restored <lambda>" in worker.said)


def test_forked_child_ends_by_the_signal(tmp_path: Path) -> None:
    """It has no thread that listens, so the signal does what it did before, and the parent goes on."""
    worker = start("child", tmp_path, LONG)
    code, _ = worker.end()
    assert (0, True) == (code, "child -15 False" in worker.said)


def test_platform_that_kills_after_its_grace_finds_nobody(tmp_path: Path) -> None:
    """Kubernetes sends SIGTERM, and SIGKILL after the grace: even a main thread that swallows everything has been left behind by then."""
    worker = start("deaf", tmp_path, (1.5, 1.4))
    worker.wait_until("begun")
    worker.send()
    code, logged = worker.end(patience=4.0)
    record, _ = left_behind(tmp_path)
    assert (0, 1, 0) == (code, record.counters.interrupted, record.counters.crashed)
    assert "the main thread does not end by itself and is left behind" in logged
