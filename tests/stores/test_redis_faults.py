"""What a Redis or Valkey server can do to the backend: nothing is lost, and each error says whether to try again."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from datetime import timedelta

import attrs
import pytest

from tests.capabilities import require

require("redis", "valkey-server")

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from retrykit import codec
from retrykit.backends.doctor import clock, diagnose
from retrykit.backends.redis import AsyncRedisBackend, RedisBackend
from retrykit.backends.redis.doctor import _memory, _persistence, _version
from retrykit.clock import SystemClock
from retrykit.errors import StoreCorruptError, StoreUnavailableError
from retrykit.machines import claim as machine
from retrykit.message import Message
from retrykit.stores import Claimed, Done
from retrykit.stores.signals import Signals
from retrykit.times import from_millis
from tests.servers.valkey import Server


@pytest.fixture(scope="module")
def server():
    """A server of this module's own: its tests change settings, and end it."""
    made = Server("valkey", "--appendonly", "yes", "--appendfsync", "always")
    yield made
    made.stop()


@pytest.fixture
def client(server):
    """A client that does not retry by itself, on an empty server with its usual settings."""
    with redis.Redis(unix_socket_path=server.socket, retry=Retry(NoBackoff(), 0)) as made:
        made.replicaof("NO", "ONE")
        made.config_set("maxmemory", 0)
        made.config_set("maxmemory-policy", "noeviction")
        made.flushall()
        yield made


@pytest.fixture
def backend(client):
    return RedisBackend(client)


def test_server_that_dies_and_comes_back_has_what_was_answered(server, client, backend):
    """While it is away the error says so, and that it may be repeated."""
    held = backend.claims.claim("m", owner="me").record
    backend.retries.schedule(Message("m", {"n": 1}), held.opened_at)
    server.kill()
    try:
        with pytest.raises(StoreUnavailableError, match=r"cannot be reached: .*may have happened"):
            backend.claims.begin_send("m", held.seq, lease=30)
        assert "problem" == {each.subject: each.level.value for each in diagnose(server.url)}["connection"]
    finally:
        server.start()
    assert held == backend.claims.get("m")
    assert backend.claims.begin_send("m", held.seq, lease=30) is not None
    assert ["m"] == [due.message.id for due in backend.retries.claim_due(owner="me")]


def test_scripts_that_the_server_forgot_are_sent_again(client, backend):
    """After a restart, a failover or SCRIPT FLUSH."""
    held = backend.claims.claim("m", owner="me").record
    client.script_flush()
    assert backend.claims.renew("m", held.seq, lease=30) is not None
    assert held.key == backend.claims.get("m").key


def test_replica_refuses_writes_and_is_named_by_the_doctor(server, client, backend):
    """As after a failover that the client has not seen yet."""
    client.replicaof("127.0.0.1", "1")
    with pytest.raises(StoreUnavailableError, match="the server refuses for now: ReadOnlyError"):
        backend.claims.claim("m", owner="me")
    assert "problem" == {each.subject: each.level.value for each in diagnose(server.url)}["role"]


def test_full_server_refuses_whole_operations(server, client, backend):
    """Nothing is written by halves; what is there may still be read and settled away."""
    held = backend.claims.claim("m", owner="me").record
    client.config_set("maxmemory", 1)
    with pytest.raises(StoreUnavailableError, match="the server refuses for now: OutOfMemoryError"):
        backend.claims.claim("n", owner="me")
    with pytest.raises(StoreUnavailableError, match="the server refuses for now: OutOfMemoryError"):
        backend.retries.schedule(Message("n", {}), held.opened_at)
    assert held == backend.claims.get("m")
    found = {each.subject: each.level.value for each in diagnose(server.url)}
    client.config_set("maxmemory", 0)
    assert "warning" == found["memory"]
    assert (None, 0) == (backend.claims.get("n"), backend.retries.stats().waiting)


@pytest.mark.parametrize(
    ("policy", "level"), [("noeviction", "ok"), ("volatile-lru", "warning"), ("allkeys-lru", "problem")]
)
def test_doctor_judges_the_eviction_policy(server, client, policy, level):
    """A server that deletes what it likes deletes messages."""
    client.config_set("maxmemory-policy", policy)
    assert level == {each.subject: each.level.value for each in diagnose(server.url)}["eviction"]


def test_doctor_refuses_servers_that_are_too_old():
    """Whatever they call themselves."""
    assert "problem" == _version({"redis_version": "5.0.14"}).level
    assert "ok" == _version({"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.8"}).level


def test_keys_of_another_program_are_an_error_that_names_the_way_out(client, backend):
    """They are not touched."""
    client.sadd("{retrykit:claims}:r:m", "theirs")
    with pytest.raises(StoreCorruptError, match="give the backend a prefix of its own"):
        backend.claims.claim("m", owner="me")
    assert {b"theirs"} == client.smembers("{retrykit:claims}:r:m")


