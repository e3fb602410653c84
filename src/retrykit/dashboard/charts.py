"""Charts as plain figures, which a template draws as SVG. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from ..checks import counted
from ..stores.dead_letter_figures import DeadLetterTrend

__all__ = ["Bar", "Chart", "chart_of"]

HEIGHT: Final = 100
"""Of a chart, in the units of its drawing; a step is ten wide."""


@attrs.frozen
class Bar:
    """One step of a trend."""

    x: int
    height: float
    """0 to 100; what is there at all can be seen."""
    count: int
    begin: datetime


@attrs.frozen
class Chart:
    """A trend as bars."""

    bars: Sequence[Bar]
    width: int
    most: int
    total: int
    text: str
    """What the chart shows, for who does not see it."""
    start: datetime
    end: datetime


def chart_of(trend: DeadLetterTrend) -> Chart:
    """Return the chart of a trend.

    Example:
        >>> from datetime import UTC
        >>> chart = chart_of(DeadLetterTrend(datetime(2026, 1, 31, 8, tzinfo=UTC), 3600.0, [0, 4, 1]))
        >>> [bar.height for bar in chart.bars], chart.text
        ([0.0, 100.0, 25.0], '5 messages died from 2026-01-31 08:00 to 11:00 UTC; most, 4, from 09:00 on')
    """
    most = max(trend.counts, default=0)
    step = timedelta(seconds=trend.step)
    bars = [
        Bar(10 * place, max(3.0, HEIGHT * count / most) if count else 0.0, count, trend.start + place * step)
        for place, count in enumerate(trend.counts)
    ]
    total, end = sum(trend.counts), trend.start + len(bars) * step
    same = trend.start.date() == end.date()
    text = f"{counted(total, 'message')} died from {trend.start:%Y-%m-%d %H:%M} to {end:{'%H:%M' if same else '%Y-%m-%d %H:%M'}} UTC"
    if most:
        top = next(bar for bar in bars if bar.count == most)
        text += f"; most, {most:,}, from {top.begin:{'%H:%M' if same else '%Y-%m-%d %H:%M'}} on"
    return Chart(bars, 10 * len(bars), most, total, text, trend.start, end)
