"""The examples are programs that run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

UNTIL_TOLD = {"worker.py", "worker_rabbitmq.py", "worker_redis_streams.py"}
"""Programs that run until they are told to stop; tests/worker starts the first, and the sources of the others."""

EXAMPLES = sorted(
    path for path in (Path(__file__).parent.parent / "examples").glob("*.py") if path.name not in UNTIL_TOLD
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs_to_its_end(example: Path, tmp_path: Path) -> None:
    """Each example ends well, in a folder of its own, and says something."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_examples_exist() -> None:
    """An empty folder would pass the test above."""
    assert EXAMPLES