def test_record_that_cannot_be_read_is_named(client, backend):
    """And changed by nobody."""
    client.set("{retrykit:claims}:r:m", "no record")
    with pytest.raises(StoreCorruptError, match="the claim record of 'm' cannot be read"):
        backend.claims.get("m")
    assert b"no record" == client.get("{retrykit:claims}:r:m")


def test_signals_that_cannot_be_read_are_named(client, backend):
    """And changed by nobody."""
    client.set("{retrykit:signals}:s:mail", "{}")
    for touch in (backend.signals.get, lambda name: backend.signals.change(name, lambda _, __: Signals(name=name))):
        with pytest.raises(StoreCorruptError, match="the signals 'mail' cannot be read"):
            touch("mail")
    assert b"{}" == client.get("{retrykit:signals}:s:mail")


def test_signals_that_cannot_be_read_are_mended_once(client, backend):
    """What somebody has begun anew meanwhile stays; the name is gone with the record."""
    backend.signals.change("mail", lambda *_: Signals(name="mail"))
    client.set("{retrykit:signals}:s:mail", "{}")
    assert (["mail"], True, []) == (backend.signals.names(), backend.signals.mend("mail"), backend.signals.names())
    backend.signals.change("mail", lambda *_: Signals(name="mail", at=5))
    assert (False, 5, ["mail"]) == (
        backend.signals.mend("mail"),
        backend.signals.get("mail").at,
        backend.signals.names(),
    )


def test_signals_that_are_begun_anew_while_they_are_judged_are_not_mended(client, backend):
    """Another process was quicker."""
    client.set("{retrykit:signals}:s:mail", "{}")
    other = RedisBackend(client)
    read = codec.decode

    def begun_meanwhile(raw):
        patch.undo()
        assert other.signals.mend("mail")
        other.signals.change("mail", lambda *_: Signals(name="mail", at=5))
        return read(raw)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "decode", begun_meanwhile)
        assert backend.signals.mend("mail") is False
    assert 5 == backend.signals.get("mail").at


def test_signals_that_change_in_between_are_changed_again(client, backend):
    """By the same function, of what stands there then: nothing that others counted is lost."""
    other, asked = RedisBackend(client), []

    def count(known, _):
        asked.append(known)
        if len(asked) == 1:
            other.signals.change("mail", lambda _, __: Signals(name="mail", at=1))
        return attrs.evolve(known or Signals(name="mail"), shift=5)

    assert Signals(name="mail", at=1, shift=5) == backend.signals.change("mail", count) == other.signals.get("mail")
    assert [None, Signals(name="mail", at=1)] == asked


def test_signals_that_stay_as_they_are_are_not_written(client, backend):
    """A monitor that has nothing to say costs the server no write."""
    backend.signals.change("mail", lambda _, __: Signals(name="mail"))
    before = client.info("persistence")["rdb_changes_since_last_save"]
    assert Signals(name="mail") == backend.signals.change("mail", lambda known, _: known)
    assert before == client.info("persistence")["rdb_changes_since_last_save"]


def test_marks_that_cannot_be_read_are_named(client, backend):
    """Not taken for those of a payload that is well."""
    client.zadd("{retrykit:claims}:m:payload", {b"\xff": 1})
    with pytest.raises(StoreCorruptError, match="what is noted of a payload cannot be read"):
        backend.claims.claim("m", owner="me", fingerprint="payload")
    assert backend.claims.get("m") is None


def test_waiting_message_that_cannot_be_read_does_not_hold_up_others(client, backend, caplog):
    """It stays, and the log names it."""
    long_ago = from_millis(0)
    for name in ("broken", "sound"):
        backend.retries.schedule(Message(name, {}), long_ago)
    (field,) = (each for each in client.hkeys("{retrykit:retries}:entries") if each.startswith(b"broken"))
    client.hset("{retrykit:retries}:entries", field, "0 0 no entry")
    assert ["sound"] == [due.message.id for due in backend.retries.claim_due(owner="me")]
    assert "'broken' cannot be read" in caplog.text
    assert 2 == backend.retries.stats().leased


@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, {"encoding": "latin-1"}, {"protocol": 2}])
def test_settings_of_the_client_make_no_difference(server, client, options):
    """Replies are not decoded, whatever the application has its own decoded to."""
    with redis.Redis(unix_socket_path=server.socket, **options) as other:
        backend = RedisBackend(other)
        message = Message("größe", b"\xff\x00 no text", attributes={"name": "Ada \ud800"})
        backend.retries.schedule(message, from_millis(0))
        (due,) = backend.retries.claim_due(owner="me")
        assert message == due.message
        held = backend.claims.claim("größe", owner="\udcff", fingerprint="f").record
        assert held == backend.claims.get("größe")


