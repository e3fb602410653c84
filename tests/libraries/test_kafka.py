"""What confluent-kafka raises."""

from __future__ import annotations

from tests.capabilities import require

require("confluent_kafka", "loopback")

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.error import KeySerializationError, ProduceError

from tests.libraries.servers import classified, closed_port, raised


def settings(**more):
    return {"bootstrap.servers": f"127.0.0.1:{closed_port()}", "log_level": 0, "socket.timeout.ms": 200} | more


def test_message_that_was_not_delivered_in_time_leaves_the_outcome_open():
    """The report of a delivery holds a KafkaError, which an application raises as a KafkaException."""
    errors = []
    producer = Producer(settings(**{"message.timeout.ms": 50}))
    producer.produce("x", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(2)
    assert KafkaError._MSG_TIMED_OUT == errors[0].code()
    assert ("network_timeout", "unknown") == classified(KafkaException(errors[0]))


def test_brokers_that_cannot_be_reached_are_a_lost_connection():
    """Asked for their metadata."""
    error = raised(lambda: AdminClient(settings()).list_topics(timeout=0.2))
    assert isinstance(error, KafkaException)
    assert classified(error)[0] in ("connection_error", "network_timeout")
    assert "unknown" == classified(error)[1]


def test_wrong_settings_are_our_mistake():
    """Nothing was tried."""
    error = raised(lambda: Producer(settings(nonsense="x")))
    assert isinstance(error, KafkaException)
    assert ("internal_error", "not_sent") == classified(error)


def test_full_queue_has_sent_nothing():
    """The builtin BufferError of `produce` is not known; as a KafkaException it is."""
    assert ("resource_contention", "not_sent") == classified(KafkaException(KafkaError(KafkaError._QUEUE_FULL)))


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        (("dns_failure", "not_sent"), "_RESOLVE"),
        (("connection_error", "unknown"), "_TRANSPORT"),
        (("connection_error", "unknown"), "_ALL_BROKERS_DOWN"),
        (("network_timeout", "unknown"), "REQUEST_TIMED_OUT"),
        (("provider_unavailable", "unknown"), "NOT_ENOUGH_REPLICAS"),
        (("provider_unavailable", "unknown"), "LEADER_NOT_AVAILABLE"),
        (("provider_unavailable", "unknown"), "NOT_LEADER_FOR_PARTITION"),
        (("provider_throttled", "rejected"), "THROTTLING_QUOTA_EXCEEDED"),
        (("provider_misconfigured", "rejected"), "SASL_AUTHENTICATION_FAILED"),
        (("provider_misconfigured", "rejected"), "TOPIC_AUTHORIZATION_FAILED"),
        (("provider_misconfigured", "rejected"), "UNKNOWN_TOPIC_OR_PART"),
        (("invalid_payload", "rejected"), "MSG_SIZE_TOO_LARGE"),
        (("unknown", "unknown"), "OFFSET_OUT_OF_RANGE"),
    ],
)
def test_code_tells(expected, code):
    """A KafkaException carries a KafkaError, whose methods are asked."""
    error = KafkaError(getattr(KafkaError, code))
    assert expected == classified(KafkaException(error))
    assert expected == classified(ProduceError(error))


def test_flags_of_the_error_tell_where_its_code_does_not():
    """Fatal ones stop the client; others may be tried again."""
    fatal = KafkaError(KafkaError._TRANSPORT, "no", fatal=True)
    assert ("internal_error", "unknown") == classified(KafkaException(fatal))
    retriable = KafkaError(KafkaError.UNKNOWN, "no", retriable=True)
    assert ("provider_unavailable", "unknown") == classified(KafkaException(retriable))


def test_message_that_cannot_be_serialized_is_a_wrong_payload():
    """It never came to the broker."""
    assert ("invalid_payload", "not_sent") == classified(KeySerializationError(ValueError("x")))
    assert ("unknown", "unknown") == classified(KafkaException("x"))
