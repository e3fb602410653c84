"""The SQLite backend: all five stores in one file, shared by many threads and processes. The embedded default.

Each operation is one transaction, taken for writing from its start, so that read and write are one atomic step. The
tables carry the prefix ``retrykit_`` and may live in an application's own database. The file is in write-ahead-log mode.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from os import PathLike
from typing import Any, Literal, cast

import attrs

from .. import codec
from ..clock import Clock
from ..codec import JSON
from ..dead_letter import DeadLetter, DeadLetterState
from ..errors import StoreCorruptError
from ..lease import Lease
from ..machines import claim as machine
from ..message import Message
from ..stores.circuits import CircuitStore, Pause
from ..stores.claims import ClaimAnswer, ClaimRecord, ClaimState, ClaimStore, PoisonRule
from ..stores.dead_letters import DeadLetterPage, DeadLetterQuery, DeadLetterStore, Facet
from ..stores.deliveries import Delivery, DeliveryStatus, DeliveryStore
from ..stores.retries import DueMessage, RetryStats, RetryStore
from ..times import Duration, from_millis, later, to_millis
from .cursors import read_cursor, write_cursor
from .sqlite_database import Database

__all__ = ["SQLiteBackend"]


class _Claims(ClaimStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, poison: PoisonRule) -> ClaimAnswer:
        with self._database.transaction() as (db, now):
            before = _load(db, key)
            record, answer = machine.take(
                before, key, fingerprint=fingerprint, owner=owner, lease=lease, poison=poison, now=now
            )
            if record is not before:
                _save(db, record)
            return answer

    def _claim_unknown(self, key: str, owner: str, lease: float) -> ClaimRecord | None:
        with self._database.transaction() as (db, now):
            return _save(db, machine.take_unknown(_load(db, key), owner=owner, lease=lease, now=now))

    def _begin_send(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        with self._database.transaction() as (db, now):
            return _save(db, machine.begin_send(_load(db, key), token, lease=lease, now=now))

    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        with self._database.transaction() as (db, now):
            return _save(db, machine.write(_load(db, record.key), record, token, delay=delay, now=now))

    def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> ClaimRecord:
        with self._database.transaction() as (db, now):
            record = machine.confirm(_load(db, key), key, provider=provider, provider_id=provider_id, now=now)
            _save(db, record)
            return record

    def _get(self, key: str) -> ClaimRecord | None:
        with self._database.reading() as (db, _):
            return _load(db, key)

    def _unsettled(self, limit: int) -> Sequence[str]:
        with self._database.reading() as (db, now):
            rows = db.execute(
                "SELECT key FROM retrykit_claims WHERE unsettled_at <= ? ORDER BY unsettled_at, key LIMIT ?",
                (to_millis(now), limit),
            )
            return [key for (key,) in rows]


@contextmanager
def _readable(what: str) -> Generator[None]:
    """Turn whatever a damaged record leads to into the contract's error."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise StoreCorruptError(f"{what} cannot be read: {error}") from error


