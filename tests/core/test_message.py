"""Messages: what is taken in from an application's queue, whatever its state."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from collections import UserDict

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.errors import InvalidMessageError, InvalidPayloadError, PayloadTooLargeError
from retrykit.message import DEFAULT_MAX_PAYLOAD, Message, check_id, receive
from retrykit.testing.strategies import any_text, json_values, keys, messages

BROKEN = b'{"id": "welcome-17", "recipient": "ada@exa'


@given(keys)
def test_id_of_any_text_that_stores_can_keep_is_taken(key):
    """Any Unicode of 1 to 255 characters, quotes, braces and newlines included."""
    assert check_id(key) is key
    assert key == Message(key, None).id


@pytest.mark.parametrize("key", ["x", "x" * 255, "😀" * 255, "a\nb", "{}';--", " "])
def test_id_at_the_limits_is_taken(key):
    """The limit counts characters."""
    assert check_id(key) == key


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "the message id is empty; allowed is text of 1 to 255 characters"),
        (
            "x" * 256,
            "the message id is 256 characters long ('xxxxxxxxxxxxxxxxxxxx'...); allowed is text of 1 to 255 characters",
        ),
        ("a\0b", "the message id 'a\\x00b' holds a NUL or a lone surrogate, which not every store can keep"),
        ("a\ud800", "the message id 'a\\ud800' holds a NUL or a lone surrogate, which not every store can keep"),
        ("\udfff", "the message id '\\udfff' holds a NUL or a lone surrogate, which not every store can keep"),
        (None, "the message id is None; allowed is text of 1 to 255 characters"),
        (17, "the message id is 17; allowed is text of 1 to 255 characters"),
        (
            "\x1epayments\x1e17",
            (
                "the message id '\\x1epayments\\x1e17' begins with '\\x1e', as the keys of guarded calls do; "
                "allowed is any other character"
            ),
        ),
        (b"x", "the message id is b'x'; allowed is text of 1 to 255 characters"),
    ],
)
def test_id_that_cannot_be_a_key_is_refused(key, message):
    """The error names the value, short enough for a log."""
    with pytest.raises(InvalidMessageError) as caught:
        Message(key, {})
    assert message == str(caught.value)


@given(messages)
def test_message_survives_pickle_and_copy(message):
    """Messages go through process pools and task queues."""
    assert message == pickle.loads(pickle.dumps(message)) == copy.deepcopy(message)
    assert hash(message) == hash(copy.copy(message))


@given(keys, json_values)
def test_payload_is_the_value_given(key, value):
    """The body is the value as JSON, read anew at each access."""
    message = Message(key, value)
    assert value == message.payload
    assert value == json.loads(message.body)


@given(st.binary(max_size=50))
def test_body_given_as_bytes_is_kept_byte_for_byte(body):
    """Also where it is not JSON; only reading it as JSON fails then."""
    message = Message("welcome-17", bytearray(body))
    assert body == message.body
    assert type(message.body) is bytes


def test_payload_of_a_broken_body_is_an_error_at_access():
    """The message itself stands."""
    message = Message("welcome-17", BROKEN)
    with pytest.raises(InvalidPayloadError, match=r"^not JSON: "):
        _ = message.payload


@pytest.mark.parametrize("make", [lambda n: b"x" * n, lambda n: "x" * (n - 2), lambda n: bytearray(n)])
def test_payload_over_the_limit_is_refused_with_both_sizes(make):
    """The limit is in bytes of the body, and the limit itself is allowed."""
    assert len(Message("a", make(DEFAULT_MAX_PAYLOAD)).body) == 1_048_576
    with pytest.raises(PayloadTooLargeError) as caught:
        Message("a", make(DEFAULT_MAX_PAYLOAD + 1))
    assert (1_048_577, 1_048_576) == (caught.value.size, caught.value.limit)
    assert len(Message("a", make(DEFAULT_MAX_PAYLOAD + 1), max_payload=2_000_000).body) == 1_048_577


def test_payload_that_is_no_json_value_is_refused():
    """Nothing is guessed at."""
    with pytest.raises(InvalidPayloadError):
        Message("a", {"when": object()})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"campaign_id": 7}, "the attribute 'campaign_id' is of type int; names and values of attributes are text"),
        ({7: "x"}, "the attribute 7 is of type str; names and values of attributes are text"),
        ({"tenant": None}, "the attribute 'tenant' is of type NoneType; names and values of attributes are text"),
    ],
)
def test_attribute_that_is_not_text_is_refused(attributes, message):
    """Attributes are what messages are counted and paused by."""
    with pytest.raises(InvalidMessageError) as caught:
        Message("a", {}, attributes)
    assert message == str(caught.value)


def test_attributes_are_a_copy_of_those_given():
    """Later changes to the caller's mapping change no message."""
    given = {"tenant": "acme"}
    message = Message("a", {}, given)
    given["tenant"] = "other"
    assert message.attributes == {"tenant": "acme"}
    assert Message("a", {}).attributes == {}


