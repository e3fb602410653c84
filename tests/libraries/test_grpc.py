"""What grpc raises, in both colours."""

from __future__ import annotations

from tests.capabilities import require

require("grpc", "loopback")

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import grpc.aio
import pytest

from tests.libraries import servers
from tests.libraries.servers import PATIENCE, classified, closed_port, patience, raised, serving


def call(port, wait=PATIENCE, options=(), body=b"x"):
    with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        return channel.unary_unary("/service/method")(body, timeout=wait)


def call_async(port, wait=PATIENCE, options=(), body=b"x"):
    async def main():
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) as channel:
            return await channel.unary_unary("/service/method")(body, timeout=wait)

    return asyncio.run(main())


pytestmark = pytest.mark.usefixtures("swept")  # a fork that drops a channel waits for its thread, which is not there
BOTH = pytest.mark.parametrize("ask", [call, call_async])


@contextmanager
def answering(behave):
    """Serve one method, which `behave` gets the context of."""
    handler = grpc.unary_unary_rpc_method_handler(lambda request, context: behave(context) or request)
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_registered_method_handlers("service", {"method": handler})
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("service", {"method": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait(5)


@BOTH
def test_refused_connection_has_sent_nothing(ask):
    """UNAVAILABLE, with details that say so."""
    assert ("connection_error", "not_sent") == classified(raised(lambda: ask(closed_port())))


@BOTH
def test_server_that_is_none_has_got_nothing(ask):
    """It closes, or says something else."""
    for handle in (servers.hang_up_later, servers.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")):
        with serving(handle) as port:
            assert classified(raised(lambda port=port: ask(port, 1.0)))[0] in ("connection_error", "network_timeout")


@BOTH
def test_silent_server_leaves_the_outcome_open(ask):
    """DEADLINE_EXCEEDED."""
    with serving(servers.stay_silent) as port:
        assert ("network_timeout", "unknown") == classified(raised(lambda: ask(port, patience(servers.stay_silent))))


@BOTH
@pytest.mark.parametrize(
    ("expected", "status"),
    [
        (("provider_unavailable", "unknown"), "UNAVAILABLE"),
        (("provider_unavailable", "unknown"), "INTERNAL"),
        (("provider_unavailable", "unknown"), "UNKNOWN"),
        (("provider_throttled", "rejected"), "RESOURCE_EXHAUSTED"),
        (("provider_misconfigured", "rejected"), "UNAUTHENTICATED"),
        (("provider_misconfigured", "rejected"), "PERMISSION_DENIED"),
        (("resource_contention", "rejected"), "ABORTED"),
        (("internal_error", "rejected"), "INVALID_ARGUMENT"),
        (("internal_error", "rejected"), "NOT_FOUND"),
        (("connection_error", "unknown"), "CANCELLED"),
    ],
)
def test_status_of_the_server_tells(ask, expected, status):
    """The class is the same for all."""
    with answering(lambda context: context.abort(grpc.StatusCode[status], "no")) as port:
        assert expected == classified(raised(lambda: ask(port, options=(("grpc.enable_retries", 0),))))


@BOTH
def test_method_that_does_not_exist_is_our_mistake(ask):
    """UNIMPLEMENTED."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        assert ("internal_error", "rejected") == classified(raised(lambda: ask(port)))
    finally:
        server.stop(None).wait(5)


@BOTH
def test_messages_over_the_limit_are_told_apart(ask):
    """Both are RESOURCE_EXHAUSTED; one never left, the other is the answer."""
    with answering(lambda _: None) as port:
        error = raised(lambda: ask(port, options=(("grpc.max_send_message_length", 3),), body=b"x" * 9))
        assert ("invalid_payload", "not_sent") == classified(error)
        error = raised(lambda: ask(port, options=(("grpc.max_receive_message_length", 3),), body=b"x" * 9))
        assert ("internal_error", "unknown") == classified(error)


def test_channel_that_is_never_ready_is_a_timeout():
    """A FutureTimeoutError."""
    with grpc.insecure_channel(f"127.0.0.1:{closed_port()}") as channel:
        error = raised(lambda: grpc.channel_ready_future(channel).result(0.1))
    assert ("network_timeout", "unknown") == classified(error)
