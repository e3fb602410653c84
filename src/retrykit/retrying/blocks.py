"""Retried blocks: `for attempt in retry(...): with attempt: ...`, and the same with `async for`."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..errors import ConfigurationError
from .attempts import Attempts, nesting

if TYPE_CHECKING:
    from .decorator import retry

__all__ = ["Tries", "Try"]


class Try:
    """One attempt: a context manager around the block. An error that is to be retried does not leave it."""

    __slots__ = ("_attempts", "_nesting", "error", "number")

    def __init__(self, attempts: Attempts, nested: nesting | None) -> None:
        self._attempts = attempts
        self._nesting = nested
        self.number = attempts.number
        """Counted from 1."""
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        """Begin the attempt."""
        if self._nesting is not None:
            self._nesting.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """End the attempt; an error stays inside when another attempt follows."""
        if self._nesting is not None:
            self._nesting.__exit__()
        if error is None:
            self._attempts.succeeded()
        elif self._attempts.is_worth(error) and isinstance(error, Exception):
            self._attempts.leave()  # the loop's own code, after the block, is in no attempt
            self.error = error
            return True
        return False


class Tries:
    """The attempts of one loop, in either colour; another one follows as long as the latest has failed and is worth it."""

    # No generators: an asynchronous one that a loop is left early would have to be closed by somebody.

    def __init__(self, policy: retry) -> None:
        if policy.on_result is not None:
            raise ConfigurationError("on_result= looks at the result of a function; a block has none")
        self._attempts = Attempts(policy, "a block", policy.time().monotonic())
        self._nesting = nesting() if policy.suppress_nested else None
        self._latest: Try | None = None

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> Try:
        """Wait, where an attempt has failed, and give the next one."""
        if self._is_over():
            raise StopIteration
        error = self._take_error()
        try:
            if error is not None and not self._attempts.wait():
                self._attempts.stopped(error)
                raise error
        finally:
            del error  # its traceback holds this frame: without this they would keep each other alive
        return self._next()

    async def __anext__(self) -> Try:
        """Wait, where an attempt has failed, and give the next one."""
        if self._is_over():
            raise StopAsyncIteration
        error = self._take_error()
        try:
            if error is not None and not await self._attempts.wait_async():
                self._attempts.stopped(error)
                raise error
        finally:
            del error
        return self._next()

    def _is_over(self) -> bool:
        return self._latest is not None and self._latest.error is None

    def _take_error(self) -> Exception | None:
        if self._latest is None:
            return None
        error, self._latest.error = self._latest.error, None
        return error

    def _next(self) -> Try:
        self._latest = Try(self._attempts, self._nesting)
        return self._latest
