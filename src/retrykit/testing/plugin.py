"""The pytest plugin: fixtures for tests of code that uses retrykit. Installed with it, and loaded by pytest itself.

- ``manual_clock``: the test's clock is a `ManualClock`, which stands still until it is moved.
- ``no_waiting``: every wait of the test ends at once, in real time; the fixture is the `ImpatientClock`.
- ``memory_backend``: an empty `MemoryBackend` of the test's own, on the clock of one of the two where the test has it.

Assertions in `retrykit.testing.conformance` are shown with their values, as those of your own tests. A program without
tests never loads this module, and a run of tests that uses none of the fixtures loads nothing else of retrykit.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

TYPE_CHECKING = False  # as in `retrykit` itself
if TYPE_CHECKING:
    from ..backends import MemoryBackend
    from .clock import ImpatientClock, ManualClock

__all__ = ["manual_clock", "memory_backend", "no_waiting"]

pytest.register_assert_rewrite("retrykit.testing.conformance")


@pytest.fixture
def manual_clock() -> Generator[ManualClock]:
    """Let the test stand still in time until it moves the clock."""
    from . import clock

    with clock.manual_clock() as made:
        yield made


@pytest.fixture
def no_waiting() -> Generator[ImpatientClock]:
    """Let every wait of the test end at once."""
    from . import clock

    with clock.no_waiting() as made:
        yield made


@pytest.fixture
def memory_backend(request: pytest.FixtureRequest) -> MemoryBackend:
    """Give the test an empty backend in memory."""
    from ..backends import MemoryBackend

    clocks = [name for name in ("manual_clock", "no_waiting") if name in request.fixturenames]
    return MemoryBackend(clock=request.getfixturevalue(clocks[0]) if clocks else None)
