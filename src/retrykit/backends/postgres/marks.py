"""What came of payloads: the marks that `retrykit.machines.poison` counts, written in the same statement as the record.

Fingerprints are of any length, and an index of PostgreSQL holds short ones alone; so they stand here as digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, cast

import attrs

from ... import codec
from ...decision import DispositionKind
from ...machines import poison
from ...stores.claims import ClaimRecord
from ...times import from_millis, to_millis
from ..damage import readable
from .statements import Statement, text

__all__ = ["CLEARED", "FORGOTTEN", "KNOWN", "cleared_by", "depends", "digest", "noted", "read"]

KNOWN: Final = "SELECT json_object_agg(source, at)::text AS marks FROM retrykit.marks WHERE payload = %(payload)s"
"""The marks of a payload as `read` takes them, in one row; NULL: there are none."""

CLEARED: Final = "cleared AS (DELETE FROM retrykit.marks USING saved WHERE payload = ANY(%(cleared)s::bytea[]))"
"""Beside what is `saved`: takes away the marks of payloads that came through."""

FORGOTTEN: Final = """
    forgotten AS (DELETE FROM retrykit.marks WHERE ctid = ANY (ARRAY(SELECT ctid FROM retrykit.marks
        WHERE at < %(before)s::bigint ORDER BY at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)))
"""

_MARKED: Final = """
    marked AS (
        INSERT INTO retrykit.marks AS known (payload, source, at) SELECT %(payload)s, %(source)s, %(at)s::bigint FROM saved
        ON CONFLICT (payload, source) DO UPDATE SET at = greatest(known.at, excluded.at)),
    trimmed AS (
        DELETE FROM retrykit.marks USING saved WHERE payload = %(payload)s AND source IN (
            SELECT source FROM (
                SELECT source, at FROM retrykit.marks WHERE payload = %(payload)s AND source <> %(source)s
                UNION ALL SELECT NULL, %(at)s::bigint) AS each ORDER BY at DESC OFFSET %(kept)s))
"""
"""Beside what is `saved`: one more mark, and those gone that are older than as many as are kept."""


_LONGEST: Final = 255
"""Characters of a source that are kept as they are."""


def digest(key: str, fingerprint: str | None) -> bytes | None:
    """Return what the payload of a message goes by here; None: no marks are kept of it."""
    if fingerprint is None or not poison.has_marks(key, fingerprint):
        return None
    return hashlib.sha256(fingerprint.encode("utf-8", "surrogatepass")).digest()


def _digests(key: str, fingerprints: Sequence[str]) -> list[bytes]:
    found = [digest(key, fingerprint) for fingerprint in fingerprints]
    return [each for each in found if each is not None]


def read(key: str, packed: str | None) -> poison.Marks:
    """Return the marks of the payload of a message."""
    if packed is None:
        return {}
    with readable(f"what is noted of the payload of {key!r}"):
        return {source: from_millis(at) for source, at in cast("Mapping[str, int]", codec.decode(packed)).items()}


def cleared_by(settled: ClaimRecord) -> list[bytes]:
    """Return the payloads whose marks a settlement takes away, whatever the record was before: that of what was sent."""
    if settled.disposition is not DispositionKind.SENT:
        return []
    return _digests(settled.key, poison.cleared(None, settled))


def depends(settled: ClaimRecord) -> bool:
    """Tell whether it depends on the record before what a settlement says of its payload: whether it is of a try that failed."""
    if not settled.attempts or settled.disposition is DispositionKind.SENT:
        return False
    counters = attrs.evolve(settled.counters, failed=settled.counters.failed - 1)
    before = attrs.evolve(settled, counters=counters, disposition=None)
    return noted(before, settled, settled.opened_at) is not None


def noted(before: ClaimRecord | None, after: ClaimRecord, now: datetime) -> Statement | None:
    """Return what is to be done, beside the record that is `saved`, as a change of it at `now` says; None: nothing."""
    cleared = _digests(after.key, poison.cleared(before, after))
    if cleared:
        return Statement(CLEARED, {"cleared": cleared})
    mark = poison.mark_of(before, after, now)
    if mark is None:
        return None
    return Statement(
        _MARKED,
        {
            "payload": digest(after.key, after.fingerprint),
            "source": _short(text(mark.source)),
            "at": to_millis(mark.at),
            "kept": poison.MARKS_KEPT,
        },
    )


def _short(source: str) -> str:
    """Return a source as an index can hold it."""
    return source if len(source) <= _LONGEST else f"{source[:_LONGEST]}#{hashlib.sha256(source.encode()).hexdigest()}"
