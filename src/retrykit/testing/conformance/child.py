"""Other processes for the suites: each opens the suite's store anew, waits for its start, and does one piece of work.

A child is told what to do in JSON on its standard input and answers in JSON on its standard output. It ends when its
standard input is closed, so that none outlives the tests. The suite's class has to stand at the top of its module.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, cast

from ...codec import JSON
from ...times import from_iso, to_iso
from ..clock import ManualClock
from .colours import COLOURS

if TYPE_CHECKING:
    from .suite import Place, StoreSuite

__all__ = ["Child", "in_processes", "main", "say"]


class Child:
    """A process that does one piece of work on the store of a suite.

    Args:
        suite: whose store it opens.
        place: where.
        work: the name of a function in `retrykit.testing.conformance.work`.
        arguments: its arguments beside the store.
        colour: under which loop an asynchronous store runs; "none" for a synchronous one.
    """

    def __init__(self, suite: StoreSuite[Any], place: Place, work: str, colour: str, **arguments: JSON) -> None:
        cls = type(suite)
        task = {
            "module": cls.__module__,
            "file": inspect.getfile(cls),
            "name": cls.__qualname__,
            "folder": str(place.folder),
            "place": place.name,
            "now": to_iso(place.clock.now()),
            "work": work,
            "colour": colour,
            "arguments": arguments,
        }
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with our own module
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._write(json.dumps(task))

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def read(self) -> Any:
        """Return the next thing it says.

        Raises:
            AssertionError: it ended without a word.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process ended with {self._process.wait()}; its errors are above"
        return json.loads(line)

    def wait_until_ready(self) -> None:
        """Wait until it has opened the store."""
        assert self.read() == "ready"

    def begin(self) -> None:
        """Let it begin."""
        self._write("begin")

    def said_until_killed(self, number: int) -> list[Any]:
        """Let it say so many things, kill it without a warning, whatever it is doing, and return all that it said."""
        said = [self.read() for _ in range(number)]
        self._process.kill()
        self.close()
        assert self._process.stdout is not None
        return said + [json.loads(line) for line in self._process.stdout if line.endswith("\n")]

    def close(self) -> None:
        """Let it end, and wait for that."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        assert self._process.stdout is not None
        self._process.stdout.close()


def in_processes(
    suite: StoreSuite[Any], place: Place, work: str, colour: str, arguments: Sequence[Mapping[str, JSON]]
) -> list[Any]:
    """Do a piece of work in as many processes at once as there are arguments, and return their answers."""
    children = [Child(suite, place, work, colour, **each) for each in arguments]
    try:
        for child in children:
            child.wait_until_ready()
        for child in children:
            child.begin()
        return [child.read() for child in children]
    finally:
        for child in children:
            child.__exit__()


def _module(name: str, file: str) -> ModuleType:
    """Import the module of a suite, by its name or from its file."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module


def main() -> None:
    """Do what standard input says, as a child."""
    from . import work
    from .suite import Place, opened_at

    task = json.loads(sys.stdin.readline())
    cls = cast("type[StoreSuite[Any]]", getattr(_module(task["module"], task["file"]), task["name"]))
    place = Place(Path(task["folder"]), task["place"], ManualClock(from_iso(task["now"])))
    loop = COLOURS[task["colour"]]() if task["colour"] in COLOURS else None
    with opened_at(cls(), place, loop) as store:
        say("ready")
        if sys.stdin.readline():
            threading.Thread(target=_end_with_parent, daemon=True).start()
            say(getattr(work, task["work"])(store, **task["arguments"]))
    if loop is not None:
        loop.close()


def _end_with_parent() -> None:
    """End at once when standard input is closed while the work goes on."""
    sys.stdin.read()
    os._exit(0)


def say(value: JSON) -> None:
    """Tell the parent process something."""
    print(json.dumps(value), flush=True)  # noqa: T201 - the parent reads it
