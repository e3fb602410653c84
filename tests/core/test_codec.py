"""JSON as retrykit writes and reads it: strict, bounded, and never quoting what it read."""

from __future__ import annotations

import enum
import json
import math
import re
from collections import OrderedDict, UserDict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.codec import decode, encode, pack, unpack
from retrykit.decision import Action
from retrykit.errors import InvalidPayloadError
from retrykit.testing.strategies import any_text, json_values


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


def test_surrogates_that_form_a_pair_come_back_as_one_character():
    """JSON writes a character beyond U+FFFF as two escapes, so it cannot tell the two apart; lone ones stay."""
    assert decode(encode("\ud83d\ude00 \ude00\ud83d")) == "\U0001f600 \ude00\ud83d"


def test_encoded_form_is_compact_and_keeps_the_order():
    """No spaces, keys as given."""
    assert encode({"b": [1, 2.5, None, True], "a": {"ü": "x"}}) == b'{"b":[1,2.5,null,true],"a":{"\\u00fc":"x"}}'


@pytest.mark.parametrize("kind", [MappingProxyType, UserDict, OrderedDict])
def test_encode_takes_any_mapping_at_any_level(kind):
    """A read-only view of a payload is a payload."""
    assert encode(kind({"a": [kind({"b": 1})]})) == b'{"a":[{"b":1}]}'


class Pair(NamedTuple):
    a: int
    b: int


def test_encode_takes_tuples_and_enums_of_text_and_numbers():
    """They are written as lists, text and numbers, as values and as keys, beside other mappings and without them."""
    size = enum.IntEnum("Size", "SMALL").SMALL
    pair = Pair(1, size)
    plain = {"action": Action.RETRY, Action.DISCARD: (1, size)}
    assert encode(plain) == b'{"action":"retry","discard":[1,1]}'
    assert encode({"pair": pair, "plain": plain}) == b'{"pair":[1,1],"plain":{"action":"retry","discard":[1,1]}}'


ENCODE = "the value cannot be written as JSON: "
DECODE = "not JSON that can be read: "
PACK = "the value cannot be packed: "
UNPACK = "not a packed value: "
MANY_DIGITS = 10**10_000


def complaint_about(call, *args):
    """What the one allowed error says; nothing of it hangs on what went wrong inside."""
    with pytest.raises(InvalidPayloadError) as caught:
        call(*args)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ is True
    return str(caught.value)


def _cycle():
    value = {"list": []}
    value["list"].append(value)
    return value


def _deep(depth, inner=1):
    for _ in range(depth):
        inner = [inner]
    return inner


REFUSED = [
    (math.nan, "is NaN; JSON has finite numbers only"),
    (math.inf, "is an infinity; JSON has finite numbers only"),
    (-math.inf, "is an infinity; JSON has finite numbers only"),
    pytest.param(MANY_DIGITS, "is an integer of more digits than Python converts", id="many digits"),
    pytest.param(-MANY_DIGITS, "is an integer of more digits than Python converts", id="minus many digits"),
    (object(), "is of type object; allowed are text, numbers, booleans, None, lists, tuples and mappings"),
    ({1, 2}, "is of type set; allowed are text, numbers, booleans, None, lists, tuples and mappings"),
    (json, "is of type module; allowed are text, numbers, booleans, None, lists, tuples and mappings"),
    (1j, "is of type complex; allowed are text, numbers, booleans, None, lists, tuples and mappings"),
    (range(3), "is of type range; allowed are text, numbers, booleans, None, lists, tuples and mappings"),
    ({1: "x"}, "has a key of type int; allowed is text"),
    ({None: "x"}, "has a key of type NoneType; allowed is text"),
    ({True: "x"}, "has a key of type bool; allowed is text"),
    ({b"a": "x"}, "has a key of type bytes; allowed is text"),
    ({(1, 2): "x", "a": 1}, "has a key of type tuple; allowed is text"),
    (_cycle()["list"], "[0].list is a value that holds itself"),
]
MORE = "datetimes, dates, timedeltas, bytes, Decimals, UUIDs and enums"
ONLY_PACKED = [
    (b"bytes", "bytes"),
    (datetime(2026, 1, 1, tzinfo=UTC), "datetime"),
    (date(2026, 1, 1), "date"),
    (timedelta(1), "timedelta"),
    (Decimal("1.5"), "Decimal"),
    (UUID(int=1), "UUID"),
]
PLACES = [
    ("$", lambda value: value),
    ("$[1]", lambda value: [0, value]),
    ("$.a[0].b", lambda value: {"x": 1, "a": ({"b": value},)}),
    ("$.variables.items[3]", lambda value: {"variables": UserDict({"items": [1, 2, 3, value]})}),
    ('$["odd key"]["\\u00fc"][""]', lambda value: {"odd key": {"ü": {"": value}}}),
    (f'$["{"k" * 40}..."]', lambda value: {"k" * 1000: value}),
]


