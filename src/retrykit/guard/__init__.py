"""The idempotency guard: a call with a key is made once, and repeated calls get what the first one gave.

It stands on the claim store: one record per key, an exclusive hold with a lease that is renewed while the call runs, and a fencing
token. What makes it different from a cache: a call that was lost in the middle may have had its effect, and is looked up or told
of, never simply repeated. Where the effect is a change in the same database, both are committed in one transaction, and there is nothing
to look up.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Collection
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar, Unpack, cast

from .._steps import Steps, arun, is_async, run
from ..errors import ConfigurationError
from ..retrying.functions import check_function, is_generator
from .flow import GuardFlow, GuardOptions
from .hold import Hold, current_hold
from .renewal import AsyncRenewals, Renewals

if TYPE_CHECKING:
    from ..stores.claims import AsyncClaimStore, ClaimStore

__all__ = ["AsyncIdempotencyGuard", "GuardOptions", "Hold", "IdempotencyGuard", "current_hold"]

P = ParamSpec("P")
R = TypeVar("R")

Fingerprint: TypeAlias = Callable[..., object] | Collection[str]
"""What a key belongs to: a function of the call's arguments, or the names of some of them."""


def _check_pass_key(fn: Callable[..., object], pass_key: str | None) -> None:
    parameters = inspect.signature(fn).parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    if pass_key is not None and pass_key not in parameters and not takes_all:
        raise ConfigurationError(
            f"pass_key is {pass_key!r}; allowed is the name of a parameter of {fn!r}: {', '.join(parameters)}"
        )


def _check_key(key: object) -> None:
    if not callable(key):
        raise ConfigurationError(
            f"key is {key!r}; allowed is a function that makes the key from the arguments of a call"
        )


def _check_call(fn: object) -> None:
    """Refuse a generator function, whose call would do nothing yet."""
    if is_generator(fn):
        raise TypeError(
            f"{fn!r} is a generator function, whose call does nothing yet; guard the call that makes each item"
        )


def _of_call(fn: Callable[..., object], fingerprint: Fingerprint | None) -> Callable[..., object] | None:
    """Return the function that makes the fingerprint's payload of a call's arguments."""
    if fingerprint is None or callable(fingerprint):
        return fingerprint
    if isinstance(fingerprint, str) or not isinstance(fingerprint, Collection):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"fingerprint is {fingerprint!r}; allowed is a list of names of parameters, or a function"
        )
    names = tuple(fingerprint)
    signature = inspect.signature(fn)
    unknown = [name for name in names if name not in signature.parameters]
    if unknown or not names:
        raise ConfigurationError(
            f"fingerprint is {list(names)!r}; allowed are names of parameters of {fn!r}: {', '.join(signature.parameters)}"
        )

    def chosen(*args: object, **kwargs: object) -> object:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return {name: bound.arguments[name] for name in names}

    return chosen


