"""Settings in TOML: tables read from files, and refused with the file, the key, the value seen and what is allowed."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TypeAlias, cast

from .errors import ConfigurationError
from .failure import ErrorClass, ErrorGroup

__all__ = ["Table", "as_table", "at", "check_keys", "load_table", "nearest", "own_classes", "parse_table"]

Table: TypeAlias = Mapping[str, object]


def load_table(path: str | os.PathLike[str], what: str) -> tuple[Table, str]:
    """Read a TOML file; of a ``pyproject.toml`` the table ``[tool.retrykit]``.

    Args:
        path: the file.
        what: what is wanted from it, for errors.

    Returns:
        The table, and what to call it in errors.

    Raises:
        ConfigurationError: the file cannot be read, is not TOML, or has no such table.
    """
    from pathlib import Path  # only here: importing retrykit must stay cheap

    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{what} cannot be read from {str(file)!r}: {error}") from None
    table = parse_table(text, str(file))
    if file.name != "pyproject.toml":
        return table, str(file)
    tool = table.get("tool")
    own = cast("Table", tool).get("retrykit") if isinstance(tool, Mapping) else None
    if own is None:
        raise ConfigurationError(f"{file} has no table [tool.retrykit]")
    return as_table(own, f"{file}: tool.retrykit"), f"{file}: [tool.retrykit]"


def parse_table(text: str, where: str) -> Table:
    """Read TOML.

    Raises:
        ConfigurationError: the text is not TOML; the line and column are named.
    """
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and tables thousands deep
        raise ConfigurationError(f"{where} is not TOML: {error}") from None


@contextmanager
def at(where: str) -> Generator[None]:
    """Put the place before whatever a value is refused with."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def check_keys(table: Table, allowed: Iterable[str], where: str) -> None:
    """Refuse a key that is none of those allowed.

    Raises:
        ConfigurationError: there is one; a key that looks like it is named.
    """
    names = tuple(allowed)
    for key in table:
        if key not in names:
            raise ConfigurationError(f"{where} has the unknown key {key!r}{nearest(key, names)}")


def nearest(word: object, allowed: Iterable[str]) -> str:
    """Return what to say of a word that is none of those allowed."""
    from difflib import get_close_matches  # only for errors

    names = sorted(str(name) for name in allowed)
    close = get_close_matches(str(word), names, 1)
    return f"; did you mean {close[0]!r}?" if close else f"; allowed are {', '.join(names)}"


def as_table(value: object, where: str) -> Table:
    """Return a value that is a table.

    Raises:
        ConfigurationError: it is none.
    """
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{where} is {value!r}; allowed is a table")
    return cast("Table", value)


def own_classes(table: Table, where: str) -> dict[str, ErrorClass]:
    """Return the application's own classes: those in the table ``classes``, by name.

    Raises:
        ConfigurationError: a name or a group is not allowed.
    """
    return {
        name: _class(name, group, f"{where}: classes.{name}")
        for name, group in as_table(table.get("classes", {}), f"{where}: classes").items()
    }


def _class(name: str, group: object, where: str) -> ErrorClass:
    if not isinstance(group, str) or group not in list(ErrorGroup):
        raise ConfigurationError(f"{where} is {group!r}{nearest(group, ErrorGroup)}")
    with at(where):
        return ErrorClass(name, group=group)
