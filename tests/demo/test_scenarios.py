"""The script of the demonstration."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from retrykit.demo.scenarios import SCENARIOS, Hour, messages_of
from retrykit.errors import ConfigurationError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "demo.md"


def test_messages_same_seed_gives_the_same_day() -> None:
    """The seed decides the order and the contents."""
    assert messages_of(200, 7) == messages_of(200, 7)
    assert messages_of(200, 7) != messages_of(200, 8)


@pytest.mark.parametrize("total", [len(SCENARIOS), 100, 2000])
def test_messages_hold_every_scenario_in_its_hour(total: int) -> None:
    """However small the day, each scenario happens, in the hour that it needs; the hours follow each other."""
    day = messages_of(total, 1)
    counts = Counter(message.scenario.name for message in day)
    assert len(day) == total
    assert set(counts) == {scenario.name for scenario in SCENARIOS}
    assert all(message.scenario.hour in (None, message.hour) for message in day)
    hours = [list(Hour).index(message.hour) for message in day]
    assert hours == sorted(hours)


def test_messages_too_few_for_every_scenario_are_refused() -> None:
    """A day without room for every scenario is an error that says how many are needed."""
    with pytest.raises(ConfigurationError, match=f"needs at least {len(SCENARIOS)}"):
        messages_of(len(SCENARIOS) - 1, 1)


def test_scenarios_stand_in_the_documentation() -> None:
    """The page's table has each scenario with its promise and its end, as the code has them."""
    page = PAGE.read_text(encoding="utf-8")
    for scenario in SCENARIOS:
        end = f"`{scenario.end.status.value}` | `{scenario.end.disposition.value}`"
        assert f"| `{scenario.name}` | {scenario.promise} | {scenario.part} | {end} |" in page
