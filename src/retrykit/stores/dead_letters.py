"""The dead letter store: the evidence of every message taken out of circulation.

Guarantees every store has to give:

- a letter's id is derived from message and generation, so that `put` may be repeated: it never doubles and never takes
  a letter back into quarantine;
- what a letter may become depends on where it stands when that is recorded (`retrykit.machines.letter`): of many that put a letter back
  or discard it one does, and a fact of the message's is never undone;
- `resolve` holds also when it comes before the letter: the letter is then put as resolved;
- nothing is deleted but by `purge`, and by nothing that happens to the message's claim, retries or delivery;
- each operation is atomic, also for totals that are kept beside the letters, and may be repeated after a lost answer;
- what `search`, `count`, `top`, `groups`, `trend` and `purge` take for a query's letters are those that its `matches` takes in, to
  the millisecond at both ends of its window;
- order is the order in which letters were put; values are ordered by their code points.
"""

from __future__ import annotations

import abc
import functools
import re
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Literal, TypeAlias, final, get_args

import attrs

from .._steps import Steps, arun, do, run
from ..checks import check_limit, check_note
from ..dead_letter import DeadLetter, Edit
from ..errors import ConfigurationError
from ..machines import letter as machine
from ..machines.letter import LetterChange
from ..times import Duration, utc
from .dead_letter_figures import DeadLetterStats, DeadLetterTrend, frame
from .dead_letter_groups import DeadLetterGroup, DeadLetterGroupPage, GroupChange, GroupOrder
from .dead_letter_query import DeadLetterQuery

__all__ = ["AsyncDeadLetterStore", "DeadLetterPage", "DeadLetterStore", "Facet"]

Facet: TypeAlias = Literal[
    "error_class",
    "error_group",
    "error_code",
    "provider",
    "campaign_id",
    "reason",
    "state",
    "stage",
    "fingerprint",
]
"""What letters can be counted by."""

FACETS: tuple[Facet, ...] = get_args(Facet)
ORDERS: tuple[GroupOrder, ...] = get_args(GroupOrder)


@attrs.frozen
class DeadLetterPage:
    """Some letters, the one put last first, and where the next ones begin."""

    letters: Sequence[DeadLetter]
    cursor: str | None
    """Give it to the next search; None when there are no more."""


