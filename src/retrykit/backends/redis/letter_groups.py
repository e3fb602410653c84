"""Groups of dead letters on the server: which there are, and what people noted of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Final, cast

import attrs

from ... import codec
from ...codec import JSON
from ...dead_letter import DeadLetterState
from ...stores.dead_letter_groups import (
    SAMPLES,
    DeadLetterGroup,
    DeadLetterGroupPage,
    GroupChange,
    GroupNote,
    GroupOrder,
    group_of,
    read_group_cursor,
    write_group_cursor,
)
from ...stores.dead_letter_query import DeadLetterQuery
from ...times import from_millis, to_millis
from ..damage import readable
from .commands import Flow, Script, Space
from .letter_queries import count, listed, read, tally, value_of

__all__ = ["annotate", "groups"]

_NOTES: Final = Script("return {now, redis.call('HGETALL', base .. 'notes')}")

_SEEN: Final = Script("return redis.call('ZRANGE', base .. 'seen', 0, -1, 'WITHSCORES')")

_GROUP: Final = Script("""
local letters = base .. 'g:' .. ARGV[2]
local first = redis.call('ZRANGE', letters, 0, 0, 'WITHSCORES')
if #first == 0 then return false end
local number = redis.call('ZREVRANGE', base .. 'f:fingerprint:' .. ARGV[2], 0, 0)[1]
return {
  now, redis.call('HGET', base .. 'notes', ARGV[2]), redis.call('HGETALL', base .. 'gs:' .. ARGV[2]),
  first[2], redis.call('ZRANGE', letters, -1, -1, 'WITHSCORES')[2],
  redis.call('HGET', base .. 'h:' .. number, 'state'), redis.call('GET', base .. 'l:' .. number),
}
""")

_NOTE: Final = Script("""
if redis.call('ZCARD', base .. 'g:' .. ARGV[2]) == 0 then return 0 end
local seen = redis.call('HGET', base .. 'notes', ARGV[2])
if (seen and redis.sha1hex(seen) or '') ~= ARGV[3] then return 0 end
redis.call('HSET', base .. 'notes', ARGV[2], ARGV[4])
return 1
""")


def groups(
    space: Space, query: DeadLetterQuery, order: GroupOrder, *, muted: bool, limit: int, cursor: str | None
) -> Flow[DeadLetterGroupPage]:
    """Return one page of the groups of which a query takes in a letter."""
    after = None if cursor is None else read_group_cursor(cursor)
    matching = dict((yield from tally(space, query, "fingerprint")))
    ranks = matching
    if order == "last_seen" and len(matching) > 1:
        flat = yield from space.call(_SEEN)
        ranks = {value_of(name): int(float(at)) for name, at in zip(flat[::2], flat[1::2], strict=True)}
    hidden = set[str]() if muted else (yield from _muted(space))
    rows = sorted((-ranks.get(name, 0), name) for name in matching if name not in hidden)
    if after is not None:
        rows = [row for row in rows if row > (-after[0], after[1])]
    page: list[DeadLetterGroup] = []
    for _, name in rows[:limit]:
        group = yield from _group(space, query, name, matching[name])
        if group is not None:  # its last letter may have been purged since
            page.append(group)
    more = len(rows) > limit and page
    return DeadLetterGroupPage(page, write_group_cursor(page[-1], order) if more else None)


def annotate(space: Space, fingerprint: str, change: GroupChange) -> Flow[DeadLetterGroup | None]:
    """Note something of a group, if there is a letter of it, and return it."""
    own = DeadLetterQuery(fingerprint=fingerprint)
    while True:
        answer = yield from space.call(_GROUP, fingerprint)
        if answer is None:
            return None
        now, raw = from_millis(answer[0]), answer[1]
        note = change.made_to(_note(raw), now)
        digest = "" if raw is None else hashlib.sha1(raw, usedforsecurity=False).hexdigest()
        if (yield from space.call(_NOTE, fingerprint, digest, _written(note))):
            return (yield from _group(space, own, fingerprint, (yield from count(space, own))))


def _muted(space: Space) -> Flow[set[str]]:
    at, flat = yield from space.call(_NOTES)
    now: datetime = from_millis(at)
    return {value_of(name) for name, raw in zip(flat[::2], flat[1::2], strict=True) if _note(raw).is_muted(now)}


def _group(space: Space, query: DeadLetterQuery, fingerprint: str, matching: int) -> Flow[DeadLetterGroup | None]:
    answer = yield from space.call(_GROUP, fingerprint)
    newest = yield from listed(space, attrs.evolve(query, fingerprint=fingerprint), SAMPLES)
    if answer is None or not newest:
        return None
    now, raw, flat, first, latest, state, record = answer
    last, note = read(state, record), _note(raw)
    totals = {DeadLetterState(name.decode()): int(total) for name, total in zip(flat[::2], flat[1::2], strict=True)}
    return group_of(
        fingerprint,
        last,
        note,
        from_millis(now),
        counts={name: total for name, total in totals.items() if total},
        first_seen=from_millis(int(float(first))),
        last_seen=from_millis(int(float(latest))),
        matching=matching,
        letter_ids=tuple(letter.id for _, letter in newest),
    )


def _written(note: GroupNote) -> bytes:
    instants: dict[str, JSON] = {
        name: None if at is None else to_millis(at)
        for name, at in (("muted_until", note.muted_until), ("updated_at", note.updated_at))
    }
    return codec.encode({**attrs.asdict(note), **instants})


def _note(raw: bytes | None) -> GroupNote:
    if raw is None:
        return GroupNote()
    with readable("the note of a group"):
        fields = dict(cast("Mapping[str, JSON]", codec.decode(raw)))
        for name in ("muted_until", "updated_at"):
            at = cast("int | None", fields.pop(name))
            fields[name] = None if at is None else from_millis(at)  # type: ignore[assignment]
        return GroupNote(**fields)  # type: ignore[arg-type]
