"""JSON as retrykit writes and reads it: strict, bounded, and never quoting what it read."""

from __future__ import annotations

import json
import math
from collections import UserDict
from datetime import UTC, datetime
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.codec import decode, encode
from retrykit.decision import Action
from retrykit.errors import InvalidPayloadError
from tests.strategies import any_text, json_values


@given(json_values)
def test_value_survives_a_round_trip(value):
    """Any JSON value comes back equal, from bytes and from text, lone surrogates included."""
    data = encode(value)
    assert value == decode(data)
    assert value == decode(data.decode("ascii"))


@given(any_text)
def test_encoded_text_is_ascii(text):
    """Every store and every log can hold what was written."""
    assert encode(text).isascii()


def test_encoded_form_is_compact_and_keeps_the_order():
    """No spaces, keys as given."""
    assert encode({"b": [1, 2.5, None, True], "a": {"ü": "x"}}) == b'{"b":[1,2.5,null,true],"a":{"\\u00fc":"x"}}'


@pytest.mark.parametrize("mapping", [MappingProxyType({"a": 1}), UserDict({"a": 1})])
def test_encode_takes_any_mapping_at_the_top(mapping):
    """A read-only view of a payload is a payload."""
    assert encode(mapping) == b'{"a":1}'


def test_encode_takes_tuples_and_string_enums():
    """They are written as lists and text."""
    assert encode({"action": Action.RETRY, "pair": (1, 2)}) == b'{"action":"retry","pair":[1,2]}'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, {"a": [math.nan]}])
def test_encode_of_nan_and_infinities_is_refused(value):
    """JSON has no form for them."""
    with pytest.raises(InvalidPayloadError, match=r"^the value cannot be written as JSON: Out of range float values"):
        encode(value)


@pytest.mark.parametrize("key", [1, 1.5, True, None, (1, 2), b"a"])
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value], lambda value: {"a": ({"b": value},)}])
def test_encode_of_a_key_that_is_not_text_is_refused(key, wrap):
    """No key is turned into text without a word, at any depth."""
    with pytest.raises(InvalidPayloadError) as caught:
        encode(wrap({key: "x"}))
    assert f"the value cannot be written as JSON: the key {key!r} is not text" == str(caught.value)


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, datetime(2026, 1, 1, tzinfo=UTC), [json], 1j])
def test_encode_of_another_type_is_refused(value):
    """Nothing is pickled or turned into its representation."""
    with pytest.raises(InvalidPayloadError, match=r"^the value cannot be written as JSON: Object of type"):
        encode(value)


def _cycle():
    value = {"list": []}
    value["list"].append(value)
    return value


def _deep(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [_cycle(), _deep(100_000)], ids=["cycle", "deep"])
def test_encode_of_a_cycle_or_too_deep_a_nesting_is_refused(value):
    """Neither ends in a RecursionError."""
    with pytest.raises(InvalidPayloadError, match="cannot be written as JSON"):
        encode(value)


def test_encode_of_an_integer_of_thousands_of_digits_is_refused():
    """Python would not print it."""
    with pytest.raises(InvalidPayloadError, match="cannot be written as JSON"):
        encode(10**10_000)


@pytest.mark.parametrize("data", [b"[1,", b"", b"{'secret': 1}", b'{"secret" 1}', b"secret", b'"secret', b"[1]secret"])
def test_decode_of_what_is_not_json_says_where_and_quotes_nothing(data):
    """Payloads may hold personal data; errors do not."""
    with pytest.raises(InvalidPayloadError, match=r"^not JSON: .* at character \d+$") as caught:
        decode(data)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ is True


@pytest.mark.parametrize(("data", "place"), [(b'{"a": "\xff"}', 7), (b"\xff\xfe{\x00}\x00", 0), (b"[\x80", 1)])
def test_decode_of_what_is_not_utf8_says_where(data, place):
    """The first bad byte is named by its place."""
    with pytest.raises(InvalidPayloadError) as caught:
        decode(data)
    assert f"not UTF-8: invalid start byte at byte {place}" == str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_decode_of_another_encoding_is_refused(encoding):
    """JSON between systems is UTF-8 (RFC 8259, section 8.1), so that one body has one meaning."""
    with pytest.raises(InvalidPayloadError, match=r"^not JSON: "):
        decode("[1]".encode(encoding))


def test_decode_ignores_a_byte_order_mark():
    """Some producers write one in front of UTF-8."""
    assert decode(b'\xef\xbb\xbf{"a":1}') == {"a": 1}


def test_decode_of_surrogates_in_bytes_keeps_them():
    """What a text body held before it was encoded is still there."""
    assert decode('"\ud800"'.encode("utf-8", "surrogatepass")) == "\ud800"


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_decode_of_nan_and_infinities_is_refused(name):
    """They are not JSON, though Python's reader takes them."""
    with pytest.raises(InvalidPayloadError) as caught:
        decode(f'{{"a": [{name}]}}')
    assert f"not JSON that can be read: {name} is not JSON" == str(caught.value)


def test_decode_of_too_deep_a_nesting_is_refused():
    """A hostile body does not end in a RecursionError."""
    with pytest.raises(InvalidPayloadError, match=r"^not JSON that can be read: nested too deeply$"):
        decode(b"[" * 200_000 + b"]" * 200_000)


def test_decode_of_an_integer_of_thousands_of_digits_is_refused():
    """A number that takes quadratic time to read is bounded."""
    with pytest.raises(InvalidPayloadError, match=r"^not JSON that can be read: Exceeds the limit"):
        decode(b"1" * 10_000)


@given(st.binary(max_size=60) | st.text('[]{}",:0123456789.eE+-truefalsn\\u \n', max_size=60).map(str.encode))
def test_decode_of_any_bytes_gives_a_value_or_one_error(data):
    """Nothing but InvalidPayloadError comes out, and what was read has one meaning."""
    try:
        value = decode(data)
    except InvalidPayloadError:
        return
    assert value == decode(data)