class _DeadLetters(abc.ABC):
    """The one logic of both colours: check, then call the primitive."""

    @abc.abstractmethod
    def _put(self, letter: DeadLetter) -> Awaitable[DeadLetter] | DeadLetter: ...

    @abc.abstractmethod
    def _resolve(self, letter_id: str) -> Awaitable[None] | None: ...

    @abc.abstractmethod
    def _change(self, letter_id: str, change: LetterChange) -> Awaitable[DeadLetter | None] | DeadLetter | None: ...

    @abc.abstractmethod
    def _get(self, letter_id: str) -> Awaitable[DeadLetter | None] | DeadLetter | None: ...

    @abc.abstractmethod
    def _search(
        self, query: DeadLetterQuery, limit: int, cursor: str | None
    ) -> Awaitable[DeadLetterPage] | DeadLetterPage: ...

    @abc.abstractmethod
    def _count(self, query: DeadLetterQuery) -> Awaitable[int] | int: ...

    @abc.abstractmethod
    def _top(
        self, facet: Facet, query: DeadLetterQuery, limit: int
    ) -> Awaitable[Sequence[tuple[str, int]]] | Sequence[tuple[str, int]]: ...

    @abc.abstractmethod
    def _purge(self, before: datetime, query: DeadLetterQuery, limit: int) -> Awaitable[int] | int: ...

    @abc.abstractmethod
    def _groups(
        self, query: DeadLetterQuery, order: GroupOrder, muted: bool, limit: int, cursor: str | None
    ) -> Awaitable[DeadLetterGroupPage] | DeadLetterGroupPage: ...

    @abc.abstractmethod
    def _annotate(
        self, fingerprint: str, change: GroupChange
    ) -> Awaitable[DeadLetterGroup | None] | DeadLetterGroup | None: ...

    @abc.abstractmethod
    def _trend(
        self, query: DeadLetterQuery, start: datetime, step: float, steps: int
    ) -> Awaitable[Sequence[int]] | Sequence[int]: ...

    @abc.abstractmethod
    def _stats(self) -> Awaitable[DeadLetterStats] | DeadLetterStats: ...

    def _put_flow(self, letter: DeadLetter) -> Steps[DeadLetter]:
        return (yield from do(self._put, letter))

    def _resolve_flow(self, letter_id: str) -> Steps[None]:
        yield from do(self._resolve, letter_id)

    def _put_back_flow(self, letter_id: str, redrive_id: str, note: str) -> Steps[DeadLetter | None]:
        change = functools.partial(machine.put_back, redrive_id=redrive_id, note=check_note(note, "note"))
        return (yield from do(self._change, letter_id, change))

    def _supersede_flow(self, letter_id: str) -> Steps[DeadLetter | None]:
        return (yield from do(self._change, letter_id, machine.superseded))

    def _discard_flow(self, letter_id: str, note: str) -> Steps[DeadLetter | None]:
        change = functools.partial(machine.discarded, note=check_note(note, "note", least=1))
        return (yield from do(self._change, letter_id, change))

    def _edit_flow(self, letter_id: str, edit: Edit) -> Steps[DeadLetter | None]:
        return (yield from do(self._change, letter_id, functools.partial(machine.edited, edit=edit)))

    def _get_flow(self, letter_id: str) -> Steps[DeadLetter | None]:
        return (yield from do(self._get, letter_id))

    def _search_flow(self, query: DeadLetterQuery, limit: int, cursor: str | None) -> Steps[DeadLetterPage]:
        digest = query.digest("search")
        page = yield from do(self._search, query, check_limit(limit), _opened(cursor, digest))
        return attrs.evolve(page, cursor=_bound(page.cursor, digest))

    def _count_flow(self, query: DeadLetterQuery) -> Steps[int]:
        return (yield from do(self._count, query))

    def _top_flow(self, facet: Facet, query: DeadLetterQuery, limit: int) -> Steps[Sequence[tuple[str, int]]]:
        if facet not in FACETS:
            raise ConfigurationError(f"letters cannot be counted by {facet!r}; allowed are {', '.join(FACETS)}")
        return (yield from do(self._top, facet, query, check_limit(limit)))

    def _purge_flow(self, before: datetime, query: DeadLetterQuery, limit: int) -> Steps[int]:
        return (yield from do(self._purge, utc(before, "before"), query, check_limit(limit)))

    def _groups_flow(
        self, query: DeadLetterQuery, order: GroupOrder, muted: bool, limit: int, cursor: str | None
    ) -> Steps[DeadLetterGroupPage]:
        if order not in ORDERS:
            raise ConfigurationError(f"groups cannot be ordered by {order!r}; allowed are {', '.join(ORDERS)}")
        digest = query.digest("groups", order, str(bool(muted)))
        page = yield from do(self._groups, query, order, bool(muted), check_limit(limit), _opened(cursor, digest))
        return attrs.evolve(page, cursor=_bound(page.cursor, digest))

    def _group_flow(self, fingerprint: str) -> Steps[DeadLetterGroup | None]:
        page = yield from do(self._groups, DeadLetterQuery(fingerprint=fingerprint), "last_seen", True, 1, None)
        return page.groups[0] if page.groups else None

    def _annotate_flow(self, fingerprint: str, change: GroupChange) -> Steps[DeadLetterGroup | None]:
        return (yield from do(self._annotate, fingerprint, change))

    def _trend_flow(self, query: DeadLetterQuery, step: Duration) -> Steps[DeadLetterTrend]:
        start, length, steps = frame(query, step)
        counts = yield from do(self._trend, query, start, length, steps)
        return DeadLetterTrend(start, length, counts)

    def _stats_flow(self) -> Steps[DeadLetterStats]:
        return (yield from do(self._stats))


_ALL = DeadLetterQuery()


def _bound(cursor: str | None, digest: str) -> str | None:
    """Return a store's cursor with what tells its query."""
    return None if cursor is None else f"{cursor}.{digest}"


def _opened(cursor: str | None, digest: str) -> str | None:
    """Return the store's own cursor.

    Raises:
        ConfigurationError: it is that of another query.
    """
    own, _, seen = (cursor or "").rpartition(".")
    if cursor is None or not re.fullmatch("[0-9a-f]{8}", seen):
        return cursor  # of a version whose cursors did not tell their query, or none at all: the store looks
    if seen != digest:
        raise ConfigurationError(
            f"the cursor {cursor[:60]!r} is of another query; give it with the query and the order of the page before"
        )
    return own


