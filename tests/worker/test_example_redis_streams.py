"""The source on Redis Streams, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.capabilities import require

require("redis", "valkey-server")

import redis
import worker_redis_streams
from worker_redis_streams import RedisStreamSource

from retrykit import Dispatcher, Message
from retrykit.backends import MemoryBackend
from retrykit.worker import Worker
from tests.servers import valkey


@pytest.fixture
def client() -> Iterator[Any]:
    """A client of the shared server, in a database of its own."""
    with redis.Redis.from_url(valkey.shared(), db=9, protocol=2) as made:
        made.flushdb()
        yield made
        made.flushdb()


def bodies(client: Any, stream: str) -> list[bytes]:
    return [fields[b"body"] for _, fields in client.xrange(stream)]


def pending(client: Any) -> int:
    return int(client.xpending("mail", "retrykit")["pending"])


def test_redis_stream_source_settles_entries(client: Any) -> None:
    """What is acked is gone, what is given back comes again, what is rejected lies aside, and what is delayed stays held."""
    source = RedisStreamSource(client, "mail")
    assert [] == source.receive(5, 0)
    for number in range(4):
        source.put(Message(f"m{number}", {"number": number}))
    first, second, third, fourth = source.receive(5, 0.01)
    assert ["m0", "m1", "m2", "m3"] == [each.id for each in (first, second, third, fourth)]
    source.ack(first)
    source.nack(second, 0)
    source.reject(third)
    source.nack(fourth, 30)
    assert ([b'{"number":1}'], 1) == ([each.raw for each in source.receive(5, 0.01)], pending(client) - 1)
    assert [b'{"number":2}'] == bodies(client, "mail:rejected")
    assert [b'{"number":3}', b'{"number":1}'] == bodies(client, "mail")


def test_redis_stream_source_takes_what_another_has_left_behind(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has been idle for long enough, which what is extended has not; a second source joins the same group."""
    gone = RedisStreamSource(client, "mail")
    gone.put(Message("m0", {}))
    (left,) = gone.receive(5, 0.01)
    other = RedisStreamSource(client, "mail")
    other._consumer = "another"
    assert [] == other.receive(5, 0.001)
    client.xclaim("mail", "retrykit", gone._consumer, 0, [left.handle[0]], idle=120_000, justid=True)  # type: ignore[index]
    gone.extend(left)
    assert [] == other.receive(5, 0.001)
    monkeypatch.setattr(worker_redis_streams, "IDLE", 0)
    (taken,) = other.receive(5, 0.001)
    assert ("m0", left.handle) == (taken.id, taken.handle)
    other.ack(taken)
    assert (0, []) == (pending(client), other.receive(5, 0.001))


def test_redis_stream_source_hands_out_entries_that_cannot_be_read(client: Any) -> None:
    """A foreign entry does not keep the others from being received."""
    source = RedisStreamSource(client, "mail")
    client.xadd("mail", {"else": "1"})
    client.xadd("mail", {"id": b"\xff", "body": b"{}"})
    client.xadd("mail", {"body": b'{"id": "m1"}'})
    assert [(None, b""), ("\ufffd", b"{}"), (None, b'{"id": "m1"}')] == [
        (each.id, each.raw) for each in source.receive(5, 0.01)
    ]


def test_redis_stream_source_refuses_a_key_of_another_kind(client: Any) -> None:
    """Only that the group exists is no trouble."""
    client.set("mail", "text")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        RedisStreamSource(client, "mail")


def test_redis_stream_source_feeds_a_worker(client: Any) -> None:
    """From the stream to the dispatcher and back: all are sent, nothing is left, and what fits no worker lies aside."""
    source = RedisStreamSource(client, "mail")
    for number in range(5):
        source.put(Message(f"m{number}", {}))
    client.xadd("mail", {"id": "x" * 300, "body": b"{}"})
    sent: list[str] = []

    def send(_message: Message, key: str) -> None:
        sent.append(key)
        if len(sent) == 5:
            worker.stop()

    worker = Worker(source, Dispatcher(send, backend=MemoryBackend()), concurrency=1, prefetch=9, wait=0.01)
    report = worker.run()
    assert (["m0", "m1", "m2", "m3", "m4"], 0) == (sorted(sent), pending(client))
    assert report.taken == report.finished + report.returned
    left = client.xlen("mail") + client.xlen("mail:rejected")
    assert (1, report.finished) == (left, 5 + client.xlen("mail:rejected"))
