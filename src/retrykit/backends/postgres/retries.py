"""The retry queue: what is due is taken as `FOR UPDATE SKIP LOCKED` in one statement, so that those who take never wait for each other."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

import attrs

from ... import codec
from ...clock import current_clock
from ...lease import Lease
from ...message import Message
from ...stores.retries import DueMessage, RetryStats
from ...times import from_millis, later, to_millis
from ..damage import due_messages
from .statements import NOW, Flow, Statement, text

__all__ = ["TOLD_WITHIN", "Retries"]


TOLD_WITHIN: Final = 10.0
"""Seconds from now within which a message has to be due for anybody to be told of it: who waits looks as often as that."""

_QUIET: Final = 0.1
"""Seconds for which nobody is told again of what is due no sooner. Who took something looks once more after twice as long."""

_DAWN: Final = from_millis(0)
_LAST: Final = to_millis(later(_DAWN, float("1e300")))

_SCHEDULE: Final = """
    INSERT INTO retrykit.retries AS entry (message_id, generation, version, due_at, ready_at, body, attributes)
        VALUES (%(id)s, %(generation)s, %(version)s, %(due)s, %(due)s, %(body)s, %(attributes)s)
    ON CONFLICT (message_id, generation) DO UPDATE SET due_at = excluded.due_at, ready_at = excluded.ready_at, lease_owner = NULL,
        body = CASE WHEN excluded.version > entry.version THEN excluded.body ELSE entry.body END,
        attributes = CASE WHEN excluded.version > entry.version THEN excluded.attributes ELSE entry.attributes END,
        version = greatest(excluded.version, entry.version)
    WHERE excluded.version > entry.version OR entry.lease_owner IS NOT NULL
