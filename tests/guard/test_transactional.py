"""A call whose effect is a change in the database that holds the claims: both are committed, or neither is."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from retrykit import ErrorClass, TaggedError
from retrykit.backends.memory import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.clock import SystemClock, in_trio
from retrykit.errors import (
    AlreadyInProgressError,
    ConfigurationError,
    HoldLostError,
    InvalidPayloadError,
    ResultLostError,
    StoredFailureError,
    StoreUnavailableError,
)
from retrykit.guard import AsyncIdempotencyGuard, Hold, IdempotencyGuard, current_hold
from retrykit.guard.middleware import IdempotencyMiddleware
from retrykit.stores import Claimed, ClaimState, as_async
from retrykit.testing import ManualClock
from tests.colours import both_loops, cancel, hang, run_asyncio, trio
from tests.guard.guards import Awaited, every_colour, stored
from tests.guard.test_renewal import until, until_async


class DeclinedError(TaggedError):
    error_class = ErrorClass.INVALID_RECIPIENT


class Shop:
    """An application with a table in the file of the claims."""

    def __init__(self, folder: Path, clock: Any = None) -> None:
        self.path = folder / "shop.db"
        self.backend = SQLiteBackend(self.path, clock=clock, synchronous="normal")
        self.db = sqlite3.connect(self.path, check_same_thread=False)
        self.db.execute("CREATE TABLE orders (id TEXT)")

    @property
    def orders(self) -> list[str]:
        """What everybody else sees."""
        with closing(sqlite3.connect(self.path)) as other:
            return [order for (order,) in other.execute("SELECT id FROM orders ORDER BY id")]

    def place(self, made: Any, result: object = "receipt", *, then: BaseException | None = None) -> object:
        """Place an order and complete the call, in one transaction; then fail, perhaps."""
        with self.db:
            hold = current_hold()
            assert hold is not None
            self.db.execute("INSERT INTO orders VALUES (?)", [hold.key])
            made.complete(hold, result, within=self.within)
            if then is not None:
                raise then
        return result

    @property
    def within(self) -> Any:
        return self.backend.using(self.db).claims

    def state(self, key: str) -> ClaimState:
        record = self.backend.claims.get(stored(key))
        assert record is not None
        return record.state

    def close(self) -> None:
        self.db.close()
        self.backend.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shop(tmp_path: Path, clock: ManualClock) -> Generator[Shop]:
    made = Shop(tmp_path, clock)
    yield made
    made.close()


@every_colour
def test_effect_and_completion_are_committed_together(make: Any, shop: Shop) -> None:
    """Once; repeated calls get the result that was committed with it."""
    made = make(shop.backend.claims, transactional=True)
    assert [made.call("k", shop.place, made, "receipt") for _ in range(3)] == ["receipt"] * 3
    assert (shop.orders, shop.state("k")) == (["k"], ClaimState.DONE)
    decorated = made.decorated(lambda order: shop.place(made), key=lambda order: order)
    assert [decorated("other") for _ in range(2)] == ["receipt"] * 2
    holds = [made.block("block", lambda: shop.place(made)) for _ in range(2)]
    assert [(hold.is_new, hold.is_completed, hold.result) for hold in holds] == [
        (True, True, "receipt"),
        (False, False, "receipt"),
    ]
    assert shop.orders == ["block", "k", "other"]


@every_colour
@pytest.mark.parametrize("error", [TimeoutError("late"), ValueError("a bug")], ids=repr)
def test_failure_before_the_commit_means_that_nothing_happened(make: Any, shop: Shop, error: BaseException) -> None:
    """Whatever it says, and although the call had been completed: the next one is made at once."""
    made = make(shop.backend.claims, transactional=True)
    with pytest.raises(type(error)):
        made.call("k", shop.place, made, then=error)
    assert (shop.orders, shop.state("k")) == ([], ClaimState.FREE)
    assert made.call("k", shop.place, made) == "receipt"
    assert shop.orders == ["k"]


def test_interrupted_call_has_done_nothing(shop: Shop) -> None:
    """Ctrl-C in the middle: its key is free at once."""
    guard = IdempotencyGuard(shop.backend.claims, transactional=True)
    with pytest.raises(KeyboardInterrupt):
        guard.call("k", shop.place, guard, then=KeyboardInterrupt())
    assert (shop.orders, shop.state("k")) == ([], ClaimState.FREE)


@both_loops
def test_cancelled_call_has_done_nothing_and_is_made_again_when_its_lease_has_ended(
    runner: Any, shop: Shop, clock: ManualClock
) -> None:
    """No further step is taken, as where the process was killed."""
    guard = AsyncIdempotencyGuard(Awaited(shop.backend.claims), transactional=True)  # type: ignore[arg-type]

    async def place() -> None:
        with shop.db:
            shop.db.execute("INSERT INTO orders VALUES ('1')")
            await guard.complete(current_hold(), "receipt", within=shop.within)
            await hang(runner)

    cancel(runner, lambda: guard.call("k", place))
    again = IdempotencyGuard(shop.backend.claims, transactional=True, clock=clock)
    with pytest.raises(AlreadyInProgressError):
        again.call("k", shop.place, again)
    clock.advance("31s")
    assert (again.call("k", shop.place, again), shop.orders) == ("receipt", ["k"])


@every_colour
def test_failure_after_the_commit_leaves_the_call_done(make: Any, shop: Shop) -> None:
    """The error comes through; a repetition gets the result."""
    made = make(shop.backend.claims, transactional=True)

    def work() -> None:
        shop.place(made)
        raise TimeoutError("after the commit")

    with pytest.raises(TimeoutError):
        made.call("k", work)
    assert made.call("k", work) == "receipt"
    assert shop.orders == ["k"]


@every_colour
def test_failure_for_good_is_kept_as_the_answer(make: Any, shop: Shop) -> None:
    """As by any guard, and its changes are rolled back."""
    made = make(shop.backend.claims, transactional=True)
    with pytest.raises(DeclinedError):
        made.call("k", shop.place, made, then=DeclinedError("no funds"))
    with pytest.raises(StoredFailureError):
        made.call("k", shop.place, made)
    assert shop.orders == []


@every_colour
def test_caller_that_was_lost_has_done_nothing_and_the_next_call_is_made(
    make: Any, shop: Shop, clock: ManualClock
) -> None:
    """Once its lease has ended; nobody has to find out anything."""
    assert type(shop.backend.claims.claim(stored("k"), owner="lost", lease=30)) is Claimed
    made = make(shop.backend.claims, transactional=True, clock=clock)
    with pytest.raises(AlreadyInProgressError):
        made.call("k", shop.place, made)
    clock.advance("30s")
    assert made.call("k", shop.place, made) == "receipt"
    assert shop.orders == ["k"]


@every_colour
def test_caller_whose_key_was_taken_over_cannot_commit(make: Any, shop: Shop, clock: ManualClock) -> None:
    """It stalled past its lease: the completion is refused, and what the other one did is the answer."""
    made = make(shop.backend.claims, transactional=True)
    other = IdempotencyGuard(shop.backend.claims, transactional=True)
    seen: list[Hold | None] = []

    def stalled() -> object:
        seen.append(current_hold())
        clock.advance("31s")
        threading.Thread(target=other.call, args=("k", shop.place, other, "theirs")).run()
        return shop.place(made, "mine")

    with pytest.raises(HoldLostError, match="'k' is not held any more") as caught:
        made.call("k", stalled)
    assert caught.value.key == "k"
    assert [hold and hold.is_lost for hold in seen] == [True]
    assert (shop.orders, made.call("k", stalled)) == (["k"], "theirs")


@every_colour
def test_call_that_returns_without_being_completed_is_told_and_counts_as_done(make: Any, shop: Shop) -> None:
    """Its effect may have been committed: repeated it could happen twice."""
    made = make(shop.backend.claims, transactional=True)
    for use in (lambda: made.call("k", lambda: "receipt"), lambda: made.block("block", lambda: "receipt")):
        with pytest.raises(ConfigurationError, match=r"returned without being completed, and is recorded as done"):
            use()
    assert [made.call(key, shop.place, made) for key in ("k", "block")] == ["receipt"] * 2
    assert shop.orders == []


@every_colour
def test_transaction_may_be_repeated_within_the_call(make: Any, shop: Shop) -> None:
    """As databases ask for where two of them got into each other's way."""
    made = make(shop.backend.claims, transactional=True)

    def work() -> object:
        with pytest.raises(sqlite3.OperationalError):
            shop.place(made, "first", then=sqlite3.OperationalError("could not serialize"))
        return shop.place(made, "second")

    assert [made.call("k", work) for _ in range(2)] == ["second"] * 2
    assert shop.orders == ["k"]


