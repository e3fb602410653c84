"""The redrives and the audit log of the memory backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Final

from ..machines import redrive as machine
from ..stores.redrives import AuditEntry, JobChange, RedriveJob, RedriveStore

__all__ = ["Redrives"]


class Redrives(RedriveStore):
    """Redrives and the audit log.

    Args:
        locked: holds the backend's lock, and gives the instant of the operation.
    """

    def __init__(self, locked: Callable[[], AbstractContextManager[datetime]]) -> None:
        self._locked: Final = locked
        self._known: dict[str, RedriveJob] = {}
        self._entries: dict[str, AuditEntry] = {}

    def _start(self, job: RedriveJob) -> RedriveJob:
        with self._locked():
            return self._known[job.id] if job.id in self._known else self._keep(None, job)

    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        with self._locked() as now:
            job = self._known.get(job_id)
            return None if job is None else self._keep(job, change(job, now))

    def _keep(self, before: RedriveJob | None, after: RedriveJob) -> RedriveJob:
        if machine.becomes_active(before, after):
            for other in self._known.values():
                if other.is_active and other.conflicts_with(after):
                    return other
        self._known[after.id] = after
        for entry in machine.gained(before, after):
            self._entries[entry.key] = entry
        return after

    def _get(self, job_id: str) -> RedriveJob | None:
        with self._locked():
            return self._known.get(job_id)

    def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Sequence[RedriveJob]:
        with self._locked():
            jobs = [job for job in self._known.values() if job.is_active or not active]
        jobs.sort(key=lambda job: job.position)
        return [job for job in jobs if after is None or job.position > after.position][:limit]

    def _note(self, entry: AuditEntry) -> None:
        with self._locked():
            self._entries[entry.key] = entry

    def _audit(self, limit: int, after: AuditEntry | None) -> Sequence[AuditEntry]:
        with self._locked():
            entries = sorted(self._entries.values(), key=lambda entry: entry.position)
        return [entry for entry in entries if after is None or entry.position > after.position][:limit]
