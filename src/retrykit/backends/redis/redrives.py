"""The redrives and the audit log on the server.

Each redrive is JSON; two sorted sets list all and the active ones in the contract's order, which is that of their members. An entry
of the audit log is a member of a third. A number grows with every change, and what was judged is written only if it has not grown:
of two redrives that conflict one becomes active.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, cast

from ... import codec
from ...codec import JSON
from ...machines import redrive as machine
from ...stores.redrives import AuditEntry, JobChange, RedriveJob
from ...times import from_millis
from ..damage import readable
from .commands import Command, Flow, Script, Space, sortable, text

__all__ = ["Redrives"]

_READ: Final = Script("""
local answer = {now, redis.call('GET', base .. 'changes'), redis.call('GET', base .. 'j:' .. ARGV[2])}
for _, member in ipairs(redis.call('ZRANGE', base .. 'active', 0, -1)) do
  answer[#answer + 1] = redis.call('GET', base .. 'j:' .. member:sub(17))
end
return answer
""")

_JOBS: Final = Script("""
local answer = {}
for _, member in ipairs(redis.call('ZRANGEBYLEX', base .. ARGV[2], ARGV[3], '+', 'LIMIT', 0, ARGV[4])) do
  answer[#answer + 1] = redis.call('GET', base .. 'j:' .. member:sub(17))
end
return answer
""")

_NOTE: Final = Script("return redis.call('ZADD', base .. 'audit', 0, ARGV[2])")

_AUDIT: Final = Script("return redis.call('ZRANGEBYLEX', base .. 'audit', ARGV[2], '+', 'LIMIT', 0, ARGV[3])")


class Redrives:
    """The flows of the redrive store."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def _start(self, job: RedriveJob) -> Flow[RedriveJob]:
        standing = yield from self._kept(job.id, lambda known, _: job if known is None else known)
        return job if standing is None else standing

    def _change(self, job_id: str, change: JobChange) -> Flow[RedriveJob | None]:
        return self._kept(job_id, lambda known, now: None if known is None else change(known, now))

    def _kept(
        self, job_id: str, change: Callable[[RedriveJob | None, datetime], RedriveJob | None]
    ) -> Flow[RedriveJob | None]:
        """Store what a pure function makes of a job, unless it would become active beside one that it conflicts with."""
        while True:
            at, changes, raw, *active = yield from self._space.call(_READ, job_id)
            before = None if raw is None else _read(raw)
            after = change(before, from_millis(at))
            if after is None or after is before or after == before:
                return after
            if machine.becomes_active(before, after):
                for other in map(_read, active):
                    if other.conflicts_with(after):
                        return other
            if (yield from self._space.commit_each([("changes", changes, _writing(before, after))])):
                return after

    def _get(self, job_id: str) -> Flow[RedriveJob | None]:
        _, raw = yield from self._space.read(f"j:{job_id}")
        return None if raw is None else _read(raw)

    def _jobs(self, active: bool, limit: int, after: RedriveJob | None) -> Flow[Sequence[RedriveJob]]:
        start = b"-" if after is None else b"(" + _member(after)
        rows = yield from self._space.call(_JOBS, "active" if active else "jobs", start, limit)
        return [_read(raw) for raw in rows]

    def _note(self, entry: AuditEntry) -> Flow[None]:
        yield from self._space.call(_NOTE, _entry(entry))

    def _audit(self, limit: int, after: AuditEntry | None) -> Flow[Sequence[AuditEntry]]:
        start = b"-" if after is None else b"(" + _entry(after)
        rows = yield from self._space.call(_AUDIT, start, limit)
        with readable("the audit log"):
            return [AuditEntry.from_dict(cast("Mapping[str, JSON]", codec.decode(row[32:]))) for row in rows]


def _writing(before: RedriveJob | None, after: RedriveJob) -> list[Command]:
    member = _member(after)
    commands: list[Command] = [
        ("INCR", "changes"),
        ("SET", b"j:" + text(after.id), codec.encode(after.to_dict())),
        ("ZADD", "jobs", 0, member),
        ("ZADD", "active", 0, member) if after.is_active else ("ZREM", "active", member),
    ]
    return commands + [("ZADD", "audit", 0, _entry(entry)) for entry in machine.gained(before, after)]


def _member(job: RedriveJob) -> bytes:
    """Return what stands for a job in the lists: they are in the order of `position`."""
    created, job_id = job.position
    return sortable(created).encode() + text(job_id)


def _entry(entry: AuditEntry) -> bytes:
    """Return an entry of the audit log as it stands there: in the order of `position`."""
    at, step, key = entry.position
    return f"{sortable(at)}{sortable(step)}{key}".encode()


def _read(raw: bytes) -> RedriveJob:
    with readable("a redrive"):
        return RedriveJob.from_dict(cast("Mapping[str, JSON]", codec.decode(raw)))
