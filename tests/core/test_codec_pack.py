"""Values that retrykit keeps for an application: they come back as what they were."""

from __future__ import annotations

import enum
import json
import zoneinfo
from collections import UserDict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.codec import MAX_DEPTH, decode, encode, pack, unpack
from retrykit.decision import Action
from retrykit.errors import InvalidPayloadError
from retrykit.testing.strategies import any_text, json_values
from tests.fresh import run_fresh

offsets = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
tag_like_keys = st.sampled_from(["$", "$$", "$date", "$datetime", "$moon"]) | any_text
packable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text
    | st.datetimes(timezones=st.just(UTC) | offsets).map(lambda moment: moment.replace(fold=0))
    | st.dates()
    | st.timedeltas()
    | st.binary(max_size=20)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.uuids(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(tag_like_keys, inner, max_size=2),
    max_leaves=10,
)


def same(one, other):
    """Equal in value and type, also inside; a Decimal to the last zero, a float to its sign."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    offset = one.utcoffset() == other.utcoffset() if isinstance(one, datetime) else True
    return one == other and repr(one) == repr(other) and offset


@given(packable)
def test_value_survives_a_round_trip(value):
    """From bytes and from text, equal in type, whatever its keys look like."""
    data = pack(value)
    assert same(value, unpack(data))
    assert same(value, unpack(data.decode("ascii")))


@given(packable)
def test_packed_form_is_plain_json(value):
    """Any reader of JSON can look into it, and so can retrykit's own."""
    data = pack(value)
    assert json.loads(data) == decode(data)
    assert data == encode(decode(data))


@given(packable)
def test_value_without_tags_is_packed_as_itself(value):
    """What is plain JSON and has no key with a dollar sign looks the same packed and encoded."""
    try:
        plain = encode(value)
    except InvalidPayloadError:
        return
    if b"$" not in plain:
        assert plain == pack(value)


@pytest.mark.parametrize(
    ("value", "packed"),
    [
        (datetime(2026, 1, 31, 8, 0, 0, 1, UTC), {"$datetime": "2026-01-31T08:00:00.000001+00:00"}),
        (date(2026, 1, 31), {"$date": "2026-01-31"}),
        (timedelta(days=-1, microseconds=1), {"$timedelta": -86_399_999_999}),
        (b"\xff\x00", {"$bytes": "/wA="}),
        (Decimal("1.50"), {"$decimal": "1.50"}),
        (Decimal("-1E+1000"), {"$decimal": "-1E+1000"}),
        (UUID(int=1), {"$uuid": "00000000-0000-0000-0000-000000000001"}),
        ({"$date": 1}, {"$": {"$date": 1}}),
        ({"$": {"$": 1}}, {"$": {"$": {"$": {"$": 1}}}}),
        ({"$date": 1, "b": date(2026, 1, 31)}, {"$date": 1, "b": {"$date": "2026-01-31"}}),
        ({"a": '{"$date"'}, {"a": '{"$date"'}),
    ],
)
def test_packed_form_is_this(value, packed):
    """It is stored, so it does not change."""
    assert packed == decode(pack(value))
    assert value == unpack(pack(value))


@pytest.mark.parametrize("fold", [0, 1])
def test_datetime_of_a_named_zone_comes_back_as_the_same_instant(fold):
    """With its offset, without its name, also in the hour that there is twice."""
    moment = datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    again = unpack(pack(moment))
    assert (moment.timestamp(), moment.utcoffset()) == (again.timestamp(), again.utcoffset())


def test_tag_written_with_escapes_is_a_tag():
    """To JSON the two are the same."""
    assert date(2026, 1, 31) == unpack('{"\\u0024date": "2026-01-31"}') == unpack(b'{"\\u0024date": "2026-01-31"}')


class Colour(enum.Enum):
    RED = (1, date(2026, 1, 31))
    BLUE = Action.RETRY


def test_tuples_come_back_as_lists_and_enums_as_their_values():
    """JSON has lists, and an enum belongs to the application."""
    value = {"t": (1, (2,)), "e": [Colour.RED, Colour.BLUE, Action.RETRY], "m": UserDict({"a": UserDict({"$": 1})})}
    expected = {"t": [1, [2]], "e": [[1, date(2026, 1, 31)], "retry", "retry"], "m": {"a": {"$": 1}}}
    assert same(expected, unpack(pack(value)))


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (datetime(2026, 1, 31), "is a naive datetime; give it a timezone, for example datetime.now(timezone.utc)"),  # noqa: DTZ001
        (
            datetime(2026, 1, 31, tzinfo=timezone(timedelta(microseconds=-1))),
            "is a datetime whose offset has a fraction of a second; whole seconds are allowed",
        ),
        (Decimal("NaN"), "is a Decimal that is not finite; finite ones are allowed"),
        (Decimal("-Infinity"), "is a Decimal that is not finite; finite ones are allowed"),
        (bytearray(b"x"), "is of type bytearray; allowed are "),
        (datetime(2026, 1, 31, tzinfo=UTC).timetz(), "is of type time; allowed are "),
    ],
)
def test_pack_refuses_by_path(value, complaint):
    """Also within an object that had to be escaped."""
    for path, wrapped in (("$", value), ('$.a["$date"][1]', {"a": {"$date": [1, value]}})):
        with pytest.raises(InvalidPayloadError) as caught:
            pack(wrapped)
        assert str(caught.value).startswith(f"the value cannot be packed: {path} {complaint}")


