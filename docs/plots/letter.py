"""Draw what may become of a dead letter from its own table, as SVG beside this file: python docs/plots/letter.py [FOLDER].

Which state follows which comes from `retrykit.machines.letter.ALLOWED` alone; a way that is drawn and not allowed, or the other way round,
is an error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from retrykit.dead_letter import DeadLetterState
from retrykit.machines.letter import ALLOWED

WIDTH, HEIGHT = 760, 270
BOX = 150, 36
BLUE, GREY, ORANGE = "#0072b2", "#555555", "#d55e00"

QUARANTINED, REDRIVING, RESOLVED, DISCARDED, SUPERSEDED = DeadLetterState

PLACES = {
    QUARANTINED: (110, 150),
    REDRIVING: (380, 60),
    SUPERSEDED: (650, 60),
    DISCARDED: (380, 150),
    RESOLVED: (650, 240),
}

OPERATIONS = {
    REDRIVING: ("put_back", GREY),
    SUPERSEDED: ("supersede", ORANGE),
    DISCARDED: ("discard", ORANGE),
    RESOLVED: ("resolve", BLUE),
}
"""What leads to a state, and its colour."""

WAYS = {
    (QUARANTINED, REDRIVING): [(150, 132), (150, 60), (305, 60)],
    (QUARANTINED, DISCARDED): [(185, 150), (305, 150)],
    (QUARANTINED, SUPERSEDED): [(110, 132), (110, 22), (650, 22), (650, 42)],
    (QUARANTINED, RESOLVED): [(110, 168), (110, 240), (575, 240)],
    (REDRIVING, SUPERSEDED): [(455, 60), (575, 60)],
    (REDRIVING, RESOLVED): [(420, 78), (420, 108), (640, 108), (640, 222)],
    (SUPERSEDED, RESOLVED): [(690, 78), (690, 222)],
    (DISCARDED, RESOLVED): [(455, 150), (600, 150), (600, 222)],
}

LABELS = {
    (QUARANTINED, REDRIVING): (228, 52),
    (QUARANTINED, DISCARDED): (245, 142),
    (QUARANTINED, SUPERSEDED): (380, 16),
    (QUARANTINED, RESOLVED): (340, 232),
    (REDRIVING, SUPERSEDED): (515, 52),
}


def text(x: float, y: float, words: str, colour: str) -> str:
    """Return words at a place."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle" fill="{colour}">{words}</text>'


def box(state: DeadLetterState) -> str:
    """Return a state at its place."""
    x, y = PLACES[state]
    colour = OPERATIONS.get(state, ("put", GREY))[1]
    return (
        f'<rect x="{x - BOX[0] / 2:g}" y="{y - BOX[1] / 2:g}" width="{BOX[0]}" height="{BOX[1]}" rx="8" fill="#ffffff" '
        f'stroke="{colour}" stroke-width="2"/>' + text(x, y + 5, state.value, "#000000")
    )


def arrow(points: list[tuple[int, int]], colour: str) -> str:
    """Return a line whose last part, level or upright, ends in a head."""
    (x0, y0), (x, y) = points[-2:]
    dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
    head = [(x - 9 * dx + 4 * dy, y - 9 * dy + 4 * dx), (x, y), (x - 9 * dx - 4 * dy, y - 9 * dy - 4 * dx)]
    lines = [" ".join(f"{a},{b}" for a, b in line) for line in (points, head)]
    return "".join(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>' for line in lines)


def diagram() -> str:
    """Draw the states, and the ways between them."""
    allowed = {(state, following) for state, all_following in ALLOWED.items() for following in all_following}
    if allowed != set(WAYS):
        raise SystemExit(f"the ways drawn are not those of the table: {sorted(allowed ^ set(WAYS))}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif" font-size="13">',
        "<title>What may become of a dead letter, and which operation leads there</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for way, points in WAYS.items():
        name, colour = OPERATIONS[way[1]]
        parts.append(arrow(points, colour))
        if way in LABELS:
            parts.append(text(*LABELS[way], name, colour))
    parts += [box(state) for state in DeadLetterState]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Write the file."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    (folder / "letter.svg").write_text(diagram(), encoding="utf-8")


if __name__ == "__main__":
    main()
