"""The redrive store: redrives, and the audit log of what people do to dead letters.

Guarantees every store has to give:

- each operation is atomic, and may be repeated after a lost answer;
- of two redrives that conflict (`RedriveJob.conflicts_with`) at most one is active, however many are begun or resumed at once;
- what a redrive's history gains stands in the audit log from the same moment on;
- the audit log only grows: there is no operation that changes or deletes an entry;
- time is the store's own.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeAlias, final

from .._steps import Steps, arun, do, run
from ..checks import check_limit
from ..errors import RedriveConflictError
from ..machines import redrive as machine
from ..machines.redrive import AuditEntry, RedriveJob, RedriveState
from ..message import check_id
from ..times import Duration, seconds

__all__ = ["AsyncRedriveStore", "AuditEntry", "JobChange", "RedriveJob", "RedriveState", "RedriveStore"]

JobChange: TypeAlias = Callable[[RedriveJob, datetime], RedriveJob]
"""A change of a redrive: pure, of the job and the store's `now`."""


class _Redrives(abc.ABC):
    """The one logic of both colours: check, then call the primitive."""

    @abc.abstractmethod
    def _start(self, job: RedriveJob) -> Awaitable[RedriveJob] | RedriveJob: ...

    @abc.abstractmethod
    def _change(self, job_id: str, change: JobChange) -> Awaitable[RedriveJob | None] | RedriveJob | None: ...

    @abc.abstractmethod
    def _get(self, job_id: str) -> Awaitable[RedriveJob | None] | RedriveJob | None: ...

    @abc.abstractmethod
    def _jobs(
        self, active: bool, limit: int, after: RedriveJob | None
    ) -> Awaitable[Sequence[RedriveJob]] | Sequence[RedriveJob]: ...

    @abc.abstractmethod
    def _note(self, entry: AuditEntry) -> Awaitable[None] | None: ...

    @abc.abstractmethod
    def _audit(
        self, limit: int, after: AuditEntry | None
    ) -> Awaitable[Sequence[AuditEntry]] | Sequence[AuditEntry]: ...

    def _start_flow(self, job: RedriveJob) -> Steps[RedriveJob]:
        check_id(job.id, "job_id")
        standing = yield from do(self._start, job)
        if standing.id != job.id:
            raise RedriveConflictError(standing.id, standing.by)
        return standing

    def _change_flow(self, job_id: str, change: JobChange) -> Steps[RedriveJob | None]:
        job = yield from do(self._change, check_id(job_id, "job_id"), change)
        if job is not None and job.id != job_id:
            raise RedriveConflictError(job.id, job.by)
        return job

    def _hold_flow(self, job_id: str, owner: str, lease: Duration) -> Steps[RedriveJob | None]:
        length = seconds(lease, "lease", positive=True)
        return (yield from self._change_flow(job_id, lambda job, now: machine.hold(job, owner, length, now)))

    def _get_flow(self, job_id: str) -> Steps[RedriveJob | None]:
        return (yield from do(self._get, check_id(job_id, "job_id")))

    def _jobs_flow(self, active: bool, limit: int, after: RedriveJob | None) -> Steps[Sequence[RedriveJob]]:
        return (yield from do(self._jobs, bool(active), check_limit(limit), after))

    def _note_flow(self, entry: AuditEntry) -> Steps[None]:
        yield from do(self._note, entry)

    def _audit_flow(self, limit: int, after: AuditEntry | None) -> Steps[Sequence[AuditEntry]]:
        return (yield from do(self._audit, check_limit(limit), after))


