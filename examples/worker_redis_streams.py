"""A source of messages on a Redis stream, and a worker on it; needs redis-py and a server (Redis 6.2 or newer, or Valkey).

    python worker_redis_streams.py redis://localhost:6379/0 mail

Every worker of the group `retrykit` takes part in the stream `mail`; entries that nobody can take in go to `mail:rejected`.
"""

import os
import socket
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from retrykit import Dispatcher, Message, open_backend
from retrykit.worker import Delivery, Worker

IDLE = 60_000
"""Milliseconds after which an entry goes to somebody else: its worker is gone, or gave it back with a delay."""


class RedisStreamSource:
    """Entries of a stream as messages, for one consumer of a group.

    Args:
        client: a `redis.Redis` that speaks protocol 2, whose answers are of one form in all versions of redis-py.
        stream: its name; an entry has the fields `id` and `body`.
        group: which is made where it does not exist.
    """

    def __init__(self, client: Any, stream: str, group: str = "retrykit") -> None:
        self._client, self._stream, self._group = client, stream, group
        self._consumer = f"{socket.gethostname()}:{os.getpid()}"
        self._cursor: Any = "0-0"
        try:
            client.xgroup_create(stream, group, id="0", mkstream=True)
        except Exception as error:
            if "BUSYGROUP" not in str(error):
                raise

    def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        """Hand out what others left behind, else what is new."""
        claimed = self._client.xautoclaim(
            self._stream, self._group, self._consumer, IDLE, start_id=self._cursor, count=limit
        )
        self._cursor = claimed[0]
        entries: Any = claimed[1]
        if not entries:
            block = max(1, round(wait * 1000))  # 0 would wait for ever
            answer = self._client.xreadgroup(self._group, self._consumer, {self._stream: ">"}, count=limit, block=block)
            streams: dict[bytes, Any] = dict(answer or ())
            entries = streams.popitem()[1] if streams else []
        return [_delivery(entry, fields) for entry, fields in entries if fields]

    def ack(self, delivery: Delivery) -> None:
        """Forget an entry."""
        entry, _ = _handle(delivery)
        with self._client.pipeline(transaction=True) as pipe:
            pipe.xack(self._stream, self._group, entry)
            pipe.xdel(self._stream, entry)
            pipe.execute()

    def nack(self, delivery: Delivery, delay: float) -> None:
        """Take an entry back: at once as a new one; with a delay it comes when it has been idle for long enough."""
        if delay <= 0:
            self._move(delivery, self._stream)

    def reject(self, delivery: Delivery) -> None:
        """Put an entry aside."""
        self._move(delivery, f"{self._stream}:rejected")

    def extend(self, delivery: Delivery) -> None:
        """Hold an entry longer: it has not been idle."""
        entry, _ = _handle(delivery)
        self._client.xclaim(self._stream, self._group, self._consumer, 0, [entry], justid=True)

    def put(self, message: Message) -> None:
        """Add a message; what a `RetryScheduler` is given as `publish`."""
        self._client.xadd(self._stream, {"id": message.id, "body": message.body})

    def _move(self, delivery: Delivery, stream: str) -> None:
        entry, fields = _handle(delivery)
        with self._client.pipeline(transaction=True) as pipe:
            pipe.xadd(stream, fields)
            pipe.xack(self._stream, self._group, entry)
            pipe.xdel(self._stream, entry)
            pipe.execute()


def _delivery(entry: bytes, fields: dict[bytes, bytes]) -> Delivery:
    """Return an entry as a message, whatever its fields are: what cannot be read is for the dispatcher to find."""
    id = fields[b"id"].decode(errors="replace") if b"id" in fields else None
    return Delivery(fields.get(b"body", b""), id, (entry, fields))


def _handle(delivery: Delivery) -> Any:
    return delivery.handle


if __name__ == "__main__":
    url, name = sys.argv[1:]
    source = RedisStreamSource(import_module("redis").Redis.from_url(url, protocol=2), name)
    backend = open_backend("sqlite:///retries.db")

    def send(message: Message, key: str) -> str:
        """Stand for your provider's call."""
        print("sent", message.id, flush=True)
        return f"provider-{key}"

    print(Worker(source, Dispatcher(send, backend=backend)).run())
