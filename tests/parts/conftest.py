"""Every test of this folder stands on a clock that only sleeping moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from retrykit.testing import ManualClock, manual_clock


@pytest.fixture(autouse=True)
def clock() -> Iterator[ManualClock]:
    with manual_clock() as clock:
        yield clock
