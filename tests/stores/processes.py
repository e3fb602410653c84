"""Other processes for the tests of the SQLite backend: forked ones here, spawned ones by these functions' names."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.message import Message


def in_child(fn, *, unprivileged=False):
    """Fork, call `fn` in the child and return its result; an error of the child is raised here as text.

    An unprivileged child runs as nobody where this process is root, so that file permissions bind it.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if unprivileged and os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            result = (True, fn())
        except BaseException:  # noqa: BLE001 - all of it goes to the parent
            result = (False, traceback.format_exc())
        os.write(writer, pickle.dumps(result))
        if unprivileged:
            os.kill(os.getpid(), signal.SIGKILL)  # nothing is to be written on the way out
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    succeeded, result = pickle.loads(data)
    assert succeeded, result
    return result


def open_at_once(path, seed, barrier, answers):
    """Open a file that does not exist yet, together with others."""
    barrier.wait(30)
    backend = SQLiteBackend(path)
    answers.put(backend.claims.claim(f"process-{seed}", owner="me").record.key)
    backend.close()


def write_for_ever(path):
    """Claim, settle and schedule without an end, and print each key whose operations were answered."""
    backend = SQLiteBackend(path, synchronous="normal")
    number = 0
    while True:
        key = f"{os.getpid()}-{number}"
        record = backend.claims.claim(key, owner="me").record
        assert backend.claims.begin_send(key, record.seq, lease=30)
        backend.retries.schedule(Message(key, {"n": number}), record.opened_at)
        print(key, flush=True)
        number += 1


if __name__ == "__main__":
    write_for_ever(sys.argv[1])
