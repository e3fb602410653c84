"""Which backend a command works on: `--url`, `RETRYKIT_URL`, or the table `[tool.retrykit]` of the project it is run in."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

import click
from click.core import ParameterSource

from ..backends import open_backend
from ..errors import RetrykitError
from ..stores import Backend
from ..tables import as_table, parse_table
from .output import Unusable

__all__ = ["given", "needed", "opened", "there", "with_backend", "with_url"]

_SQLITE: Final = "sqlite:///"

F = TypeVar("F", bound=Callable[..., Any])


def with_backend(command: F) -> F:
    """Give a command the option ``--url``, which arrives as `url`, for `opened`."""
    said = (
        "The backend, such as sqlite:///mail.db; also from RETRYKIT_URL, or url in [tool.retrykit] of pyproject.toml."
    )
    return click.option("--url", envvar="RETRYKIT_URL", default=_of_project, help=said)(command)


@contextmanager
def opened(url: str | None) -> Generator[Backend]:
    """Open the backend of a URL for a command; what goes wrong with it ends the command with exit code 2."""
    url = there(url)
    try:
        backend = open_backend(url)
        try:
            yield backend
        finally:
            backend.close()
    except RetrykitError as error:
        raise Unusable(str(error)) from None


def there(url: str | None) -> str:
    """Return the URL that a command was given, of a backend that is there, or end it with exit code 2: no command makes a file by mistake."""
    url = needed(url)
    file = Path(url.removeprefix(_SQLITE))
    if url.startswith(_SQLITE) and not file.is_file():
        raise Unusable(f"there is no file {str(file)!r}; a service makes it when it starts")
    if url.startswith(_SQLITE) and _is_foreign(file):
        raise Unusable(f"nothing of retrykit is in the file {str(file)!r}; a service makes its tables when it starts")
    return url


def _is_foreign(file: Path) -> bool:
    """Tell whether a SQLite file has no tables of ours; one that cannot be read is left to whoever opens it."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as db:
            found = db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'retrykit_schema'").fetchone()
    except sqlite3.Error:
        return False
    return bool(found == (0,))


def given(*options: str) -> str:
    """Return options as they were given on the command line, for a command that is shown to go on with.

    A URL with a password is not shown: it is then to be in the environment, under the name that all commands know.

    Args:
        options: the names of their parameters, such as "url".
    """
    context = click.get_current_context()
    said = ""
    for name in options:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = context.meta.get(f"retrykit.{name}", context.params[name])
            option = f" --{name.replace('_', '-')}"
            if value is True:
                said += option
            elif name == "url" and _has_password(str(value)):
                said += f'{option} "$RETRYKIT_URL"'
            else:
                said += f"{option} {shlex.quote(str(value))}"
    return said


def with_url(command: str) -> str:
    """Return a command that is shown, so that it acts on the backend which was named on the command line."""
    return command if command.startswith("retrykit classify") else f"{command}{given('url')}"


def _has_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.password is not None or "password" in parse_qs(parts.query)
    except ValueError:  # nothing opens it either
        return True


def needed(url: str | None) -> str:
    """Return the URL that a command was given, or end it with exit code 2."""
    if url is None:
        raise click.UsageError(
            "which backend? Give --url, such as --url sqlite:///mail.db, or set RETRYKIT_URL, or url in [tool.retrykit] of "
            "pyproject.toml"
        )
    return url


def _of_project() -> str | None:
    """Return the URL of the project that the working directory is in; a file named relatively is meant from the project's folder."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            return _url_in(file)
    return None


def _url_in(file: Path) -> str | None:
    try:
        tool = as_table(parse_table(file.read_text(encoding="utf-8-sig"), str(file)).get("tool", {}), f"{file}: tool")
        url = as_table(tool.get("retrykit", {}), f"{file}: [tool.retrykit]").get("url")
    except (RetrykitError, OSError, ValueError) as error:
        raise Unusable(str(error)) from None
    if url is None:
        return None
    if not isinstance(url, str):
        raise Unusable(f"{file}: [tool.retrykit]: url is {url!r}; allowed is text such as 'sqlite:///mail.db'")
    path = url.removeprefix(_SQLITE)
    return f"{_SQLITE}{file.parent / path}" if url.startswith(_SQLITE) and path else url
