"""A guard of either colour, driven alike by tests."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from retrykit.backends.memory import MemoryBackend
from retrykit.guard import AsyncIdempotencyGuard, Hold, IdempotencyGuard
from retrykit.stores import ClaimStore
from tests.colours import run_asyncio, trio


class Sync:
    """The synchronous guard."""

    def __init__(self, store: ClaimStore, **options: Any) -> None:
        self.store = store
        self.guard = IdempotencyGuard(store, **options)

    def call(self, key: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.guard.call(key, fn, *args, **kwargs)

    def decorated(self, fn: Callable[..., Any], **how: Any) -> Callable[..., Any]:
        return self.guard(**how)(fn)

    def block(self, key: str, work: Callable[[], Any], payload: object = None) -> Hold:
        with self.guard.hold(key, payload=payload) as hold:
            if hold.is_new:
                hold.result = work()
        return hold

    def complete(self, hold: Hold | None, result: object, *, within: Any) -> None:
        self.guard.complete(hold, result, within=within)

    def confirm(self, key: str, provider_id: str | None = None) -> bool:
        return self.guard.confirm(key, provider_id)


class Awaited:
    """A store whose answers have to be awaited."""

    def __init__(self, store: ClaimStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return coroutine(getattr(self._store, name))


class Async:
    """The asynchronous guard under one loop; functions are made coroutine functions."""

    def __init__(self, run: Callable[..., Any], store: ClaimStore, **options: Any) -> None:
        self.store = store
        self._run = run
        self.guard = AsyncIdempotencyGuard(Awaited(store), **options)  # type: ignore[arg-type]

    def call(self, key: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        async def main() -> Any:
            return await self.guard.call(key, coroutine(fn), *args, **kwargs)

        return self._run(main)

    def decorated(self, fn: Callable[..., Any], **how: Any) -> Callable[..., Any]:
        wrapped = self.guard(**how)(coroutine(fn))

        def call(*args: Any, **kwargs: Any) -> Any:
            async def main() -> Any:
                return await wrapped(*args, **kwargs)

            return self._run(main)

        return call

    def block(self, key: str, work: Callable[[], Any], payload: object = None) -> Hold:
        async def main() -> Hold:
            async with self.guard.hold(key, payload=payload) as hold:
                if hold.is_new:
                    hold.result = work()
            return hold

        return self._run(main)

    def complete(self, hold: Hold | None, result: object, *, within: Any) -> None:
        """Complete within a call, which is no coroutine function here: a connection's claims never let a loop wait."""
        with pytest.raises(StopIteration):
            self.guard.complete(hold, result, within=within).send(None)

    def confirm(self, key: str, provider_id: str | None = None) -> bool:
        async def main() -> bool:
            return await self.guard.confirm(key, provider_id)

        return self._run(main)


def coroutine(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return call


COLOURS: dict[str, Callable[..., Any]] = {
    "sync": Sync,
    "asyncio": lambda store, **options: Async(run_asyncio, store, **options),
    "trio": lambda store, **options: Async(trio.run, store, **options),
}

every_colour = pytest.mark.parametrize("make", COLOURS.values(), ids=COLOURS.keys())


def stored(key: str, namespace: str = "") -> str:
    """Return a guard's key as it stands in the store."""
    return f"\x1e{namespace}\x1e{key}"


def memory() -> ClaimStore:
    """Return an empty store; its time is the clock in force."""
    return MemoryBackend().claims


class Work:
    """Counts how often it was done."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        outcome = self.outcomes.pop(0) if self.outcomes else "receipt"
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome
