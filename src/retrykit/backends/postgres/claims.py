"""The claim records: JSON, beside it the columns that PostgreSQL itself writes.

The instants of a record stand in columns, so that a claim that is free, the mark before the send, a renewal and a settlement are one
statement each, by the server's clock. What is judged by more than its token goes through `records.Records.change`. What a change says of
its payload (`marks`) is written in its own statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

import attrs

from ... import codec
from ...codec import JSON
from ...machines import claim as machine
from ...machines.poison import Marks
from ...stores.claims import ClaimAnswer, ClaimRecord, ClaimTerms, ReopenTerms
from ...times import from_millis, later, to_millis
from . import marks
from .records import Records
from .statements import ASKED, NOW, Flow, Statement

__all__ = ["Claims"]

_COLUMNS: Final = "state, ARRAY[seq, lease_until, opened_at, not_before, settled_at], lost, record"
_DAWN: Final = from_millis(0)


def _millis(delay: float) -> int:
    """Return a delay as the whole milliseconds that `later` adds."""
    return to_millis(later(_DAWN, delay))


def _optional(instant: datetime | None) -> int | None:
    return None if instant is None else to_millis(instant)


def _read(state: str, numbers: Sequence[int | None], lost: str | None, record: str) -> ClaimRecord:
    fields = cast("dict[str, Any]", codec.decode(record))
    seq, lease_until, opened_at, not_before, settled_at = numbers
    lease = None if lease_until is None else _lease(lease_until, lost, opened_at, *fields["lease"])
    columns = {"state": state, "seq": seq, "opened_at": opened_at, "not_before": not_before, "settled_at": settled_at}
    return ClaimRecord.from_dict(fields | columns | {"lease": lease})


def _lease(
    until: int,
    lost: str | None,
    opened_at: int | None,
    owner: str,
    token: int,
    _: int,
    granted_at: int | None = None,
    *__: object,
) -> list[JSON]:
    """Return a lease as it is packed; one that the server granted by itself began when the record was opened."""
    return [owner, token, until, opened_at if granted_at is None else granted_at, lost]


def _undated(record: ClaimRecord) -> ClaimRecord:
    """Return the record of a claim whose lease the server is to grant by itself."""
    return attrs.evolve(record, lease=record.lease and attrs.evolve(record.lease, granted_at=None))


def _write(record: ClaimRecord) -> Mapping[str, object]:
    return {
        "state": record.state.value,
        "seq": record.seq,
        "lease_until": None if record.lease is None else to_millis(record.lease.deadline),
        "opened_at": to_millis(record.opened_at),
        "not_before": _optional(record.not_before),
        "settled_at": _optional(record.settled_at),
        "lost": None if record.lease is None else record.lease.lost,
        "is_call": record.is_call,
        "record": codec.encode(record.to_dict()).decode("ascii"),
    }


_RECORDS: Final = Records("claims", "key", _COLUMNS, read=_read, write=_write, what="the claim record of")


def _change(key: str, judge: Callable[[ClaimRecord | None, datetime], ClaimRecord | None]) -> Flow[ClaimRecord | None]:
    return _RECORDS.change(key, judge, marks.noted)


def _claim(unless: str, found: str) -> str:
    """Return the statement of a claim, of which the new one is written `unless` something is so, and the other is `found`."""
    return f"""
    WITH fresh AS (
        INSERT INTO retrykit.claims (key, state, seq, lease_until, opened_at, is_call, record)
        SELECT %(key)s, %(state)s, %(seq)s, least({ASKED} + %(lease)s::bigint, %(last)s::bigint), {ASKED}, %(is_call)s, %(record)s
        {unless} ON CONFLICT DO NOTHING RETURNING opened_at)
    SELECT opened_at, NULL, NULL::bigint, NULL, NULL::bigint[], NULL, NULL FROM fresh UNION ALL SELECT {NOW}, {found}
    """


_CLAIM: Final = _claim("", f"NULL, version, {_COLUMNS} FROM retrykit.claims WHERE key = %(key)s")
"""Of what no marks are kept of, which is planned in two thirds of the time."""
_CLAIM_NOTED: Final = _claim(
    "WHERE NOT EXISTS (SELECT FROM retrykit.marks WHERE payload = %(payload)s)",
    f"marks, version, {_COLUMNS} FROM ({marks.KNOWN}) AS known LEFT JOIN retrykit.claims ON key = %(key)s "
    "WHERE version IS NOT NULL OR marks IS NOT NULL",
)
"""Its row has neither marks nor a version where the claim is granted as a new one, and no version where it is still to be written, since
the payload has marks; there is none where another came after this statement had begun."""
_HELD: Final = "key = %(key)s AND seq = %(token)s AND lease_until IS NOT NULL"
_UNTIL: Final = f"lease_until = least({NOW} + %(lease)s::bigint, %(last)s::bigint), lost = NULL, version = DEFAULT"
_RENEW: Final = f"UPDATE retrykit.claims SET {_UNTIL} WHERE {_HELD} RETURNING {_COLUMNS}"
_BEGIN_SEND: Final = (
    f"UPDATE retrykit.claims SET state = 'sending', {_UNTIL} WHERE {_HELD} AND state IN ('claimed', 'sending') "
    f"RETURNING {_COLUMNS}"
)
_SETTLE: Final = f"""
    UPDATE retrykit.claims SET state = %(state)s, seq = %(seq)s, lease_until = %(lease_until)s, lost = %(lost)s, opened_at = %(opened_at)s,
        not_before = CASE WHEN %(state)s IN ('waiting', 'unknown') THEN least({NOW} + %(delay)s::bigint, %(last)s::bigint) END,
        settled_at = CASE WHEN %(state)s = 'done' THEN {NOW} END, record = %(record)s, version = DEFAULT
    WHERE {_HELD} RETURNING not_before, settled_at
