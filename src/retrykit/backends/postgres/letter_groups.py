"""Groups of dead letters: which there are, and what people noted of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...dead_letter import DeadLetterState
from ...stores.dead_letter_groups import (
    SAMPLES,
    DeadLetterGroup,
    DeadLetterGroupPage,
    GroupNote,
    GroupOrder,
    group_of,
    read_group_cursor,
    write_group_cursor,
)
from ...stores.dead_letter_query import DeadLetterQuery
from ...times import from_millis, to_millis
from .letter_rows import LETTERS, source, within
from .letter_sums import breakdown
from .records import Records
from .statements import NOW, Condition, Flow, Statement, text

__all__ = ["NOTES", "groups"]


def _read(muted: bool, until: int | None, owner: str, note: str, by: str | None, at: int) -> GroupNote:
    return GroupNote(
        muted=muted,
        muted_until=None if until is None else from_millis(until),
        owner=owner,
        note=note,
        updated_by=by,
        updated_at=from_millis(at),
    )


def _write(note: GroupNote) -> Mapping[str, object]:
    assert note.updated_at is not None
    return {
        "muted": note.muted,
        "muted_until": None if note.muted_until is None else to_millis(note.muted_until),
        "owner": text(note.owner),
        "note": text(note.note),
        "updated_by": None if note.updated_by is None else text(note.updated_by),
        "updated_at": to_millis(note.updated_at),
    }


_NOTED: Final = "muted, muted_until, owner, note, updated_by, updated_at"

NOTES: Final = Records("letter_notes", "fingerprint", _NOTED, read=_read, write=_write, what="the note of")

_IS_SOUGHT: Final = "left({0}fingerprint, 100) = left(sought, 100) AND texteq({0}fingerprint, sought)"

_OF_SOUGHT: Final = f"FROM retrykit.letters WHERE {_IS_SOUGHT.format('')}"

_SEEN: Final = f"SELECT sought, (SELECT max(dead_at) {_OF_SOUGHT}) FROM unnest(%(names)s::text[]) AS sought"

_GROUPS: Final = f"""
    SELECT sought, (SELECT min(dead_at) {_OF_SOUGHT}), (SELECT max(dead_at) {_OF_SOUGHT}), last.id, last.state, last.record,
        {NOW}, {", ".join(f"notes.{each}" for each in _NOTED.split(", "))}
    FROM unnest(%(names)s::text[]) AS sought
        CROSS JOIN LATERAL (SELECT id, state, record {_OF_SOUGHT} ORDER BY number DESC LIMIT 1) AS last
        LEFT JOIN retrykit.letter_notes AS notes ON notes.fingerprint = sought
"""


def groups(
    query: DeadLetterQuery, order: GroupOrder, *, muted: bool, limit: int, cursor: str | None
) -> Flow[DeadLetterGroupPage]:
    """Return one page of the groups of which a query takes in a letter."""
    matching = dict((yield from breakdown(query, "fingerprint")))
    hidden = set[str]() if muted else (yield from _muted())
    shown = [fingerprint for fingerprint in matching if fingerprint not in hidden]
    ranks = matching if order == "matching" else dict((yield Statement(_SEEN, {"names": shown})))
    rows = sorted((-ranks[name], name) for name in shown)
    if cursor is not None:
        rank, fingerprint = read_group_cursor(cursor)
        rows = [row for row in rows if row > (-rank, text(fingerprint))]
    names = [fingerprint for _, fingerprint in rows[:limit]]
    found = {row[0]: row[1:] for row in (yield Statement(_GROUPS, {"names": names}))}
    counts = yield from _counts(names)
    newest = yield from _newest(query, names)
    page = [_group(name, matching[name], counts[name], newest[name], *found[name]) for name in names]
    return DeadLetterGroupPage(page, write_group_cursor(page[-1], order) if len(rows) > limit else None)


def _muted() -> Flow[set[str]]:
    rows = yield Statement(
        f"SELECT fingerprint FROM retrykit.letter_notes WHERE muted AND (muted_until IS NULL OR muted_until > {NOW})"
    )
    return {fingerprint for (fingerprint,) in rows}


def _counts(names: Sequence[str]) -> Flow[Mapping[str, Mapping[DeadLetterState, int]]]:
    """Return how many letters of each group stand where."""
    counts = {name: dict[DeadLetterState, int]() for name in names}
    for state in DeadLetterState:
        for name, total in (yield from breakdown(DeadLetterQuery(state=state), "fingerprint")):
            if name in counts:
                counts[name][state] = total
    return counts


def _newest(query: DeadLetterQuery, names: Sequence[str]) -> Flow[Mapping[str, tuple[str, ...]]]:
    """Return the ids of the letters of each group put last of those that meet a query."""
    of = source(query, *within(query), Condition(_IS_SOUGHT.format("letters.")))
    rows = yield Statement(
        f"SELECT sought, ARRAY(SELECT id FROM {of.sql} ORDER BY letters.number DESC LIMIT {SAMPLES}) FROM unnest(%(names)s::text[]) AS sought",
        {**of.values, "names": names},
    )
    return {name: tuple(ids) for name, ids in rows}


def _group(
    fingerprint: str,
    matching: int,
    counts: Mapping[DeadLetterState, int],
    ids: tuple[str, ...],
    first: int,
    latest: int,
    letter_id: str,
    state: str,
    record: str,
    now: int,
    *noted: Any,
) -> DeadLetterGroup:
    last = LETTERS.read(letter_id, [state, record])
    note = GroupNote() if noted[0] is None else NOTES.read(fingerprint, noted)
    return group_of(
        fingerprint,
        last,
        note,
        from_millis(now),
        counts=counts,
        first_seen=from_millis(first),
        last_seen=from_millis(latest),
        matching=matching,
        letter_ids=ids,
    )
