"""Sources in memory that remember all that they were asked, in both colours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from retrykit import AsyncDispatcher, Dispatcher, Message
from retrykit.stores import Backend, as_async
from retrykit.worker import AsyncWorker, Delivery, Health, ShutdownReport, Worker
from tests.colours import Runner, run_asyncio, trio


class Remembering:
    """A source that hands out bodies, each once, and what was given back again.

    Args:
        bodies: what is in it.
        at_the_end: called when it is asked and has nothing.
    """

    def __init__(self, *bodies: bytes, at_the_end: Callable[[], object] = lambda: None) -> None:
        self.bodies = list(bodies)
        self.at_the_end = at_the_end
        self.out: list[Delivery] = []
        """What is handed out and not settled."""
        self.acked: list[bytes] = []
        self.nacked: list[tuple[bytes, float]] = []
        self.rejected: list[bytes] = []
        self.extended: list[bytes] = []
        self.most = 0
        """How many were out at once."""
        self.errors: list[Exception] = []
        """What it raises first, when it is asked."""
        self.broken: set[str] = set()
        """Methods that raise."""
        self.receives = 0

    def give(self, limit: int) -> Sequence[Delivery]:
        self.receives += 1
        if self.errors:
            raise self.errors.pop(0)
        if not self.bodies:
            self.at_the_end()
        taken = [Delivery(body) for body in self.bodies[:limit]]
        del self.bodies[:limit]
        self.out += taken
        self.most = max(self.most, len(self.out))
        return taken

    def take(self, method: str, delivery: Delivery, seen: list[Any], value: object) -> None:
        if method in self.broken:
            raise ConnectionResetError("gone")
        if method != "extend":
            self.out.remove(delivery)
        seen.append(value)


class SyncSource(Remembering):
    def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        taken = self.give(limit)
        if not taken:
            time.sleep(min(wait, 0.002))
        return taken

    def ack(self, delivery: Delivery) -> None:
        self.take("ack", delivery, self.acked, delivery.raw)

    def nack(self, delivery: Delivery, delay: float) -> None:
        self.take("nack", delivery, self.nacked, (delivery.raw, delay))

    def reject(self, delivery: Delivery) -> None:
        self.take("reject", delivery, self.rejected, delivery.raw)

    def extend(self, delivery: Delivery) -> None:
        self.take("extend", delivery, self.extended, delivery.raw)


class AsyncSource(Remembering):
    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        taken = self.give(limit)
        if taken is not None and not taken:
            await sleep(min(wait, 0.002))
        return taken

    async def ack(self, delivery: Delivery) -> None:
        self.take("ack", delivery, self.acked, delivery.raw)

    async def nack(self, delivery: Delivery, delay: float) -> None:
        self.take("nack", delivery, self.nacked, (delivery.raw, delay))

    async def reject(self, delivery: Delivery) -> None:
        self.take("reject", delivery, self.rejected, delivery.raw)

    async def extend(self, delivery: Delivery) -> None:
        self.take("extend", delivery, self.extended, delivery.raw)


async def sleep(seconds: float) -> None:
    """Sleep in whichever loop runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        await trio.sleep(seconds)
    else:
        await asyncio.sleep(seconds)


class Shop:
    """A worker of either colour with its source, its store and a send.

    Args:
        runner: runs the asynchronous worker; None: a synchronous one.
        backend: a synchronous one.
        send: called with the message; a coroutine that it gives is awaited where the worker is asynchronous.
        bodies: what is in the source; when it is empty the worker stops.
        options: of the worker; `lease` is the dispatcher's.
    """

    def __init__(
        self,
        runner: Runner | None,
        backend: Backend,
        send: Callable[[Message], object],
        *bodies: bytes,
        lease: float = 60.0,
        stops: bool = True,
        **options: Any,
    ) -> None:
        self.runner, self.backend = runner, backend
        self.health = options.setdefault("health", Health())
        self.source: SyncSource | AsyncSource
        if runner is None:
            self.source = SyncSource(*bodies)
            self.dispatcher: Any = Dispatcher(lambda message, _key: send(message), backend=backend, lease=lease)  # type: ignore[arg-type, return-value]
            self.worker: Any = Worker(self.source, self.dispatcher, **options)
        else:

            async def send_async(message: Message, _key: str) -> Any:
                sent = send(message)
                return (await sent) if isinstance(sent, Coroutine) else sent

            self.source = AsyncSource(*bodies)
            self.dispatcher = AsyncDispatcher(send_async, backend=as_async(backend), lease=lease)
            self.worker = AsyncWorker(self.source, self.dispatcher, **options)
        if stops:
            self.source.at_the_end = self.stop_when_settled

    def stop_when_settled(self) -> None:
        if not self.source.out:
            self.worker.stop()

    def run(self) -> ShutdownReport:
        """Run the worker to its end."""
        report: ShutdownReport = self.worker.run() if self.runner is None else self.runner(self.worker.run)
        return report


RUNNERS = {"sync": None, "asyncio": run_asyncio, "trio": trio.run}
