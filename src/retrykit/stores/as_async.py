"""Use synchronous stores from asynchronous code.

`as_async` gives the asynchronous twin of a backend. A backend that never waits (`blocks = False`, the memory backend) is
called directly; any other is called in one worker thread of its own, so that it never stalls the event loop and its
operations keep their order. Works under asyncio and trio.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Protocol, TypeVar

from ..clock import in_trio
from .backend import AsyncBackend, Backend
from .circuits import AsyncCircuitStore
from .claims import AsyncClaimStore
from .dead_letters import AsyncDeadLetterStore
from .deliveries import AsyncDeliveryStore
from .implement import implement
from .redrives import AsyncRedriveStore
from .retries import AsyncRetryStore
from .signals import AsyncSignalStore

__all__ = ["as_async"]

T = TypeVar("T")
S = TypeVar("S")


class _Caller(Protocol):
    def __call__(self, fn: Callable[..., T], /, *args: object) -> Awaitable[T]: ...


async def _directly(fn: Callable[..., T], /, *args: object) -> T:
    return fn(*args)


class _Worker:
    """One thread that makes the calls, one after the other; a forked child has one of its own."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="retrykit-store")

    async def __call__(self, fn: Callable[..., T], /, *args: object) -> T:
        if self._pid != os.getpid():
            self._begin()  # the thread stayed with the parent
        context = copy_context()  # the clock in force is the caller's

        def call() -> T:
            return context.run(fn, *args)

        if in_trio():
            import trio

            future = self._executor.submit(call)
            return await trio.to_thread.run_sync(future.result)
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def close(self) -> None:
        if self._pid == os.getpid():
            self._executor.shutdown(wait=True)


def _adapt(contract: Callable[[], S], store: object, call: _Caller) -> S:
    """Make a store of the asynchronous `contract` whose primitives call those of the synchronous `store`."""

    def forward(name: str) -> Callable[..., Awaitable[Any]]:
        primitive = getattr(store, name)

        async def forwarded(_self: object, *args: object) -> Any:
            return await call(primitive, *args)

        return forwarded

    return implement(contract, "Adapted", forward)


class _AdaptedBackend:
    """The seven stores of a synchronous backend, for asynchronous callers."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._worker = _Worker() if backend.blocks else None
        call: _Caller = self._worker or _directly
        self.claims: AsyncClaimStore = _adapt(AsyncClaimStore, backend.claims, call)
        self.retries: AsyncRetryStore = _adapt(AsyncRetryStore, backend.retries, call)
        self.dead_letters: AsyncDeadLetterStore = _adapt(AsyncDeadLetterStore, backend.dead_letters, call)
        self.deliveries: AsyncDeliveryStore = _adapt(AsyncDeliveryStore, backend.deliveries, call)
        self.circuits: AsyncCircuitStore = _adapt(AsyncCircuitStore, backend.circuits, call)
        self.redrives: AsyncRedriveStore = _adapt(AsyncRedriveStore, backend.redrives, call)
        self.signals: AsyncSignalStore = _adapt(AsyncSignalStore, backend.signals, call)

    async def aclose(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._backend.close()


def as_async(backend: Backend) -> AsyncBackend:
    """Return the asynchronous twin of a synchronous backend. Closing it closes the backend.

    Args:
        backend: one of ours, or any object with the seven stores.
    """
    return _AdaptedBackend(backend)
