"""What redis raises, talking to a server that answers each command in the same way."""

from __future__ import annotations

from tests.capabilities import require

require("redis", "loopback")

import asyncio

import pytest
import redis
import redis.asyncio
import redis.exceptions

from tests.libraries import servers
from tests.libraries.servers import PATIENCE, TIMEOUT, classified, closed_port, patience, raised, serving

OPTIONS = {"retry": None, "protocol": 2}


def get(port, host="127.0.0.1", wait=PATIENCE):
    with redis.Redis(host, port, socket_timeout=wait, socket_connect_timeout=wait, **OPTIONS) as client:
        return client.get("x")


def get_async(port, host="127.0.0.1", wait=PATIENCE):
    async def main():
        async with redis.asyncio.Redis(
            host=host, port=port, socket_timeout=wait, socket_connect_timeout=wait, **OPTIONS
        ) as client:
            return await client.get("x")

    return asyncio.run(main())


BOTH = pytest.mark.parametrize("ask", [get, get_async])


def answering(answer):
    """Serve Redis: accept what a client says of itself, and answer the command GET."""

    def handle(connection):
        while request := connection.recv(65_536):
            count = request.count(b"*")
            connection.sendall(b"-" + answer + b"\r\n" if b"GET" in request.upper() else b"+OK\r\n" * count)

    return serving(handle)


@BOTH
@pytest.mark.parametrize(
    ("expected", "name", "answer"),
    [
        ("provider_unavailable", "BusyLoadingError", b"LOADING Redis is loading the dataset in memory"),
        ("provider_unavailable", "ReadOnlyError", b"READONLY You can't write against a read only replica."),
        ("provider_unavailable", "ClusterDownError", b"CLUSTERDOWN The cluster is down"),
        ("provider_unavailable", "MasterDownError", b"MASTERDOWN Link with MASTER is down"),
        ("provider_unavailable", "MovedError", b"MOVED 3999 127.0.0.1:6381"),
        ("provider_unavailable", "AskError", b"ASK 3999 127.0.0.1:6381"),
        ("provider_unavailable", "ResponseError", b"MISCONF Errors writing to the AOF file"),
        ("provider_unavailable", "ResponseError", b"NOREPLICAS Not enough good replicas to write."),
        ("resource_contention", "OutOfMemoryError", b"OOM command not allowed when used memory > 'maxmemory'."),
        ("resource_contention", "TryAgainError", b"TRYAGAIN Multiple keys request during rehashing of slot"),
        ("resource_contention", "ResponseError", b"BUSY Redis is busy running a script."),
        ("provider_misconfigured", "AuthenticationError", b"NOAUTH Authentication required."),
        ("provider_misconfigured", "AuthenticationError", b"WRONGPASS invalid username-password pair"),
        ("provider_misconfigured", "NoPermissionError", b"NOPERM this user has no permissions"),
        ("internal_error", "ResponseError", b"WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("internal_error", "NoScriptError", b"NOSCRIPT No matching script. Please use EVAL."),
    ],
)
def test_error_that_the_server_answers_is_a_refusal(ask, expected, name, answer):
    """An AuthenticationError is a ConnectionError, and the temporary ones are ResponseErrors."""
    with answering(answer) as port:
        error = raised(lambda: ask(port))
    assert (name, (expected, "rejected")) == (type(error).__name__, classified(error))


@BOTH
def test_server_with_too_many_clients_has_done_nothing(ask):
    """It says so in words only."""
    with answering(b"ERR max number of clients reached") as port:
        assert ("resource_contention", "not_sent") == classified(raised(lambda: ask(port)))


@BOTH
def test_refused_connection_has_sent_nothing(ask):
    """A ConnectionError without a word of its own kind."""
    assert ("connection_error", "not_sent") == classified(raised(lambda: ask(closed_port())))


@BOTH
def test_connection_that_is_not_answered_in_time_has_sent_nothing(ask):
    """A TimeoutError that is not the builtin one."""
    with servers.unreachable_port() as port:
        error = raised(lambda: ask(port, wait=TIMEOUT))
    assert not isinstance(error, TimeoutError)
    assert ("network_timeout", "not_sent") == classified(error)


@BOTH
@pytest.mark.usefixtures("no_names")
def test_unknown_name_is_a_dns_failure(ask):
    """Behind a ConnectionError stands why."""
    assert ("dns_failure", "not_sent") == classified(raised(lambda: ask(6379, "nowhere.invalid")))


@BOTH
@pytest.mark.parametrize(
    ("expected", "handle"),
    [
        ("connection_error", servers.hang_up_later),
        ("connection_error", servers.reset),
        ("network_timeout", servers.stay_silent),
        ("connection_error", servers.say(b"garbage\r\n")),
    ],
)
def test_failure_after_the_command_leaves_the_outcome_open(ask, expected, handle):
    """The server may have done it."""
    with serving(handle) as port:
        assert (expected, "unknown") == classified(raised(lambda: ask(port, wait=patience(handle))))


def test_client_that_refuses_has_sent_nothing():
    """A value of a wrong type; a pool whose connections are all in use."""
    with answering(b"") as port, redis.Redis("127.0.0.1", port, **OPTIONS) as client:
        assert ("internal_error", "not_sent") == classified(raised(lambda: client.set("x", object())))
    with answering(b"") as port:
        pool = redis.ConnectionPool(host="127.0.0.1", port=port, max_connections=1, protocol=2)
        pool.get_connection()
        error = raised(pool.get_connection)
        pool.disconnect()
    assert isinstance(error, redis.ConnectionError)
    assert ("resource_contention", "not_sent") == classified(error)


def test_changed_key_is_contention():
    """A WatchError, and a lock that was not got."""
    assert ("resource_contention", "rejected") == classified(redis.WatchError("Watched variable changed."))
    assert ("resource_contention", "unknown") == classified(redis.exceptions.LockError("not acquired"))