"""
_SETTLE_CLEARING: Final = f"WITH saved AS ({_SETTLE}), {marks.CLEARED} SELECT not_before, settled_at FROM saved"
_LAST: Final = to_millis(later(_DAWN, float("1e300")))
"""The last instant that there is; leases and waits end by then."""


class Claims:
    """The claim records."""

    def _claim(
        self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms
    ) -> Flow[ClaimAnswer]:
        def judged(
            record: ClaimRecord | None, now: datetime, known: Marks = machine.NO_MARKS
        ) -> tuple[ClaimRecord, ClaimAnswer]:
            return machine.take(
                record, key, fingerprint=fingerprint, owner=owner, lease=lease, terms=terms, now=now, marks=known
            )

        payload = marks.digest(key, fingerprint)
        values = {
            "key": key,
            **_write(_undated(judged(None, _DAWN)[0])),
            "lease": _millis(lease),
            "last": _LAST,
            "payload": payload,
        }
        while True:
            rows = yield Statement(_CLAIM if payload is None else _CLAIM_NOTED, values)
            if not rows:
                continue
            ((ms, known, version, *row),) = rows
            now = from_millis(ms)
            if version is None and known is None:
                return judged(None, now)[1]
            before = None if version is None else _RECORDS.read(key, row)
            after, answer = judged(before, now, marks.read(key, known))
            if after is before or (yield from _RECORDS.save(key, after, version, marks.noted(before, after, now))):
                return answer

    def _claim_unknown(self, key: str, owner: str, lease: float) -> Flow[ClaimRecord | None]:
        return _change(key, lambda record, now: machine.take_unknown(record, owner=owner, lease=lease, now=now))

    def _begin_send(self, key: str, token: int, lease: float) -> Flow[ClaimRecord | None]:
        return self._held(_BEGIN_SEND, key, token, lease)

    def _renew(self, key: str, token: int, lease: float) -> Flow[ClaimRecord | None]:
        return self._held(_RENEW, key, token, lease)

    def _held(self, sql: str, key: str, token: int, lease: float) -> Flow[ClaimRecord | None]:
        rows = yield Statement(sql, {"key": key, "token": token, "lease": _millis(lease), "last": _LAST})
        return _RECORDS.read(key, rows[0]) if rows else None

    def _settle(self, record: ClaimRecord, token: int, delay: float) -> Flow[ClaimRecord | None]:
        if marks.depends(record):
            return (
                yield from _change(
                    record.key, lambda stored, now: machine.write(stored, record, token, delay=delay, now=now)
                )
            )
        cleared = marks.cleared_by(record)
        values = {
            "key": record.key,
            **_write(record),
            "token": token,
            "delay": _millis(delay),
            "last": _LAST,
            "cleared": cleared,
        }
        rows = yield Statement(_SETTLE_CLEARING if cleared else _SETTLE, values)
        if rows:
            due, settled = (None if each is None else from_millis(each) for each in rows[0])
            return attrs.evolve(record, not_before=due, settled_at=settled)
        stored, _, now = yield from _RECORDS.load(record.key)
        held = stored is not None and stored.seq == token and stored.lease is not None
        return None if held else machine.write(stored, record, token, delay=delay, now=now)

    def _confirm(self, key: str, provider: str | None, provider_id: str | None) -> Flow[ClaimRecord | None]:
        return _change(
            key, lambda record, now: machine.confirm(record, key, provider=provider, provider_id=provider_id, now=now)
        )

    def _cancel(self, key: str) -> Flow[ClaimRecord | None]:
        return _change(key, lambda record, now: machine.cancel(record, key, now=now))

    def _reopen(self, key: str, terms: ReopenTerms) -> Flow[ClaimRecord | None]:
        return _change(key, lambda record, now: machine.reopen(record, key, terms, now=now))

    def _get(self, key: str) -> Flow[ClaimRecord | None]:
        record, _, _ = yield from _RECORDS.load(key)
        return record

    def _unsettled(self, limit: int) -> Flow[Sequence[str]]:
        rows = yield Statement(
            f"SELECT key FROM retrykit.claims WHERE unsettled_at <= {NOW} ORDER BY unsettled_at, key LIMIT %(limit)s",
            {"limit": limit},
        )
        return [key for (key,) in rows]

    def _purge(self, before: datetime, limit: int) -> Flow[int]:
        rows = yield Statement(
            f"WITH {marks.FORGOTTEN} "
            "DELETE FROM retrykit.claims WHERE key = ANY (ARRAY(SELECT key FROM retrykit.claims WHERE settled_at < %(before)s::bigint "
            "AND state = 'done' ORDER BY settled_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)) RETURNING true",
            {"before": to_millis(before), "limit": limit},
        )
        return len(rows)