@pytest.mark.parametrize(
    ("packed", "complaint"),
    [
        ({"$moon": 1}, 'has the tag "$moon"; known are $ and $datetime, $date, $timedelta, $bytes, $decimal, $uuid'),
        ({"$" + "m" * 99: 1}, f'has the tag "${"m" * 39}"; known are $ and'),
        ({"$": 5}, "has the tag $, which holds an object, and holds something else"),
        (
            {"$datetime": "soon"},
            "has the tag $datetime, which holds ISO 8601 text with a timezone, and holds something",
        ),
        ({"$datetime": "2026-01-31T08:00:00"}, "has the tag $datetime, which holds ISO 8601 text with a timezone"),
        ({"$datetime": 5}, "has the tag $datetime, which holds ISO 8601 text with a timezone"),
        ({"$date": "2026-02-30"}, "has the tag $date, which holds an ISO 8601 date"),
        ({"$timedelta": "1"}, "has the tag $timedelta, which holds whole microseconds"),
        ({"$timedelta": True}, "has the tag $timedelta, which holds whole microseconds"),
        ({"$timedelta": 10**30}, "has the tag $timedelta, which holds whole microseconds"),
        ({"$bytes": "no base64!"}, "has the tag $bytes, which holds base64"),
        ({"$bytes": "ü"}, "has the tag $bytes, which holds base64"),
        ({"$decimal": "many"}, "has the tag $decimal, which holds a finite number as text"),
        ({"$decimal": "1e9999999999999999999"}, "has the tag $decimal, which holds a finite number as text"),
        ({"$decimal": "sNaN"}, "has the tag $decimal, which holds a finite number as text"),
        ({"$uuid": "no-uuid"}, "has the tag $uuid, which holds a UUID as text"),
    ],
)
def test_unpack_refuses_a_wrong_tag_by_path(packed, complaint):
    """What a newer version wrote, or somebody else, is never taken for ordinary data; its content is not quoted."""
    for path, wrapped in (("$", packed), ('$.a[0]["$x"].b', {"a": [{"$": {"$x": {"b": packed}}}]})):
        with pytest.raises(InvalidPayloadError) as caught:
            unpack(json.dumps(wrapped))
        assert str(caught.value).startswith(f"not a packed value: {path} {complaint}")
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ is True


@given(st.sampled_from(["$", "$datetime", "$date", "$timedelta", "$bytes", "$decimal", "$uuid", "$moon"]), json_values)
def test_unpack_of_any_json_gives_a_value_or_one_error(tag, content):
    """Whatever stands in a tag; and what was read can be packed again."""
    try:
        value = unpack(encode([{tag: content}]))
    except InvalidPayloadError:
        return
    assert same(value, unpack(pack(value)))


@given(
    st.sampled_from(["$datetime", "$date", "$decimal", "$uuid", "$bytes"]),
    st.text("0123456789-+:TZ.eE_= a", max_size=40),
)
def test_unpack_of_any_text_in_a_tag_gives_a_value_or_one_error(tag, text):
    """Text that nearly is a date is not quoted by what refuses it, and leads to no other error."""
    try:
        value = unpack(encode({tag: text}))
    except InvalidPayloadError as error:
        complaint = str(error)
    else:
        complaint = "which holds"
        assert same(value, unpack(pack(value)))
    assert "which holds" in complaint


@pytest.mark.parametrize("inner", [date(2026, 1, 31), {"$x": 1}])
def test_tag_and_escape_count_as_a_level(inner):
    """So what can be packed can be unpacked."""
    for levels, fits in ((MAX_DEPTH - 1, not isinstance(inner, dict)), (MAX_DEPTH - 2, True), (MAX_DEPTH, False)):
        value = inner
        for _ in range(levels):
            value = [value]
        if fits:
            assert same(value, unpack(pack(value)))
            continue
        with pytest.raises(InvalidPayloadError, match=r"\[0\] is nested deeper than 100 levels$"):
            pack(value)


def test_packing_plain_json_loads_neither_decimal_nor_uuid():
    """They cost more to import than the codec itself."""
    program = """
import json, sys
from retrykit import codec
codec.unpack(codec.pack({"a": [1, 2.5, "$", {"b": None}]}))
print(json.dumps(sorted({"decimal", "uuid"} & set(sys.modules))))
"""
    assert run_fresh(program) == []
