from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from retrykit.testing import ManualClock
from tests.dashboard.town import Town

if TYPE_CHECKING:
    from tests.dashboard.client import Browser


@pytest.fixture
def town() -> Town:
    return Town()


@pytest.fixture
def browse() -> Iterator[Callable[..., Browser]]:
    """Open browsers on applications; they are closed at the end."""
    from tests.dashboard.client import Browser  # it says what it requires, which a conftest must not

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
