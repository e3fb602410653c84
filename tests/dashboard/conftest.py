from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from retrykit.testing import ManualClock
from tests.dashboard.client import Browser
from tests.dashboard.town import Town


@pytest.fixture
def town() -> Town:
    return Town()


@pytest.fixture
def browse() -> Iterator[Callable[..., Browser]]:
    """Open browsers on applications; they are closed at the end."""
    opened = list[Browser]()

    def browser(app: Any, **options: Any) -> Browser:
        opened.append(Browser(app, **options))
        return opened[-1]

    yield browser
    for each in opened:
        each.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
