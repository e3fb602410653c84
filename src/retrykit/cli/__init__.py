"""The command line: `retrykit`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; without its extra, say how to install it."""
    try:
        from .app import app
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("click", "rich"):
            raise
        sys.exit(f"retrykit: {package!r} is not installed; install it with: pip install 'retrykit[cli]'")
    app()