class IdempotencyGuard:
    """Makes calls once per key, for synchronous callers.

    Safe to share between threads. Two round trips to the store for a call, one for a repetition.

    Args:
        store: the claims, of any backend: `backend.claims`. Guards that share a store need a namespace each, or their keys are the same
            keys; a message's id and a guard's key never are.
        options: see `GuardOptions`.

    Raises:
        ConfigurationError: a value is not allowed.
        TypeError: there is no option of that name.

    Example:
        >>> from retrykit.backends.memory import MemoryBackend
        >>> guard = IdempotencyGuard(MemoryBackend().claims)
        >>> def charge(cents: int) -> str:
        ...     print("charging", cents)
        ...     return "receipt 7"
        >>> guard.call("order 1", charge, 500)
        charging 500
        'receipt 7'
        >>> guard.call("order 1", charge, 500)
        'receipt 7'
    """

    def __init__(self, store: ClaimStore, **options: Unpack[GuardOptions]) -> None:
        def renewals(lease: float) -> Renewals:
            return Renewals(lease, lambda hold: store.renew(hold.store_key, hold.record.seq, lease=lease))

        self._flow = GuardFlow(store, renewals, lambda clock: clock.sleep, options)

    def call(self, key: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function, unless that was done under the key before.

        Args:
            key: 1 to 253 characters, its namespace included.
            fn: what is to happen once.
            args: its arguments.
            kwargs: its arguments by name.

        Returns:
            What it gave, now or then.

        Raises:
            AlreadyInProgressError: somebody else is at work under the key.
            OutcomeUnknownError: an earlier call may have had its effect, and nobody can tell.
            ResultLostError: it was done, and what it gave is not on record.
            StoredFailureError: it failed for good.
            StoreError: the store failed before anything was done.
            InvalidMessageError: the key is not allowed: not text, empty, too long, or with a NUL, a lone surrogate or a
                record separator (U+001E) in it.
            ConfigurationError: the call of a transactional guard returned without `complete`.
        """
        if is_async(fn):
            raise TypeError(f"{fn!r} is a coroutine function; use AsyncIdempotencyGuard for it")
        _check_call(fn)
        return cast("R", run(self._flow.guarded(key, None, functools.partial(fn, *args, **kwargs))))

    def complete(self, hold: Hold | None, result: object, *, within: ClaimStore) -> None:
        """Record that a call is done, in the transaction that has its effect: both are committed, or neither is.

        For guards with `transactional=True`, in each call, block or decorated function; again if the transaction is repeated within
        the call. The transaction begins and ends inside the call: a guard that claims or settles while it is open waits for it. Let
        every error leave the call, and the transaction be rolled back; the key is free again then, and the next call is made.

        Args:
            hold: that of the call, `current_hold()`, or of the block.
            result: what repeated calls get.
            within: the claims as that transaction sees them: `backend.using(connection).claims`.

        Raises:
            HoldLostError: somebody else has taken over the key, since the lease had ended: the transaction must not be committed.
            ConfigurationError: the guard is not transactional, the hold is not that of a call which it makes now, or the call was
                completed with another result.
            InvalidPayloadError: the result cannot be written; nothing was stored.
            StoreError: the store failed; nothing was stored.

        Example:
            >>> import sqlite3, tempfile
            >>> from retrykit.backends.sqlite import SQLiteBackend
            >>> file = tempfile.mkdtemp() + "/shop.db"
            >>> backend, db = SQLiteBackend(file), sqlite3.connect(file)
            >>> _ = db.execute("CREATE TABLE orders (id TEXT)")
            >>> guard = IdempotencyGuard(backend.claims, transactional=True)
            >>> def place(order: str) -> str:
            ...     with db:
            ...         db.execute("INSERT INTO orders VALUES (?)", [order])
            ...         guard.complete(current_hold(), "receipt 7", within=backend.using(db).claims)
            ...     return "receipt 7"
            >>> [guard.call("order 1", place, "order 1") for _ in range(2)]
            ['receipt 7', 'receipt 7']
            >>> db.execute("SELECT count(*) FROM orders").fetchone()
            (1,)
            >>> db.close(), backend.close()
            (None, None)
        """
        run(self._flow.complete(hold, result, within))

    def confirm(self, key: str, provider_id: str | None = None) -> bool:
        """Say that the effect of an unknown call has happened; a repetition then asks `recover=` for its result.

        Args:
            key: as for `call`.
            provider_id: the other side's id of it.

        Returns:
            Whether the key was unknown, and is done now; False leaves it as it is: never used, in progress, or settled.
        """
        return run(self._flow.confirm(key, provider_id))

    def release(self, key: str) -> bool:
        """Say that the effect of an unknown call has not happened: the next call is made.

        Args:
            key: as for `call`.

        Returns:
            Whether the key was unknown, and is free now; False leaves it as it is.
        """
        return run(self._flow.release(key))

    def __call__(
        self, *, key: Callable[..., str], fingerprint: Fingerprint | None = None, pass_key: str | None = None
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorate a function: each call is made once per key.

        Args:
            key: the key of a call, by its arguments.
            fingerprint: what the key belongs to: a function of the arguments, or the names of some of them. A call with the same
                key and another fingerprint raises `FingerprintMismatchError`.
            pass_key: the name of a keyword argument in which the function gets the key, to hand it to the other side.

        Raises:
            ConfigurationError: `key` is no function, or `fingerprint` or `pass_key` do not fit the function.
            TypeError: what is decorated is a coroutine function (use `AsyncIdempotencyGuard`), a generator function or a class.
        """
        _check_key(key)

        def decorate(fn: Callable[P, R]) -> Callable[P, R]:
            check_function(fn, "a guard")
            if is_async(fn):
                raise TypeError(f"{fn!r} is a coroutine function; use AsyncIdempotencyGuard for it")
            payload_of = _of_call(fn, fingerprint)
            _check_pass_key(fn, pass_key)

            @functools.wraps(fn)
            def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
                own_key = key(*args, **kwargs)
                payload = payload_of(*args, **kwargs) if payload_of else None
                more = {pass_key: own_key} if pass_key else {}
                call = functools.partial(fn, *args, **{**kwargs, **more})  # type: ignore[arg-type]
                return cast("R", run(self._flow.guarded(own_key, payload, call)))

            return guarded

        return decorate

    def hold(self, key: str, *, payload: object = None) -> Holding:
        """Hold a key for a `with` block.

        Args:
            key: as for `call`.
            payload: what the key belongs to, anything that can be written as JSON; None does not look.

        Returns:
            A context manager that gives the `Hold`: if `hold.is_new`, do the work and set `hold.result`; else `hold.result` is
            what it gave before. What leaves the block as an exception is treated as by `call`.

        Example:
            >>> from retrykit.backends.memory import MemoryBackend
            >>> guard = IdempotencyGuard(MemoryBackend().claims)
            >>> for _ in range(2):
            ...     with guard.hold("order 1") as hold:
            ...         if hold.is_new:
            ...             hold.result = "receipt 7"
            ...     print(hold.is_new, hold.result)
            True receipt 7
            False receipt 7
        """
        return Holding(self._flow, key, payload)


class _Held:
    """What a `with` block remembers."""

    def __init__(self, flow: GuardFlow, key: str, payload: object) -> None:
        self._flow = flow
        self._key = key
        self._payload = payload
        self._held: tuple[Hold, Token[Hold | None] | None] | None = None

    def _begin(self) -> Steps[Hold]:
        self._held = yield from self._flow.enter(self._key, self._payload)
        return self._held[0]

    def _finish(self, error: BaseException | None) -> Steps[None]:
        if self._held is None:
            raise ConfigurationError(
                f"the block of the key {self._key!r} is left, and was not entered; use it by a with statement"
            )
        (hold, token), self._held = self._held, None
        if token is None:
            return
        if error is None:
            yield from self._flow.leave(hold, token, hold.result)
        else:
            yield from self._flow.fail(hold, token, error)


class Holding(_Held):
    """The context manager of `IdempotencyGuard.hold`; for one block."""

    def __enter__(self) -> Hold:
        """Claim the key."""
        return run(self._begin())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Settle it."""
        run(self._finish(error))


class AsyncIdempotencyGuard:
    """`IdempotencyGuard` for asynchronous callers, under asyncio and trio: the same options, answers and guarantees.

    The store is an asynchronous one, `as_async(backend).claims` or `open_async_backend(...).claims`; any other is a `ConfigurationError`,
    since each of its calls would let the event loop wait.

    A call that is cancelled leaves an unknown outcome behind, as one whose process died; a transactional one has done nothing, and
    is made again once its lease has ended.
    """

    def __init__(self, store: AsyncClaimStore, **options: Unpack[GuardOptions]) -> None:
        def renewals(lease: float) -> AsyncRenewals:
            return AsyncRenewals(lease, lambda hold: store.renew(hold.store_key, hold.record.seq, lease=lease))

        if callable(getattr(store, "claim", None)) and not is_async(store.claim):
            raise ConfigurationError(
                f"store is {store!r}, each call of which would let the event loop wait; allowed is an asynchronous one: "
                "as_async(backend).claims"
            )
        self._flow = GuardFlow(store, renewals, lambda clock: clock.sleep_async, options)

    async def call(self, key: str, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a coroutine function, unless that was done under the key before, as `IdempotencyGuard.call`."""
        _check_call(fn)
        return cast("R", await arun(self._flow.guarded(key, None, functools.partial(fn, *args, **kwargs))))

    async def complete(self, hold: Hold | None, result: object, *, within: AsyncClaimStore | ClaimStore) -> None:
        """Record that a call is done, in the transaction that has its effect, as `IdempotencyGuard.complete`.

        Args:
            hold: that of the call, `current_hold()`, or of the block.
            result: what repeated calls get.
            within: the claims as that transaction sees them. Those of a `sqlite3.Connection` are called in the thread of the event loop,
                as the connection itself is.
        """
        await arun(self._flow.complete(hold, result, within))

    async def confirm(self, key: str, provider_id: str | None = None) -> bool:
        """Say that the effect of an unknown call has happened, as `IdempotencyGuard.confirm`."""
        return await arun(self._flow.confirm(key, provider_id))

    async def release(self, key: str) -> bool:
        """Say that the effect of an unknown call has not happened, as `IdempotencyGuard.release`."""
        return await arun(self._flow.release(key))

    def __call__(
        self, *, key: Callable[..., str], fingerprint: Fingerprint | None = None, pass_key: str | None = None
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
        """Decorate a coroutine function, as `IdempotencyGuard` does a function.

        Raises:
            TypeError: what is decorated is no coroutine function.
        """
        _check_key(key)

        def decorate(fn: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
            check_function(fn, "a guard")
            if not is_async(fn):
                raise TypeError(f"{fn!r} is no coroutine function; use IdempotencyGuard for it")
            payload_of = _of_call(fn, fingerprint)
            _check_pass_key(fn, pass_key)

            @functools.wraps(fn)
            async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
                own_key = key(*args, **kwargs)
                payload = payload_of(*args, **kwargs) if payload_of else None
                more = {pass_key: own_key} if pass_key else {}
                call = functools.partial(fn, *args, **{**kwargs, **more})  # type: ignore[arg-type]
                return cast("R", await arun(self._flow.guarded(own_key, payload, call)))

            return guarded

        return decorate

    def hold(self, key: str, *, payload: object = None) -> AsyncHolding:
        """Hold a key for an `async with` block, as `IdempotencyGuard.hold`."""
        return AsyncHolding(self._flow, key, payload)


class AsyncHolding(_Held):
    """The context manager of `AsyncIdempotencyGuard.hold`; for one block."""

    async def __aenter__(self) -> Hold:
        """Claim the key."""
        return await arun(self._begin())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Settle it."""
        await arun(self._finish(error))
