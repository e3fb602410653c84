"""A worker whose handlers take no cancellation: `python -m tests.worker.stubborn_worker SPARE LIMIT`."""

from __future__ import annotations

import asyncio
import contextlib
import sys

from retrykit import AsyncDispatcher, Message
from retrykit.backends import MemoryBackend
from retrykit.stores import as_async
from retrykit.worker import AsyncWorker, Delivery, GracefulShutdown


class Source:
    """Gives four messages, then nothing."""

    def __init__(self) -> None:
        self._left = [Delivery({"id": f"m{number}"}) for number in range(4)]

    async def receive(self, limit: int, wait: float) -> list[Delivery]:
        await asyncio.sleep(0.01)
        given, self._left = self._left[:limit], self._left[limit:]
        return given

    async def ack(self, delivery: Delivery) -> None: ...

    async def nack(self, delivery: Delivery, delay: float) -> None:
        print(f"back {delivery.raw}", flush=True)

    async def reject(self, delivery: Delivery) -> None: ...


async def send(_message: Message, _key: str) -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


async def main() -> None:
    dispatcher = AsyncDispatcher(send, backend=as_async(MemoryBackend()))
    stop = GracefulShutdown(dispatcher, limit=float(sys.argv[2]))
    options = {"concurrency": 2, "time_limit": 0.2, "spare": int(sys.argv[1]), "wait": 0.1, "shutdown": stop}
    await AsyncWorker(Source(), dispatcher, **options).run()  # type: ignore[arg-type]


if __name__ == "__main__":
    asyncio.run(main())