class DeadLetterStore(_DeadLetters):
    """Dead letters, for synchronous callers. Subclass it and write the twelve primitives."""

    @abc.abstractmethod
    def _put(self, letter: DeadLetter) -> DeadLetter: ...

    @abc.abstractmethod
    def _resolve(self, letter_id: str) -> None: ...

    @abc.abstractmethod
    def _change(self, letter_id: str, change: LetterChange) -> DeadLetter | None: ...

    @abc.abstractmethod
    def _get(self, letter_id: str) -> DeadLetter | None: ...

    @abc.abstractmethod
    def _search(self, query: DeadLetterQuery, limit: int, cursor: str | None) -> DeadLetterPage: ...

    @abc.abstractmethod
    def _count(self, query: DeadLetterQuery) -> int: ...

    @abc.abstractmethod
    def _top(self, facet: Facet, query: DeadLetterQuery, limit: int) -> Sequence[tuple[str, int]]: ...

    @abc.abstractmethod
    def _purge(self, before: datetime, query: DeadLetterQuery, limit: int) -> int: ...

    @abc.abstractmethod
    def _groups(
        self, query: DeadLetterQuery, order: GroupOrder, muted: bool, limit: int, cursor: str | None
    ) -> DeadLetterGroupPage: ...

    @abc.abstractmethod
    def _annotate(self, fingerprint: str, change: GroupChange) -> DeadLetterGroup | None: ...

    @abc.abstractmethod
    def _trend(self, query: DeadLetterQuery, start: datetime, step: float, steps: int) -> Sequence[int]: ...

    @abc.abstractmethod
    def _stats(self) -> DeadLetterStats: ...

    @final
    def put(self, letter: DeadLetter) -> DeadLetter:
        """Keep a letter, once per id, and return it as it is kept."""
        return run(self._put_flow(letter))

    @final
    def resolve(self, letter_id: str) -> None:
        """Record that the letter's message was sent after all, whatever its state, also before the letter itself arrives.

        Before, it counts as a resolved letter of which nothing else is known, dead since this call: it is not found or
        counted, and a `purge` of what is resolved forgets it.
        """
        run(self._resolve_flow(letter_id))

    @final
    def put_back(self, letter_id: str, *, redrive_id: str, note: str = "") -> DeadLetter | None:
        """Record that the letter's message was put back into circulation. Only a letter that is quarantined becomes redriving.

        Args:
            letter_id: which letter.
            redrive_id: of which redrive.
            note: why, at most 10,000 characters.

        Returns:
            The letter afterwards, or None when there is none of that id.
        """
        return run(self._put_back_flow(letter_id, redrive_id, note))

    @final
    def supersede(self, letter_id: str) -> DeadLetter | None:
        """Record that a message that was put back came to another end than being sent; what was resolved stays.

        Returns:
            The letter afterwards, or None when there is none of that id.
        """
        return run(self._supersede_flow(letter_id))

    @final
    def discard(self, letter_id: str, *, note: str) -> DeadLetter | None:
        """Give a letter up that is quarantined; the evidence stays.

        Args:
            letter_id: which letter.
            note: by whom and why, 1 to 10,000 characters.

        Returns:
            The letter afterwards, or None when there is none of that id.
        """
        return run(self._discard_flow(letter_id, note))

    @final
    def edit(self, letter_id: str, edit: Edit) -> DeadLetter | None:
        """Lay a repaired payload beside the original of a letter that is quarantined, in place of any before.

        Returns:
            The letter afterwards, or None when there is none of that id.
        """
        return run(self._edit_flow(letter_id, edit))

    @final
    def get(self, letter_id: str) -> DeadLetter | None:
        """Return a letter, or None when there is none of that id."""
        return run(self._get_flow(letter_id))

    @final
    def search(self, query: DeadLetterQuery = _ALL, *, limit: int = 100, cursor: str | None = None) -> DeadLetterPage:
        """Return letters, the one put last first.

        Page by page each letter is seen once: those put since the first page are not, and those gone since are missing.

        Args:
            query: which letters.
            limit: how many at the most, at least 1.
            cursor: where to go on: the `cursor` of the page before, of the same query; it stays good for ever.

        Raises:
            ConfigurationError: the cursor is not one of this store's, or that of another query.
        """
        return run(self._search_flow(query, limit, cursor))

    @final
    def count(self, query: DeadLetterQuery = _ALL) -> int:
        """Return how many letters match.

        What a combination of conditions costs is the store's affair; the page of the backend tells it.
        """
        return run(self._count_flow(query))

    @final
    def top(self, facet: Facet, *, query: DeadLetterQuery = _ALL, limit: int = 10) -> Sequence[tuple[str, int]]:
        """Return the most frequent values of a field with their counts, most frequent first, ties by value.

        Args:
            facet: the field; letters that have no value there are left out.
            query: of which letters, for example those of a window.
            limit: how many values at the most, at least 1.

        Raises:
            ConfigurationError: letters cannot be counted by that field.
        """
        return run(self._top_flow(facet, query, limit))

    @final
    def purge(self, before: datetime, *, query: DeadLetterQuery = _ALL, limit: int = 1000) -> int:
        """Delete letters that died before an instant (`dead_lettered_at`), oldest first.

        Args:
            before: aware.
            query: which of them, for example only those in state resolved.
            limit: how many at the most, at least 1; repeat while it gives as many.

        Returns:
            How many were deleted.

        Raises:
            ConfigurationError: `before` is naive.
        """
        return run(self._purge_flow(before, query, limit))

    @final
    def groups(
        self,
        query: DeadLetterQuery = _ALL,
        *,
        order: GroupOrder = "last_seen",
        muted: bool = False,
        limit: int = 20,
        cursor: str | None = None,
    ) -> DeadLetterGroupPage:
        """Return the groups of which at least one letter matches: one cause, many messages. Letters without a fingerprint are in none.

        A group tells how many letters match and names some of them; its other figures are of all its letters. A group that changes
        between two pages may be missing or come twice.

        Args:
            query: which letters.
            order: which groups come first; ties are ordered by fingerprint.
            muted: whether groups that are muted by now are given as well.
            limit: how many at the most, at least 1.
            cursor: where to go on: the `cursor` of the page before, of the same query and order.

        Raises:
            ConfigurationError: the order is not allowed, or the cursor is none or of another query.
        """
        return run(self._groups_flow(query, order, muted, limit, cursor))

    @final
    def group(self, fingerprint: str) -> DeadLetterGroup | None:
        """Return the group of a fingerprint, muted or not, or None when there is no letter of it."""
        return run(self._group_flow(fingerprint))

    @final
    def annotate(
        self,
        fingerprint: str,
        *,
        by: str,
        muted: bool | datetime | None = None,
        owner: str | None = None,
        note: str | None = None,
    ) -> DeadLetterGroup | None:
        """Note something of a group; what is None stays as it is.

        The note is one for all letters of the fingerprint, survives their purge, and says who changed it last and when.

        Args:
            fingerprint: of which group.
            by: who says so, 1 to 255 characters.
            muted: whether, or until when (aware), the group is left out of `groups`.
            owner: who looks after it, at most 255 characters; "" for nobody.
            note: what is known of it, at most 10,000 characters; "" for nothing.

        Returns:
            The group as it stands, or None when there is no letter of that fingerprint: then nothing is noted.

        Raises:
            ConfigurationError: a value is not allowed.
        """
        return run(self._annotate_flow(fingerprint, GroupChange(by=by, muted=muted, owner=owner, note=note)))

    @final
    def trend(self, query: DeadLetterQuery, *, step: Duration) -> DeadLetterTrend:
        """Return how many of the letters that match died in each step of the query's window.

        Args:
            query: with both `since` and `until`.
            step: whole minutes that divide an hour, or whole hours; at most 10,000 of them in the window. Steps begin at
                multiples of their length since 1970 in UTC.

        Raises:
            ConfigurationError: the query has no window, the step is not allowed, or there are too many.
        """
        return run(self._trend_flow(query, step))

    @final
    def stats(self) -> DeadLetterStats:
        """Return how deep the queue is and how fast it grows, by the store's clock."""
        return run(self._stats_flow())


