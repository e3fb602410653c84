"""The tables of the schema, and how they grow from version to version.

A migration adds tables, columns that may be empty, indexes and triggers; it takes nothing away. So a process that still runs the
version before may go on with a schema that a newer one has migrated.

It works beside the fleet. Each version is one transaction, which gives up soon where somebody else holds a table, since all others would
wait behind it; or it is one index on a table that is in use, which is built while rows are written.

All that is text is compared by code points (``COLLATE "C"``), whatever the database's own order is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ...errors import ConfigurationError, SchemaVersionError
from .letter_tables import TABLES as LETTERS
from .statements import BEGIN, Flow, Statement

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MIGRATIONS", "SCHEMA_VERSION", "Index", "check", "look", "migrate", "pending"]

_TEXT: Final = 'text COLLATE "C"'

_TABLES: Final = (
    f"""
    CREATE TABLE retrykit.claims (
        key {_TEXT} NOT NULL PRIMARY KEY, version bigint NOT NULL GENERATED ALWAYS AS IDENTITY, state text NOT NULL,
        seq bigint NOT NULL, lease_until bigint, lost text, opened_at bigint NOT NULL, not_before bigint, settled_at bigint,
        is_call boolean NOT NULL, record text NOT NULL, unsettled_at bigint GENERATED ALWAYS AS (
            CASE WHEN is_call OR state NOT IN ('sending', 'unknown') THEN NULL WHEN lease_until IS NOT NULL THEN lease_until
                WHEN state = 'unknown' THEN coalesce(not_before, 0) END) STORED)
    """,
    "CREATE INDEX claims_unsettled ON retrykit.claims (unsettled_at, key) WHERE unsettled_at IS NOT NULL",
    "CREATE INDEX claims_settled ON retrykit.claims (settled_at) WHERE settled_at IS NOT NULL",
    f"""
    CREATE TABLE retrykit.marks (
        payload bytea NOT NULL, source {_TEXT} NOT NULL, at bigint NOT NULL, PRIMARY KEY (payload, source))
    """,
    "CREATE INDEX marks_age ON retrykit.marks (at)",
    # Each look for what is due steps over those taken away since the last vacuum, which by default comes when a fifth has gone.
    f"""
    CREATE TABLE retrykit.retries (
        message_id {_TEXT} NOT NULL, generation bigint NOT NULL, version bigint NOT NULL, due_at bigint NOT NULL,
        ready_at bigint NOT NULL, lease_owner text, token bigint NOT NULL GENERATED ALWAYS AS IDENTITY, body bytea NOT NULL,
        attributes text NOT NULL, PRIMARY KEY (message_id, generation))
        WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000)
    """,
    "CREATE INDEX retries_ready ON retrykit.retries (ready_at, message_id, generation)",
    f"""
    CREATE TABLE retrykit.deliveries (
        message_id {_TEXT} NOT NULL PRIMARY KEY, version bigint NOT NULL GENERATED ALWAYS AS IDENTITY, status text NOT NULL,
        provider {_TEXT}, provider_id {_TEXT}, updated_at bigint NOT NULL, is_settled boolean NOT NULL,
        is_unexpected boolean NOT NULL, record text NOT NULL)
    """,
    "CREATE INDEX deliveries_status ON retrykit.deliveries (status, message_id)",
    "CREATE INDEX deliveries_silence ON retrykit.deliveries (status, updated_at, message_id)",
    """
    CREATE INDEX deliveries_provider_id ON retrykit.deliveries (left(provider_id, 100), left(provider, 100))
        WHERE provider_id IS NOT NULL
    """,
    "CREATE INDEX deliveries_unexpected ON retrykit.deliveries (message_id) WHERE is_unexpected",
    "CREATE INDEX deliveries_settled ON retrykit.deliveries (updated_at, message_id) WHERE is_settled",
    f"CREATE TABLE retrykit.bookmarks (source {_TEXT} NOT NULL PRIMARY KEY, at bigint NOT NULL)",
    f"CREATE TABLE retrykit.pauses (key {_TEXT} NOT NULL PRIMARY KEY, said text NOT NULL, since bigint NOT NULL, until bigint)",
    f"""
    CREATE TABLE retrykit.circuits (
        name {_TEXT} NOT NULL PRIMARY KEY, version bigint NOT NULL GENERATED ALWAYS AS IDENTITY, keep_until bigint,
        record text NOT NULL)
    """,
    "CREATE INDEX circuits_old ON retrykit.circuits (keep_until) WHERE keep_until IS NOT NULL",
    f"""
    CREATE TABLE retrykit.signals (
        name {_TEXT} NOT NULL PRIMARY KEY, version bigint NOT NULL GENERATED ALWAYS AS IDENTITY, record text NOT NULL)
    """,
    *LETTERS,
    f"""
    CREATE TABLE retrykit.redrives (
        id {_TEXT} NOT NULL PRIMARY KEY, version bigint NOT NULL GENERATED ALWAYS AS IDENTITY, is_active boolean NOT NULL,
        created_at bigint NOT NULL, record text NOT NULL)
    """,
    "CREATE INDEX redrives_age ON retrykit.redrives ((-created_at), id)",
    "CREATE INDEX redrives_active ON retrykit.redrives ((-created_at), id) WHERE is_active",
    f"""
    CREATE TABLE retrykit.audit (
        digest bytea NOT NULL PRIMARY KEY, entry {_TEXT} NOT NULL, at bigint NOT NULL, step bigint NOT NULL)
    """,
    "CREATE INDEX audit_age ON retrykit.audit ((-at), (-step))",
    """
    CREATE FUNCTION retrykit.keep_audit() RETURNS trigger LANGUAGE plpgsql AS $keep$
    BEGIN RAISE EXCEPTION 'the audit log of retrykit is neither changed nor shortened'; END $keep$
    """,
    """
    CREATE TRIGGER keep_audit BEFORE UPDATE OR DELETE OR TRUNCATE ON retrykit.audit
        FOR EACH STATEMENT EXECUTE FUNCTION retrykit.keep_audit()
    """,
)


class Index(NamedTuple):
    """An index on a table that is in use."""

    table: str
    name: str
    definition: str
    """What comes after the name of the table."""

    @property
    def sql(self) -> str:
        """The statement that builds it. It stands in no transaction."""
        return f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {self.name} ON retrykit.{self.table} {self.definition}"


MIGRATIONS: Final[tuple[tuple[str, ...] | Index, ...]] = (_TABLES,)
"""What leads from each version to the next, from an empty schema on."""

SCHEMA_VERSION: Final = len(MIGRATIONS)

_VERSIONS: Final = (
    "CREATE SCHEMA IF NOT EXISTS retrykit",
    """
    CREATE TABLE IF NOT EXISTS retrykit.versions (
        sole boolean PRIMARY KEY DEFAULT true CHECK (sole), version integer NOT NULL, migrated_at timestamptz NOT NULL,
        identity text NOT NULL)
    """,
)
_HURRY: Final = "SET LOCAL lock_timeout = '2s'"
"""Who waits for a table lets nobody else have it in between."""
_LOCK: Final = "SELECT pg_try_advisory_xact_lock(hashtextextended(%(name)s, 0))"
_PAUSE: Final = "SELECT pg_sleep(0.1)"
_IS_VALID: Final = """
    SELECT indisvalid FROM pg_catalog.pg_index
    WHERE indexrelid = (SELECT c.oid FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE nspname = %(schema)s AND relname = %(index)s)