@pytest.mark.parametrize(("path", "wrap"), PLACES)
@pytest.mark.parametrize(("value", "complaint"), REFUSED)
def test_encode_and_pack_refuse_a_value_by_its_path(value, complaint, path, wrap):
    """What is wrong and where; never the value."""
    gap = "" if complaint.startswith("[") else " "
    assert f"{ENCODE}{path}{gap}{complaint}" == complaint_about(encode, wrap(value))
    packed = complaint.replace("tuples and mappings", f"tuples and mappings, {MORE}")
    assert f"{PACK}{path}{gap}{packed}" == complaint_about(pack, wrap(value))


@pytest.mark.parametrize(("value", "kind"), ONLY_PACKED)
def test_encode_refuses_what_only_pack_takes(value, kind):
    """Plain JSON stays plain: nothing is turned into its representation."""
    assert complaint_about(encode, {"a": value}).startswith(f"{ENCODE}$.a is of type {kind}; allowed are ")


def test_first_offence_is_named():
    """In the order in which it would be written."""
    assert complaint_about(encode, {"a": [1, {2: math.nan}], "b": math.nan}).startswith(f"{ENCODE}$.a[1] has a key")
    assert complaint_about(decode, '{"a": [1e999, NaN], "b": NaN}').startswith(f"{DECODE}$.a[0] is an infinity")


def test_path_that_is_long_is_cut_in_the_middle():
    """Whatever the keys are, a message stays short."""
    value = math.nan
    for _ in range(90):
        value = {"k" * 1000: value}
    message = complaint_about(encode, value)
    assert len(message) < 300
    assert re.fullmatch(rf'{ENCODE}\$\["k+\.\.\."\].*\.\.\..*\["k+\.\.\."\] is NaN; .*', message)


def test_type_with_a_long_name_is_cut():
    """The name of a type is nothing to fill a log with."""
    assert len(complaint_about(encode, [type("T" * 10_000, (), {})()])) < 300