class AsyncDeadLetterStore(_DeadLetters):
    """`DeadLetterStore` for asynchronous callers: the same names, answers and guarantees."""

    @abc.abstractmethod
    async def _put(self, letter: DeadLetter) -> DeadLetter: ...

    @abc.abstractmethod
    async def _resolve(self, letter_id: str) -> None: ...

    @abc.abstractmethod
    async def _change(self, letter_id: str, change: LetterChange) -> DeadLetter | None: ...

    @abc.abstractmethod
    async def _get(self, letter_id: str) -> DeadLetter | None: ...

    @abc.abstractmethod
    async def _search(self, query: DeadLetterQuery, limit: int, cursor: str | None) -> DeadLetterPage: ...

    @abc.abstractmethod
    async def _count(self, query: DeadLetterQuery) -> int: ...

    @abc.abstractmethod
    async def _top(self, facet: Facet, query: DeadLetterQuery, limit: int) -> Sequence[tuple[str, int]]: ...

    @abc.abstractmethod
    async def _purge(self, before: datetime, query: DeadLetterQuery, limit: int) -> int: ...

    @abc.abstractmethod
    async def _groups(
        self, query: DeadLetterQuery, order: GroupOrder, muted: bool, limit: int, cursor: str | None
    ) -> DeadLetterGroupPage: ...

    @abc.abstractmethod
    async def _annotate(self, fingerprint: str, change: GroupChange) -> DeadLetterGroup | None: ...

    @abc.abstractmethod
    async def _trend(self, query: DeadLetterQuery, start: datetime, step: float, steps: int) -> Sequence[int]: ...

    @abc.abstractmethod
    async def _stats(self) -> DeadLetterStats: ...

    @final
    async def put(self, letter: DeadLetter) -> DeadLetter:
        """Keep a letter, as `DeadLetterStore.put`."""
        return await arun(self._put_flow(letter))

    @final
    async def resolve(self, letter_id: str) -> None:
        """Record that the letter's message was sent after all, as `DeadLetterStore.resolve`."""
        await arun(self._resolve_flow(letter_id))

    @final
    async def put_back(self, letter_id: str, *, redrive_id: str, note: str = "") -> DeadLetter | None:
        """Record that the letter's message was put back into circulation, as `DeadLetterStore.put_back`."""
        return await arun(self._put_back_flow(letter_id, redrive_id, note))

    @final
    async def supersede(self, letter_id: str) -> DeadLetter | None:
        """Record that a message that was put back came to another end, as `DeadLetterStore.supersede`."""
        return await arun(self._supersede_flow(letter_id))

    @final
    async def discard(self, letter_id: str, *, note: str) -> DeadLetter | None:
        """Give a letter up that is quarantined, as `DeadLetterStore.discard`."""
        return await arun(self._discard_flow(letter_id, note))

    @final
    async def edit(self, letter_id: str, edit: Edit) -> DeadLetter | None:
        """Lay a repaired payload beside the original, as `DeadLetterStore.edit`."""
        return await arun(self._edit_flow(letter_id, edit))

    @final
    async def get(self, letter_id: str) -> DeadLetter | None:
        """Return a letter, or None when there is none of that id."""
        return await arun(self._get_flow(letter_id))

    @final
    async def search(
        self, query: DeadLetterQuery = _ALL, *, limit: int = 100, cursor: str | None = None
    ) -> DeadLetterPage:
        """Return letters, newest first, as `DeadLetterStore.search`."""
        return await arun(self._search_flow(query, limit, cursor))

    @final
    async def count(self, query: DeadLetterQuery = _ALL) -> int:
        """Return how many letters match."""
        return await arun(self._count_flow(query))

    @final
    async def top(self, facet: Facet, *, query: DeadLetterQuery = _ALL, limit: int = 10) -> Sequence[tuple[str, int]]:
        """Return the most frequent values of a field, as `DeadLetterStore.top`."""
        return await arun(self._top_flow(facet, query, limit))

    @final
    async def purge(self, before: datetime, *, query: DeadLetterQuery = _ALL, limit: int = 1000) -> int:
        """Delete letters that died before an instant, as `DeadLetterStore.purge`."""
        return await arun(self._purge_flow(before, query, limit))

    @final
    async def groups(
        self,
        query: DeadLetterQuery = _ALL,
        *,
        order: GroupOrder = "last_seen",
        muted: bool = False,
        limit: int = 20,
        cursor: str | None = None,
    ) -> DeadLetterGroupPage:
        """Return the groups of the letters that match, as `DeadLetterStore.groups`."""
        return await arun(self._groups_flow(query, order, muted, limit, cursor))

    @final
    async def group(self, fingerprint: str) -> DeadLetterGroup | None:
        """Return the group of a fingerprint, or None when there is no letter of it."""
        return await arun(self._group_flow(fingerprint))

    @final
    async def annotate(
        self,
        fingerprint: str,
        *,
        by: str,
        muted: bool | datetime | None = None,
        owner: str | None = None,
        note: str | None = None,
    ) -> DeadLetterGroup | None:
        """Note something of a group, as `DeadLetterStore.annotate`."""
        return await arun(self._annotate_flow(fingerprint, GroupChange(by=by, muted=muted, owner=owner, note=note)))

    @final
    async def trend(self, query: DeadLetterQuery, *, step: Duration) -> DeadLetterTrend:
        """Return how many letters died in each step of a window, as `DeadLetterStore.trend`."""
        return await arun(self._trend_flow(query, step))

    @final
    async def stats(self) -> DeadLetterStats:
        """Return how deep the queue is and how fast it grows, as `DeadLetterStore.stats`."""
        return await arun(self._stats_flow())
