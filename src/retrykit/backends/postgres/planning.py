"""What a migration would do."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from textwrap import dedent

from ...errors import SchemaVersionError
from .connections import Connections
from .database import Database, Schema
from .schema import SCHEMA_VERSION, pending

__all__ = ["planned_postgres"]


def planned_postgres(dsn: str, name: str) -> tuple[int, int, Sequence[str]]:
    """Return the version of a schema's tables, that of this code, and the statements between them.

    Raises:
        SchemaVersionError: the tables are of a newer version.
        StoreError: they cannot be looked at.
    """
    schema = Schema(name, None)
    with closing(Connections(dsn, 1)) as connections:
        found = Database(connections, schema).found()
    if found > SCHEMA_VERSION:
        raise SchemaVersionError(f"the schema {name!r}", found, SCHEMA_VERSION)
    return found, SCHEMA_VERSION, [dedent(schema.named(statement)).strip() for statement in pending(found)]
