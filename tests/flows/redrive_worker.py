"""A runner of redrives that may be killed at any moment: `python -m tests.flows.redrive_worker FOLDER`.

It runs all redrives on the SQLite file of the folder, until its standard input ends.
"""

from __future__ import annotations

import sys
import threading
from contextlib import closing
from pathlib import Path

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.redrive import Redriver
from tests.flows.kill_worker import end_with_parent

LEASE = 0.3
"""Seconds until another runner may go on with the redrive of one that was killed."""


def work(folder: Path) -> None:
    """Run redrives until the process is killed."""
    with closing(SQLiteBackend(folder / "flows.db", synchronous="normal")) as backend:
        runner = Redriver(backend, lease=LEASE, poll=0.01)
        print("ready", flush=True)
        runner.run()


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    work(Path(sys.argv[1]))
