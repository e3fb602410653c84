"""`retrykit migrate`: the tables are made, or it is said how."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.capabilities import require

require("click", "rich")

from click.testing import CliRunner

from retrykit.backends.sqlite.schema import SCHEMA_VERSION
from retrykit.cli.app import app


def run(*args, **env):
    return CliRunner().invoke(app, ["migrate", *args], env={"RETRYKIT_URL": None, **env})


def test_sqlite_file_is_made_and_is_then_of_this_version(tmp_path):
    """The second time there is nothing to do."""
    url = f"sqlite:///{tmp_path}/mail.db"
    assert [run("--url", url).stdout for _ in range(2)] == [
        f"brought from version 0 to {SCHEMA_VERSION}\n",
        f"of version {SCHEMA_VERSION} already\n",
    ]
    assert run(RETRYKIT_URL=url).exit_code == 0


def test_dry_run_prints_the_sql_and_changes_nothing(tmp_path):
    """Also of a file that is not there."""
    file = tmp_path / "mail.db"
    printed = run("--url", f"sqlite:///{file}", "--dry-run").stdout
    assert "CREATE TABLE retrykit_claims" in printed
    assert printed.endswith(f"UPDATE retrykit_schema SET version = {SCHEMA_VERSION};\n")
    assert not file.exists()
    run("--url", f"sqlite:///{file}")
    assert run("--url", f"sqlite:///{file}", "--dry-run").stdout == ""


@pytest.mark.parametrize(
    ("version", "said"),
    [(SCHEMA_VERSION + 1, "upgrade retrykit"), ("lost", "does not tell the version of its tables")],
)
def test_file_that_cannot_be_migrated_is_told(tmp_path, version, said):
    """With exit code 2, whether it would be changed or not."""
    file = tmp_path / "mail.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("CREATE TABLE retrykit_schema (version)")
        db.execute("INSERT INTO retrykit_schema VALUES (?)", [version])
    for options in ([], ["--dry-run"]):
        result = run("--url", f"sqlite:///{file}", *options)
        assert (result.exit_code, said in result.stderr) == (2, True)


def test_file_that_is_no_database_is_told(tmp_path):
    """It is left alone."""
    file = tmp_path / "mail.db"
    file.write_text("no database, but a text of some length" * 100)
    result = run("--url", f"sqlite:///{file}", "--dry-run")
    assert (result.exit_code, "is not a SQLite database" in result.stderr) == (2, True)


@pytest.mark.parametrize("url", ["memory://", "mysql://host/db"])
def test_backend_without_tables_is_refused(url):
    """With what is allowed."""
    result = run("--url", url)
    assert (result.exit_code, "allowed are those of SQLite and PostgreSQL" in result.stderr) == (2, True)


def test_no_url_is_asked_for():
    """As by every command."""
    assert "which backend?" in run().stderr
