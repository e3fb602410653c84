"""What the PostgreSQL backend costs: `python benchmarks/postgres_rows.py --dsn "host=... dbname=..." --rows 100000 --letters 100000`.

In a schema of its own, which is dropped afterwards, the queue is filled with as many waiting messages, and the operations are timed.
"by hand" is the same work in bare SQL, as an application would write it for itself, on tables of the same columns and indexes: the
same number of round trips, parameters in, objects out. Both are timed in turns in the same run; the ratio is that of their medians.
Then the questions of `dead_letters.py` are asked of as many letters.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

import psycopg
import psycopg_pool
from dead_letters import Letters, questions  # beside this file

from retrykit.backends.postgres import PostgresBackend
from retrykit.backends.postgres.letter_rows import PUT, put_values
from retrykit.backends.postgres.letter_sums import ADD_UP
from retrykit.machines import claim as machine
from retrykit.message import Message
from retrykit.scheduler import RetryScheduler
from retrykit.stores import Claimed

BATCH = 100
SCHEMA = "retrykit_benchmark"
BY_HAND = "retrykit_by_hand"
PAYLOAD = {"to": "somebody@example.org", "template": "welcome", "data": {"name": "Ada", "items": list(range(20))}}
BODY = json.dumps(PAYLOAD).encode()
ATTRIBUTES = {"campaign_id": "spring", "recipient": "somebody@example.org"}
NUMBERS = count(time.time_ns())
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
SOON = datetime.now(UTC) + timedelta(minutes=30)


class ByHand:
    """The same work in bare SQL."""

    def __init__(self, dsn: str, threshold: int | None) -> None:
        self._db: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True, prepare_threshold=threshold)

    def schedule(self, message_id: str, due_at: datetime) -> None:
        """Let a message wait."""
        due = int(due_at.timestamp() * 1000)
        self._db.execute(
            f"INSERT INTO {BY_HAND}.retries (message_id, generation, version, due_at, ready_at, body, attributes) "
            "VALUES (%s, 1, 1, %s, %s, %s, %s) ON CONFLICT (message_id, generation) DO UPDATE SET due_at = excluded.due_at, "
            "ready_at = excluded.ready_at, lease_owner = NULL, body = excluded.body, attributes = excluded.attributes",
            (message_id, due, due, BODY, json.dumps(ATTRIBUTES)),
        )

    def claim_and_ack(self, publish: Callable[[object], object] = bool) -> None:
        """Take hold of due messages, publish and remove each."""
        rows = self._db.execute(
            f"WITH taken AS MATERIALIZED (SELECT message_id, generation FROM {BY_HAND}.retries "
            "WHERE ready_at <= floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint ORDER BY ready_at LIMIT %s FOR UPDATE SKIP LOCKED) "
            f"UPDATE {BY_HAND}.retries AS entry SET lease_owner = 'me', token = DEFAULT, "
            "ready_at = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + 30000 "
            "FROM taken WHERE entry.message_id = taken.message_id AND entry.generation = taken.generation "
            "RETURNING entry.message_id, entry.token, entry.body, entry.attributes, entry.due_at",
            (BATCH,),
        ).fetchall()
        due = [
            (key, token, body, json.loads(of), datetime.fromtimestamp(at / 1000, UTC))
            for key, token, body, of, at in rows
        ]
        assert len(due) == BATCH
        for key, token, *rest in due:
            publish(rest)
            self._db.execute(
                f"DELETE FROM {BY_HAND}.retries WHERE message_id = %s AND generation = 1 AND token = %s", (key, token)
            )

    def claim_and_settle(self, key: str) -> None:
        """Take a key, and record that its work is done."""
        until = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        ((seq,),) = self._db.execute(
            f"INSERT INTO {BY_HAND}.claims (key, state, seq, lease_until, opened_at, is_call, record) "
            f"VALUES (%s, 'claimed', 1, {until} + 30000, {until}, false, %s) ON CONFLICT DO NOTHING RETURNING seq",
            (key, json.dumps({"key": key, "owner": "me", "attempts": []})),
        ).fetchall()
        self._db.execute(
            f"UPDATE {BY_HAND}.claims SET state = 'done', seq = seq + 1, lease_until = NULL, settled_at = {until}, record = %s "
            "WHERE key = %s AND seq = %s RETURNING seq",
            (json.dumps({"key": key, "provider_id": "7", "attempts": []}), key, seq),
        ).fetchall()

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


class Times(NamedTuple):
    """Seconds of each round."""

    ours: list[float]
    by_hand: list[float]


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def claim_and_ack(backend: PostgresBackend) -> None:
    """Take a batch and remove each message."""
    due = backend.retries.claim_due(BATCH, owner="me")
    assert len(due) == BATCH
    for each in due:
        assert backend.retries.ack(each)


def claim_and_settle(backend: PostgresBackend, key: str) -> None:
    """Take a key, and record that its work is done."""
    answer = backend.claims.claim(key, owner="me")
    assert isinstance(answer, Claimed)
    assert backend.claims.settle(machine.sent(answer.record, provider_id="7"), answer.record.seq) is not None


def rounds_of(backend: PostgresBackend, by_hand: ByHand, rounds: int) -> dict[str, Times]:
    """Time batches, ours and by hand in turns."""
    names = (
        "schedule 100, due later",
        "schedule 100, due at once",
        "claim_due(100) and 100 acks",
        "100 republished",
        "claim and settle, 100 keys",
    )
    found = {name: Times([], []) for name in names}
    later, schedule, claim, republish, settle = found.values()
    queue: list[object] = []
    scheduler = RetryScheduler(backend, queue.append, batch=BATCH)
    for _ in range(rounds):
        keys = [f"later-{next(NUMBERS)}" for _ in range(BATCH)]
        ours = [Message(key, BODY, ATTRIBUTES) for key in keys]
        later.ours.append(timed(lambda ours=ours: [backend.retries.schedule(each, SOON) for each in ours]))  # type: ignore[misc]
        later.by_hand.append(timed(lambda keys=keys: [by_hand.schedule(key, SOON) for key in keys]))  # type: ignore[misc]
        keys = [f"new-{next(NUMBERS)}" for _ in range(BATCH)]
        ours = [Message(key, BODY, ATTRIBUTES) for key in keys]
        schedule.ours.append(timed(lambda ours=ours: [backend.retries.schedule(each, LONG_AGO) for each in ours]))  # type: ignore[misc]
        schedule.by_hand.append(timed(lambda keys=keys: [by_hand.schedule(key, LONG_AGO) for key in keys]))  # type: ignore[misc]
        claim.ours.append(timed(lambda: claim_and_ack(backend)))
        claim.by_hand.append(timed(by_hand.claim_and_ack))
        for each in ours:
            backend.retries.schedule(each, LONG_AGO)
            by_hand.schedule(each.id, LONG_AGO)
        republish.ours.append(timed(scheduler.run_once))
        republish.by_hand.append(timed(lambda: by_hand.claim_and_ack(queue.append)))
        settle.ours.append(timed(lambda keys=keys: [claim_and_settle(backend, key) for key in keys]))  # type: ignore[misc]
        settle.by_hand.append(timed(lambda keys=keys: [by_hand.claim_and_settle(key) for key in keys]))  # type: ignore[misc]
    assert len(queue) == 2 * BATCH * rounds
    return found


def fill_queue(db: psycopg.Connection[Any], schema: str, rows: int) -> None:
    """Fill a retry queue with messages that are due in a year."""
    soon = int((datetime.now(UTC) + timedelta(days=365)).timestamp() * 1000)
    db.execute(
        f"INSERT INTO {schema}.retries (message_id, generation, version, due_at, ready_at, body, attributes) "
        "SELECT 'waiting-' || n, 1, 1, %(soon)s + n * 97 %% %(rows)s, %(soon)s + n * 97 %% %(rows)s, %(body)s, %(attributes)s "
        "FROM generate_series(1, %(rows)s::bigint) AS n",
        {"soon": soon, "rows": rows, "body": BODY, "attributes": json.dumps(ATTRIBUTES)},
    )
    db.execute(f"ANALYZE {schema}.retries")


def fill_letters(backend: PostgresBackend, db: psycopg.Connection[Any], total: int) -> Letters:
    """Fill the dead letters, many in each transaction, and add them up."""
    letters, began = Letters(total), time.monotonic()
    put, add_up = backend._schema.sql(PUT), backend._schema.sql(ADD_UP)
    for start in range(0, total, 10_000):
        with db.transaction(), db.cursor() as cursor:
            cursor.executemany(
                put, [put_values(letters.draw(number)) for number in range(start, min(start + 10_000, total))]
            )
            cursor.execute(add_up, {"least": 1, "limit": 20_000})
    for table in ("letters", "letter_attributes", "letter_sums", "letter_kinds"):
        db.execute(f"VACUUM ANALYZE {SCHEMA}.{table}")
    ((size,),) = db.execute(f"SELECT pg_total_relation_size('{SCHEMA}.letters')").fetchall()
    print(f"\nfilled with {total:,} letters in {time.monotonic() - began:.0f} s, {size / total:,.0f} bytes each")
    return letters


def ask(backend: PostgresBackend, letters: Letters, total: int, rounds: int) -> None:
    """Ask each question of letters drawn at random, and print what it costs."""
    print(f"milliseconds, median of {rounds} (95th percentile)")
    drawn = random.Random(5)
    for name, question in questions(backend.dead_letters):
        asked = [letters.draw(drawn.randrange(total)) for _ in range(rounds)]
        times = [timed(lambda each=each, question=question: question(each)) for each in asked]  # type: ignore[misc]
        print(f"{name:42} {_figures(times)}")
    new = [letters.draw(total + number) for number in range(rounds)]
    print(f"{'put':42} {_figures([timed(lambda each=each: backend.dead_letters.put(each)) for each in new])}")  # type: ignore[misc]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dsn", required=True, help="the address of a database, as libpq takes it")
    parser.add_argument("--rows", type=int, default=100_000, help="waiting messages (default 100000)")
    parser.add_argument("--letters", type=int, default=100_000, help="dead letters (default 100000); 0: no questions")
    parser.add_argument("--rounds", type=int, default=30, help="how often each is timed (default 30)")
    parser.add_argument(
        "--prepared", action="store_true", help="let a pool's connection and the one by hand prepare statements"
    )
    given = parser.parse_args()
    with closing(psycopg.connect(given.dsn, autocommit=True)) as db:
        for schema in (SCHEMA, BY_HAND):
            db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
            PostgresBackend(given.dsn, schema=schema, migrate=True).close()
            fill_queue(db, schema, given.rows)
        try:
            threshold = 5 if given.prepared else None
            options = {"autocommit": True, "prepare_threshold": threshold}
            with (
                psycopg_pool.ConnectionPool(given.dsn, min_size=1, max_size=1, open=True, kwargs=options) as pool,
                closing(PostgresBackend(pool if given.prepared else given.dsn, schema=SCHEMA)) as backend,
                closing(ByHand(given.dsn, threshold)) as by_hand,
            ):
                (version,) = db.execute("SELECT current_setting('server_version')").fetchone() or ("?",)
                print(
                    f"Python {platform.python_version()}, PostgreSQL {version}, {platform.system()} {platform.machine()}"
                )
                print(f"{given.rows:,} waiting messages\nmilliseconds, median of {given.rounds} (95th percentile)")
                for name, times in rounds_of(backend, by_hand, given.rounds).items():
                    ratio = statistics.median(times.ours) / statistics.median(times.by_hand)
                    print(f"{name:32} {_figures(times.ours)}   by hand {_figures(times.by_hand)}   {ratio:.2f} x")
                if given.letters:
                    ask(backend, fill_letters(backend, db, given.letters), given.letters, given.rounds)
        finally:
            for schema in (SCHEMA, BY_HAND):
                db.execute(f"DROP SCHEMA {schema} CASCADE")


def _figures(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:8.2f} ({sorted(seconds)[int(len(seconds) * 0.95)] * 1000:8.2f})"


if __name__ == "__main__":
    main()
