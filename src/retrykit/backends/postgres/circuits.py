"""The pauses and the circuits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from ... import codec
from ...lease import Lease
from ...machines import circuit
from ...stores.circuits import Circuit, Pause
from ...times import from_millis, to_millis
from ..damage import readable
from .records import Records
from .statements import NOW, Flow, Statement

__all__ = ["Circuits"]


def _read(record: str) -> Circuit:
    return Circuit.from_dict(cast("Mapping[str, Any]", codec.decode(record)))


def _write(known: Circuit) -> Mapping[str, object]:
    kept = circuit.keep_until(known)
    return {
        "keep_until": None if kept is None else to_millis(kept),
        "record": codec.encode(known.to_dict()).decode("ascii"),
    }


_RECORDS: Final = Records("circuits", "name", "record", read=_read, write=_write, what="the circuit")


class Circuits:
    """The pauses and the circuits."""

    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Flow[Pause]:
        ((since,),) = yield Statement(
            f"""
            WITH the AS MATERIALIZED (SELECT {NOW} AS ms),
                gone AS (DELETE FROM retrykit.pauses WHERE until <= (SELECT ms FROM the) AND key <> %(key)s)
            INSERT INTO retrykit.pauses (key, said, since, until) SELECT %(key)s, %(said)s, the.ms, %(until)s::bigint FROM the
            ON CONFLICT (key) DO UPDATE SET said = excluded.said, since = excluded.since, until = excluded.until RETURNING since
            """,
            {
                "key": key,
                "said": codec.encode([reason, by]).decode("ascii"),
                "until": None if until is None else to_millis(until),
            },
        )
        return Pause(key=key, reason=reason, by=by, since=from_millis(since), until=until)

    def _resume(self, key: str) -> Flow[bool]:
        sql = f"DELETE FROM retrykit.pauses WHERE key = %(key)s RETURNING until IS NULL OR until > {NOW}"
        rows = yield Statement(sql, {"key": key})
        return bool(rows) and bool(rows[0][0])

    def _pauses(self) -> Flow[Sequence[Pause]]:
        rows = yield Statement(
            f"SELECT key, said, since, until FROM retrykit.pauses WHERE until IS NULL OR until > {NOW} ORDER BY key"
        )
        with readable("the pauses"):
            return [_pause(*row) for row in rows]

    def _trip(self, name: str, by: str, recovery: float) -> Flow[Circuit | None]:
        yield Statement(
            "DELETE FROM retrykit.circuits WHERE name = ANY (ARRAY(SELECT name FROM retrykit.circuits "
            f"WHERE keep_until < {NOW} FOR UPDATE SKIP LOCKED))"
        )
        return (
            yield from _RECORDS.change(
                name, lambda known, now: circuit.trip(known, name, by=by, recovery=recovery, now=now)
            )
        )

    def _lease_probe(self, name: str, owner: str, limit: int, length: float) -> Flow[Lease | None]:
        while True:
            known, version, now = yield from _RECORDS.load(name)
            changed, lease = circuit.lease_probe(known, owner=owner, limit=limit, length=length, now=now)
            if changed is None or (yield from _RECORDS.save(name, changed, version)):
                return lease

    def _record_probe(
        self, name: str, token: int, succeeded: bool | None, close_after: int, recovery: float
    ) -> Flow[Circuit | None]:
        def judged(known: Circuit | None, now: datetime) -> Circuit | None:
            return circuit.record_probe(
                known, token, succeeded=succeeded, close_after=close_after, recovery=recovery, now=now
            )

        return _RECORDS.change(name, judged)

    def _reset(self, name: str) -> Flow[bool]:
        def judged(known: Circuit | None, now: datetime) -> Circuit | None:
            return circuit.close(known, now=now) if known is not None and known.is_open else None

        return (yield from _RECORDS.change(name, judged)) is not None

    def _report(self, name: str, instance: str, calls: int, failures: int, length: float) -> Flow[Circuit | None]:
        def judged(known: Circuit | None, now: datetime) -> Circuit:
            return circuit.report(
                known, name, instance=instance, calls=calls, failures=failures, length=length, now=now
            )

        return _RECORDS.change(name, judged)

    def _circuits(self) -> Flow[Sequence[Circuit]]:
        rows = yield Statement(f"SELECT name, record, {NOW} FROM retrykit.circuits ORDER BY name")
        known = [(_RECORDS.read(name, [record]), from_millis(now)) for name, record, now in rows]
        return [each for each, now in known if not circuit.is_forgotten(each, now)]


def _pause(key: str, said: str, since: int, until: int | None) -> Pause:
    reason, by = cast("list[str]", codec.decode(said))
    return Pause(
        key=key, reason=reason, by=by, since=from_millis(since), until=None if until is None else from_millis(until)
    )
