"""The source on RabbitMQ, on a broker in memory that behaves as pika's channel does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from worker_rabbitmq import RabbitSource

from retrykit import Dispatcher
from retrykit.backends import MemoryBackend
from retrykit.worker import Worker


class Broker:
    """Queues, and what a lost connection gives back."""

    def __init__(self) -> None:
        self.queues: dict[str, list[tuple[str | None, bytes]]] = {}
        self.arguments: dict[str, dict[str, str] | None] = {}
        self.connections: list[Connection] = []

    def connect(self) -> Connection:
        self.connections.append(Connection(self))
        return self.connections[-1]


class Connection:
    def __init__(self, broker: Broker) -> None:
        self.broker, self.is_open, self.waits = broker, True, list[float]()
        self.unsettled: dict[int, tuple[str, tuple[str | None, bytes]]] = {}

    def channel(self) -> Connection:
        return self

    def queue_declare(self, queue: str, durable: bool, arguments: dict[str, str] | None = None) -> None:
        assert durable
        self.broker.queues.setdefault(queue, [])
        self.broker.arguments[queue] = arguments

    def process_data_events(self, time_limit: float) -> None:
        self.waits.append(time_limit)

    def basic_get(self, queue: str) -> tuple[Any, Any, Any]:
        if not self.broker.queues[queue]:
            return None, None, None
        tag, copy = len(self.unsettled) + 1, self.broker.queues[queue].pop(0)
        self.unsettled[tag] = queue, copy
        return SimpleNamespace(delivery_tag=tag), SimpleNamespace(message_id=copy[0]), copy[1]

    def basic_ack(self, tag: int) -> None:
        self.unsettled[tag] = ("", (None, b""))

    def basic_nack(self, tag: int, requeue: bool) -> None:
        queue, copy = self.unsettled[tag]
        self.broker.queues[
            queue if requeue else (self.broker.arguments[queue] or {})["x-dead-letter-routing-key"]
        ].append(copy)

    def lose(self) -> None:
        self.is_open = False
        for queue, copy in self.unsettled.values():
            self.broker.queues[queue].append(copy)


def test_rabbit_source_settles_copies_and_comes_back_after_a_lost_connection() -> None:
    """What is acked is gone, what is given back comes again, what is rejected lies aside; copies of a lost connection are its own affair."""
    broker = Broker()
    source = RabbitSource(broker.connect, "mail")
    assert ([], [0.5]) == (source.receive(3, 0.5), broker.connections[0].waits)
    broker.queues["mail"] += [("m1", b"1"), (None, b"2"), ("m3", b"3"), ("m4", b"4")]
    first, second, third = source.receive(3, 0.5)
    assert (("m1", b"1"), (None, b"2")) == ((first.id, first.raw), (second.id, second.raw))
    source.ack(first)
    source.nack(second, 5)
    source.reject(third)
    source.extend(first)
    assert ([("m4", b"4"), (None, b"2")], [("m3", b"3")]) == (broker.queues["mail"], broker.queues["mail.rejected"])
    (fourth,) = source.receive(1, 0.5)
    broker.connections[0].unsettled = {4: ("mail", ("m4", b"4"))}
    broker.connections[0].lose()
    for settle in (source.ack, lambda late: source.nack(late, 0), source.reject, source.extend):
        settle(fourth)
    assert [None, "m4"] == [delivery.id for delivery in source.receive(5, 0)]
    assert 2 == len(broker.connections)


def test_rabbit_source_feeds_a_worker() -> None:
    """From the queue to the dispatcher and back."""
    broker, source = Broker(), None
    source = RabbitSource(broker.connect, "mail")
    source.receive(1, 0)
    broker.queues["mail"] += [(f"m{number}", b"{}") for number in range(5)]
    sent: list[str] = []

    def send(_message: object, key: str) -> None:
        sent.append(key)
        if len(sent) == 5:
            worker.stop()

    worker = Worker(source, Dispatcher(send, backend=MemoryBackend()), wait=0.01)
    assert 5 == worker.run().finished
    assert (["m0", "m1", "m2", "m3", "m4"], []) == (sorted(sent), broker.queues["mail"])