def test_message_is_frozen():
    """What was taken in does not change."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Message("a", {}).id = "b"


@given(json_values)
def test_fingerprint_does_not_depend_on_spacing(value):
    """Two producers that format JSON differently send the same payload."""
    spaced = json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert Message("a", value).fingerprint == Message("b", spaced).fingerprint


def test_fingerprint_tells_payloads_apart():
    """Values, their order and broken bodies all count."""
    bodies = [b"1", b"2", b"[1,2]", b"[2,1]", b'{"a":1,"b":2}', b'{"b":2,"a":1}', b"NaN", b"nan", BROKEN, b"", b"1e400"]
    assert len(bodies) == len({Message("a", body).fingerprint for body in bodies})
    assert Message("a", BROKEN).fingerprint == hashlib.sha256(BROKEN).hexdigest()[:32]


PAYLOAD = {"id": "welcome-17", "recipient": "ada@example.org", "campaign_id": "spring", "tenant": "acme", "n": 1}


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps(PAYLOAD).encode(),
        bytearray(json.dumps(PAYLOAD).encode()),
        memoryview(json.dumps(PAYLOAD).encode()),
        json.dumps(PAYLOAD),
        PAYLOAD,
        UserDict(PAYLOAD),
    ],
)
def test_receive_reads_id_and_attributes_from_the_payload(raw):
    """Bytes, text and mappings are the same message."""
    message = receive(raw)
    assert message.id == "welcome-17"
    assert message.payload == PAYLOAD
    assert message.attributes == {"recipient": "ada@example.org", "campaign_id": "spring", "tenant": "acme"}


def test_receive_lifts_exactly_the_well_known_fields():
    """Text, and whole numbers as text; other fields and values stay in the payload."""
    fields = dict.fromkeys(["campaign_id", "recipient", "provider", "tenant", "template_id", "subject"], "x")
    assert sorted(set(fields) - {"subject"}) == sorted(receive(fields).attributes)
    assert receive({"campaign_id": 7, "provider": 0}).attributes == {"campaign_id": "7", "provider": "0"}
    assert receive({"campaign_id": True, "tenant": None, "recipient": ["a"], "provider": 1.5}).attributes == {}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"message_id": "m", "id": "i"}, "m"),
        ({"message_id": None, "id": "i"}, "i"),
        ({"message_id": True, "id": 4.5}, None),
        ({"message_id": ["m"], "id": 17}, "17"),
        ({"id": 0}, "0"),
    ],
)
def test_receive_prefers_message_id_over_id(payload, expected):
    """Both names are common and the precise one wins; whole numbers are ids too, nothing else is."""
    assert (expected or f"sha256:{hashlib.sha256(Message('m', payload).body).hexdigest()}") == receive(payload).id


def test_receive_prefers_the_id_of_the_envelope():
    """The queue's own id is there also when the payload is broken."""
    assert receive(PAYLOAD, id="queue-1").id == "queue-1"
    assert receive(BROKEN, id="queue-1").id == "queue-1"


@pytest.mark.parametrize("body", [BROKEN, b"", b"\xff\x00", b"null", b"[1]", b'"text"', b"{}", b'{"id": 5.0}'])
def test_receive_without_an_id_derives_it_from_the_body(body):
    """Every copy of the same broken body is the same message, so that it is counted and parked as one."""
    first, second = receive(body), receive(bytes(bytearray(body)))
    assert f"sha256:{hashlib.sha256(body).hexdigest()}" == first.id == second.id
    assert body == first.body


@given(any_text)
def test_receive_takes_any_text(text):
    """Lone surrogates included."""
    assert text.encode("utf-8", "surrogatepass") == receive(text, id="a").body


@given(st.binary(max_size=50))
def test_receive_takes_any_bytes(body):
    """A body is never refused for its content."""
    assert body == receive(body, id="a").body


def test_receive_of_a_message_is_an_equal_message():
    """Its own id, or the same one, is fine; another one is a mistake of the caller's."""
    message = Message("a", {"id": "of the payload"})
    assert message == receive(message) == receive(message, id="a")
    with pytest.raises(InvalidMessageError) as caught:
        receive(message, id="b")
    assert str(caught.value) == "the message 'a' was handed over with the other id 'b'; give one of them"


def test_receive_of_a_message_adds_attributes_that_it_does_not_have():
    """What the application said itself wins over the payload."""
    payload = {"campaign_id": "of the payload", "tenant": "acme"}
    message = receive(Message("a", payload, {"campaign_id": "own", "mood": "good"}))
    assert message.attributes == {"campaign_id": "own", "mood": "good", "tenant": "acme"}
    assert message.payload == payload


@pytest.mark.parametrize("raw", [Message("a", b"xxxx"), b"xxxx", "xxxx", {"": ""}])
def test_receive_over_the_limit_is_refused(raw):
    """Whatever the form, the limit is the caller's."""
    assert receive(raw, max_payload=7).body
    with pytest.raises(PayloadTooLargeError):
        receive(raw, max_payload=3)


@pytest.mark.parametrize("raw", [{"id": ""}, {"message_id": "x" * 256}, b'{"id": "\\ud800"}', '{"id": "a\\u0000"}'])
def test_receive_with_a_bad_id_in_the_payload_is_refused(raw):
    """The application sees which id is not allowed; nothing was stored."""
    with pytest.raises(InvalidMessageError):
        receive(raw)
    assert receive(raw, id="of-the-queue").id == "of-the-queue"


@pytest.mark.parametrize(("raw", "kind"), [(5, "int"), (None, "NoneType"), ([1, 2], "list"), (2.5, "float")])
def test_receive_of_another_type_is_refused(raw, kind):
    """A number is not that many zero bytes, and a list is not the bytes of its items."""
    with pytest.raises(InvalidMessageError) as caught:
        receive(raw)
    assert str(caught.value) == (f"what was handed over is a {kind}; allowed are a Message, bytes, text or a mapping")


def test_receive_of_a_mapping_that_is_no_json_is_refused():
    """The caller still holds the message."""
    with pytest.raises(InvalidPayloadError):
        receive({"when": object()})