@every_colour
def test_completion_that_fails_leaves_the_call_to_be_made_again(make: Any, shop: Shop) -> None:
    """The store, or a result that cannot be written: nothing is committed."""
    made = make(shop.backend.claims, transactional=True)
    with pytest.raises(InvalidPayloadError):
        made.call("k", shop.place, made, object())
    shop.db.execute("PRAGMA busy_timeout = 0")

    def busy() -> object:
        with closing(sqlite3.connect(shop.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            made.complete(current_hold(), "receipt", within=shop.within)
        return None

    with pytest.raises(StoreUnavailableError):
        made.call("k", busy)
    assert not shop.db.in_transaction
    assert made.call("k", shop.place, made) == "receipt"
    assert shop.orders == ["k"]


@every_colour
def test_completion_that_makes_no_sense_is_refused(make: Any, shop: Shop) -> None:
    """By name, with what is allowed; nothing is stored."""
    made, plain = make(shop.backend.claims, transactional=True), make(shop.backend.claims, namespace="plain")
    other = make(shop.backend.claims, transactional=True, namespace="other")
    within, told = shop.within, list[str]()

    def refused(by: Any, hold: Hold | None, claims: Any = within) -> None:
        with pytest.raises(ConfigurationError) as caught:
            by.complete(hold, "receipt", within=claims)
        told.append(str(caught.value))

    refused(made, None)
    plain.call("k", lambda: refused(plain, current_hold()))
    other.call("k", lambda: (refused(made, current_hold()), shop.place(other))[1])

    def wrongly() -> object:
        refused(made, current_hold(), made.guard._flow._store)
        refused(made, current_hold(), shop.backend.using(shop.db))
        return shop.place(made)

    made.call("k", wrongly)
    refused(made, made.block("k", lambda: "not called"))
    assert [text.split("; allowed")[0] for text in told] == [
        "the hold is None: no guarded call is running here",
        "only calls of a guard with transactional=True are completed in a transaction",
        "<Hold 'k'> is of another guard",
        "within is the store of the guard itself",
        told[4].split("; allowed")[0],
        "<Hold 'k'> was done before",
    ]
    assert told[4].startswith("within is <retrykit.backends.sqlite.")
    assert not shop.db.in_transaction


def test_transactional_is_a_choice_of_two() -> None:
    """And no response of an endpoint can be committed before it is known."""
    with pytest.raises(ConfigurationError, match="transactional is 'yes'; allowed are True and False"):
        IdempotencyGuard(MemoryBackend().claims, transactional="yes")  # type: ignore[typeddict-item]
    guard = AsyncIdempotencyGuard(as_async(MemoryBackend()).claims, transactional=True)
    with pytest.raises(ConfigurationError, match="the guard is transactional; allowed is one that is not"):
        IdempotencyMiddleware(lambda *_: None, guard)  # type: ignore[arg-type, return-value]


def test_call_that_returned_uncompleted_after_it_was_taken_over_counts_as_done(shop: Shop, clock: ManualClock) -> None:
    """Nobody knows what it has committed, so that the one who took over may not commit either."""
    late, other = (IdempotencyGuard(shop.backend.claims, transactional=True) for _ in range(2))
    first = late.hold("k")
    contextvars.copy_context().run(first.__enter__)
    clock.advance("31s")

    def place() -> None:
        hold = current_hold()
        with pytest.raises(ConfigurationError, match="without being completed"):
            first.__exit__(None, None, None)
        with shop.db:
            shop.db.execute("INSERT INTO orders VALUES ('1')")
            other.complete(hold, "receipt", within=shop.within)

    with pytest.raises(HoldLostError):
        other.call("k", place)
    with pytest.raises(ResultLostError):
        other.call("k", place)
    assert shop.orders == []


@both_loops
@pytest.mark.parametrize("twin", [False, True], ids=["claims", "asynchronous claims"])
def test_asynchronous_completion_works_in_the_loops_own_thread(runner: Any, twin: bool, shop: Shop) -> None:
    """Where the connection is; the guard's own store waits in a thread beside it."""
    backend = as_async(shop.backend)
    guard = AsyncIdempotencyGuard(backend.claims, transactional=True)
    threads: set[int] = set()

    async def place() -> str:
        with shop.db:
            threads.add(threading.get_ident())
            shop.db.execute("INSERT INTO orders VALUES ('1')")
            joined = shop.backend.using(shop.db)
            await guard.complete(current_hold(), "receipt", within=as_async(joined).claims if twin else joined.claims)
        return "receipt"

    async def main() -> list[str]:
        results = [await guard.call("k", place) for _ in range(2)]
        await backend.aclose()
        return results

    assert (runner(main), shop.orders) == (["receipt"] * 2, ["1"])
    assert threads == {threading.get_ident()}


class Watched:
    """A store that counts renewals and their answers."""

    def __init__(self, shop: Shop) -> None:
        self.store = shop.backend.claims
        self.renewals = 0
        self.answers = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def is_waiting(self) -> bool:
        """Tell whether a renewal has not been answered yet."""
        return self.renewals > self.answers

    def renew(self, *args: Any, **kwargs: Any) -> Any:
        self.renewals += 1
        answer = self.store.renew(*args, **kwargs)
        self.answers += 1
        return answer


def in_thread(store: Watched) -> Any:
    """Return the store for asynchronous callers, called in threads."""

    class Threaded:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            real = getattr(store, name)

            async def call(*args: Any, **kwargs: Any) -> Any:
                if name != "renew":
                    return real(*args, **kwargs)
                if in_trio():
                    return await trio.to_thread.run_sync(lambda: real(*args, **kwargs))
                return await asyncio.to_thread(real, *args, **kwargs)

            return call

    return Threaded()


LEASE = 0.3


@pytest.mark.parametrize("runner", [None, run_asyncio, trio.run], ids=["sync", "asyncio", "trio"])
def test_renewal_that_waits_for_the_transaction_does_not_disturb_it(
    tmp_path: Path, runner: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets its turn after the commit, finds the call done, and says nothing; no other follows."""
    shop = Shop(tmp_path, SystemClock())
    store = Watched(shop)
    holds: list[Any] = []

    def begin() -> None:
        holds.append(current_hold())
        shop.db.execute("INSERT INTO orders VALUES ('1')")  # from here on nobody else writes

    if runner is None:
        guard = IdempotencyGuard(store, transactional=True, lease=LEASE)  # type: ignore[arg-type]

        def work() -> str:
            with shop.db:
                begin()
                assert until(store.is_waiting)
                guard.complete(current_hold(), "receipt", within=shop.within)
            return "receipt"

        assert guard.call("k", work) == "receipt"
    else:
        waiting = AsyncIdempotencyGuard(in_thread(store), transactional=True, lease=LEASE)

        async def work_async() -> str:
            with shop.db:
                begin()
                assert await until_async(store.is_waiting, runner)
                await waiting.complete(current_hold(), "receipt", within=shop.within)
            return "receipt"

        async def main() -> str:
            result = await waiting.call("k", work_async)
            await until_async(lambda: not store.is_waiting(), runner)
            return result

        assert runner(main) == "receipt"
    with caplog.at_level(logging.WARNING, "retrykit.guard"):
        assert until(lambda: not store.is_waiting())
        seen = store.renewals
        time.sleep(LEASE)
    assert (store.renewals, holds[0].is_lost, caplog.text) == (seen, False, "")
    assert (shop.orders, shop.state("k")) == (["1"], ClaimState.DONE)
    shop.close()


@every_colour
def test_call_that_is_completed_twice_is_told_so(make: Any, shop: Shop) -> None:
    """Nobody has taken over: the first result stands, and the same one again changes nothing."""
    made = make(shop.backend.claims, transactional=True)

    def twice() -> object:
        with shop.db:
            shop.db.execute("INSERT INTO orders VALUES ('k')")
            hold = current_hold()
            for _ in range(2):
                made.complete(hold, "first", within=shop.within)
            with pytest.raises(ConfigurationError, match="<Hold 'k'> was completed before, with another result"):
                made.complete(hold, "second", within=shop.within)
            assert hold is not None
            assert not hold.is_lost
        return "first"

    assert [made.call("k", twice) for _ in range(2)] == ["first"] * 2
    assert shop.orders == ["k"]


@every_colour
def test_completion_of_a_call_that_has_ended_is_refused(make: Any, shop: Shop) -> None:
    """Also of one that failed: nobody has taken over, there is nothing to complete."""
    made, holds = make(shop.backend.claims, transactional=True), list[Hold | None]()

    def work() -> object:
        holds.append(current_hold())
        return shop.place(made)

    def failing() -> object:
        holds.append(current_hold())
        raise DeclinedError("no funds")

    made.call("done", work)
    with pytest.raises(DeclinedError):
        made.call("failed", failing)
    for hold in holds:
        with pytest.raises(ConfigurationError, match="is of a call that has ended; allowed is the hold of a call"):
            made.complete(hold, "late", within=shop.within)
    assert shop.orders == ["done"]