"""
_TOLD: Final = f"pg_notify(%(channel)s, greatest(%(due)s::bigint - {NOW}, 0)::text)"
_TELLING: Final = f"{_SCHEDULE} RETURNING {_TOLD}"
_TELL: Final = f"SELECT {_TOLD}"
_CLAIM_DUE: Final = f"""
    WITH the AS MATERIALIZED (SELECT {NOW} AS ms)
    UPDATE retrykit.retries AS entry
        SET lease_owner = %(owner)s, token = DEFAULT, ready_at = least(the.ms + %(lease)s::bigint, %(last)s::bigint) FROM the
        WHERE entry.ctid = ANY (ARRAY(
            SELECT ctid FROM retrykit.retries WHERE ready_at <= (SELECT ms FROM the)
            ORDER BY ready_at, message_id, generation LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
    RETURNING entry.message_id, entry.generation, entry.due_at, entry.token, entry.ready_at, entry.body, entry.attributes
"""
"""The array is made once, and its rows are where it says. A join goes through the queue for each row that is taken, where the planner
believes it to be as empty as it was a moment ago; a row that somebody changes while this one looks is left for the next."""
_HELD: Final = "message_id = %(id)s AND generation = %(generation)s AND token = %(token)s AND lease_owner IS NOT NULL"
_ACK: Final = f"DELETE FROM retrykit.retries WHERE {_HELD} RETURNING true"
_RELEASE: Final = f"""
    WITH the AS MATERIALIZED (SELECT least({NOW} + %(delay)s::bigint, %(last)s::bigint) AS ms)
    UPDATE retrykit.retries SET lease_owner = NULL, due_at = the.ms, ready_at = the.ms FROM the WHERE {_HELD} RETURNING true
"""
_EXTEND: Final = f"UPDATE retrykit.retries SET ready_at = least({NOW} + %(lease)s::bigint, %(last)s::bigint) WHERE {_HELD} RETURNING ready_at"
_STATS: Final = f"""
    SELECT count(*), count(*) FILTER (WHERE lease_owner IS NOT NULL), count(*) FILTER (WHERE ready_at <= the.ms), min(ready_at)
    FROM (SELECT {NOW} AS ms) AS the LEFT JOIN retrykit.retries ON true WHERE message_id IS NOT NULL
"""


def _millis(delay: float) -> int:
    return to_millis(later(_DAWN, delay))


class Retries:
    """The retry queue.

    Args:
        tells: whether those who wait are told of what is due soon, as seldom as will do: commits that tell somebody wait for each other.
            Nor can they be prepared for a commit in two phases.
    """

    def __init__(self, *, tells: bool) -> None:
        self._tells: Final = tells
        self._told = -math.inf, 0
        """When somebody was told, by the monotonic clock, and of what instant, in milliseconds."""
        self._took_at = -math.inf

    def _schedule(self, message: Message, due_at: datetime, generation: int, version: int) -> Flow[None]:
        due = to_millis(due_at)
        values = {
            "id": message.id,
            "generation": generation,
            "version": version,
            "due": due,
            "body": message.body,
            "attributes": codec.encode(dict(message.attributes)).decode("ascii"),
        }
        if not self._tells or due >= to_millis(current_clock().now()) + 1000 * TOLD_WITHIN:
            yield Statement(_SCHEDULE, values)
            return
        began = time.monotonic()
        if self._was_told(due, began):
            yield Statement(_SCHEDULE, values)
            if self._was_told(due, time.monotonic()):
                return  # it is there before they look once more
            yield Statement(_TELL, {"due": due})
        elif not (yield Statement(_TELLING, values)):
            return  # it waited already
        self._told = began, due

    def _was_told(self, due: int, now: float) -> bool:
        """Return whether somebody was told just now of what is due no later."""
        began, told = self._told
        return told <= due and now < began + _QUIET

    def longest_wait(self, most: float) -> float:
        """Return for how many seconds who takes what is due may wait: until it has to look once more, where it took something just now."""
        left = self._took_at + 2 * _QUIET - time.monotonic()
        return min(most, left) if left > 0 else most

    def _claim_due(self, limit: int, owner: str, lease: float) -> Flow[Sequence[DueMessage]]:
        values = {"limit": limit, "owner": text(owner), "lease": _millis(lease), "last": _LAST}
        rows = yield Statement(_CLAIM_DUE, values)
        if rows:
            self._took_at = time.monotonic()
        return due_messages((row[0], partial(_due, owner, *row)) for row in rows)

    def _ack(self, due: DueMessage) -> Flow[bool]:
        return bool((yield Statement(_ACK, _held(due))))

    def _release(self, due: DueMessage, delay: float) -> Flow[bool]:
        return bool((yield Statement(_RELEASE, {**_held(due), "delay": _millis(delay), "last": _LAST})))

    def _extend(self, due: DueMessage, lease: float) -> Flow[DueMessage | None]:
        rows = yield Statement(_EXTEND, {**_held(due), "lease": _millis(lease), "last": _LAST})
        return attrs.evolve(due, lease=attrs.evolve(due.lease, deadline=from_millis(rows[0][0]))) if rows else None

    def _cancel(self, message_id: str) -> Flow[bool]:
        sql = "DELETE FROM retrykit.retries WHERE message_id = %(id)s RETURNING true"
        return bool((yield Statement(sql, {"id": message_id})))

    def _stats(self) -> Flow[RetryStats]:
        ((total, leased, due, first),) = yield Statement(_STATS)
        return RetryStats(
            waiting=total - leased, leased=leased, due=due, next_due_at=None if first is None else from_millis(first)
        )


def _held(due: DueMessage) -> Mapping[str, object]:
    return {"id": due.message.id, "generation": due.generation, "token": due.lease.token}


def _due(
    owner: str, message_id: str, generation: int, due_at: int, token: int, until: int, body: bytes, attributes: str
) -> DueMessage:
    known = cast("Mapping[str, Any]", codec.decode(attributes))
    message = Message(message_id, body, known, max_payload=len(body))
    lease = Lease(owner, token, from_millis(until))
    return DueMessage(message=message, generation=generation, due_at=from_millis(due_at), lease=lease)
