"""The SQLite backend beside many threads, and under interruptions at any point of an operation."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.errors import StoreUnavailableError
from retrykit.message import Message
from retrykit.stores import Claimed
from retrykit.testing import ManualClock

THREADS = 8


def in_threads(work):
    """Call `work(number)` in all threads at once and return the results."""
    barrier = threading.Barrier(THREADS)

    def begin(number):
        barrier.wait(30)
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def test_writer_waits_for_another_thread_no_longer_than_the_timeout(path):
    """Then the store is unavailable, as it is when another process holds the file."""
    entered, release = threading.Event(), threading.Event()

    class Slow(ManualClock):
        def now(self):
            if threading.current_thread() is not threading.main_thread():
                entered.set()
                assert release.wait(30)
            return super().now()

    backend = SQLiteBackend(path, clock=Slow(), busy_timeout=0)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(backend.claims.claim, "slow", owner="other")
        assert entered.wait(30)
        with pytest.raises(StoreUnavailableError) as caught:
            backend.claims.claim("k", owner="me")
        assert backend.claims.get("k") is None
        release.set()
        assert type(slow.result(30)) is Claimed
    assert str(caught.value) == f"{path} cannot be written now: other threads held it for 0 s"
    assert type(backend.claims.claim("k", owner="me")) is Claimed
    backend.close()


def open_files(path):
    """Return how often this process has the file open."""
    names = []
    for number in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return names.count(str(path))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_connections_are_closed_when_their_threads_end_and_on_close(path):
    """However many threads come and go, no more files are open than threads lived at once, and none after `close`."""
    backend = SQLiteBackend(path)
    for _ in range(5):
        in_threads(lambda number: backend.claims.claim(f"{number}", owner="me"))
    gc.collect()
    assert open_files(path) <= THREADS + 1
    turn = threading.Barrier(2)

    def stay():
        backend.claims.get("0")
        turn.wait(30)
        turn.wait(30)

    thread = threading.Thread(target=stay)
    thread.start()
    turn.wait(30)
    backend.close()
    assert open_files(path) == 0
    turn.wait(30)
    thread.join()
    assert backend.claims.get("0").key == "0"
    assert open_files(path) == 1
    backend.close()
    assert open_files(path) == 0


def test_backend_without_close_leaves_no_warning(path):
    """Threads that end, backends that are dropped or fail to open and the end of the program close what was opened."""
    program = """if True:
        import gc, sys, threading
        sys.argv[0] = sys.argv[1] + "/no folder"
        from retrykit.backends.sqlite import SQLiteBackend
        for _ in range(2):
            backend = SQLiteBackend(sys.argv[1])
            thread = threading.Thread(target=backend.claims.claim, args=["k"], kwargs={"owner": "me"})
            thread.start()
            thread.join()
            cycle = [backend]
            cycle.append(cycle)
        del backend, thread, cycle
        gc.collect()
        try:
            SQLiteBackend(sys.argv[0])
        except OSError as error:
            failed = error
        kept = SQLiteBackend(sys.argv[1])
        print(kept.claims.get("k").key)
    """
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", program, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "k\n", "")


def test_end_of_the_program_closes_no_connection_that_a_thread_uses(path):
    """SQLite would crash the process: a worker that hangs may come back just then."""
    program = """if True:
        import sys, threading, time
        from itertools import count
        from retrykit.backends.sqlite import SQLiteBackend
        backend = SQLiteBackend(sys.argv[1])
        begun = threading.Barrier(5)
        def work(name):
            for number in count():
                backend.claims.claim(f"{name}-{number}", owner="me")
                if number == 20:
                    begun.wait(30)
        for name in range(4):
            threading.Thread(target=work, args=[name], daemon=True).start()
        begun.wait(30)
        backend.close()
        time.sleep(0.05)  # they go on, on connections of their own
    """
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program, path], timeout=50, check=False)
        assert done.returncode == 0


def test_close_by_another_thread_waits_for_the_operation_that_runs(path):
    """SQLite must not lose a connection under a running statement."""
    entered, release = threading.Event(), threading.Event()

    class Slow(ManualClock):
        def now(self):
            entered.set()
            assert release.wait(30)
            return super().now()

    backend = SQLiteBackend(path, clock=Slow())
    with ThreadPoolExecutor(2) as pool:
        claim = pool.submit(backend.claims.claim, "k", owner="me")
        assert entered.wait(30)
        closing = pool.submit(backend.close)
        assert closing.done() is False
        release.set()
        closing.result(30)
        assert claim.result(30).record == backend.claims.get("k")
    backend.close()


def test_close_in_the_middle_of_an_operation_of_the_same_thread_does_not_wait_for_itself(path):
    """A signal handler that closes the backend neither hangs nor harms what it interrupted."""

    class Closing(ManualClock):
        backend = None

        def now(self):
            if self.backend is not None:
                self.backend.close()
            return super().now()

    clock = Closing()
    clock.backend = backend = SQLiteBackend(path, clock=clock)
    record = backend.claims.claim("k", owner="me").record
    assert record == backend.claims.get("k")
    clock.backend = None
    backend.close()


class InterruptAt:
    """Raise KeyboardInterrupt right after the n-th call into SQLite has returned, as a signal may."""

    def __init__(self, number):
        self.left = number

    def __call__(self, _frame, event, function):
        if event == "c_return" and isinstance(getattr(function, "__self__", None), sqlite3.Connection | sqlite3.Cursor):
            self.left -= 1
            if self.left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    def __enter__(self):
        sys.setprofile(self)

    def __exit__(self, *_):
        sys.setprofile(None)


OPERATIONS = {
    "claim": lambda backend: backend.claims.claim("k", owner="me"),
    "get": lambda backend: backend.claims.get("k"),
    "schedule": lambda backend: backend.retries.schedule(Message("m", 1), ManualClock().now()),
    "claim_due": lambda backend: backend.retries.claim_due(owner="me"),
    "pause": lambda backend: backend.circuits.pause("campaign:x", reason="r", by="me"),
    "pauses": lambda backend: backend.circuits.pauses(),
}


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
@pytest.mark.parametrize("prepared", [True, False], ids=["prepared", "fresh connection"])
def test_operation_interrupted_anywhere_leaves_the_store_usable(path, operation, prepared):
    """No transaction stays open, no lock stays held, and the operation may be repeated."""
    call, number, interrupted = OPERATIONS[operation], 0, True
    while interrupted:
        number += 1
        backend = SQLiteBackend(path, busy_timeout=0)
        if not prepared:
            backend.close()
        try:
            with InterruptAt(number):
                call(backend)
            interrupted = False
        except KeyboardInterrupt:
            pass
        call(backend)
        with ThreadPoolExecutor(1) as pool:
            assert type(pool.submit(backend.claims.claim, "other", owner="thread").result(30)) is Claimed
        backend.close()
        path.unlink()
    assert number >= 2
