"""What processes noted of their holds while they had them: at no instant has a key two live holders."""

from __future__ import annotations

import os
import time
from pathlib import Path

import attrs

from retrykit.errors import HoldLostError
from retrykit.guard import Hold


@attrs.define
class Checked:
    """What the notes tell."""

    last: dict[str, int] = attrs.field(factory=dict[str, int])
    """The highest token of each key."""
    handed_over: int = 0
    """How often a key was held by one after another."""
    refused: int = 0
    """How many late completions were refused."""


class History:
    """Notes of many processes in one file, one line for each, by the machine's monotonic clock."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "history.txt"
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _write(self, *words: object) -> None:
        os.write(self._file, f"{' '.join(map(str, words))}\n".encode())

    def note(self, hold: Hold | None) -> None:
        """Note that a hold is there, and that it is live at this instant, if it is."""
        assert hold is not None
        instant = time.monotonic_ns()  # before it is asked: what is live afterwards was live then
        self._write("live" if hold.is_live else "late", instant, hold.key, hold.record.seq)

    def refused(self, error: HoldLostError) -> None:
        """Note that a late completion was refused."""
        self._write("refused", time.monotonic_ns(), error.key, 0)

    def check(self) -> Checked:
        """Check that no earlier holder of a key was live after a later one was."""
        lines = [line.split() for line in self._path.read_text().splitlines()]
        notes = sorted((int(instant), kind, key, int(token)) for kind, instant, key, token in lines)
        live: dict[str, int] = {}
        checked = Checked()
        for instant, kind, key, token in notes:
            checked.refused += kind == "refused"
            checked.last[key] = max(checked.last.get(key, 0), token)
            if kind == "live":
                before = live.get(key, token)
                assert before <= token, f"{key}: the holders {before} and {token} were live at {instant}"
                checked.handed_over += before < token
                live[key] = token
        return checked

    def close(self) -> None:
        os.close(self._file)
