"""Backends: each holds the seven stores in one place."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from ..clock import Clock, in_trio
from ..errors import ConfigurationError
from ..stores import AsyncBackend, Backend, as_async
from .memory import MemoryBackend
from .urls import shown

__all__ = ["MemoryBackend", "open_async_backend", "open_backend"]

_ALLOWED = (
    "allowed are 'memory://', 'sqlite:///relative/file.db', 'sqlite:////absolute/file.db', 'postgresql://host/database' and "
    "'redis://host:6379/0'"
)
POSTGRES: Final = ("postgresql", "postgres")
"""The schemes of its URLs."""
_REDIS: Final = ("redis", "rediss", "valkey", "valkeys", "unix")


def open_backend(url: str, *, clock: Clock | None = None) -> Backend:
    """Open the backend that a URL names.

    Args:
        url: ``memory://``; ``sqlite:///`` and a file (a fourth slash makes the path absolute); ``postgresql://`` as libpq takes it,
            where ``?schema=name`` names another schema than ``retrykit``; or ``redis://``, ``valkey://`` or ``unix://`` and what
            redis-py allows there, also ``?prefix=`` and what all keys begin with (default "retrykit").
        clock: where the time comes from; None: the clock in force when a store is used, on a server the server's.

    Raises:
        ConfigurationError: the URL names no backend.
        MissingExtraError: it names one whose extra is not installed.
        StoreError: the backend cannot be opened.

    Example:
        >>> backend = open_backend("memory://")
        >>> backend.retries.stats().waiting
        0
    """
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise ConfigurationError(f"the URL is {shown(url)}; {_ALLOWED}; for a path use SQLiteBackend(path)")
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise ConfigurationError(f"the URL is {shown(url)}; {_ALLOWED}")
    if scheme == "memory":
        return MemoryBackend(clock=clock)
    if scheme == "sqlite":
        from .sqlite import SQLiteBackend  # sqlite3 is loaded only when it is used

        return SQLiteBackend(read_sqlite_url(url), clock=clock)
    if scheme in POSTGRES:
        from .postgres import PostgresBackend  # needs the extra

        dsn, schema = read_postgres_url(url)
        return PostgresBackend(dsn, schema=schema, clock=clock)
    if scheme in _REDIS:
        from .redis import RedisBackend  # the same

        return RedisBackend.from_url(url, clock=clock)
    raise ConfigurationError(f"the URL {shown(url)} names the unknown backend {shown(scheme)}; {_ALLOWED}")


def open_async_backend(url: str, *, clock: Clock | None = None) -> AsyncBackend:
    """Open the backend that a URL names, for asynchronous callers under asyncio or trio.

    The drivers of PostgreSQL and Redis work under asyncio; in a trio run the synchronous ones are called in a thread.

    Args:
        url: as for `open_backend`.
        clock: as for `open_backend`.

    Raises:
        ConfigurationError: the URL names no backend.
        MissingExtraError: the backend's client library is not installed.
        StoreError: the backend cannot be opened.
    """
    scheme = url.partition("://")[0] if isinstance(url, str) and not in_trio() else None
    if scheme in POSTGRES:
        from .postgres import AsyncPostgresBackend

        dsn, schema = read_postgres_url(url)
        return AsyncPostgresBackend(dsn, schema=schema, clock=clock)
    if scheme in _REDIS:
        from .redis import AsyncRedisBackend

        return AsyncRedisBackend.from_url(url, clock=clock)
    return as_async(open_backend(url, clock=clock))


def read_postgres_url(url: str) -> tuple[str, str]:
    """Return the address of a server as libpq takes it, and the schema."""
    address, _, query = url.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    rest = urlencode([(name, value) for name, value in options if name != "schema"], quote_via=quote)
    return f"{address}?{rest}" if rest else address, dict(options).get("schema", "retrykit")


def read_sqlite_url(url: str) -> str:
    """Return the path of the file that a URL names.

    Raises:
        ConfigurationError: it names none, or has options.
    """
    rest = url.partition("://")[2]
    if "?" in rest:
        raise ConfigurationError(
            f"the URL {shown(url)} has options; {_ALLOWED}; for options use SQLiteBackend(path, ...)"
        )
    path = unquote(rest.removeprefix("/"))
    if not rest.startswith("/") or not path:
        raise ConfigurationError(f"the URL {shown(url)} names no file; {_ALLOWED}")
    return path
