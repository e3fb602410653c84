"""The command line: `retrykit`."""

from __future__ import annotations

import sys

from ..errors import MissingExtraError


def main() -> None:
    """Run the command line; without its extra, say how to install it."""
    try:
        from .app import app
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("click", "rich"):
            raise
        print(f"retrykit: {MissingExtraError('cli', package)}", file=sys.stderr)
        sys.exit(2)
    app()
