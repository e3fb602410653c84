"""Which clients the Redis backend takes, what it closes, which keys it makes, and how often it asks the server."""

from __future__ import annotations

import asyncio
import gc
import sys

import pytest

from tests.capabilities import require

require("redis", "valkey-server", "loopback")

import redis
import redis.asyncio
from redis.sentinel import Sentinel

from retrykit.backends import open_async_backend, open_backend
from retrykit.backends.doctor import diagnose
from retrykit.backends.redis import AsyncRedisBackend, RedisBackend
from retrykit.errors import ConfigurationError, MissingExtraError, StoreUnavailableError
from retrykit.machines import claim as machine
from retrykit.message import Message
from retrykit.stores import Claimed, DeadLetterQuery, Delivery, DeliveryStatus, Done, InProgress
from retrykit.testing.conformance.dead_letters_samples import letter
from retrykit.times import from_millis
from tests.servers import valkey
from tests.servers.valkey import Cluster, Server, free_port


@pytest.fixture
def client():
    """A client of the shared server."""
    with redis.Redis.from_url(valkey.shared()) as made:
        yield made


@pytest.fixture(scope="module")
def cluster():
    """A cluster of three masters."""
    made = Cluster()
    yield made
    made.stop()


def use(backend):
    """Let one message fail, die and be sent, so that each store is used."""
    held = backend.claims.claim("m", owner="me").record
    assert backend.claims.begin_send("m", held.seq, lease=30)
    assert backend.claims.settle(machine.sent(held, provider_id="p"), held.seq)
    backend.retries.schedule(Message("m", {}), from_millis(0))
    (due,) = backend.retries.claim_due(owner="me")
    assert backend.retries.ack(due)
    backend.dead_letters.put(letter("m", fingerprint="v1:x"))
    assert 1 == backend.dead_letters.count(DeadLetterQuery(message_id="m", state="quarantined"))
    assert backend.dead_letters.annotate("v1:x", by="me", note="known").note == "known"
    backend.deliveries.record(Delivery(message_id="m", status=DeliveryStatus.PROCESSING, updated_at=from_millis(0)))
    backend.circuits.pause("tenant:x", reason="r", by="me")
    assert backend.circuits.trip("ses", by="me", recovery=60).is_open
    assert [] == list(backend.redrives.jobs())


async def use_async(backend):
    held = (await backend.claims.claim("a", owner="me")).record
    assert await backend.claims.begin_send("a", held.seq, lease=30)
    await backend.retries.schedule(Message("a", {}), from_millis(0))
    (due,) = await backend.retries.claim_due(owner="me")
    assert await backend.retries.ack(due)
    await backend.dead_letters.put(letter("a"))


def test_clients_of_a_cluster_are_taken(cluster):
    """In both colours: the keys of each script are on one node."""
    with redis.RedisCluster(host="127.0.0.1", port=cluster.ports[0]) as client:
        use(RedisBackend(client))

    async def main():
        client = redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster.ports[0])
        await use_async(AsyncRedisBackend(client))
        await client.aclose()

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the asynchronous client forgets connections when it gives up
def test_slot_that_is_moved_hides_no_message_of_those_that_are_held(cluster):
    """While some of its keys are on the old node and some on the new one, the store is away; nobody is given what another holds."""
    messages = [f"held-{number}" for number in range(4)]
    with redis.RedisCluster(host="127.0.0.1", port=cluster.ports[0]) as client:
        backend = RedisBackend(client, "moved")
        for each in messages:
            assert isinstance(backend.claims.claim(each, owner="first"), Claimed)
        slot = client.keyslot("{moved:claims}:")
        target = cluster.begin_move(slot)
        for moved in (0, 2):
            assert moved == (cluster.move_keys(slot, target, 2) if moved else 0)
            for each in (messages[0], messages[3], "new"):
                with pytest.raises(StoreUnavailableError):
                    backend.claims.claim(each, owner="second")
        asyncio.run(is_away(cluster.ports[0], messages[0]))
        gc.collect()
        cluster.end_move(slot, target)
        assert all(isinstance(backend.claims.claim(each, owner="second"), InProgress) for each in messages)
        assert isinstance(backend.claims.claim("new", owner="second"), Claimed)


async def is_away(port, message):
    """Ask in asynchronous code for a store whose slot is being moved."""
    client = redis.asyncio.RedisCluster(host="127.0.0.1", port=port)
    with pytest.raises(StoreUnavailableError):
        await AsyncRedisBackend(client, "moved").claims.claim(message, owner="third")
    await client.aclose()


def test_client_of_sentinel_is_taken(tmp_path):
    """It follows a failover by itself."""
    port, guard = free_port(), free_port()
    server = Server("valkey", "--port", str(port), "--bind", "127.0.0.1")
    file = tmp_path / "sentinel.conf"
    file.write_text(f"sentinel monitor mail 127.0.0.1 {port} 1\n")
    sentinel = Server("valkey", "--port", str(guard), "--bind", "127.0.0.1", config=file)
    try:
        with Sentinel([("127.0.0.1", guard)]).master_for("mail") as client:
            use(RedisBackend(client))
    finally:
        sentinel.stop()
        server.stop()


