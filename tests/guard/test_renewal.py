"""The lease is renewed while a call runs, and a call is told when it was lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from retrykit.errors import StoreUnavailableError
from retrykit.guard import AsyncIdempotencyGuard, IdempotencyGuard, current_hold
from retrykit.guard.renewal import AGAIN, SHARE
from tests.colours import both_loops, run_asyncio, trio
from tests.guard.guards import Awaited, Work, memory, stored

LEASE = 0.4
"""Seconds; calls here last longer."""


class Renewing:
    """A store that counts renewals, and fails or loses some of them."""

    def __init__(self, *answers: Any) -> None:
        self.store = memory()
        self.answers = list(answers)
        self.renewals = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def renew(self, *args: Any, **kwargs: Any) -> Any:
        self.renewals += 1
        answer = self.answers.pop(0) if self.answers else "renew"
        if isinstance(answer, Exception):
            raise answer
        return self.store.renew(*args, **kwargs) if answer == "renew" else None


def until(done: Callable[[], bool], limit: float = 20.0) -> bool:
    """Wait for something that happens in another thread."""
    end = time.monotonic() + limit
    while not done() and time.monotonic() < end:
        time.sleep(0.005)
    return done()


async def until_async(done: Callable[[], bool], runner: Any, limit: float = 20.0) -> bool:
    end = time.monotonic() + limit
    while not done() and time.monotonic() < end:
        await (trio.sleep(0.005) if runner is trio.run else asyncio.sleep(0.005))
    return done()


def work_until(done: Callable[[Any], bool], seen: list[Any]) -> Callable[[], str]:
    def work() -> str:
        hold = current_hold()
        assert hold is not None
        seen.append(until(lambda: done(hold)))
        seen.append(hold.is_lost)
        return "receipt"

    return work


def call(store: Renewing, done: Callable[[Any], bool], runner: Any) -> list[Any]:
    """Make a guarded call that lasts until something is so; return whether it became so, and whether the lease was lost."""
    seen: list[Any] = []
    if runner is None:
        assert IdempotencyGuard(store, lease=LEASE).call("k", work_until(done, seen)) == "receipt"  # type: ignore[arg-type]
        return seen

    async def work() -> str:
        hold = current_hold()
        assert hold is not None
        seen.append(await until_async(lambda: done(hold), runner))
        seen.append(hold.is_lost)
        return "receipt"

    async def main() -> Any:
        return await AsyncIdempotencyGuard(Awaited(store), lease=LEASE).call("k", work)  # type: ignore[arg-type]

    assert runner(main) == "receipt"
    return seen


every_runner = pytest.mark.parametrize("runner", [None, run_asyncio, trio.run], ids=["sync", "asyncio", "trio"])


@every_runner
def test_lease_of_a_long_call_is_renewed(runner: Any) -> None:
    """Again and again; nobody else gets the key, and the result is stored."""
    store = Renewing()
    assert call(store, lambda hold: store.renewals >= 4, runner) == [True, False]
    assert store.get(stored("k")).result == '"receipt"'
    seen = store.renewals
    time.sleep(LEASE * SHARE * 1.5)
    assert store.renewals == seen, "nobody renews a call that is over"


@every_runner
def test_renewal_that_fails_is_tried_again(runner: Any) -> None:
    """Sooner than it would have been due; the call notices nothing."""
    store = Renewing(StoreUnavailableError("gone"), StoreUnavailableError("gone"))
    assert call(store, lambda hold: store.renewals >= 3, runner) == [True, False]
    assert AGAIN < SHARE


@every_runner
@pytest.mark.parametrize(
    "answers", [["lost"], [StoreUnavailableError("gone")] * 1000], ids=["taken over", "unreachable"]
)
def test_call_is_told_that_its_lease_is_lost(runner: Any, answers: list[Any]) -> None:
    """Taken over by another, or over without a renewal; what it does then is its own affair, and its result counts."""
    store = Renewing(*answers)
    assert call(store, lambda hold: hold.is_lost, runner) == [True, True]
    assert store.get(stored("k")).result == '"receipt"'


def test_one_thread_renews_for_all_calls_and_ends_with_them() -> None:
    """It is started by the first call that needs it, and a later call starts it again."""
    store = Renewing()
    guard = IdempotencyGuard(store, lease=LEASE)  # type: ignore[arg-type]

    def renewers() -> int:
        return sum(thread.name == "retrykit guard" for thread in threading.enumerate())

    assert until(lambda: renewers() == 0), "those of the tests before"
    for _ in range(2):
        seen: list[Any] = []
        wanted = store.renewals + 4
        works = [work_until(lambda _, wanted=wanted: store.renewals >= wanted, seen) for _ in range(3)]
        threads = [
            threading.Thread(target=guard.call, args=(f"{time.monotonic()} {n}", work)) for n, work in enumerate(works)
        ]
        for thread in threads:
            thread.start()
        assert until(lambda: renewers() == 1)
        for thread in threads:
            thread.join()
        assert seen == [True, False] * 3
        assert until(lambda: renewers() == 0)


@both_loops
def test_cancelled_call_is_unknown_once_its_lease_is_over(runner: Any) -> None:
    """No further step is taken; its renewal ends with it."""
    store = Renewing()

    async def main() -> None:
        guard = AsyncIdempotencyGuard(Awaited(store), lease=LEASE)  # type: ignore[arg-type]

        async def work() -> None:
            await (trio.sleep(60) if runner is trio.run else asyncio.sleep(60))

        if runner is trio.run:
            with trio.move_on_after(0.05):
                await guard.call("k", work)
            await trio.sleep(LEASE)
        else:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(guard.call("k", work), 0.05)
            await asyncio.sleep(LEASE)

    runner(main)
    assert store.renewals == 0
    record = store.get(stored("k"))
    assert record.state == "sending"
    assert IdempotencyGuard(store, on_unknown="repeat").call("k", Work()) == "receipt"  # type: ignore[arg-type]
