"""What is well and what is not with a backend: looked at from outside, changing nothing. `retrykit doctor` shows it."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, cast

import attrs

from ..errors import ConfigurationError
from . import POSTGRES
from .urls import shown

__all__ = ["Finding", "Level", "clock", "diagnose", "latency"]


class Level(StrEnum):
    """How well it is."""

    OK = "ok"
    WARNING = "warning"
    """It works, and may not for long, or not as well as it could."""
    PROBLEM = "problem"
    """It does not work, or messages may be lost."""


@attrs.frozen
class Finding:
    """One thing that was looked at."""

    subject: str
    """What, in one or two words: "version", "eviction"."""
    level: Level
    said: str
    """What was found, in one sentence; without the URL, which may hold a password."""
    advice: str = ""
    """What to do about it."""


_APART: Final = 1.0
"""Seconds between the clocks."""

_DOCTORS: Final = {
    "sqlite": ".sqlite.doctor",
    **dict.fromkeys(("redis", "rediss", "valkey", "valkeys", "unix"), ".redis.doctor"),
    **dict.fromkeys(POSTGRES, ".postgres.doctor"),
}


def diagnose(url: str) -> Sequence[Finding]:
    """Look at the backend that a URL names.

    Args:
        url: as for `retrykit.open_backend`.

    Raises:
        ConfigurationError: there is nothing to look at behind that URL.
        MissingExtraError: the backend's client library is not installed.
    """
    scheme = url.partition("://")[0]
    if scheme not in _DOCTORS:
        raise ConfigurationError(f"the backend {shown(scheme)} cannot be looked at; allowed are {', '.join(_DOCTORS)}")
    module = importlib.import_module(_DOCTORS[scheme], __package__)
    return cast("Callable[[str], Sequence[Finding]]", module.diagnose)(url)


def clock(apart: float) -> Finding:
    """Return how far a server's clock is ahead of this machine's, and warn from a second on.

    Args:
        apart: seconds; below 0 where the server's is behind.
    """
    said = f"this machine's clock is {abs(apart):.3f} s {'behind' if apart > 0 else 'ahead of'} the server's"
    if abs(apart) < _APART:
        return Finding("clock", Level.OK, said)
    return Finding("clock", Level.WARNING, f"{said}; waits and leases go by the server's", "let both use NTP")


def latency(call: Callable[[], object], much: float) -> Finding:
    """Return what the middle one of some calls takes, and warn from `much` seconds on."""
    taken: list[float] = []
    for _ in range(21):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    middle = statistics.median(taken)
    said = f"a round trip takes {middle * 1000:.2f} ms"
    if middle < much:
        return Finding("latency", Level.OK, said)
    return Finding("latency", Level.WARNING, said, "a message takes four of them: run the workers nearer to it")
