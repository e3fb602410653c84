"""Draw the states of the circuit breaker from its own table, as SVG beside this file: python docs/plots/breaker.py [FOLDER].

Where a state stands is said here; which arrow leads where comes from `retrykit.machines.breaker.TRANSITIONS` alone.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from pathlib import Path

from retrykit.machines.breaker import TRANSITIONS, BreakerEvent, BreakerState

WIDTH, HEIGHT = 700, 405
BOX = 120, 44
BLUE, GREY, ORANGE = "#0072b2", "#555555", "#d55e00"
PLACES = {
    BreakerState.CLOSED: (120, 100),
    BreakerState.OPEN: (570, 100),
    BreakerState.HALF_OPEN: (345, 200),
    BreakerState.ISOLATED: (570, 320),
    BreakerState.DISABLED: (120, 320),
}
BY_HAND = {BreakerEvent.ISOLATE, BreakerEvent.DISABLE, BreakerEvent.RESET}

Point = tuple[float, float]


def text(x: float, y: float, words: str, colour: str = GREY, anchor: str = "middle") -> str:
    """Return words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def arrow(start: Point, end: Point, colour: str) -> str:
    """Return a line with a head."""
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    head = [(end[0] - 9 * math.cos(angle + side), end[1] - 9 * math.sin(angle + side)) for side in (0.4, -0.4)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (start, end))
    tip = " ".join(f"{x:.1f},{y:.1f}" for x, y in (head[0], end, head[1]))
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        f'<polyline points="{tip}" fill="none" stroke="{colour}" stroke-width="2"/>'
    )


def edge(start: Point, end: Point) -> tuple[Point, Point]:
    """Return where an arrow between two boxes leaves one and meets the other, a little to its left."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy)
    aside = (-dy / length * 9, dx / length * 9)

    def border(centre: Point, sign: int) -> Point:
        reach = min(
            BOX[0] / 2 / abs(dx) if dx else math.inf,
            BOX[1] / 2 / abs(dy) if dy else math.inf,
        )
        return centre[0] + sign * dx * reach + aside[0], centre[1] + sign * dy * reach + aside[1]

    return border(start, 1), border(end, -1)


def diagram() -> str:
    """Draw the states and what leads from one to the next; what a person does is listed below each state."""
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif" '
            'font-size="13">'
        ),
        "<title>The states of the circuit breaker and the events that lead from one to the next</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#ffffff"/>',
    ]
    for state, events in TRANSITIONS.items():
        by_hand = defaultdict(list)
        for event, following in events.items():
            if event in BY_HAND:
                by_hand[event.value].append(following.value)
                continue
            start, end = edge(PLACES[state], PLACES[following])
            parts.append(arrow(start, end, BLUE))
            lift = -8 if start[0] < end[0] else 18
            parts.append(text((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + lift, event.value, BLUE))
        x, y = PLACES[state]
        parts.append(
            f'<rect x="{x - BOX[0] / 2}" y="{y - BOX[1] / 2}" width="{BOX[0]}" height="{BOX[1]}" rx="8" '
            f'fill="#ffffff" stroke="{GREY}" stroke-width="2"/>'
        )
        parts.append(text(x, y + 5, state.value.replace("_", "-"), "#000000"))
        rows = [f"{event}: {', '.join(states).replace('_', '-')}" for event, states in by_hand.items()]
        side = -1 if y < 150 else 1
        for number, row in enumerate(rows):
            offset = BOX[1] / 2 + 16 + 15 * number if side > 0 else -BOX[1] / 2 - 8 - 15 * number
            parts.append(text(x, y + offset, row, ORANGE) if state is not BreakerState.HALF_OPEN else "")
    if all(set(BY_HAND) <= set(events) for events in TRANSITIONS.values()):
        parts.append(text(WIDTH / 2, 30, "orange: by hand, from every state", ORANGE))
    return "\n".join([*filter(None, parts), "</svg>"]) + "\n"


def main() -> None:
    """Write the file."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    (folder / "breaker.svg").write_text(diagram(), encoding="utf-8")


if __name__ == "__main__":
    main()
