"""What all commands share: how they print, and how they say that they cannot run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.console import Console
from rich.table import Table

from ..errors import RetrykitError
from ..policy import EMAIL_MATRIX, HTTP_API_MATRIX, PolicyMatrix

__all__ = ["Unusable", "as_json", "console", "load_matrix", "table"]

_MATRICES: Final = {"email": EMAIL_MATRIX, "http": HTTP_API_MATRIX}

F = TypeVar("F", bound=Callable[..., Any])


class Unusable(click.ClickException):
    """A command was called with something it cannot work with, or could not run; exit code 2."""

    exit_code = 2


def console() -> Console:
    """Return a console: colours on a terminal only, and nothing coloured by guessing."""
    width = None if sys.stdout.isatty() else 120  # into a file or a pipe: wide enough for every table
    return Console(highlight=False, soft_wrap=True, width=width)


def table(title: str, *headings: str, right: Collection[str] = ()) -> Table:
    """Return an empty table, narrow enough for eighty columns; `right` names the columns of numbers."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left", no_wrap=True)
    return made


def load_matrix(name: str) -> PolicyMatrix:
    """Return a built-in matrix by name, or the one in a TOML file."""
    built_in = _MATRICES.get(name)
    if built_in is not None and not Path(name).is_file():
        return built_in
    try:
        return PolicyMatrix.load(name)
    except RetrykitError as error:
        raise Unusable(str(error)) from None


def as_json(command: F) -> F:
    """Give a command the option ``--json``, which arrives as `json_`."""
    return click.option("--json", "json_", is_flag=True, help="Print one JSON object and nothing else.")(command)
