"""Taking from a source until the process is to stop."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Generic, Self, TypeVar

from ..open_claims import follower_here
from .report import Entry, Tally

__all__ = ["AsyncTaken", "Taken"]

T = TypeVar("T")


class _Counted:
    """Counts what is taken, and what the loop has finished when it comes for more."""

    # No generators: an asynchronous one that a loop is left early would have to be closed by somebody.

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._entry: Entry | None = None

    def _came_back(self) -> None:
        if self._entry is not None:
            self._tally.passed(self._entry)
            self._entry = None
            follower_here.set(None)

    def _took(self) -> None:
        self._entry = self._tally.took()
        follower_here.set(self._entry)


class Taken(_Counted, Generic[T]):
    """What a synchronous source gives until the process is to stop."""

    def __init__(self, source: Iterable[T | None], tally: Tally, is_over: Callable[[], bool]) -> None:
        super().__init__(tally)
        self._source: Iterator[T | None] = iter(source)
        self._is_over = is_over

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> T:
        """Give the next one."""
        self._came_back()
        while not self._is_over():
            item = next(self._source)
            if item is not None:
                self._took()
                return item
        raise StopIteration


class AsyncTaken(_Counted, Generic[T]):
    """What an asynchronous source gives until the process is to stop."""

    def __init__(
        self,
        source: AsyncIterable[T | None],
        tally: Tally,
        is_over: Callable[[], bool],
        until_over: Callable[[], AbstractContextManager[None]],
    ) -> None:
        super().__init__(tally)
        self._source: AsyncIterator[T | None] = aiter(source)
        self._is_over = is_over
        self._until_over = until_over

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> T:
        """Give the next one."""
        self._came_back()
        while not self._is_over():
            item: T | None = None
            with self._until_over():
                item = await anext(self._source)
            if item is not None:
                self._took()
                return item
        raise StopAsyncIteration
