"""A backend in which much has gone wrong, and the workers that a service would have beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from retrykit import AsyncDispatcher, AsyncRetryScheduler, Dispatcher, Message
from retrykit.backends import MemoryBackend
from retrykit.classification import TaggedError
from retrykit.clock import current_clock
from retrykit.failure import ErrorClass
from retrykit.stores import Backend, Delivery, DeliveryStatus, as_async
from retrykit.testing.conformance.dead_letters_samples import letter


class TemplateError(TaggedError):
    error_class = ErrorClass.RENDERING_FAILURE


class Town:
    """Messages die of a template; what is put back is sent once it is repaired."""

    def __init__(self, backend: Backend | None = None) -> None:
        self.backend: Any = MemoryBackend() if backend is None else backend
        self.is_repaired = False
        self.sent: list[str] = []

    def die(self, count: int, campaign: str = "spring") -> None:
        """Let messages die of the template."""
        dispatcher: Any = Dispatcher(self._send, render=self._render, backend=self.backend)
        for number in range(count):
            attributes = {"campaign_id": campaign, "provider": "ses", "recipient": f"{number}@example.org"}
            dispatcher.handle(Message(f"{campaign}-{number}", {"n": number, "name": "Ada"}, attributes))

    def _render(self, message: Message) -> None:
        if not self.is_repaired:
            raise TemplateError("the template has no first_name")

    def _send(self, message: Message, key: str, content: object) -> None:
        self.sent.append(message.id)

    def grow_up(self) -> None:
        """Let much go wrong in many ways."""
        now, backend = current_clock().now(), self.backend
        causes = [
            (ErrorClass.RENDERING_FAILURE, "the template welcome-v3 has no value for first_name", None, 60),
            (ErrorClass.MAILBOX_FULL, "552 5.2.2 the mailbox is over quota", "552", 34),
            (ErrorClass.PROVIDER_THROTTLED, "421 4.7.0 too many connections, slow down", "421", 21),
            (ErrorClass.INVALID_RECIPIENT, "550 5.1.1 no such user here", "550", 12),
            (ErrorClass.NETWORK_TIMEOUT, "no answer from mx1.example.net within 30 s", None, 7),
        ]
        for place, (kind, said, code, count) in enumerate(causes):
            for number in range(count):
                died = now - timedelta(minutes=(number * 13 * (place + 1)) % 2800 + place)
                backend.dead_letters.put(
                    letter(
                        f"{kind.replace('_', '-')}-{number}",
                        error_class=kind,
                        error_message=said,
                        error_code=code,
                        fingerprint=f"v1:{place:016x}",
                        provider=("ses", "postmark")[number % 2],
                        campaign_id=("spring", "welcome", "invoices")[number % 3],
                        recipient=f"person-{number}@example.org",
                        dead_lettered_at=died,
                        last_failed_at=died,
                        first_failed_at=died - timedelta(minutes=4),
                    )
                )
        for number, status in enumerate(DeliveryStatus):
            for each in range(3 * (9 - number)):
                at = now - timedelta(minutes=each)
                backend.deliveries.record(
                    Delivery(message_id=f"{status.value}-{each}", status=status, provider="ses", updated_at=at)
                )
        backend.dead_letters.annotate(
            "v1:" + f"{0:016x}", by="ada", owner="ada", note="deploy 41 dropped first_name; repaired in 42"
        )
        backend.circuits.pause("campaign:invoices", reason="wrong amounts, finance looks at it", by="ada")
        backend.circuits.trip("ses", by="worker-3", recovery="5m")

    async def work_until(self, is_so: Callable[[], bool]) -> None:
        """Work as a service does until something is so, for ten seconds at the most."""
        ended = asyncio.Event()
        working = asyncio.create_task(self.work(ended))
        for _ in range(1000):
            if is_so():
                break
            await asyncio.sleep(0.01)
        ended.set()
        await working

    async def work(self, ended: asyncio.Event) -> None:
        """Work as a service does, until it ends."""
        stores: Any = as_async(self.backend)

        async def send(message: Message, key: str, content: object) -> None:
            self._send(message, key, content)

        async def render(message: Message) -> None:
            self._render(message)

        queue: list[Message] = []
        dispatcher: Any = AsyncDispatcher(send, render=render, backend=stores)
        scheduler: Any = AsyncRetryScheduler(stores, queue.append)
        while not ended.is_set():
            await scheduler.run_once()
            while queue:
                await dispatcher.handle(queue.pop())
            await asyncio.sleep(0.01)
