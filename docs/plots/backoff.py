"""Draw the plots of the page about backoffs, as SVG beside this file: python docs/plots/backoff.py [FOLDER].

Nothing but retrykit is needed, and the draws are seeded, so the files come out the same on every run.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from pathlib import Path

from retrykit.policy import (
    Backoff,
    Jitter,
    constant,
    decorrelated,
    delays,
    exponential,
    linear,
    plus_minus,
    upward,
)

BLUE, ORANGE, GREEN, PINK, GREY = "#0072b2", "#d55e00", "#009e73", "#b4588f", "#555555"
WIDTH, LEFT, RIGHT = 700, 60, 470
JOBS = 1000

Point = tuple[float, float]


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return the map from low..high to the pixels start..end."""
    return lambda value: start + (value - low) / (high - low) * (end - start)


def text(x: float, y: float, words: str, *, anchor: str = "start", colour: str = GREY) -> str:
    """Return words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def line(points: Iterable[Point], colour: str, *, width: float = 2, fill: str = "none", opacity: float = 1) -> str:
    """Return a line through points, or the area inside it."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="{fill}" fill-opacity="{opacity:g}" stroke="{colour}" stroke-width="{width:g}"/>'


def bars(spans: Iterable[tuple[float, float, float, float]], colour: str) -> str:
    """Return filled rectangles of x, y, width and height."""
    path = "".join(f"M{x:.1f} {y:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z" for x, y, w, h in spans)
    return f'<path d="{path}" fill="{colour}"/>'


