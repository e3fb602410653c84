"""Make a test with every sequence of choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Choose: TypeAlias = Callable[[Sequence[Any]], Any]
"""Gives one of the options."""


def every_choice(play: Callable[[Choose], None]) -> int:
    """Call `play` anew for every sequence of choices that it can make, and return how many there were.

    What `play` offers may depend on its earlier choices and on nothing else.
    """
    path: list[list[int]] = []  # of each choice: which option is taken, and how many there are
    plays = 0
    while True:
        made = 0

        def choose(options: Sequence[Any]) -> Any:
            nonlocal made
            if made == len(path):
                path.append([0, len(options)])
            taken, there = path[made]
            assert there == len(options), "the play is not the same each time"
            made += 1
            return options[taken]

        try:
            play(choose)
        except AssertionError as error:
            taken = [index for index, _ in path]
            raise AssertionError(f"play {plays}, choices {taken}: {error}") from error
        plays += 1
        while path and path[-1][0] + 1 == path[-1][1]:
            path.pop()
        if not path:
            return plays
        path[-1][0] += 1
