"""Monitors in each colour, on a clock that stands still until it is moved."""

from __future__ import annotations

import asyncio

import pytest
import trio

from retrykit.backends import MemoryBackend
from retrykit.monitor import AsyncMonitor, Monitor
from retrykit.stores import as_async
from retrykit.testing import ManualClock

RUNNERS = {"asyncio": asyncio.run, "trio": trio.run}


class Fleet:
    """Monitors on one store."""

    def __init__(self, colour: str) -> None:
        self.colour = colour
        self.clock = ManualClock()
        self.backend = MemoryBackend(clock=self.clock)
        self.told: list[tuple[str, str, str]] = []

    def monitor(self, process: str = "a", **options):
        """Return a monitor whose notices are noted with the name of the process, unless it has notifiers of its own."""

        def note(alert):
            self.told.append((process, alert.state.value, alert.key))

        options = {"notifiers": [note], "clock": self.clock, **options}
        if self.colour == "sync":
            return Monitor(self.backend, **options)
        return AsyncMonitor(as_async(self.backend), **options)

    def call(self, method):
        """Call a method of a monitor, in its colour."""
        if self.colour == "sync":
            return method()

        async def main():
            return await method()

        return asyncio.run(main()) if self.colour == "asyncio" else trio.run(main)


@pytest.fixture(params=["sync", "asyncio", "trio"])
def fleet(request):
    return Fleet(request.param)
