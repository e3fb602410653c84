"""The application's own queue."""

from __future__ import annotations

import queue
import threading

from ..message import Message

__all__ = ["Broker"]


class Broker:
    """A queue whose copies are delivered again until they are acked."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[str, bytes] | None] = queue.Queue()
        self._lock = threading.Lock()
        self._open = 0
        self.copies = 0
        """How many were ever put into it."""

    def put(self, message_id: str, body: bytes) -> None:
        """Add a copy of a message."""
        with self._lock:
            self._open += 1
            self.copies += 1
        self._queue.put((message_id, body))

    def publish(self, message: Message) -> None:
        """Take back a message whose wait is over."""
        self.put(message.id, message.body)

    def take(self) -> tuple[str, bytes] | None:
        """Return the next copy; None when the day is over."""
        return self._queue.get()

    def ack(self) -> None:
        """Forget a copy that was taken."""
        with self._lock:
            self._open -= 1

    def close(self, takers: int) -> None:
        """Let every taker end."""
        for _ in range(takers):
            self._queue.put(None)

    @property
    def empty(self) -> bool:
        """Whether no copy is queued or being worked on."""
        with self._lock:
            return self._open == 0
