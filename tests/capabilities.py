"""What a test module may need of the machine it runs on, and what happens when that is absent.

A module that needs something says so before it imports it::

    from tests.capabilities import require

    require("trio")

On a laptop without it the module is not collected, and the header of the run says what is absent. Where `CI` is set the
collection fails instead: there, everything must run.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
from collections.abc import Callable


class AbsentCapabilityError(Exception):
    """A test module needs something that this machine does not have."""


def _loopback() -> bool:
    try:
        with socket.create_server(("127.0.0.1", 0)):
            return True
    except OSError:
        return False


def _server(kind: str) -> Callable[[], bool]:
    def probe() -> bool:
        from tests.servers.valkey import program

        return program(kind) is not None

    return probe


def chromium() -> str | None:
    """Return the path of a Chromium, or None where there is none: that of `RETRYKIT_CHROMIUM`, or one that is installed."""
    return os.environ.get("RETRYKIT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


PROBES: dict[str, Callable[[], bool]] = {
    "chromium": lambda: chromium() is not None,
    "fork": lambda: hasattr(os, "fork"),
    "loopback": _loopback,
    "redis-server": _server("redis"),
    "valkey-server": _server("valkey"),
}
"""What is more than an importable package; any other name is the name of a package."""


def is_present(name: str) -> bool:
    """Tell whether this machine has the capability or package `name`."""
    probe = PROBES.get(name)
    return probe() if probe else importlib.util.find_spec(name) is not None


def is_ci() -> bool:
    """Tell whether everything must be present."""
    return bool(os.environ.get("CI"))


def require(*names: str) -> None:
    """Leave the calling test module uncollected if one of `names` is absent; fail its collection in CI."""
    absent = [name for name in names if not is_present(name)]
    if not absent:
        return
    if is_ci():
        raise RuntimeError(
            f"absent, and CI is set: {', '.join(absent)}; install what is missing, nothing may be left out here"
        )
    raise AbsentCapabilityError(", ".join(absent))