def _text(value: str) -> str:
    """Return text as SQLite can hold it: it has no form for lone surrogates, so these are written as escapes."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _optional_text(value: str | None) -> str | None:
    return None if value is None else _text(value)


def _load(db: sqlite3.Connection, key: str) -> ClaimRecord | None:
    row = db.execute("SELECT record FROM retrykit_claims WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    with _readable(f"the claim record of {key!r}"):
        return ClaimRecord.from_dict(cast("Mapping[str, JSON]", codec.decode(row[0])))


def _save(db: sqlite3.Connection, record: ClaimRecord | None) -> ClaimRecord | None:
    if record is not None:
        db.execute(
            "INSERT INTO retrykit_claims (key, state, unsettled_at, record) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (key) DO UPDATE SET "
            "state = excluded.state, unsettled_at = excluded.unsettled_at, record = excluded.record",
            (record.key, record.state.value, _unsettled_at(record), codec.encode(record.to_dict()).decode("ascii")),
        )
    return record


def _unsettled_at(record: ClaimRecord) -> int | None:
    """Return when it will be time to find out about a send, in epoch milliseconds; None: there is nothing to find out."""
    if record.lease is not None:
        held = record.state in (ClaimState.SENDING, ClaimState.UNKNOWN)
        return to_millis(record.lease.deadline) if held else None
    if record.state is not ClaimState.UNKNOWN:
        return None
    return 0 if record.not_before is None else to_millis(record.not_before)


class _Retries(RetryStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> None:
        due = to_millis(due_at)
        attributes = codec.encode(dict(message.attributes)).decode("ascii")
        with self._database.transaction() as (db, _):
            db.execute(
                "INSERT INTO retrykit_retries AS entry "
                "(message_id, generation, version, due_at, ready_at, body, attributes) VALUES (?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (message_id, generation) DO UPDATE SET "
                "due_at = excluded.due_at, ready_at = excluded.ready_at, lease_owner = NULL, lease_token = NULL, "
                "body = iif(excluded.version > entry.version, excluded.body, entry.body), "
                "attributes = iif(excluded.version > entry.version, excluded.attributes, entry.attributes), "
                "version = max(excluded.version, entry.version) "
                "WHERE excluded.version > entry.version OR entry.lease_token IS NOT NULL",
                (message.id, generation, version, due, due, message.body, attributes),
            )

    def _claim_due(self, limit: int, owner: str, lease: float) -> Sequence[DueMessage]:
        with self._database.reading() as (db, now):  # most polls find nothing, and then nothing is written
            query = "SELECT 1 FROM retrykit_retries WHERE ready_at <= ? LIMIT 1"
            if db.execute(query, (to_millis(now),)).fetchone() is None:
                return []
        with self._database.transaction() as (db, now):
            (token,) = db.execute("UPDATE retrykit_schema SET token = token + 1 RETURNING token").fetchone()
            held = Lease(owner, token, later(now, lease))
            rows = db.execute(
                "UPDATE retrykit_retries SET lease_owner = ?, lease_token = ?, ready_at = ? WHERE rowid IN "
                "(SELECT rowid FROM retrykit_retries WHERE ready_at <= ? ORDER BY ready_at, message_id LIMIT ?) "
                "RETURNING message_id, generation, due_at, body, attributes",
                (_text(owner), token, to_millis(held.deadline), to_millis(now), limit),
            ).fetchall()
        due: list[DueMessage] = []
        for message_id, generation, due_at, body, attributes in rows:
            with _readable(f"the waiting message {message_id!r}"):
                message = Message(message_id, body, _attributes(attributes), max_payload=len(body))
                due.append(DueMessage(message=message, generation=generation, due_at=from_millis(due_at), lease=held))
        return sorted(due, key=lambda entry: (entry.due_at, entry.message.id))

    def _ack(self, due: DueMessage) -> bool:
        with self._database.transaction() as (db, _):
            cursor = db.execute(f"DELETE FROM retrykit_retries WHERE {_HELD}", _held(due))
            return cursor.rowcount == 1

    def _release(self, due: DueMessage, delay: float) -> bool:
        with self._database.transaction() as (db, now):
            at = to_millis(later(now, delay))
            cursor = db.execute(
                "UPDATE retrykit_retries SET lease_owner = NULL, lease_token = NULL, due_at = ?, ready_at = ? "
                f"WHERE {_HELD}",
                (at, at, *_held(due)),
            )
            return cursor.rowcount == 1

    def _stats(self) -> RetryStats:
        with self._database.reading() as (db, now):
            total, leased, due, first = db.execute(
                "SELECT count(*), count(lease_token), count(CASE WHEN ready_at <= ? THEN 1 END), min(ready_at) "
                "FROM retrykit_retries",
                (to_millis(now),),
            ).fetchone()
        return RetryStats(
            waiting=total - leased, leased=leased, due=due, next_due_at=None if first is None else from_millis(first)
        )


_HELD = "message_id = ? AND generation = ? AND lease_token = ?"


def _held(due: DueMessage) -> tuple[str, int, int]:
    return due.message.id, due.generation, due.lease.token


def _attributes(text: str) -> Mapping[str, str]:
    return cast("Mapping[str, str]", codec.decode(text))


class _DeadLetters(DeadLetterStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    def _put(self, letter: DeadLetter) -> DeadLetter:
        with self._database.transaction() as (db, _):
            row = db.execute(
                "SELECT state, record FROM retrykit_dead_letters WHERE id = ?", (_text(letter.id),)
            ).fetchone()
            if row is not None and row[1] is not None:
                return _letter(row[0], row[1])
            if row is not None:  # resolved before it came
                letter = attrs.evolve(letter, state=DeadLetterState(row[0]))
            fields = {name: getattr(letter, name) for name in _LETTER_COLUMNS}
            db.execute(
                f"INSERT OR REPLACE INTO retrykit_dead_letters (id, record, {', '.join(fields)}) "
                f"VALUES (?, ?, {', '.join('?' * len(fields))})",
                (_text(letter.id), letter.to_json(), *map(_optional_text, fields.values())),
            )
            return letter

    def _resolve(self, letter_id: str) -> None:
        with self._database.transaction() as (db, _):
            db.execute(
                "INSERT INTO retrykit_dead_letters (id, state) VALUES (?, ?) "
                "ON CONFLICT (id) DO UPDATE SET state = excluded.state",
                (_text(letter_id), DeadLetterState.RESOLVED.value),
            )

    def _get(self, letter_id: str) -> DeadLetter | None:
        with self._database.reading() as (db, _):
            row = db.execute(
                "SELECT state, record FROM retrykit_dead_letters WHERE id = ? AND record IS NOT NULL",
                (_text(letter_id),),
            ).fetchone()
        return None if row is None else _letter(*row)

    def _search(self, query: DeadLetterQuery, limit: int, cursor: str | None) -> DeadLetterPage:
        where, values = _where(query)
        if cursor is not None:
            where, values = f"{where} AND number < ?", (*values, read_cursor(cursor))
        with self._database.reading() as (db, _):
            rows = db.execute(
                f"SELECT number, state, record FROM retrykit_dead_letters WHERE {where} ORDER BY number DESC LIMIT ?",
                (*values, limit + 1),
            ).fetchall()
        more = len(rows) > limit
        letters = [_letter(state, record) for _, state, record in rows[:limit]]
        return DeadLetterPage(letters, write_cursor(rows[limit - 1][0]) if more else None)

    def _count(self, query: DeadLetterQuery) -> int:
        where, values = _where(query)
        with self._database.reading() as (db, _):
            (total,) = db.execute(f"SELECT count(*) FROM retrykit_dead_letters WHERE {where}", values).fetchone()
        return int(total)

    def _top(self, facet: Facet, query: DeadLetterQuery, limit: int) -> Sequence[tuple[str, int]]:
        where, values = _where(query)
        with self._database.reading() as (db, _):
            return db.execute(
                f"SELECT {facet}, count(*) FROM retrykit_dead_letters WHERE {where} AND {facet} IS NOT NULL "
                f"GROUP BY {facet} ORDER BY count(*) DESC, {facet} LIMIT ?",
                (*values, limit),
            ).fetchall()


_LETTER_COLUMNS = (
    "message_id",
    "campaign_id",
    "provider",
    "error_class",
    "error_group",
    "error_code",
    "reason",
    "state",
)


def _where(query: DeadLetterQuery) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL of a query's conditions, made of our own column names, and their values."""
    conditions = query.conditions()
    return " AND ".join(["record IS NOT NULL", *(f"{name} = ?" for name in conditions)]), tuple(
        map(_text, conditions.values())
    )


