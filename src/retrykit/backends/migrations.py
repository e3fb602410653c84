"""The tables behind a URL: of which version they are, what leads to this one's, and how they are brought there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import attrs

from ..errors import ConfigurationError
from . import POSTGRES, open_backend, read_postgres_url, read_sqlite_url
from .urls import shown

__all__ = ["Migration", "migrate", "planned"]


@attrs.frozen
class Migration:
    """What brings the tables to this version."""

    found: int
    """Their version; 0: there are none."""
    version: int
    """That of this retrykit."""
    statements: Sequence[str]
    """The SQL, in order; none where nothing is to be done."""


def planned(url: str) -> Migration:
    """Return what would bring the tables behind a URL to this version; nothing is changed.

    Args:
        url: as for `open_backend`, of SQLite or PostgreSQL.

    Raises:
        ConfigurationError: the URL names no backend with tables.
        SchemaVersionError: the tables are of a newer version.
        StoreError: they cannot be looked at.
    """
    scheme = url.partition("://")[0]
    if scheme in POSTGRES:
        from .postgres.planning import planned_postgres

        return Migration(*planned_postgres(*read_postgres_url(url)))
    if scheme == "sqlite":
        from .sqlite.database import planned_sqlite

        return Migration(*planned_sqlite(Path(read_sqlite_url(url))))
    raise ConfigurationError(
        f"the URL {shown(url)} names no backend with tables; allowed are those of SQLite and PostgreSQL"
    )


def migrate(url: str) -> Migration:
    """Bring the tables behind a URL to this version, and return what was done. Others that do so at the same time wait.

    Args:
        url: as for `planned`.

    Raises:
        ConfigurationError: the URL names no backend with tables.
        SchemaVersionError: the tables are of a newer version.
        StoreError: they cannot be changed.
    """
    done = planned(url)
    if url.partition("://")[0] in POSTGRES:
        from .postgres import PostgresBackend

        dsn, schema = read_postgres_url(url)
        with closing(PostgresBackend(dsn, schema=schema, migrate=True)):
            return done
    with closing(open_backend(url)):
        return done
