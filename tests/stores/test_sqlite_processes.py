"""The SQLite backend under several processes: races, forks and deaths."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from retrykit.backends.sqlite import SQLiteBackend, connections
from retrykit.machines import claim as machine
from retrykit.stores import Claimed, ClaimState
from retrykit.testing import ManualClock
from tests.capabilities import require
from tests.stores import processes
from tests.stores.processes import in_child

require("fork")

PROCESSES = 3
# Python 3.12 and later warn of every fork beside threads; pytest-timeout and coverage may have some.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def race(work, *args):
    """Call `work` in several new processes at once and return their answers."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(PROCESSES), context.Queue()
    started = [context.Process(target=work, args=(*args, seed, barrier, answers)) for seed in range(PROCESSES)]
    for process in started:
        process.start()
    results = [answers.get(timeout=50) for _ in started]
    for process in started:
        process.join(50)
        assert process.exitcode == 0
    return results


def test_processes_opening_a_new_file_at_once_all_succeed(path):
    """One of them makes the tables, the others wait for it."""
    assert sorted(f"process-{seed}" for seed in range(PROCESSES)) == sorted(race(processes.open_at_once, path))


def test_forked_child_uses_the_backend_of_its_parent(path):
    """Each process has a connection of its own, and sees what the other wrote."""
    backend = SQLiteBackend(path)
    backend.claims.claim("parent", owner="parent")

    def child():
        seen = backend.claims.get("parent").lease.owner
        return seen, backend.claims.claim("child", owner="child").record

    seen, record = in_child(child)
    assert seen == "parent"
    assert record == backend.claims.get("child")
    backend.close()


def test_forked_child_of_a_child_uses_the_backend_too(path):
    """As process managers do that fork twice."""
    backend = SQLiteBackend(path)
    assert in_child(lambda: in_child(lambda: backend.claims.claim("k", owner="me").record.key)) == "k"
    assert backend.claims.get("k").lease.owner == "me"
    backend.close()


def test_what_a_forked_child_wrote_survives_the_close_of_its_parent(path):
    """SQLite would take the parent's locks for the child's own and throw its log away."""
    backend = SQLiteBackend(path)
    backend.claims.claim("parent", owner="parent")
    wrote, closed = os.pipe(), os.pipe()
    with ThreadPoolExecutor(1) as pool:

        def parent():
            os.read(wrote[0], 1)
            backend.close()
            os.write(closed[1], b"x")

        def child():
            backend.claims.claim("before", owner="child")
            os.write(wrote[1], b"x")
            os.read(closed[0], 1)
            backend.claims.claim("after", owner="child")
            reread = SQLiteBackend(path)
            return [reread.claims.get(key).lease.owner for key in ("parent", "before", "after")]

        closing = pool.submit(parent)
        assert in_child(child) == ["parent", "child", "child"]
        closing.result(30)
    for end in (*wrote, *closed):
        os.close(end)
    assert [key for key in ("parent", "before", "after") if backend.claims.get(key)] == ["parent", "before", "after"]
    backend.close()


def test_forks_beside_threads_that_write_harm_neither(path):
    """The threads go on with their work, and each child can write."""
    backend, stop = SQLiteBackend(path, synchronous="normal"), threading.Event()

    def write(name):
        number = 0
        while not stop.is_set():
            assert type(backend.claims.claim(f"{name}-{number}", owner=name)) is Claimed
            assert backend.claims.get(f"{name}-{number}").lease.owner == name
            number += 1
        return number

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, name) for name in "abc"]
        try:
            for number in range(5):
                answer = in_child(partial(backend.claims.claim, f"child-{number}", owner="child"))
                assert type(answer) is Claimed
        finally:
            stop.set()
        counts = [writer.result(30) for writer in writers]
    assert min(counts) > 0
    for name, count in zip("abc", counts, strict=True):
        assert backend.claims.get(f"{name}-{count - 1}").lease.owner == name
    assert {backend.claims.get(f"child-{number}").lease.owner for number in range(5)} == {"child"}
    backend.close()


def test_fork_in_the_middle_of_an_operation_leaves_the_parent_alone(path):
    """A clock that forks is absurd; a signal handler that forks is not."""

    class Forking(ManualClock):
        children = 0

        def now(self):
            if self.children:
                self.children -= 1
                assert in_child(lambda: "alive") == "alive"
            return super().now()

    clock = Forking()
    backend = SQLiteBackend(path, clock=clock)
    clock.children = 1
    record = backend.claims.claim("k", owner="me").record
    assert record == backend.claims.get("k")
    assert clock.children == 0
    backend.close()


def test_child_of_a_fork_that_python_did_not_see_sets_the_connections_aside(path, monkeypatch):
    """They are neither used nor closed there, since SQLite forbids both."""
    backend = SQLiteBackend(path)
    backend.claims.claim("parent", owner="parent")
    before = list(connections._inherited)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert backend.claims.claim("child", owner="child").record.key == "child"
    (inherited,) = [each for each in connections._inherited if each not in before]
    assert inherited.execute("SELECT count(*) FROM retrykit_claims").fetchone() == (2,)
    backend.close()
    monkeypatch.undo()
    connections._inherited.remove(inherited)
    inherited.close()


def test_killed_writer_leaves_a_sound_file_and_loses_nothing_that_was_answered(path, scale):
    """`kill -9` in the middle of claims, again and again."""
    backend = SQLiteBackend(path, synchronous="normal")
    answered = []
    for number in range(max(3, scale(300))):
        command = [sys.executable, "-m", "tests.stores.processes", path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            keys = [writer.stdout.readline().strip() for _ in range(5 + 7 * (number % 5))]
            writer.send_signal(signal.SIGKILL)
            keys += writer.stdout.read().split("\n")[:-1]
        answered += keys
        with contextlib.closing(sqlite3.connect(path)) as db:
            assert [("ok",)] == db.execute("PRAGMA integrity_check").fetchall()
        assert backend.claims.claim(f"after {number}", owner="me").record.seq == 1
    assert {ClaimState.SENDING} == {backend.claims.get(key).state for key in answered}
    assert backend.retries.stats().waiting >= len(answered)
    assert machine.is_unsettled(backend.claims.get(answered[0]), backend.claims.get(answered[0]).lease.deadline)
    backend.close()
