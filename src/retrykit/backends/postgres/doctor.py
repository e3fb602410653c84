"""What is well and what is not with a PostgreSQL server and the tables on it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...errors import ConfigurationError
from .. import read_postgres_url
from ..doctor import Finding, Level, clock, latency
from .connections import checked
from .database import Schema, drive, plain_cursor
from .faults import translated
from .schema import SCHEMA_VERSION, look

if TYPE_CHECKING:
    import psycopg

__all__ = ["diagnose"]

_MUCH: Final = 0.005
"""Seconds of a round trip."""
_LONG: Final = 3600
"""Seconds that a transaction is open."""
_WAIT: Final = 10
"""Seconds to wait for a connection."""

_ASK: Final = """
    SELECT current_setting('server_version') AS version, extract(epoch FROM clock_timestamp())::float AS clock,
        pg_is_in_recovery() AS is_replica, current_setting('transaction_read_only') AS read_only,
        current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
        current_setting('synchronous_commit') AS synchronous_commit, current_setting('autovacuum') AS autovacuum,
        current_setting('max_connections')::int AS most, (SELECT count(*) FROM pg_stat_activity WHERE usename IS NOT NULL) AS open,
        (SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::float FROM pg_stat_activity) AS longest
"""


def diagnose(url: str) -> Sequence[Finding]:
    """Look at a server: its version, role, tables, durability, connections, clock and latency."""
    dsn, name = read_postgres_url(url)
    dsn, schema = checked(dsn), Schema(name, None)
    import psycopg

    try:
        db = psycopg.connect(dsn, autocommit=True, prepare_threshold=None, connect_timeout=_WAIT)
    except psycopg.Error as error:
        return [_unreachable(error, name)]
    try:
        return _looked_at(db, schema)
    except psycopg.Error as error:
        return [_unreachable(error, name)]
    finally:
        db.close()


def _unreachable(error: psycopg.Error, name: str) -> Finding:
    return Finding(
        "connection",
        Level.PROBLEM,
        str(translated(error, name)).partition("; ")[0],
        "check the URL, the server, and who may connect to it",
    )


def _looked_at(db: psycopg.Connection[Any], schema: Schema) -> list[Finding]:
    begun = time.time()
    cursor = db.execute(_ASK)
    (row,) = cursor.fetchall()
    apart = row[1] - (begun + time.time()) / 2
    has: Mapping[str, Any] = dict(zip((column.name for column in cursor.description or ()), row, strict=True))
    return [
        Finding("connection", Level.OK, "the server answers"),
        Finding("version", Level.OK, f"the server is PostgreSQL {has['version']}"),
        _role(has),
        _tables(db, schema),
        *_durability(has),
        *_upkeep(has),
        _connections(has),
        clock(apart),
        latency(lambda: db.execute("SELECT 1"), _MUCH),
    ]


def _role(has: Mapping[str, Any]) -> Finding:
    if has["is_replica"]:
        return Finding(
            "role", Level.PROBLEM, "the server is a replica, and takes no writes", "connect to the primary server"
        )
    if has["read_only"] == "on":
        return Finding(
            "role",
            Level.PROBLEM,
            "transactions may only read here",
            "set default_transaction_read_only off for this user and database",
        )
    return Finding("role", Level.OK, "the server takes writes")


def _tables(db: psycopg.Connection[Any], schema: Schema) -> Finding:
    try:
        found, _ = drive(plain_cursor(db), look(schema.name), schema)
    except ConfigurationError as error:
        said, _, advice = str(error).partition("; ")
        return Finding("schema", Level.PROBLEM, said, advice)
    if not found:
        said = f"there are no tables of retrykit's in the schema {schema.name!r}"
        return Finding("schema", Level.PROBLEM, said, "run: retrykit migrate")
    said = f"the tables in the schema {schema.name!r} are of version {found}, this retrykit needs {SCHEMA_VERSION}"
    if found == SCHEMA_VERSION:
        return Finding("schema", Level.OK, said)
    advice = "upgrade retrykit here" if found > SCHEMA_VERSION else "run: retrykit migrate"
    return Finding("schema", Level.PROBLEM, said, advice)


def _durability(has: Mapping[str, Any]) -> list[Finding]:
    unsafe = [name for name in ("fsync", "full_page_writes") if has[name] == "off"]
    found = [
        Finding(
            "durability",
            Level.PROBLEM,
            f"{name} is off: a crash of the machine may leave a damaged database",
            f"set {name} on",
        )
        for name in unsafe
    ]
    if has["synchronous_commit"] == "off":
        found.append(
            Finding(
                "durability",
                Level.WARNING,
                "synchronous_commit is off: a crash loses what was answered last, and a message may be sent twice",
                "set it on for this user or database",
            )
        )
    return found or [Finding("durability", Level.OK, "what is answered has been written to the disk")]


def _upkeep(has: Mapping[str, Any]) -> list[Finding]:
    found: list[Finding] = []
    if has["autovacuum"] == "off":
        said = "autovacuum is off: tables grow with every change, and slow down"
        found.append(Finding("vacuum", Level.WARNING, said, "set autovacuum on"))
    if (has["longest"] or 0) > _LONG:
        said = f"a transaction has been open for {has['longest'] / 3600:.1f} h: what is deleted meanwhile stays, and slows reading down"
        found.append(Finding("vacuum", Level.WARNING, said, "end it; pg_stat_activity shows whose it is"))
    return found


def _connections(has: Mapping[str, Any]) -> Finding:
    said = f"{has['open']} of {has['most']} connections are open"
    if has["open"] < 0.8 * has["most"]:
        return Finding("connections", Level.OK, said)
    return Finding(
        "connections", Level.WARNING, said, "give processes smaller pools, raise max_connections, or use PgBouncer"
    )
