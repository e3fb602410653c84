"""Draw the delivery statuses from their own tables, as SVG beside this file: python docs/plots/status.py [FOLDER].

Which statuses are whose, in which order a provider's stand, and which event tells which comes from `retrykit.machines.status` alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from retrykit.classification import EventKind
from retrykit.failure import ErrorGroup
from retrykit.machines.status import ACCEPTED, OWN, SEVERITY, TRANSIENT_GROUPS, DeliveryStatus, told_by

WIDTH, ROW, TOP = 760, 62, 66
BOX = 150, 36
BLUE, GREY, ORANGE = "#0072b2", "#555555", "#d55e00"
LEFT, RIGHT = 110, 400


def text(x: float, y: float, words: str, colour: str = GREY, anchor: str = "middle") -> str:
    """Return words at a place."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def box(x: float, y: float, status: DeliveryStatus, colour: str) -> str:
    """Return a status at a place."""
    return (
        f'<rect x="{x - BOX[0] / 2:g}" y="{y - BOX[1] / 2:g}" width="{BOX[0]}" height="{BOX[1]}" rx="8" fill="#ffffff" '
        f'stroke="{colour}" stroke-width="2"/>' + text(x, y + 5, status.value, "#000000")
    )


def arrow(points: list[tuple[float, float]], colour: str) -> str:
    """Return a line whose last part, level or upright, ends in a head."""
    (x0, y0), (x, y) = points[-2:]
    dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
    head = [(x - 9 * dx + 4 * dy, y - 9 * dy + 4 * dx), (x, y), (x - 9 * dx - 4 * dy, y - 9 * dy - 4 * dx)]
    lines = [" ".join(f"{a:g},{b:g}" for a, b in line) for line in (points, head)]
    return "".join(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>' for line in lines)


def telling(status: DeliveryStatus) -> list[str]:
    """Return which events tell a status, and after which words a bounce does."""
    found: list[str] = []
    for kind in EventKind:
        groups = [group for group in ErrorGroup if told_by(kind, group) is status]
        if len(groups) == len(ErrorGroup):
            found.append(kind.value)
        elif groups:
            found.append(f"{kind.value} ({'may pass' if set(groups) == TRANSIENT_GROUPS else 'will not pass'})")
    return found


def diagram() -> str:
    """Draw our own statuses at the left, and what a provider tells at the right, the severest at the bottom."""
    height = TOP + ROW * max(len(OWN), len(SEVERITY)) + 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif" font-size="13">',
        "<title>The statuses that retrykit reports, and those that a provider tells, which stand above them</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
        text(LEFT, 24, "retrykit reports:", GREY),
        text(LEFT, 42, "the newest version stands", GREY),
        text(RIGHT, 24, "the provider has told:", BLUE),
        text(RIGHT, 42, "the severest stands", BLUE),
    ]
    own = {status: (LEFT, TOP + ROW * (number + 0.5)) for number, status in enumerate(OWN)}
    gap = ROW * (len(OWN) - len(SEVERITY)) / 2
    told = {status: (RIGHT, TOP + gap + ROW * (number + 0.5)) for number, status in enumerate(SEVERITY)}
    join = LEFT + BOX[0] / 2 + 24
    first = told[SEVERITY[0]][1]
    parts += [box(*place, status, GREY) for status, place in own.items()]
    parts += [
        f'<polyline points="{LEFT + BOX[0] / 2:g},{y:g} {join:g},{y:g}" fill="none" stroke="{ORANGE}" stroke-width="2"/>'
        for _, y in own.values()
    ]
    ys = [y for _, y in own.values()]
    parts.append(
        f'<polyline points="{join:g},{min(ys):g} {join:g},{max(ys):g}" fill="none" stroke="{ORANGE}" stroke-width="2"/>'
    )
    parts.append(arrow([(join, first), (RIGHT - BOX[0] / 2, first)], ORANGE))
    parts.append(text((join + RIGHT - BOX[0] / 2) / 2, first - 28, "whatever", ORANGE))
    parts.append(text((join + RIGHT - BOX[0] / 2) / 2, first - 12, "the version", ORANGE))
    for (_, before), (_, after) in zip(list(told.values()), list(told.values())[1:], strict=False):
        parts.append(arrow([(RIGHT, before + BOX[1] / 2), (RIGHT, after - BOX[1] / 2)], BLUE))
    for status, (x, y) in told.items():
        ours = ["our own send"] if status in ACCEPTED and status is SEVERITY[0] else []
        rows = [*ours, *telling(status)]
        half = (len(rows) + 1) // 2 if len(rows) > 2 else len(rows)
        lines = [", ".join(rows[:half]), ", ".join(rows[half:])] if half < len(rows) else [", ".join(rows)]
        parts.append(box(x, y, status, BLUE))
        parts += [
            text(x + BOX[0] / 2 + 12, y + 5 + 16 * (number - (len(lines) - 1) / 2), line, BLUE, "start")
            for number, line in enumerate(lines)
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Write the file."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    (folder / "status.svg").write_text(diagram(), encoding="utf-8")


if __name__ == "__main__":
    main()