@pytest.mark.parametrize("levels", [99, 100])
def test_hundred_levels_are_written_and_read(levels):
    """The limit is the same in both directions, for lists and for objects."""
    for value in (_deep(levels), _deep(levels // 2, {"a": _deep(levels - levels // 2 - 1)})):
        assert value == decode(encode(value)) == unpack(pack(value))


@pytest.mark.parametrize("levels", [101, 1_000, 100_000])
def test_more_levels_are_refused_by_path(levels):
    """At any depth, and without the help of Python's own limit."""
    for call, failed, value in (
        (encode, ENCODE, _deep(levels)),
        (encode, ENCODE, UserDict({"a": _deep(levels - 1)})),
        (pack, PACK, _deep(levels)),
        (decode, DECODE, "[" * levels + "1" + "]" * levels),
        (decode, DECODE, '{"a":' * levels + "1" + "}" * levels),
        (unpack, DECODE, b"[" * levels + b"]" * levels),
    ):
        message = complaint_about(call, value)
        assert message.startswith(f"{failed}$")
        assert message.endswith(" is nested deeper than 100 levels")
        assert len(message) < 300


def test_wide_value_is_not_deep():
    """Brackets side by side, and brackets within text, are no levels."""
    value = {"a": [[{}]] * 500, "b": "[" * 500 + '"\\' + "{" * 500, "\\": [']\\\\"['] * 200}
    assert value == decode(encode(value)) == unpack(pack(value))


def test_path_of_what_is_too_deep_leads_through_the_last_members():
    """It is found though what follows is not read."""
    inner = "[" * 98 + "[]" + "]" * 98
    text = '{"x": "[{\\"", "n": 1, "a": [[], {"b": 12, "c": ' + inner + "}], broken"
    message = complaint_about(decode, text)
    assert message.startswith(f"{DECODE}$.a[1].c[0][0]")
    assert message.endswith("[0] is nested deeper than 100 levels")


@pytest.mark.parametrize(
    ("text", "place"), [("]" + "[" * 300, 0), ("[1 " + "[" * 300, 3), ('[\\"' + "[" * 300, 1), ('{"a" ' + "[" * 300, 5)]
)
def test_deep_text_that_is_broken_before_is_not_json(text, place):
    """The first thing that is wrong counts."""
    assert re.fullmatch(rf"not JSON: .* at character {place}", complaint_about(decode, text))


@pytest.mark.parametrize("text", ['"' + "[" * 300, '"\\' + "{" * 300, "[" * 300 + '"' + "\\" * 301])
def test_text_that_never_ends_is_refused(text):
    """Brackets in it count neither as levels nor twice."""
    assert complaint_about(decode, text).startswith(("not JSON: Unterminated", "not JSON: Invalid", DECODE))


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


@pytest.mark.parametrize(
    ("number", "complaint"),
    [
        ("NaN", "is NaN; JSON has finite numbers only"),
        ("Infinity", "is an infinity; JSON has finite numbers only"),
        ("-Infinity", "is an infinity; JSON has finite numbers only"),
        ("1e400", "is an infinity; JSON has finite numbers only"),
        ("-1E+999", "is an infinity; JSON has finite numbers only"),
        ("9" * 400 + ".5", "is an infinity; JSON has finite numbers only"),
        ("1" * 10_000, "is an integer of more digits than Python converts"),
    ],
)
def test_decode_of_a_number_that_does_not_fit_is_refused_by_its_path(number, complaint):
    """Python's reader takes some of them; others would take quadratic time."""
    assert f"{DECODE}$ {complaint}" == complaint_about(decode, number)
    text = f'{{"a": [1.5, 2, {{"b": {number}}}]}}'
    assert f"{DECODE}$.a[2].b {complaint}" == complaint_about(decode, text) == complaint_about(unpack, text.encode())


@pytest.mark.parametrize("number", ["1e400", "NaN", "1" * 10_000])
def test_decode_of_a_number_that_does_not_fit_in_what_is_not_json_is_not_json(number):
    """It cannot have a path."""
    assert re.fullmatch(r"not JSON: .* at character \d+", complaint_about(decode, f"[{number},"))


any_values = st.recursive(
    st.none() | st.integers() | st.floats() | any_text | st.binary(max_size=3) | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(any_text | st.integers() | st.none(), inner, max_size=3)
        | st.dictionaries(any_text, inner, max_size=3).map(UserDict)
    ),
    max_leaves=8,
)


@given(any_values)
def test_encode_of_any_value_gives_json_or_one_error(value):
    """Nothing but InvalidPayloadError comes out, and what was written is read."""
    try:
        data = encode(value)
    except InvalidPayloadError as error:
        complaint = str(error)
    else:
        complaint = f"{ENCODE}$"
        assert data == encode(decode(data)) == json.dumps(json.loads(data), separators=(",", ":")).encode()
    assert complaint.startswith(f"{ENCODE}$")
    assert len(complaint) < 400


@given(st.binary(max_size=60) | st.text('[]{}",:0123456789.eE+-truefalsn\\u \n', max_size=60).map(str.encode))
def test_decode_of_any_bytes_gives_a_value_or_one_error(data):
    """Nothing but InvalidPayloadError comes out, and what was read has one meaning."""
    try:
        value = decode(data)
    except InvalidPayloadError:
        return
    assert value == decode(data)
