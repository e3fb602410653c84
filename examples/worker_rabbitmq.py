"""A source of messages on a RabbitMQ queue, and a worker on it; needs pika and a server.

    python worker_rabbitmq.py amqp://localhost/ mail

The queue is durable; what nobody can take in goes to the queue `mail.rejected` by its dead letter exchange.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from retrykit import Dispatcher, Message, open_backend
from retrykit.worker import Delivery, Worker


class RabbitSource:
    """Messages of a queue, on a connection that is made anew when it was lost.

    pika is used from one thread only, as a worker does; `extend` lets it answer the server's heartbeats while handlers run.

    Args:
        connect: gives a `pika.BlockingConnection`.
        queue: its name.
    """

    def __init__(self, connect: Callable[[], Any], queue: str) -> None:
        self._connect, self._queue = connect, queue
        self._connection: Any = None
        self._channel: Any = None

    def _open(self) -> Any:
        if self._channel is None or not self._channel.is_open:
            self._connection = self._connect()
            self._channel = self._connection.channel()
            rejected = f"{self._queue}.rejected"
            self._channel.queue_declare(rejected, durable=True)
            arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": rejected}
            self._channel.queue_declare(self._queue, durable=True, arguments=arguments)
        return self._channel

    def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        """Hand out what there is; wait once where there is nothing."""
        taken = self._take(limit)
        if not taken:
            self._connection.process_data_events(time_limit=wait)
            taken = self._take(limit)
        return taken

    def _take(self, limit: int) -> list[Delivery]:
        channel, taken = self._open(), list[Delivery]()
        while len(taken) < limit:
            method, properties, body = channel.basic_get(self._queue)
            if method is None:
                break
            taken.append(Delivery(body, properties.message_id, (channel, method.delivery_tag)))
        return taken

    def ack(self, delivery: Delivery) -> None:
        """Forget a copy; one of a lost connection comes again by itself."""
        channel, tag = _handle(delivery)
        if channel.is_open:
            channel.basic_ack(tag)

    def nack(self, delivery: Delivery, delay: float) -> None:
        """Take a copy back; RabbitMQ knows no delay, and the worker waits before it asks again."""
        channel, tag = _handle(delivery)
        if channel.is_open:
            channel.basic_nack(tag, requeue=True)

    def reject(self, delivery: Delivery) -> None:
        """Put a copy aside."""
        channel, tag = _handle(delivery)
        if channel.is_open:
            channel.basic_nack(tag, requeue=False)

    def extend(self, delivery: Delivery) -> None:
        """Answer heartbeats; a copy is held as long as its connection."""
        if self._connection.is_open:
            self._connection.process_data_events(time_limit=0)

    def put(self, message: Message) -> None:
        """Add a message; what a `RetryScheduler` is given as `publish`, with a source of its own in its thread."""
        properties = import_module("pika").BasicProperties(message_id=message.id, delivery_mode=2)
        self._open().basic_publish("", self._queue, message.body, properties)


def _handle(delivery: Delivery) -> Any:
    return delivery.handle


if __name__ == "__main__":
    url, name = sys.argv[1:]
    pika = import_module("pika")
    source = RabbitSource(lambda: pika.BlockingConnection(pika.URLParameters(url)), name)
    backend = open_backend("sqlite:///retries.db")

    def send(message: Message, key: str) -> str:
        """Stand for your provider's call."""
        print("sent", message.id, flush=True)
        return f"provider-{key}"

    print(Worker(source, Dispatcher(send, backend=backend)).run())
