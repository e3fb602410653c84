# pyright: reportUnnecessaryTypeIgnoreComment=true
"""Workers and shutdowns, as a checker sees them."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, assert_type

from retrykit.backends import MemoryBackend
from retrykit.dispatch import AsyncDispatcher, Dispatcher
from retrykit.message import Message
from retrykit.stores import as_async
from retrykit.worker import (
    AsyncWorker,
    Delivery,
    GracefulShutdown,
    HandedBack,
    Health,
    QueueSource,
    ShutdownReport,
    Worker,
)

backend = MemoryBackend()


async def send(message: Message, key: str) -> str:
    return key


dispatcher = Dispatcher(lambda message, key: key, backend=backend)
async_dispatcher = AsyncDispatcher(send, backend=as_async(backend))


# What is taken has the source's type, without None.
def consume(source: list[bytes | None], polled: AsyncIterator[str | None]) -> None:
    with GracefulShutdown(dispatcher, limit="30s", reserve=5) as stop:
        for raw in stop.take(source):
            assert_type(raw, bytes)
        next(stop.take(polled))  # type: ignore[call-overload]
    assert_type(stop.report, ShutdownReport)
    assert_type(dispatcher.hand_back(), HandedBack)


async def consume_async(polled: AsyncIterator[str | None]) -> None:
    async with GracefulShutdown(async_dispatcher, dispatcher) as stop:
        async for raw in stop.take(polled):
            assert_type(raw, str)
        assert_type(await stop.wait_async(1.0), bool)
    assert_type(await async_dispatcher.hand_back(), HandedBack)


GracefulShutdown("dispatcher")  # type: ignore[arg-type]
GracefulShutdown(30)  # type: ignore[arg-type]


# A source is anything with the four methods, of the worker's colour.
class Polled:
    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        return [Delivery(b"{}", id="m1", handle=1)][:limit]

    async def ack(self, delivery: Delivery) -> None: ...

    async def nack(self, delivery: Delivery, delay: float) -> None: ...

    async def reject(self, delivery: Delivery) -> None: ...


class Half:
    def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        return []


worker = Worker(QueueSource(), dispatcher, concurrency=4, time_limit="1m", health=Health(), backoff=[1, 5])
assert_type(worker.run(), ShutdownReport)
Worker(Polled(), dispatcher)  # type: ignore[arg-type]
Worker(Half(), dispatcher)  # type: ignore[arg-type]
Worker(QueueSource(), async_dispatcher)  # type: ignore[arg-type]
Worker(QueueSource(), dispatcher, threads=4)  # type: ignore[call-arg]
AsyncWorker(QueueSource(), async_dispatcher)  # type: ignore[arg-type]


async def work() -> None:
    assert_type(await AsyncWorker(Polled(), async_dispatcher).run(), ShutdownReport)


async def probe(health: Health, scope: dict[str, Any]) -> None:
    assert_type(health.status(), dict[str, object])
