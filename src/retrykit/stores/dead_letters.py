"""The dead letter store: the evidence of every message taken out of circulation.

Guarantees every store has to give:

- a letter's id is derived from message and generation, so that `put` may be repeated: it never doubles and never takes
  a letter back into quarantine;
- `resolve` holds also when it comes before the letter: the letter is then put as resolved;
- nothing is deleted but by `purge`, and by nothing that happens to the message's claim, retries or delivery;
- each operation is atomic, also for totals that are kept beside the letters, and may be repeated after a lost answer;
- order is the order in which letters were put; values are ordered by their code points.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Literal, TypeAlias, final

import attrs

from .._steps import Steps, arun, do, run
from ..checks import check_limit
from ..dead_letter import DeadLetter, DeadLetterState
from ..decision import DeadLetterReason
from ..errors import ConfigurationError
from ..failure import ErrorClass, ErrorGroup
from ..times import utc

__all__ = ["AsyncDeadLetterStore", "DeadLetterPage", "DeadLetterQuery", "DeadLetterStore", "Facet"]

Facet: TypeAlias = Literal["error_class", "error_group", "error_code", "provider", "campaign_id", "reason", "state"]
"""What letters can be counted by."""

FACETS: tuple[Facet, ...] = (
    "error_class",
    "error_group",
    "error_code",
    "provider",
    "campaign_id",
    "reason",
    "state",
)


@attrs.frozen(kw_only=True)
class DeadLetterQuery:
    """Which letters; every condition given has to hold."""

    message_id: str | None = None
    campaign_id: str | None = None
    provider: str | None = None
    error_class: ErrorClass | str | None = None
    error_group: ErrorGroup | None = None
    error_code: str | None = None
    reason: DeadLetterReason | None = None
    state: DeadLetterState | None = None

    def conditions(self) -> dict[str, str]:
        """Return the conditions given, by field."""
        return {name: str(value) for name, value in attrs.asdict(self).items() if value is not None}


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

    def _put_flow(self, letter: DeadLetter) -> Steps[DeadLetter]:
        return (yield from do(self._put, letter))

    def _resolve_flow(self, letter_id: str) -> Steps[None]:
        yield from do(self._resolve, letter_id)

    def _get_flow(self, letter_id: str) -> Steps[DeadLetter | None]:
        return (yield from do(self._get, letter_id))

    def _search_flow(self, query: DeadLetterQuery, limit: int, cursor: str | None) -> Steps[DeadLetterPage]:
        return (yield from do(self._search, query, check_limit(limit), cursor))

    def _count_flow(self, query: DeadLetterQuery) -> Steps[int]:
        return (yield from do(self._count, query))

    def _top_flow(self, facet: Facet, query: DeadLetterQuery, limit: int) -> Steps[Sequence[tuple[str, int]]]:
        if facet not in FACETS:
            raise ConfigurationError(f"letters cannot be counted by {facet!r}; allowed are {', '.join(FACETS)}")
        return (yield from do(self._top, facet, query, check_limit(limit)))

    def _purge_flow(self, before: datetime, query: DeadLetterQuery, limit: int) -> Steps[int]:
        return (yield from do(self._purge, utc(before, "before"), query, check_limit(limit)))


_ALL = DeadLetterQuery()


class DeadLetterStore(_DeadLetters):
    """Dead letters, for synchronous callers. Subclass it and write the seven primitives."""

    @abc.abstractmethod
    def _put(self, letter: DeadLetter) -> DeadLetter: ...

    @abc.abstractmethod
    def _resolve(self, letter_id: str) -> None: ...

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
            ConfigurationError: the cursor is not one of this store's.
        """
        return run(self._search_flow(query, limit, cursor))

    @final
    def count(self, query: DeadLetterQuery = _ALL) -> int:
        """Return how many letters match."""
        return run(self._count_flow(query))

    @final
    def top(self, facet: Facet, *, query: DeadLetterQuery = _ALL, limit: int = 10) -> Sequence[tuple[str, int]]:
        """Return the most frequent values of a field with their counts, most frequent first, ties by value.

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


class AsyncDeadLetterStore(_DeadLetters):
    """`DeadLetterStore` for asynchronous callers: the same names, answers and guarantees."""

    @abc.abstractmethod
    async def _put(self, letter: DeadLetter) -> DeadLetter: ...

    @abc.abstractmethod
    async def _resolve(self, letter_id: str) -> None: ...

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

    @final
    async def put(self, letter: DeadLetter) -> DeadLetter:
        """Keep a letter, as `DeadLetterStore.put`."""
        return await arun(self._put_flow(letter))

    @final
    async def resolve(self, letter_id: str) -> None:
        """Record that the letter's message was sent after all, as `DeadLetterStore.resolve`."""
        await arun(self._resolve_flow(letter_id))

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