"""
_FIND: Final = """
    SELECT pg_encoding_to_char(encoding), current_setting('server_version_num')::int, EXISTS (
        SELECT FROM pg_catalog.pg_tables WHERE schemaname = %(schema)s AND tablename = 'versions')
    FROM pg_catalog.pg_database WHERE datname = current_database()
"""
_OLDEST_SERVER: Final = 140000


def look(schema: str) -> Flow[tuple[int, str]]:
    """Return the version of the tables, 0 where there are none, and what tells this schema from all others.

    Raises:
        ConfigurationError: the server is too old, or the database holds no Unicode.
    """
    ((encoding, server, exists),) = yield Statement(_FIND, {"schema": schema})
    if server < _OLDEST_SERVER:
        raise ConfigurationError(f"the server is PostgreSQL {server // 10000}; allowed is 14 and newer")
    if encoding != "UTF8":
        raise ConfigurationError(f"the database is encoded as {encoding}; allowed is UTF8")
    if not exists:
        return 0, ""
    rows = yield Statement("SELECT version, identity FROM retrykit.versions")
    return rows[0] if rows else (0, "")


def check(schema: str) -> Flow[str]:
    """Make sure that the tables are those of this version, and return what tells this schema from all others.

    Raises:
        SchemaVersionError: there are none, or they are of another one.
        ConfigurationError: as for `look`.
    """
    found, identity = yield from look(schema)
    if found != SCHEMA_VERSION:
        raise SchemaVersionError(f"the schema {schema!r}", found, SCHEMA_VERSION)
    return identity


def pending(found: int) -> Sequence[str]:
    """Return the statements that lead from a version to this one."""
    statements = list[str]()
    for version, step in enumerate(MIGRATIONS[found:], found):
        if isinstance(step, Index):
            statements += [step.sql, _set_version(version + 1)]
        else:
            statements += [BEGIN, *_changes(version, step), "COMMIT"]
    return statements


def _changes(version: int, step: Sequence[str]) -> Sequence[str]:
    """Return the statements of one transaction that lead from a version to the next one."""
    return [*([_HURRY] if version else _VERSIONS), *step, _set_version(version + 1)]


def _set_version(version: int) -> str:
    return (
        f"INSERT INTO retrykit.versions (version, migrated_at, identity) VALUES ({version}, now(), gen_random_uuid()) "
        "ON CONFLICT (sole) DO UPDATE SET version = excluded.version, migrated_at = excluded.migrated_at"
    )


def migrate(schema: str) -> Flow[int]:
    """Bring the tables to this version, and return the one they had; others that do so at the same time wait.

    Raises:
        SchemaVersionError: they are of a newer version.
        ConfigurationError: as for `look`.
    """
    first: int | None = None
    while True:
        yield from _begin_alone(schema)
        found, _ = yield from look(schema)
        first = found if first is None else first
        if found > SCHEMA_VERSION:
            raise SchemaVersionError(f"the schema {schema!r}", found, SCHEMA_VERSION)
        step = None if found == SCHEMA_VERSION else MIGRATIONS[found]
        if isinstance(step, Index):
            if (yield from _is_built(step, schema)):
                yield Statement(_set_version(found + 1))
            else:
                yield Statement("COMMIT")
                yield Statement(step.sql)
                continue  # and see whether it was built
        elif step is not None:
            for statement in _changes(found, step):
                yield Statement(statement)
        yield Statement("COMMIT")
        if found + 1 >= SCHEMA_VERSION:
            return first


def _begin_alone(schema: str) -> Flow[None]:
    """Begin a transaction while nobody else migrates, and keep others out until it ends.

    It is not waited for within one: an index that somebody builds waits for all transactions that have seen something.
    """
    while True:
        yield Statement(BEGIN)
        if (yield Statement(_LOCK, {"name": f"retrykit schema {schema}"}))[0][0]:
            return
        yield Statement("COMMIT")
        yield Statement(_PAUSE)


def _is_built(index: Index, schema: str) -> Flow[bool]:
    """Return whether an index can be used; one whose building has failed is taken away."""
    look_at = Statement(_IS_VALID, {"schema": schema, "index": index.name})
    if (True,) in (yield look_at):
        return True
    yield Statement(f"LOCK TABLE retrykit.{index.table} IN SHARE UPDATE EXCLUSIVE MODE")  # who builds it holds it so
    if (True,) in (yield look_at):
        return True
    yield Statement(_HURRY)
    yield Statement(f"DROP INDEX IF EXISTS retrykit.{index.name}")
    return False