def test_clock_of_a_worker_that_is_an_hour_off_makes_no_difference(client, backend, monkeypatch):
    """Leases and waits go by the server's."""
    real = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: real(self) + timedelta(hours=1))
    seconds, _ = client.time()
    held = backend.claims.claim("m", owner="me", lease=60).record
    assert abs(held.opened_at.timestamp() - seconds) < 30
    assert held.lease.deadline == held.opened_at + timedelta(seconds=60)
    backend.retries.schedule(Message("m", {}), from_millis((seconds + 1800) * 1000))
    assert [] == list(backend.retries.claim_due(owner="me"))


def test_connections_killed_at_any_moment_lose_and_double_nothing(server, client):
    """Each operation may be repeated: by the caller here, or by the client's own retries."""
    over = threading.Event()

    def kill_all():
        with redis.Redis(unix_socket_path=server.socket) as killer:
            own = killer.client_id()
            while not over.is_set():
                for each in killer.client_list():
                    if int(each["id"]) != own:
                        with contextlib.suppress(redis.ResponseError):
                            killer.client_kill_filter(_id=each["id"])

    killer = threading.Thread(target=kill_all)
    killer.start()
    backend = RedisBackend(client)

    def repeated(fn, *args, **kwargs):
        while True:
            try:
                return fn(*args, **kwargs)
            except StoreUnavailableError:
                pass

    try:
        for number in range(50):
            key = f"m{number}"
            answer = repeated(backend.claims.claim, key, owner="me")
            assert isinstance(answer, Claimed)
            held = repeated(backend.claims.begin_send, key, answer.record.seq, lease=30)
            settled = repeated(backend.claims.settle, machine.sent(held, provider_id=key), held.seq)
            assert (key, 1) == (settled.provider_id, settled.counters.started)
            repeated(backend.retries.schedule, Message(key, {}), from_millis(0))
    finally:
        over.set()
        killer.join()
    assert 50 == backend.retries.stats().waiting
    assert all(isinstance(backend.claims.claim(f"m{number}", owner="other"), Done) for number in range(50))


def test_cancelled_command_does_not_give_its_reply_to_the_next(server, client):
    """Its connection is dropped, or its reply is read."""

    async def main():
        async with redis.asyncio.Redis(unix_socket_path=server.socket, max_connections=1) as one:
            backend = AsyncRedisBackend(one)
            for number in range(30):
                task = asyncio.ensure_future(backend.claims.claim(f"m{number}", owner="me"))
                for _ in range(number % 6):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                answer = await backend.claims.claim(f"n{number}", owner="me")
                assert f"n{number}" == answer.record.key

    asyncio.run(main())


def test_errors_in_asynchronous_code_are_those_of_synchronous_code(server, client):
    """Scripts are sent again, a server that is away may be asked again, and what is not the client's comes through."""

    class Broken:
        async def execute_command(self, *args, **options):
            raise KeyError("no error of a client")

    async def main():
        async with redis.asyncio.Redis(unix_socket_path=server.socket) as own:
            client.script_flush()
            answer = await AsyncRedisBackend(own).claims.claim("m", owner="me")
            assert isinstance(answer, Claimed)
        async with redis.asyncio.Redis(unix_socket_path=f"{server.socket}-none", retry=None) as nowhere:
            with pytest.raises(StoreUnavailableError, match="cannot be reached"):
                await AsyncRedisBackend(nowhere).claims.get("m")
        with pytest.raises(KeyError):
            await AsyncRedisBackend(Broken()).claims.get("m")

    asyncio.run(main())


def test_error_that_is_not_the_clients_comes_through():
    """A bug is not taken for a server that is away."""

    class Broken:
        def execute_command(self, *args, **options):
            raise KeyError("no error of a client")

    with pytest.raises(KeyError):
        RedisBackend(Broken()).claims.get("m")


@pytest.mark.parametrize(
    ("findings", "level"),
    [
        (_memory({"used_memory": 1, "maxmemory": 0}), "ok"),
        (_memory({"used_memory": 1, "maxmemory": 100}), "ok"),
        (_memory({"used_memory": 90, "maxmemory": 100}), "warning"),
        (_persistence({"aof_enabled": 1, "aof_last_write_status": "ok", "rdb_last_bgsave_status": "ok"}), "ok"),
        (_persistence({"aof_enabled": 1, "aof_last_write_status": "err"}), "problem"),
        (_persistence({"aof_enabled": 1, "aof_last_write_status": "ok", "loading": 1}), "problem"),
        (_persistence({"aof_enabled": 0}), "warning"),
        ([clock(0.2)], "ok"),
        ([clock(-3600.0)], "warning"),
    ],
)
def test_doctor_judges_what_the_server_tells(findings, level):
    """The first thing that is said counts."""
    assert level == findings[0].level


def test_doctor_passes_on_what_is_no_error_of_the_client(server, monkeypatch):
    """A bug is not taken for a server that is not well."""
    monkeypatch.setattr(redis.Redis, "time", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        diagnose(server.url)