class RedriveStore(_Redrives):
    """Redrives and the audit log, for synchronous callers. Subclass it and write the six primitives.

    `_start` stores a job unless it is there or conflicts with an active one, and gives the job that stands: that one, or its own.
    `_change` applies a pure function to a job; where the job afterwards is active, was not before, and conflicts with an active one, it
    changes nothing and gives that one. Both add to the audit log what the job's history has gained.
    """

    @abc.abstractmethod
    def _start(self, job: RedriveJob) -> RedriveJob: ...

    @abc.abstractmethod
    def _change(self, job_id: str, change: JobChange) -> RedriveJob | None: ...

    @abc.abstractmethod
    def _get(self, job_id: str) -> RedriveJob | None: ...

    @abc.abstractmethod
    def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Sequence[RedriveJob]: ...

    @abc.abstractmethod
    def _note(self, entry: AuditEntry) -> None: ...

    @abc.abstractmethod
    def _audit(self, limit: int, after: AuditEntry | None) -> Sequence[AuditEntry]: ...

    @final
    def start(self, job: RedriveJob) -> RedriveJob:
        """Keep a new redrive; repeated with the same id, the one that is there.

        Raises:
            InvalidMessageError: its id can be no key.
            RedriveConflictError: another one of the same letters is active.
        """
        return run(self._start_flow(job))

    @final
    def change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        """Apply a pure function to a redrive, and return it as it is afterwards, or None when there is none of that id.

        Raises:
            RedriveConflictError: it would become active again beside another one of the same letters.
        """
        return run(self._change_flow(job_id, change))

    @final
    def hold(self, job_id: str, *, owner: str, lease: Duration) -> RedriveJob | None:
        """Take hold of a redrive, or go on holding it; the owner holds it if the answer's `lease` has its name.

        Args:
            job_id: which redrive.
            owner: who takes hold, of a name of its own.
            lease: for how long.
        """
        return run(self._hold_flow(job_id, owner, lease))

    @final
    def get(self, job_id: str) -> RedriveJob | None:
        """Return a redrive, or None when there is none of that id."""
        return run(self._get_flow(job_id))

    @final
    def jobs(self, *, active: bool = False, limit: int = 20, after: RedriveJob | None = None) -> Sequence[RedriveJob]:
        """Return redrives, the one created last first; what is equal is ordered by id.

        Args:
            active: only those that run or are paused.
            limit: how many at the most, at least 1.
            after: go on after that one, the last of the page before.
        """
        return run(self._jobs_flow(active, limit, after))

    @final
    def note(self, entry: AuditEntry) -> None:
        """Add to the audit log; an entry that is there already is not added again."""
        run(self._note_flow(entry))

    @final
    def audit(self, *, limit: int = 100, after: AuditEntry | None = None) -> Sequence[AuditEntry]:
        """Return entries of the audit log, the latest first, as `AuditEntry.position` says.

        Args:
            limit: how many at the most, at least 1.
            after: go on after that one, the last of the page before.
        """
        return run(self._audit_flow(limit, after))


class AsyncRedriveStore(_Redrives):
    """`RedriveStore` for asynchronous callers: the same names, answers and guarantees."""

    @abc.abstractmethod
    async def _start(self, job: RedriveJob) -> RedriveJob: ...

    @abc.abstractmethod
    async def _change(self, job_id: str, change: JobChange) -> RedriveJob | None: ...

    @abc.abstractmethod
    async def _get(self, job_id: str) -> RedriveJob | None: ...

    @abc.abstractmethod
    async def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Sequence[RedriveJob]: ...

    @abc.abstractmethod
    async def _note(self, entry: AuditEntry) -> None: ...

    @abc.abstractmethod
    async def _audit(self, limit: int, after: AuditEntry | None) -> Sequence[AuditEntry]: ...

    @final
    async def start(self, job: RedriveJob) -> RedriveJob:
        """Keep a new redrive, as `RedriveStore.start`."""
        return await arun(self._start_flow(job))

    @final
    async def change(self, job_id: str, change: JobChange) -> RedriveJob | None:
        """Apply a pure function to a redrive, as `RedriveStore.change`."""
        return await arun(self._change_flow(job_id, change))

    @final
    async def hold(self, job_id: str, *, owner: str, lease: Duration) -> RedriveJob | None:
        """Take hold of a redrive, or go on holding it, as `RedriveStore.hold`."""
        return await arun(self._hold_flow(job_id, owner, lease))

    @final
    async def get(self, job_id: str) -> RedriveJob | None:
        """Return a redrive, or None when there is none of that id."""
        return await arun(self._get_flow(job_id))

    @final
    async def jobs(
        self, *, active: bool = False, limit: int = 20, after: RedriveJob | None = None
    ) -> Sequence[RedriveJob]:
        """Return redrives, the one created last first, as `RedriveStore.jobs`."""
        return await arun(self._jobs_flow(active, limit, after))

    @final
    async def note(self, entry: AuditEntry) -> None:
        """Add to the audit log, as `RedriveStore.note`."""
        await arun(self._note_flow(entry))

    @final
    async def audit(self, *, limit: int = 100, after: AuditEntry | None = None) -> Sequence[AuditEntry]:
        """Return entries of the audit log, the latest first, as `RedriveStore.audit`."""
        return await arun(self._audit_flow(limit, after))
