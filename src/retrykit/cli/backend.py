"""Which backend a command works on: `--url`, `RETRYKIT_URL`, or the table `[tool.retrykit]` of the project it is run in."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ..backends import open_backend
from ..errors import RetrykitError
from ..stores import Backend
from ..tables import as_table, parse_table
from .output import Unusable

__all__ = ["no_url", "opened", "with_backend"]

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
    if url is None:
        raise no_url()
    file = Path(url.removeprefix(_SQLITE))
    if url.startswith(_SQLITE) and not file.is_file():
        raise Unusable(f"there is no file {str(file)!r}; a service makes it when it starts")
    try:
        backend = open_backend(url)
        try:
            yield backend
        finally:
            backend.close()
    except RetrykitError as error:
        raise Unusable(str(error)) from None


def no_url() -> click.UsageError:
    """Return what a command says that was given no backend."""
    return click.UsageError(
        "which backend? Give --url, such as --url sqlite:///mail.db, or set RETRYKIT_URL, or url in [tool.retrykit] of "
        "pyproject.toml"
    )


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