def picture(title: str, height: int, parts: Iterable[str]) -> str:
    """Return a whole file."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'font-family="sans-serif" font-size="12">'
    )
    paper = f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{title}</title>", paper, *parts, "</svg>"]) + "\n"


def axis(ticks: Sequence[tuple[float, str]], y: float) -> list[str]:
    """Return a horizontal axis with words at pixels."""
    return [
        line([(LEFT, y), (RIGHT, y)], GREY, width=1),
        *(text(x, y + 16, words, anchor="middle") for x, words in ticks),
    ]


def growth() -> str:
    """Draw how the rungs grow."""
    retries = range(1, 11)
    x, y = scale(1, 10, LEFT, RIGHT), scale(0, 3.1, 300, 20)
    parts = axis([(x(retry), str(retry)) for retry in retries], 300)
    parts.append(text((LEFT + RIGHT) / 2, 334, "retry", anchor="middle"))
    for seconds, words in ((1, "1 s"), (10, "10 s"), (60, "1 min"), (300, "5 min"), (900, "15 min")):
        level = y(math.log10(seconds))
        parts += [
            line([(LEFT, level), (RIGHT, level)], "#dddddd", width=1),
            text(LEFT - 8, level + 4, words, anchor="end"),
        ]
    shown: list[tuple[str, Backoff, str]] = [
        ("delays(5, &quot;1m&quot;, &quot;5m&quot;, &quot;15m&quot;)", delays(5, "1m", "5m", "15m"), PINK),
        ("exponential(5, cap=&quot;10m&quot;)", exponential(5, cap="10m"), BLUE),
        ("decorrelated(5, cap=&quot;5m&quot;), mean", decorrelated(5, cap="5m"), GREEN),
        ("linear(20)", linear(20), ORANGE),
        ("constant(60)", constant(60), GREY),
    ]
    for words, backoff, colour in shown:
        points = [(x(retry), y(math.log10(backoff.rung(retry)))) for retry in retries]
        parts += [line(points, colour), text(RIGHT + 8, points[-1][1] + 4, words, colour=colour)]
    return picture("The wait before each retry, without jitter", 344, parts)


def jitters() -> str:
    """Draw how a wait of a minute is spread."""
    x = scale(0, 90, LEFT + 60, RIGHT + 60)
    shown: list[tuple[str, Jitter | str]] = [
        ("none", "none"),
        ("full", "full"),
        ("equal", "equal"),
        ("plus_minus(0.25)", plus_minus(0.25)),
        ("upward(0.25)", upward(0.25)),
        ("quarter", "quarter"),
    ]
    parts: list[str] = []
    for row, (words, jitter) in enumerate(shown):
        backoff, rng, floor = constant(60, jitter=jitter), random.Random(row), 56 + 48 * row
        counts = Counter(int(backoff.delay(1, rng) // 2) for _ in range(20 * JOBS))
        width = x(2) - x(0)
        spans = [
            (x(2 * step), floor - height, width - 1, height)
            for step, count in sorted(counts.items())
            for height in [min(40.0, 0.012 * count)]
        ]
        parts += [bars(spans, GREY if jitter == "none" else BLUE), text(LEFT + 52, floor - 4, words, anchor="end")]
        parts.append(line([(x(0), floor), (x(90), floor)], "#bbbbbb", width=1))
    bottom = 56 + 48 * (len(shown) - 1)
    parts += [text(x(second), bottom + 18, f"{second} s", anchor="middle") for second in range(0, 91, 15)]
    parts.append(line([(x(60), 12), (x(60), bottom)], ORANGE, width=1))
    parts.append(text(x(60) + 4, 14, "the rung", colour=ORANGE))
    return picture("What each jitter draws around a wait of 60 seconds", bottom + 30, parts)


def herd() -> str:
    """Draw when jobs that failed together come back."""
    x = scale(0, 100, LEFT + 40, RIGHT + 40)
    shown: list[tuple[str, Jitter | str]] = [
        ("none", "none"),
        ("upward(0.1)", upward(0.1)),
        ("quarter", "quarter"),
        ("full", "full"),
    ]
    parts: list[str] = []
    for row, (words, jitter) in enumerate(shown):
        backoff, rng, floor = exponential(5, jitter=jitter), random.Random(2026), 76 + 72 * row
        counts: Counter[int] = Counter()
        for _ in range(JOBS):
            counts.update(map(int, accumulate(backoff.delay(retry, rng) for retry in range(1, 5))))
        width = x(1) - x(0)
        parts.append(bars([(x(s), floor - 0.06 * n, width, 0.06 * n) for s, n in sorted(counts.items())], BLUE))
        parts += [
            line([(x(0), floor), (x(100), floor)], "#bbbbbb", width=1),
            text(LEFT + 32, floor - 4, words, anchor="end"),
        ]
        parts.append(text(x(100) + 8, floor - 4, f"at most {max(counts.values())} in a second"))
    bottom = 76 + 72 * (len(shown) - 1)
    parts += [text(x(second), bottom + 18, f"{second} s", anchor="middle") for second in range(0, 101, 20)]
    return picture("When a thousand jobs that failed together come back, by jitter", bottom + 30, parts)


def chain() -> str:
    """Draw the middle and the spread of full jitter and of the decorrelated backoff."""
    parts: list[str] = []
    shown: list[tuple[str, Backoff, str, float]] = [
        ("exponential(0.1, cap=10, jitter=&quot;full&quot;)", exponential(0.1, cap=10, jitter="full"), BLUE, LEFT),
        ("decorrelated(0.1, cap=10)", decorrelated(0.1, cap=10), GREEN, LEFT + 320),
    ]
    y = scale(0, 10, 260, 40)
    for words, backoff, colour, left in shown:
        x, rng = scale(1, 10, left, left + 270), random.Random(2026)
        drawn: list[list[float]] = [[] for _ in range(10)]
        for _ in range(4 * JOBS):
            previous = None
            for retry in range(1, 11):
                previous = backoff.delay(retry, rng, previous=previous)
                drawn[retry - 1].append(previous)
        ordered = [sorted(waits) for waits in drawn]
        low, half, high = (
            [(x(number), y(waits[int(share * len(waits))])) for number, waits in enumerate(ordered, 1)]
            for share in (0.05, 0.5, 0.95)
        )
        parts += [line([*low, *reversed(high)], "none", fill=colour, opacity=0.2), line(half, colour)]
        parts += [line([(left, 260), (left + 270, 260)], GREY, width=1), text(left, 24, words, colour=colour)]
        parts += [text(x(retry), 276, str(retry), anchor="middle") for retry in range(1, 11)]
        parts += [text(left - 6, y(second) + 4, f"{second} s", anchor="end") for second in (0, 5, 10)]
    parts.append(text(WIDTH / 2, 294, "retry; line: half of the draws, area: 90 of 100", anchor="middle"))
    return picture("How waits of 0.1 to 10 seconds are spread over ten retries", 304, parts)


def main() -> None:
    """Write the files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for draw in (growth, jitters, herd, chain):
        (folder / f"backoff-{draw.__name__}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
