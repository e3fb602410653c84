"""What importing costs: `python benchmarks/imports.py`.

Each row is a new interpreter, the best of many rounds, timed inside; ratios to `import attrs` in the same run.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys

ROWS = {
    "import attrs": "import attrs",
    "import retrykit": "import retrykit",
    "retrykit.retry": "import retrykit; retrykit.retry",
    "retrykit.EMAIL_MATRIX": "import retrykit; retrykit.EMAIL_MATRIX",
    "retrykit.ErrorClassifier()": "import retrykit; retrykit.ErrorClassifier()",
    "retrykit.Dispatcher": "import retrykit; retrykit.Dispatcher",
}


def seconds(statement: str) -> float:
    """Return what a statement takes in a new interpreter."""
    program = f"import time; began = time.perf_counter(); {statement}; print(time.perf_counter() - began)"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="new interpreters for each row (default 30)")
    rounds = parser.parse_args().rounds
    best = dict.fromkeys(ROWS, float("inf"))
    for _ in range(rounds):  # row by row in turn, so that a busy moment hits all alike
        for name, statement in ROWS.items():
            best[name] = min(best[name], seconds(statement))
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, best of {rounds}")
    for name, value in best.items():
        print(f"{name:28} {value * 1000:7.2f} ms  {value / best['import attrs']:5.2f} x")


if __name__ == "__main__":
    main()