def test_client_that_is_passed_in_stays_open_and_one_of_a_url_is_closed(client):
    """Each is closed by whoever opened it."""
    RedisBackend(client).close()
    assert client.ping()
    backend = open_backend(valkey.shared())
    assert type(backend) is RedisBackend
    backend.claims.get("m")
    backend.close()
    pool = backend.client.connection_pool
    assert all(not connection.is_connected for connection in pool._available_connections)


def test_async_client_that_is_passed_in_stays_open_and_one_of_a_url_is_closed():
    """As in the other colour."""

    async def main():
        async with redis.asyncio.Redis.from_url(valkey.shared()) as client:
            await AsyncRedisBackend(client).aclose()
            assert await client.ping()
        backend = open_async_backend(valkey.shared())
        assert type(backend) is AsyncRedisBackend
        await backend.claims.get("m")
        await backend.aclose()
        assert not any(each.is_connected for each in backend.client.connection_pool._available_connections)

    asyncio.run(main())


def test_client_of_the_other_colour_is_refused(client):
    """The error names the backend that takes it."""
    with pytest.raises(ConfigurationError, match="use it with AsyncRedisBackend"):
        RedisBackend(redis.asyncio.Redis())
    with pytest.raises(ConfigurationError, match="use it with RedisBackend"):
        AsyncRedisBackend(client)


@pytest.mark.parametrize("prefix", ["", "a b", "{x}", "x" * 65, "größe", None])
def test_prefix_that_could_split_the_keys_is_refused(client, prefix):
    """Braces would change which node a key is on."""
    with pytest.raises(ConfigurationError, match="the prefix is"):
        RedisBackend(client, prefix)


@pytest.mark.parametrize("url", ["redis://:secret@host:port/0", "redis://:secret@host/0?prefix=a%20b"])
def test_url_that_cannot_be_read_is_refused_without_its_password(url):
    """It would stand in logs."""
    with pytest.raises(ConfigurationError) as caught:
        open_backend(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("scheme", "own"), [("valkey", "redis"), ("valkeys", "rediss"), ("redis", "redis")])
def test_urls_of_valkey_are_those_of_redis(scheme, own):
    """redis-py knows its own names alone."""
    backend = open_backend(f"{scheme}://example.test:7000/3?prefix=mail")
    secured = issubclass(backend.client.connection_pool.connection_class, redis.SSLConnection)
    assert (own == "rediss", 3) == (secured, backend.client.connection_pool.connection_kwargs["db"])
    backend.close()


@pytest.mark.parametrize("opener", [open_backend, open_async_backend])
def test_backend_without_its_library_says_how_to_install_it(monkeypatch, opener):
    """And not that a module is missing."""
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'retrykit\[redis\]'"):
        opener("redis://example.test/0")


def test_keys_begin_with_the_prefix_share_a_tag_by_store_and_never_expire(client):
    """So two backends on one server do not meet, and nothing goes by itself."""
    before = set(client.keys())
    use(RedisBackend(client, "of-its-own"))
    keys = set(client.keys()) - before
    stores = {key.split(b":")[1].partition(b"}")[0].decode() for key in keys}
    assert {"claims", "retries", "dead_letters", "deliveries", "circuits"} == stores
    assert all(key.startswith(b"{of-its-own:") for key in keys)
    assert {-1} == {client.ttl(key) for key in keys}
    assert RedisBackend(client, "another").claims.get("m") is None


def test_success_is_four_round_trips_and_a_duplicate_one(client, monkeypatch):
    """As the contract of the dispatcher says."""
    backend = RedisBackend(client, "trips")
    use(backend)  # the scripts are known
    asked = []
    real = type(client).execute_command
    monkeypatch.setattr(
        type(client), "execute_command", lambda *args, **options: asked.append(args[1]) or real(*args, **options)
    )
    held = backend.claims.claim("n", owner="me", fingerprint="payload").record
    begun = backend.claims.begin_send("n", held.seq, lease=30)
    backend.claims.settle(machine.sent(begun), held.seq)
    backend.deliveries.record(Delivery(message_id="n", status=DeliveryStatus.PROCESSING, updated_at=from_millis(0)))
    assert ["EVALSHA"] * 4 == asked
    assert isinstance(backend.claims.claim("n", owner="other", fingerprint="payload"), Done)
    assert 5 == len(asked)
    assert isinstance(backend.claims.claim("new", owner="me"), Claimed)


@pytest.mark.parametrize("opener", [open_backend, open_async_backend, diagnose])
@pytest.mark.parametrize(
    "url",
    [
        "redis://me:secret/secret@host",
        "redis://:secret#secret@host",
        "redis://me:secret[@host",
        "redis://me:secret\u2100@host",
        "redis://me:secret@host/0?socket_timeout=secret",
    ],
)
def test_url_that_cannot_be_read_shows_no_password(opener, url):
    """Neither in words of this library's, nor in those of what read it."""
    with pytest.raises(ConfigurationError, match=r"^the URL 'redis://\.\.\.' cannot be read: ") as caught:
        opener(url)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__