def _letter(state: str, record: str) -> DeadLetter:
    with _readable("a dead letter"):
        return attrs.evolve(DeadLetter.from_json(record), state=DeadLetterState(state))


class _Deliveries(DeliveryStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    def _record(self, delivery: Delivery) -> Delivery:
        with self._database.transaction() as (db, _):
            stored = _delivery(db, delivery.message_id)
            new = delivery.after(stored)
            if new is None:
                return cast("Delivery", stored)
            db.execute(
                "INSERT OR REPLACE INTO retrykit_deliveries "
                "(message_id, status, version, provider, provider_id, updated_at) VALUES (?, ?, ?, ?, ?, ?)",
                (
                    new.message_id,
                    new.status.value,
                    new.version,
                    _optional_text(new.provider),
                    _optional_text(new.provider_id),
                    to_millis(new.updated_at),
                ),
            )
            return new

    def _get(self, message_id: str) -> Delivery | None:
        with self._database.reading() as (db, _):
            return _delivery(db, message_id)

    def _with_status(self, status: DeliveryStatus, limit: int, after: str) -> Sequence[Delivery]:
        with self._database.reading() as (db, _):
            rows = db.execute(
                f"SELECT {_DELIVERY_COLUMNS} FROM retrykit_deliveries WHERE status = ? AND message_id > ? "
                "ORDER BY message_id LIMIT ?",
                (status.value, _text(after), limit),
            ).fetchall()
        return [_delivery_of(row) for row in rows]

    def _counts(self) -> Mapping[DeliveryStatus, int]:
        with self._database.reading() as (db, _):
            rows = db.execute("SELECT status, count(*) FROM retrykit_deliveries GROUP BY status").fetchall()
        with _readable("the delivery log"):
            return {DeliveryStatus(status): total for status, total in rows}


_DELIVERY_COLUMNS = "message_id, status, version, provider, provider_id, updated_at"


def _delivery(db: sqlite3.Connection, message_id: str) -> Delivery | None:
    row = db.execute(
        f"SELECT {_DELIVERY_COLUMNS} FROM retrykit_deliveries WHERE message_id = ?", (message_id,)
    ).fetchone()
    return None if row is None else _delivery_of(row)


def _delivery_of(row: tuple[Any, ...]) -> Delivery:
    message_id, status, version, provider, provider_id, updated_at = row
    with _readable(f"the delivery of {message_id!r}"):
        return Delivery(
            message_id=message_id,
            status=DeliveryStatus(status),
            version=version,
            provider=provider,
            provider_id=provider_id,
            updated_at=from_millis(updated_at),
        )


class _Circuits(CircuitStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        with self._database.transaction() as (db, now):
            db.execute(
                "INSERT OR REPLACE INTO retrykit_pauses (key, reason, by, since, until) VALUES (?, ?, ?, ?, ?)",
                (key, _text(reason), _text(by), to_millis(now), None if until is None else to_millis(until)),
            )
            return Pause(key=key, reason=reason, by=by, since=now, until=until)

    def _resume(self, key: str) -> bool:
        with self._database.transaction() as (db, now):
            row = db.execute("DELETE FROM retrykit_pauses WHERE key = ? RETURNING until", (key,)).fetchone()
            return row is not None and (row[0] is None or row[0] > to_millis(now))

    def _pauses(self) -> Sequence[Pause]:
        with self._database.reading() as (db, now):
            rows = db.execute(
                "SELECT key, reason, by, since, until FROM retrykit_pauses "
                "WHERE until IS NULL OR until > ? ORDER BY key",
                (to_millis(now),),
            ).fetchall()
        return [
            Pause(
                key=key,
                reason=reason,
                by=by,
                since=from_millis(since),
                until=None if until is None else from_millis(until),
            )
            for key, reason, by, since, until in rows
        ]


class SQLiteBackend:
    """Five stores in one SQLite file, safe for many threads and processes.

    Args:
        path: the file; made when it is not there, in a folder that is.
        clock: where the time comes from; None: the clock in force when a store is used.
        busy_timeout: how long an operation waits for another process to finish writing.
        synchronous: "full" survives a power failure, "normal" only the death of processes but writes faster
            (https://www.sqlite.org/pragma.html#pragma_synchronous).

    Raises:
        StoreUnavailableError: the file cannot be opened or written.
        StoreCorruptError: the file is not a SQLite database, or is damaged.
        SchemaVersionError: the file was written by a newer retrykit.
        ConfigurationError: a value is not allowed.
    """

    blocks = True
    """Calls wait for the disk and for other writers."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        clock: Clock | None = None,
        busy_timeout: Duration = 30.0,
        synchronous: Literal["full", "normal"] = "full",
    ) -> None:
        self._database = Database(path, clock=clock, busy_timeout=busy_timeout, synchronous=synchronous)
        self.claims: ClaimStore = _Claims(self._database)
        self.retries: RetryStore = _Retries(self._database)
        self.dead_letters: DeadLetterStore = _DeadLetters(self._database)
        self.deliveries: DeliveryStore = _Deliveries(self._database)
        self.circuits: CircuitStore = _Circuits(self._database)

    def close(self) -> None:
        """Close the connections of all threads. Using the backend afterwards opens new ones."""
        self._database.close()
