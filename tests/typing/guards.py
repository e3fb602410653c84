# pyright: reportUnnecessaryTypeIgnoreComment=true
"""The idempotency guard of both colours, as a checker sees it: the function's own types, and what completes a call where."""

import sqlite3
from typing import assert_type

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.errors import HoldLostError
from retrykit.guard import AsyncIdempotencyGuard, Hold, IdempotencyGuard, current_hold
from retrykit.stores import Backend, as_async

backend = SQLiteBackend("shop.db")
db = sqlite3.connect("shop.db")
guard = IdempotencyGuard(backend.claims, transactional=True, lease="1m", namespace="orders")
twin = as_async(backend)
waiting = AsyncIdempotencyGuard(twin.claims, transactional=True)
IdempotencyGuard(twin.claims)  # type: ignore[arg-type]  # the other colour
AsyncIdempotencyGuard(backend.claims)  # type: ignore[arg-type]
IdempotencyGuard(backend.claims, transactional="yes")  # type: ignore[arg-type]
IdempotencyGuard(backend.claims, transaction=True)  # type: ignore[call-arg]

within = backend.using(db)
assert_type(within, Backend)
backend.using("shop.db")  # type: ignore[arg-type]


def place(order: str, cents: int = 0) -> str:
    with db:
        db.execute("INSERT INTO orders VALUES (?)", [order])
        assert_type(guard.complete(current_hold(), "receipt", within=backend.using(db).claims), None)
    return f"{order}: {cents}"


assert_type(guard.call("order 1", place, "1", cents=5), str)
guard.call("order 1", place, 1)  # type: ignore[arg-type]
assert_type(guard(key=str)(place)("1"), str)
guard.complete(current_hold(), "receipt")  # type: ignore[call-arg]
guard.complete("order 1", "receipt", within=within.claims)  # type: ignore[arg-type]
guard.complete(current_hold(), "receipt", within=within)  # type: ignore[arg-type]  # its claims are meant
guard.complete(current_hold(), "receipt", within=as_async(within).claims)  # type: ignore[arg-type]

with guard.hold("order 2") as hold:
    assert_type(hold, Hold)
    if hold.is_new:
        guard.complete(hold, 7, within=within.claims)
    assert_type(hold.is_completed, bool)
    assert_type(hold.result, object)


async def place_async(order: str) -> int:
    await waiting.complete(current_hold(), 7, within=within.claims)
    await waiting.complete(current_hold(), 7, within=as_async(within).claims)
    await waiting.complete(current_hold(), 7, within=within)  # type: ignore[arg-type]
    return len(order)


async def main() -> None:
    assert_type(await waiting.call("order 1", place_async, "1"), int)
    await waiting.call("order 1", place, "1")  # type: ignore[arg-type]  # no coroutine function
    try:
        assert_type(await waiting(key=str)(place_async)("1"), int)
    except HoldLostError as error:
        assert_type(error.key, str)
