"""Retried blocks: `for attempt in retry(...): with attempt: ...`, and the same with `async for`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .attempts import Attempts

if TYPE_CHECKING:
    from .decorator import retry

__all__ = ["Try", "tries", "tries_async"]


class Try:
    """One attempt: a context manager around the block. An error that is to be retried does not leave it."""

    __slots__ = ("_attempts", "error", "number")

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self.number = attempts.number
        """Counted from 1."""
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        """Begin the attempt."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """End the attempt; an error stays inside when another attempt follows."""
        if isinstance(error, Exception) and self._attempts.is_worth(error):
            self.error = error
            return True
        self._attempts.leave()
        return False


def _begin(policy: retry) -> Attempts:
    return Attempts(policy, "a block", policy.time().monotonic())


def tries(policy: retry) -> Iterator[Try]:
    """Give an attempt, and another one as long as the last has failed and may be tried again."""
    attempts = _begin(policy)
    while True:
        attempt = Try(attempts)
        yield attempt
        error, attempt.error = attempt.error, None
        if error is None:
            return
        if not attempts.wait():
            raise error


async def tries_async(policy: retry) -> AsyncIterator[Try]:
    """Give attempts, as `tries`."""
    attempts = _begin(policy)
    while True:
        attempt = Try(attempts)
        yield attempt
        error, attempt.error = attempt.error, None
        if error is None:
            return
        if not await attempts.wait_async():
            raise error
