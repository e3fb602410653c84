"""What all commands share: how they print, and how they say that they cannot run."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..checks import printable
from ..errors import RetrykitError
from ..policy import EMAIL_MATRIX, HTTP_API_MATRIX, PolicyMatrix

__all__ = [
    "Refused",
    "Unusable",
    "as_json",
    "by_user",
    "confirm",
    "console",
    "is_attended",
    "load_matrix",
    "printable",
    "progress",
    "table",
    "usable",
]

_MATRICES: Final = {"email": EMAIL_MATRIX, "http": HTTP_API_MATRIX}

F = TypeVar("F", bound=Callable[..., Any])


class Unusable(click.ClickException):
    """A command was called with something it cannot work with, or could not run; exit code 2."""

    exit_code = 2


class Refused(click.ClickException):
    """A command ran, and its answer is no; exit code 1."""


@contextmanager
def usable() -> Generator[None]:
    """Let what cannot be worked with end the command with exit code 2."""
    try:
        yield
    except RetrykitError as error:
        raise Unusable(str(error)) from None


def console() -> Console:
    """Return a console: colours on a terminal only, and nothing coloured by guessing or because data says so."""
    width = None if sys.stdout.isatty() else 10_000  # into a file or a pipe nothing is cut
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)


class _Table(Table):
    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row; a cell that is plain text is data, and shown as it is."""
        super().add_row(*(Text(printable(cell)) if isinstance(cell, str) else cell for cell in cells), **options)


def table(title: str, *headings: str, right: Collection[str] = ()) -> Table:
    """Return an empty table, narrow enough for eighty columns; `right` names the columns of numbers."""
    made = _Table(title=Text(title), title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left", no_wrap=True)
    return made


def progress() -> Progress:
    """Return a progress display on the standard error of a terminal, which is gone at its end; elsewhere nothing is shown."""
    shown = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal)


def load_matrix(name: str) -> PolicyMatrix:
    """Return a built-in matrix by name, or the one in a TOML file."""
    built_in = _MATRICES.get(name)
    if built_in is not None and not Path(name).is_file():
        return built_in
    try:
        return PolicyMatrix.load(name)
    except RetrykitError as error:
        raise Unusable(str(error)) from None


def by_user(command: F) -> F:
    """Give a command the option ``--by``, which arrives as `by`."""
    said = "Who does it.  [default: the user]"
    return click.option("--by", required=True, default=_user, help=said)(command)


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container without users
        return None


def is_attended() -> bool:
    """Tell whether somebody can answer."""
    return sys.stdin.isatty()


def confirm(question: str) -> None:
    """Ask; whoever says no, or nothing, ends the command with exit code 1."""
    if not is_attended():
        raise Unusable("this is asked on a terminal; elsewhere say --yes")
    click.confirm(question, abort=True, err=True)


def as_json(command: F) -> F:
    """Give a command the option ``--json``, which arrives as `json_`."""
    return click.option(
        "--json", "json_", is_flag=True, help="Print JSON and nothing else: one object, of a list one a line."
    )(command)
