"""Redrives and audit entries for the suites."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

from ...lease import Lease
from ...machines import redrive as machine
from ...stores.redrives import AuditEntry, JobChange, RedriveJob, RedriveState, RedriveStore

__all__ = ["BEGUN", "CHANGES", "entry", "full_job", "is_sound", "job", "pausing", "resuming", "stopping"]

BEGUN: Final = datetime(2026, 1, 1, tzinfo=UTC)


def entry(action: str = "edited", **fields: Any) -> AuditEntry:
    """Return an audit entry with the fields given."""
    usual: dict[str, Any] = {"at": BEGUN, "by": "ada", "action": action, "subject": "m#1", "why": "a bug"}
    return AuditEntry(**usual | fields)


def job(job_id: str = "r-1", group: str | None = "a", **fields: Any) -> RedriveJob:
    """Return a redrive that was just begun, with the fields given."""
    at = fields.get("created_at", BEGUN)
    usual: dict[str, Any] = {
        "id": job_id,
        "group": group,
        "query": "state:quarantined",
        "root_cause": "a bug, fixed",
        "by": "ada",
        "created_at": BEGUN,
        "planned": 5,
        "canary": 2,
        "history": (entry("redrive started", at=at, subject=job_id),),
    }
    return RedriveJob(**usual | fields)


def full_job() -> RedriveJob:
    """Return a redrive in which every field is set."""
    return job(
        rate=0.5,
        tolerance=0.25,
        patience=60.5,
        max_redrives=1,
        not_sent=True,
        state=RedriveState.STOPPED,
        note="too many failed",
        cursor="c-7",
        is_exhausted=True,
        canary_passed=True,
        size=4,
        taken=("m-1#1", "m-2#1"),
        watched=(machine.Watched("m-3#2", "m-3", 2, "greylisted", is_earlier=True),),
        put_back=7,
        already_sent=1,
        passed_over=2,
        succeeded=3,
        failed=3,
        recent="sfs",
        tried_from=4,
        next_at=BEGUN + timedelta(milliseconds=1),
        slice_at=BEGUN + timedelta(seconds=2),
        lease=Lease("runner", 3, BEGUN + timedelta(minutes=1)),
        seq=3,
        finished_at=BEGUN + timedelta(hours=1),
        history=(entry("redrive started"), entry("redrive stopped", result="x")),
    )


def pausing(by: str = "ada", why: str = "lunch") -> JobChange:
    """Return the change that pauses a redrive."""
    return lambda known, now: machine.pause(known, by, why, now)


def resuming(by: str = "ada", why: str = "fed") -> JobChange:
    """Return the change that resumes a redrive."""
    return lambda known, now: machine.resume(known, by, why, now)


def stopping(by: str = "ada", why: str = "wrong") -> JobChange:
    """Return the change that stops a redrive."""
    return lambda known, now: machine.stop(known, by, why, now)


def _slice_put_back(known: RedriveJob, now: datetime) -> RedriveJob:
    """Return the redrive after its runner has put one letter back, and its message has come to an end."""
    token = known.seq
    letter_id = f"m-{known.put_back}#1"
    known = machine.reserve(known, token, [letter_id], "c", now)
    known = machine.put_back(known, token, [("put_back", machine.Watched(letter_id, letter_id[:-2], 1, "x"))], now)
    return machine.observe(known, token, {letter_id: "succeeded"}, now)


CHANGES: Final[dict[str, JobChange]] = {
    "pause": pausing(),
    "resume": resuming(),
    "stop": stopping(),
    "put back": _slice_put_back,
    "nothing": lambda known, _: known,
    "a new note": lambda known, now: attrs.evolve(known, note=f"at {now:%H%M%S}"),
}
"""What people and runners do to a redrive."""


def is_sound(store: RedriveStore) -> bool:
    """Tell whether the audit log holds all that the redrives' histories hold, and nothing else of a redrive."""
    jobs: Sequence[RedriveJob] = store.jobs(limit=10_000)
    histories = {each.key for known in jobs for each in known.history}
    logged = [each.key for each in store.audit(limit=100_000) if each.action.startswith("redrive ")]
    return len(logged) == len(set(logged)) and histories == set(logged)
