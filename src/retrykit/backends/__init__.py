"""Backends: each holds the seven stores in one place."""

from __future__ import annotations

from urllib.parse import unquote

from ..clock import Clock
from ..errors import ConfigurationError
from ..stores import AsyncBackend, Backend, as_async
from .memory import MemoryBackend

__all__ = ["MemoryBackend", "open_async_backend", "open_backend"]

_ALLOWED = "allowed are 'memory://', 'sqlite:///relative/file.db' and 'sqlite:////absolute/file.db'"


def open_backend(url: str, *, clock: Clock | None = None) -> Backend:
    """Open the backend that a URL names.

    Args:
        url: ``memory://``, or ``sqlite:///`` and a file (a fourth slash makes the path absolute).
        clock: where the time comes from; None: the clock in force when a store is used.

    Raises:
        ConfigurationError: the URL names no backend.
        StoreError: the backend cannot be opened.

    Example:
        >>> backend = open_backend("memory://")
        >>> backend.retries.stats().waiting
        0
    """
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise ConfigurationError(f"the URL is {url!r}; {_ALLOWED}; for a path use SQLiteBackend(path)")
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise ConfigurationError(f"the URL is {url!r}; {_ALLOWED}")
    if scheme == "memory":
        return MemoryBackend(clock=clock)
    if scheme == "sqlite":
        if "?" in rest:
            raise ConfigurationError(
                f"the URL {url!r} has options; {_ALLOWED}; for options use SQLiteBackend(path, ...)"
            )
        path = unquote(rest.removeprefix("/"))
        if not rest.startswith("/") or not path:
            raise ConfigurationError(f"the URL {url!r} names no file; {_ALLOWED}")
        from .sqlite import SQLiteBackend  # sqlite3 is loaded only when it is used

        return SQLiteBackend(path, clock=clock)
    raise ConfigurationError(f"the URL {url!r} names the unknown backend {scheme!r}; {_ALLOWED}")


def open_async_backend(url: str, *, clock: Clock | None = None) -> AsyncBackend:
    """Open the backend that a URL names, for asynchronous callers under asyncio or trio.

    Args:
        url: as for `open_backend`.
        clock: as for `open_backend`.

    Raises:
        ConfigurationError: the URL names no backend.
        StoreError: the backend cannot be opened.
    """
    return as_async(open_backend(url, clock=clock))
