"""What the clients of AMQP raise: pika, aio-pika (aiormq) and kombu (py-amqp)."""

from __future__ import annotations

from tests.capabilities import require

require("pika", "aio_pika", "aiormq", "kombu", "celery", "loopback")

import asyncio
import logging

import aio_pika
import aiormq
import amqp.exceptions
import celery
import celery.exceptions
import kombu
import kombu.exceptions
import pika
import pika.exceptions
import pytest

from tests.libraries import servers
from tests.libraries.servers import PATIENCE, classified, closed_port, raised, serving


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)


ONCE = {"max_retries": 1, "interval_start": 0, "interval_step": 0.01}


def connect_pika(port, host="127.0.0.1"):
    with pika.BlockingConnection(
        pika.ConnectionParameters(host, port, connection_attempts=1, stack_timeout=PATIENCE, socket_timeout=PATIENCE)
    ):
        pass


def connect_aio_pika(port, host="127.0.0.1"):
    async def main():
        await asyncio.wait_for(aio_pika.connect(host=host, port=port), PATIENCE)

    asyncio.run(main())


def publish_kombu(port, host="127.0.0.1"):
    with kombu.Connection(f"amqp://{host}:{port}//", connect_timeout=PATIENCE, transport_options=ONCE) as connection:
        with connection.Producer() as producer:
            producer.publish({}, retry=False)


def publish_celery(port, host="127.0.0.1"):
    app = celery.Celery(broker=f"amqp://{host}:{port}//", set_as_current=False)
    app.conf.update(broker_connection_timeout=PATIENCE, broker_transport_options=ONCE)
    app.send_task("x", retry=False)


ALL = pytest.mark.parametrize("connect", [connect_pika, connect_aio_pika, publish_kombu, publish_celery])


@ALL
@pytest.mark.usefixtures("swept")
def test_refused_connection_has_sent_nothing(connect):
    """Each wraps the system's error in its own way."""
    assert ("connection_error", "not_sent") == classified(raised(lambda: connect(closed_port())))


@ALL
@pytest.mark.usefixtures("swept")
def test_server_that_closes_while_we_connect_is_a_lost_connection(connect):
    """For pika the protocol is not supported, which it is not."""
    with serving(servers.hang_up_later) as port:
        assert "connection_error" == classified(raised(lambda: connect(port)))[0]


@pytest.mark.usefixtures("no_names", "swept")
@pytest.mark.parametrize("connect", [connect_pika, connect_aio_pika, publish_kombu])
def test_unknown_name_is_a_dns_failure(connect):
    """The cause says so."""
    assert ("dns_failure", "not_sent") == classified(raised(lambda: connect(5672, "nowhere.invalid")))


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        (("connection_error", "unknown"), pika.exceptions.StreamLostError("lost")),
        (("connection_error", "unknown"), pika.exceptions.StreamLostError(ConnectionResetError())),
        (("connection_error", "not_sent"), pika.exceptions.ChannelWrongStateError("closed")),
        (("network_timeout", "unknown"), pika.exceptions.AMQPHeartbeatTimeout("silent")),
        (("provider_unavailable", "unknown"), pika.exceptions.ConnectionClosedByBroker(320, "CONNECTION_FORCED")),
        (("provider_misconfigured", "rejected"), pika.exceptions.ConnectionClosedByBroker(530, "NOT_ALLOWED")),
        (("provider_misconfigured", "rejected"), pika.exceptions.ChannelClosedByBroker(404, "NOT_FOUND")),
        (("provider_misconfigured", "rejected"), pika.exceptions.ChannelClosedByBroker(403, "ACCESS_REFUSED")),
        (("resource_contention", "unknown"), pika.exceptions.ChannelClosedByBroker(405, "RESOURCE_LOCKED")),
        (("internal_error", "unknown"), pika.exceptions.ChannelClosedByBroker(406, "PRECONDITION_FAILED")),
        (("invalid_payload", "rejected"), pika.exceptions.ChannelClosedByBroker(311, "CONTENT_TOO_LARGE")),
        (("provider_unavailable", "rejected"), pika.exceptions.NackError([])),
        (("provider_misconfigured", "rejected"), pika.exceptions.UnroutableError([])),
        (("provider_misconfigured", "not_sent"), pika.exceptions.ProbableAuthenticationError("no")),
        (("internal_error", "unknown"), pika.exceptions.DuplicateConsumerTag("x")),
        (("provider_misconfigured", "not_sent"), aiormq.exceptions.ProbableAuthenticationError("no")),
        (("provider_unavailable", "rejected"), aiormq.exceptions.DeliveryError(None, None)),
        (("provider_misconfigured", "rejected"), aiormq.exceptions.ChannelNotFoundEntity("no")),
        (("resource_contention", "rejected"), aiormq.exceptions.ChannelLockedResource("no")),
        (("connection_error", "not_sent"), aiormq.exceptions.ChannelInvalidStateError("closed")),
        (("connection_error", "unknown"), aiormq.exceptions.ConnectionClosed(320, "x")),
        (("provider_unavailable", "unknown"), amqp.exceptions.ConnectionForced("bye")),
        (("connection_error", "unknown"), amqp.exceptions.RecoverableConnectionError("lost")),
        (("provider_misconfigured", "rejected"), amqp.exceptions.AccessRefused("no")),
        (("resource_contention", "unknown"), amqp.exceptions.ResourceLocked("no")),
        (("invalid_payload", "not_sent"), kombu.exceptions.EncodeError("no")),
        (("invalid_payload", "unknown"), kombu.exceptions.DecodeError("no")),
        (("resource_contention", "not_sent"), kombu.exceptions.ConnectionLimitExceeded(1)),
        (("network_timeout", "unknown"), celery.exceptions.SoftTimeLimitExceeded()),
        (("network_timeout", "unknown"), celery.exceptions.TimeLimitExceeded(1)),
        (("network_timeout", "unknown"), celery.exceptions.TimeoutError("no")),
        (("resource_contention", "unknown"), celery.exceptions.WorkerLostError("killed")),
        (("internal_error", "not_sent"), celery.exceptions.NotRegistered("x")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_errors_that_need_a_broker_are_known_by_their_types(expected, error):
    """Made by hand: a broker that provokes them is a whole server."""
    assert expected == classified(error)
