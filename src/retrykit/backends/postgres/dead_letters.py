"""The dead letters. `letter_tables` says what stands where."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from ...dead_letter import DeadLetter, DeadLetterState
from ...machines.letter import LetterChange
from ...stores.dead_letter_figures import DeadLetterStats
from ...stores.dead_letter_groups import DeadLetterGroup, DeadLetterGroupPage, GroupChange, GroupNote, GroupOrder
from ...stores.dead_letter_query import DeadLetterQuery
from ...stores.dead_letters import DeadLetterPage, Facet
from ...times import from_millis, to_millis
from ..cursors import read_cursor, write_cursor
from ..spans import window
from .letter_groups import NOTES, groups
from .letter_rows import LETTERS, PUT, put_values, source, within
from .letter_sums import ADD_UP, FORGET_EMPTY, breakdown, count, over_time
from .statements import NOW, Condition, Flow, Statement, atomic, between, joined, snapshot, text

__all__ = ["DeadLetters"]

_LOOKS: Final = 32
"""Writes of a process after which it looks whether there is enough to be added to the sums."""
_ENOUGH: Final = 1000
"""Changes that are: whoever reads the sums reads up to as many in about a millisecond."""
_MOST: Final = 10_000
"""Changes that are added at once."""


class DeadLetters:
    """The dead letters.

    Args:
        adds_up: whether it adds to the sums: not in a transaction of the application's, which others would wait for.
    """

    def __init__(self, *, adds_up: bool = True) -> None:
        self._adds_up: Final = adds_up
        self._writes: Final = itertools.count()

    def _put(self, letter: DeadLetter) -> Flow[DeadLetter]:
        values = put_values(letter)
        while True:
            rows = yield Statement(PUT, values)
            if rows:
                yield from self._add_up()
                return attrs.evolve(letter, state=DeadLetterState(rows[0][0]))
            known, _, _ = yield from LETTERS.load(text(letter.id))
            if known is not None:
                return known

    def _resolve(self, letter_id: str) -> Flow[None]:
        yield Statement(
            f"INSERT INTO retrykit.letters AS known (id, state, dead_at) VALUES (%(id)s, 'resolved', {NOW}) "
            "ON CONFLICT (id) DO UPDATE SET state = excluded.state, version = DEFAULT, "
            "dead_at = CASE WHEN known.record IS NULL THEN excluded.dead_at ELSE known.dead_at END",
            {"id": text(letter_id)},
        )
        yield from self._add_up()

    def _change(self, letter_id: str, change: LetterChange) -> Flow[DeadLetter | None]:
        changed = yield from LETTERS.change(
            text(letter_id), lambda letter, _: None if letter is None else change(letter)
        )
        yield from self._add_up()
        return changed

    def _get(self, letter_id: str) -> Flow[DeadLetter | None]:
        letter, _, _ = yield from LETTERS.load(text(letter_id))
        return letter

    def _search(self, query: DeadLetterQuery, limit: int, cursor: str | None) -> Flow[DeadLetterPage]:
        before = sys.maxsize if cursor is None else read_cursor(cursor)
        of = source(query, *within(query), *between("letters.number", None, before, "number"))
        rows = yield Statement(
            f"SELECT letters.number, id, state, record FROM {of.sql} ORDER BY letters.number DESC LIMIT %(limit)s",
            {**of.values, "limit": limit + 1},
        )
        more = len(rows) > limit
        letters = [LETTERS.read(letter_id, [state, record]) for _, letter_id, state, record in rows[:limit]]
        return DeadLetterPage(letters, write_cursor(rows[limit - 1][0]) if more else None)

    def _count(self, query: DeadLetterQuery) -> Flow[int]:
        return count(query)

    def _top(self, facet: Facet, query: DeadLetterQuery, limit: int) -> Flow[Sequence[tuple[str, int]]]:
        return breakdown(query, facet, limit=limit)

    @atomic
    def _purge(self, before: datetime, query: DeadLetterQuery, limit: int) -> Flow[int]:
        old = between("letters.dead_at", None, to_millis(before), "old")
        of = source(query, *old)
        rows = yield Statement(
            f"DELETE FROM retrykit.letters WHERE number = ANY (ARRAY(SELECT letters.number FROM {of.sql} "
            "ORDER BY dead_at, letters.number LIMIT %(limit)s FOR UPDATE OF letters SKIP LOCKED)) RETURNING true",
            {**of.values, "limit": limit},
        )
        if attrs.evolve(query, since=None, until=None).matches_early(before):
            early = joined([Condition("record IS NULL"), *old, *between("letters.dead_at", *window(query), "dead")])
            yield Statement(f"DELETE FROM retrykit.letters WHERE {early.sql}", early.values)
        if self._adds_up:
            yield Statement(ADD_UP, {"least": 1, "limit": _MOST})
            yield Statement(FORGET_EMPTY)
        return len(rows)

    @snapshot
    def _groups(
        self, query: DeadLetterQuery, order: GroupOrder, muted: bool, limit: int, cursor: str | None
    ) -> Flow[DeadLetterGroupPage]:
        return groups(query, order, muted=muted, limit=limit, cursor=cursor)

    @atomic
    def _annotate(self, fingerprint: str, change: GroupChange) -> Flow[DeadLetterGroup | None]:
        own = DeadLetterQuery(fingerprint=fingerprint)
        if not (yield from count(own)):
            return None
        yield from NOTES.change(text(fingerprint), lambda note, now: change.made_to(note or GroupNote(), now))
        page = yield from groups(own, "last_seen", muted=True, limit=1, cursor=None)
        return page.groups[0]

    def _trend(self, query: DeadLetterQuery, start: datetime, step: float, steps: int) -> Flow[Sequence[int]]:
        counts = yield from over_time(query, to_millis(start), int(step) * 1000)
        return [counts.get(number, 0) for number in range(steps)]

    @snapshot
    def _stats(self) -> Flow[DeadLetterStats]:
        states = dict((yield from breakdown(DeadLetterQuery(), "state")))
        ((oldest, now),) = yield Statement(
            f"SELECT min(dead_at), {NOW} FROM retrykit.letters WHERE state = 'quarantined'"
        )
        until = from_millis(now) + timedelta(milliseconds=1)
        hour = yield from count(DeadLetterQuery(since=from_millis(now) - timedelta(hours=1), until=until))
        day = yield from count(DeadLetterQuery(since=from_millis(now) - timedelta(days=1), until=until))
        return DeadLetterStats(
            died_last_hour=hour,
            died_last_day=day,
            oldest_quarantined_at=None if oldest is None else from_millis(oldest),
            **{state.value: states.get(state.value, 0) for state in DeadLetterState},
        )

    def _add_up(self) -> Flow[None]:
        """See now and then whether there is enough to be added to the sums; a process that writes little does so as well."""
        if self._adds_up and next(self._writes) % _LOOKS == 0:
            yield Statement(ADD_UP, {"least": _ENOUGH, "limit": _MOST})
