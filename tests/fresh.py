"""A new interpreter, for tests of what an import loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def run_fresh(program: str) -> object:
    """Run `program` in a new interpreter and return what it prints as JSON.

    Coverage does not follow, since it would load modules itself; nor do Python's own environment variables but the path.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTHON"))}
    environment = kept | {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
