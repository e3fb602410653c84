"""The redrives and the audit log: each as JSON, beside it what it is looked up by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from ... import codec
from ...machines import redrive as machine
from ...stores.redrives import AuditEntry, JobChange, RedriveJob
from ...times import to_millis
from ..damage import readable
from .records import Records
from .statements import Flow, Statement, atomic

__all__ = ["Redrives"]


def _read(record: str) -> RedriveJob:
    return RedriveJob.from_dict(cast("Mapping[str, Any]", codec.decode(record)))


def _write(job: RedriveJob) -> Mapping[str, object]:
    return {
        "is_active": job.is_active,
        "created_at": to_millis(job.created_at),
        "record": codec.encode(job.to_dict()).decode("ascii"),
    }


_RECORDS: Final = Records("redrives", "id", "record", read=_read, write=_write, what="the redrive")

_LOCK: Final = "LOCK TABLE retrykit.redrives IN SHARE ROW EXCLUSIVE MODE"
"""Changes of redrives come one after the other: whether one may become active depends on all the others. Readers do not wait."""


class Redrives:
    """Redrives and the audit log."""

    @atomic
    def _start(self, job: RedriveJob) -> Flow[RedriveJob]:
        yield Statement(_LOCK)
        known, _, _ = yield from _RECORDS.load(job.id)
        return known if known is not None else (yield from self._keep(None, job, None))

    @atomic
    def _change(self, job_id: str, change: JobChange) -> Flow[RedriveJob | None]:
        yield Statement(_LOCK)
        job, version, now = yield from _RECORDS.load(job_id)
        return None if job is None else (yield from self._keep(job, change(job, now), version))

    def _keep(self, before: RedriveJob | None, after: RedriveJob, version: int | None) -> Flow[RedriveJob]:
        """Store a job, unless it would become active beside one that it conflicts with: then return that one."""
        if machine.becomes_active(before, after):
            rows = yield Statement(
                "SELECT id, record FROM retrykit.redrives WHERE is_active ORDER BY created_at DESC, id"
            )
            for job_id, record in rows:
                other = _RECORDS.read(job_id, [record])
                if other.conflicts_with(after):
                    return other
        if after != before:  # a runner that only looks changes nothing, again and again
            yield from _RECORDS.save(after.id, after, version)
        for entry in machine.gained(before, after):
            yield from self._note(entry)
        return after

    def _get(self, job_id: str) -> Flow[RedriveJob | None]:
        job, _, _ = yield from _RECORDS.load(job_id)
        return job

    def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Flow[Sequence[RedriveJob]]:
        created, job_id = (_LATEST, "") if after is None else (to_millis(after.created_at), after.id)
        rows = yield Statement(
            f"SELECT id, record FROM retrykit.redrives WHERE {'is_active AND ' if active else ''}"
            "(-created_at, id) > (-%(created)s::bigint, %(id)s) ORDER BY -created_at, id LIMIT %(limit)s",
            {"created": created, "id": job_id, "limit": limit},
        )
        return [_RECORDS.read(job_id, [record]) for job_id, record in rows]

    def _note(self, entry: AuditEntry) -> Flow[None]:
        yield Statement(
            "INSERT INTO retrykit.audit (digest, entry, at, step) VALUES (sha256(%(bytes)s), %(entry)s, %(at)s, %(step)s) "
            "ON CONFLICT DO NOTHING",
            {"bytes": entry.key.encode("ascii"), "entry": entry.key, "at": to_millis(entry.at), "step": entry.step},
        )

    def _audit(self, limit: int, after: AuditEntry | None) -> Flow[Sequence[AuditEntry]]:
        at, step, key = (_LATEST, 0, "") if after is None else (to_millis(after.at), after.step, after.key)
        rows = yield Statement(
            "SELECT entry FROM retrykit.audit WHERE (-at, -step, entry) > (-%(at)s::bigint, -%(step)s::bigint, %(entry)s) "
            "ORDER BY -at, -step, entry LIMIT %(limit)s",
            {"at": at, "step": step, "entry": key, "limit": limit},
        )
        with readable("the audit log"):
            return [AuditEntry.from_dict(cast("Mapping[str, Any]", codec.decode(entry))) for (entry,) in rows]


_LATEST: Final = 2**62
