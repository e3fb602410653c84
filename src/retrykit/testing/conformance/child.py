"""Other processes for the suites: each opens the suite's store anew, waits for its start, and does one piece of work.

A child is forked from a server that has imported the suites and has touched no store, so that it neither shares anything
with its parent nor takes the time of a new interpreter. It is told what to do and answers over a connection; it ends when
that is closed, so that none outlives the tests. The suite's class has to stand at the top of its module.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import multiprocessing
import os
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, cast

from ...codec import JSON
from ...times import from_iso, to_iso
from ..clock import ManualClock
from .colours import COLOURS

if TYPE_CHECKING:
    from .suite import Place, StoreSuite

__all__ = ["Child", "in_processes", "say"]

_parent: Connection | None = None
"""How a child talks to its parent."""


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
        self._suite = suite
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
            "environment": dict(os.environ),
        }
        processes = multiprocessing.get_context("forkserver")
        processes.set_forkserver_preload([f"{__package__}.work"])
        self._connection, theirs = processes.Pipe()
        self._process = processes.Process(target=_main, args=(theirs, task))
        with _without_program():
            self._process.start()
        theirs.close()

    def read(self) -> Any:
        """Return the next thing it says.

        Raises:
            AssertionError: it ended without a word.
        """
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            raise AssertionError(f"the process ended with {self._process.exitcode}; its errors are above") from None

    def wait_until_ready(self) -> None:
        """Wait until it has opened the store."""
        assert self.read() == "ready"

    def begin(self) -> None:
        """Let it begin."""
        self._connection.send("begin")

    def said_until_killed(self, number: int) -> list[Any]:
        """Let it say so many things, kill it without a warning, whatever it is doing, and return all that it said.

        When this returns, nothing comes of it any more.
        """
        said = [self.read() for _ in range(number)]
        self._process.kill()
        self._process.join()
        assert self._process.pid is not None
        self._suite.wait_for_killed(self._process.pid)
        with contextlib.suppress(EOFError, OSError):  # the last may be half a thing
            while True:
                said.append(self._connection.recv())
        return said

    def close(self) -> None:
        """Let it end, and wait for that."""
        self._connection.close()
        self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def in_processes(
    suite: StoreSuite[Any], place: Place, work: str, colour: str, arguments: Sequence[Mapping[str, JSON]]
) -> list[Any]:
    """Do a piece of work in as many processes at once as there are arguments, and return their answers."""
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(Child(suite, place, work, colour, **each)) for each in arguments]
        for child in children:
            child.wait_until_ready()
        for child in children:
            child.begin()
        return [child.read() for child in children]


@contextlib.contextmanager
def _without_program() -> Generator[None]:
    """Hide the program that runs: a child imports it first, and one that calls `pytest.main` would run all tests again."""
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


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


def _main(parent: Connection, task: Mapping[str, Any]) -> None:
    """Do the task, as a child."""
    global _parent  # noqa: PLW0603 - a process has one parent
    from . import work
    from .suite import Place, opened_at

    _parent = parent
    os.environ.clear()
    os.environ.update(task["environment"])  # the server has that of when it began
    cls = cast("type[StoreSuite[Any]]", getattr(_module(task["module"], task["file"]), task["name"]))
    place = Place(Path(task["folder"]), task["place"], ManualClock(from_iso(task["now"])))
    loop = COLOURS[task["colour"]]() if task["colour"] in COLOURS else None
    with opened_at(cls(), place, loop) as store:
        say("ready")
        if _may_begin(parent):
            threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
            say(getattr(work, task["work"])(store, **task["arguments"]))
    if loop is not None:
        loop.close()


def _may_begin(parent: Connection) -> bool:
    """Wait for the word to begin, or for the end of the connection."""
    try:
        return bool(parent.recv() == "begin")
    except EOFError:
        return False


def _end_with_parent(parent: Connection) -> None:
    """End at once when the connection is closed while the work goes on."""
    _may_begin(parent)
    os._exit(0)


def say(value: JSON) -> None:
    """Tell the parent process something."""
    assert _parent is not None
    _parent.send(value)
