"""Backends: each holds the seven stores in one place."""

from __future__ import annotations

from urllib.parse import unquote

from ..clock import Clock, in_trio
from ..errors import ConfigurationError
from ..stores import AsyncBackend, Backend, as_async
from .memory import MemoryBackend
from .urls import shown

__all__ = ["MemoryBackend", "open_async_backend", "open_backend"]

_ALLOWED = (
    "allowed are 'memory://', 'sqlite:///relative/file.db', 'sqlite:////absolute/file.db' and 'redis://host:6379/0'"
)
_REDIS = ("redis", "rediss", "valkey", "valkeys", "unix")


def open_backend(url: str, *, clock: Clock | None = None) -> Backend:
    """Open the backend that a URL names.

    Args:
        url: ``memory://``; ``sqlite:///`` and a file (a fourth slash makes the path absolute); or ``redis://``, ``valkey://`` or
            ``unix://`` and what redis-py allows there, also ``?prefix=`` and what all keys begin with (default "retrykit").
        clock: where the time comes from; None: the clock in force when a store is used, on a server the server's.

    Raises:
        ConfigurationError: the URL names no backend.
        MissingExtraError: the backend's client library is not installed.
        StoreError: the backend cannot be opened.

    Example:
        >>> backend = open_backend("memory://")
        >>> backend.retries.stats().waiting
        0
    """
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise ConfigurationError(f"the URL is {shown(url)}; {_ALLOWED}; for a path use SQLiteBackend(path)")
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise ConfigurationError(f"the URL is {shown(url)}; {_ALLOWED}")
    if scheme == "memory":
        return MemoryBackend(clock=clock)
    if scheme == "sqlite":
        if "?" in rest:
            raise ConfigurationError(
                f"the URL {shown(url)} has options; {_ALLOWED}; for options use SQLiteBackend(path, ...)"
            )
        path = unquote(rest.removeprefix("/"))
        if not rest.startswith("/") or not path:
            raise ConfigurationError(f"the URL {shown(url)} names no file; {_ALLOWED}")
        from .sqlite import SQLiteBackend  # sqlite3 is loaded only when it is used

        return SQLiteBackend(path, clock=clock)
    if scheme in _REDIS:
        from .redis import RedisBackend

        return RedisBackend.from_url(url, clock=clock)
    raise ConfigurationError(f"the URL {shown(url)} names the unknown backend {shown(scheme)}; {_ALLOWED}")


def open_async_backend(url: str, *, clock: Clock | None = None) -> AsyncBackend:
    """Open the backend that a URL names, for asynchronous callers under asyncio or trio.

    Under trio, for which redis-py has no client, a server is called in one worker thread.

    Args:
        url: as for `open_backend`.
        clock: as for `open_backend`.

    Raises:
        ConfigurationError: the URL names no backend.
        MissingExtraError: the backend's client library is not installed.
        StoreError: the backend cannot be opened.
    """
    if isinstance(url, str) and url.partition("://")[0] in _REDIS and not in_trio():
        from .redis import AsyncRedisBackend

        return AsyncRedisBackend.from_url(url, clock=clock)
    return as_async(open_backend(url, clock=clock))
