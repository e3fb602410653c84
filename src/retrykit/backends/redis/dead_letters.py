"""The dead letters on the server. `letter_scripts` says what stands where."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import attrs

from ...dead_letter import DeadLetter, DeadLetterState
from ...machines.letter import LetterChange
from ...stores.dead_letter_figures import DeadLetterStats
from ...stores.dead_letter_groups import DeadLetterGroup, DeadLetterGroupPage, GroupChange, GroupOrder
from ...stores.dead_letter_query import EQUAL_FIELDS, DeadLetterQuery
from ...stores.dead_letters import DeadLetterPage, Facet
from ...times import from_millis, to_millis
from ..cursors import read_cursor, write_cursor
from .commands import Flow, Script, Space
from .letter_groups import annotate, groups
from .letter_queries import aged, count, listed, over_time, read, tally
from .letter_scripts import CHANGE, DROP, FORGET_EARLY, GET, PUT, RESOLVE

__all__ = ["DeadLetters"]

_DROPS: Final = 1000
"""Letters that one call of the script deletes."""

_STATS: Final = Script("""
local first = redis.call('ZRANGE', base .. 'waiting', 0, 0, 'WITHSCORES')
local answer = {first[2] or false}
for _, age in ipairs({3600000, 86400000}) do
  answer[#answer + 1] = redis.call('ZCOUNT', base .. 'dead', int(now - age), int(now))
end
for at = 2, #ARGV do answer[#answer + 1] = redis.call('ZCARD', base .. 'f:state:' .. ARGV[at]) end
return answer
""")


class DeadLetters:
    """The flows of the dead letter store."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def _put(self, letter: DeadLetter) -> Flow[DeadLetter]:
        fields = {name: getattr(letter, name) for name in EQUAL_FIELDS}
        pairs = [part for name, value in fields.items() if value is not None for part in (name, str(value))]
        record, died = letter.to_json(), to_millis(letter.dead_lettered_at)
        state, known = yield from self._space.call(PUT, letter.id, record, died, *pairs)
        return attrs.evolve(letter, state=DeadLetterState(state.decode())) if known is None else read(state, known)

    def _resolve(self, letter_id: str) -> Flow[None]:
        yield from self._space.call(RESOLVE, letter_id)

    def _change(self, letter_id: str, change: LetterChange) -> Flow[DeadLetter | None]:
        while True:
            row = yield from self._space.call(GET, letter_id)
            if row is None:
                return None
            state, record = row
            letter = read(state, record)
            changed = change(letter)
            if changed is letter:
                return letter
            digest = hashlib.sha1(record, usedforsecurity=False).hexdigest()
            if (yield from self._space.call(CHANGE, letter_id, state, digest, changed.state.value, changed.to_json())):
                return changed

    def _get(self, letter_id: str) -> Flow[DeadLetter | None]:
        row = yield from self._space.call(GET, letter_id)
        return None if row is None else read(*row)

    def _search(self, query: DeadLetterQuery, limit: int, cursor: str | None) -> Flow[DeadLetterPage]:
        before = None if cursor is None else read_cursor(cursor)
        rows = yield from listed(self._space, query, limit + 1, before)
        letters = [letter for _, letter in rows[:limit]]
        return DeadLetterPage(letters, write_cursor(rows[limit - 1][0]) if len(rows) > limit else None)

    def _count(self, query: DeadLetterQuery) -> Flow[int]:
        return count(self._space, query)

    def _top(self, facet: Facet, query: DeadLetterQuery, limit: int) -> Flow[Sequence[tuple[str, int]]]:
        return tally(self._space, query, facet, limit)

    def _purge(self, before: datetime, query: DeadLetterQuery, limit: int) -> Flow[int]:
        if attrs.evolve(query, since=None, until=None).matches_early(before):
            ends = [before] if query.until is None else [before, query.until]
            since = "-inf" if query.since is None else to_millis(query.since)
            yield from self._space.call(FORGET_EARLY, since, f"({to_millis(min(ends))}")
        numbers = yield from aged(self._space, query, to_millis(before), limit)
        gone = 0
        for first in range(0, len(numbers), _DROPS):
            gone += yield from self._space.call(DROP, *numbers[first : first + _DROPS])
        return gone

    def _groups(
        self, query: DeadLetterQuery, order: GroupOrder, muted: bool, limit: int, cursor: str | None
    ) -> Flow[DeadLetterGroupPage]:
        return groups(self._space, query, order, muted=muted, limit=limit, cursor=cursor)

    def _annotate(self, fingerprint: str, change: GroupChange) -> Flow[DeadLetterGroup | None]:
        return annotate(self._space, fingerprint, change)

    def _trend(self, query: DeadLetterQuery, start: datetime, step: float, steps: int) -> Flow[Sequence[int]]:
        return over_time(self._space, query, to_millis(start), int(step) * 1000, steps)

    def _stats(self) -> Flow[DeadLetterStats]:
        oldest, hour, day, *totals = yield from self._space.call(_STATS, *(state.value for state in DeadLetterState))
        return DeadLetterStats(
            died_last_hour=hour,
            died_last_day=day,
            oldest_quarantined_at=None if oldest is None else from_millis(int(float(oldest))),
            **{state.value: total for state, total in zip(DeadLetterState, totals, strict=True)},
        )
