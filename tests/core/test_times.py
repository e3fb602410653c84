"""Durations and instants: what is read, what is refused, and that nothing is lost on the way through a store."""

from __future__ import annotations

import contextlib
import math
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.errors import ConfigurationError
from retrykit.testing.strategies import instants
from retrykit.times import from_iso, from_millis, later, read_instant, seconds, to_iso, to_millis, utc

LAST = datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (0.0, 0),
        (2.0, 2),
        (0.25, 0.25),
        (1e300, 10**300),
        (86400.0, timedelta(days=1)),
        (0.000001, timedelta(microseconds=1)),
        (0.5, "500ms"),
        (30.0, "30s"),
        (900.0, "15m"),
        (5400.0, "1h30m"),
        (259200.0, "3d"),
        (604800.0, "1w"),
        (1.5, "1.5s"),
        (5400.0, " 1H 30 m "),
        (694861.001, "1w1d1h1m1s1ms"),
        (0.0, "0s"),
    ],
)
def test_seconds_of_a_duration_is_a_float(expected, value):
    """Numbers, timedeltas and text mean the same thing."""
    result = seconds(value)
    assert expected == result
    assert type(result) is float


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "5",
        "m",
        "5x",
        "-5s",
        "+5s",
        "1 5m",
        "5m garbage",
        "1e3s",
        "\u0665m",
        "1h;2m",
        "5m\n\n5",
        "1.s",
        ".5s",
        "5 min",
    ],
)
def test_seconds_of_other_text_is_refused_with_the_text(value):
    """Text that is not a duration is named in the error, with examples of what is."""
    with pytest.raises(ConfigurationError) as caught:
        seconds(value, "lease")
    assert f"lease is {value!r}; allowed is text such as '500ms', '30s', '15m', '1h30m', '3d'" == str(caught.value)


@pytest.mark.parametrize("value", [True, False, None, b"5s", [], 5j, date(2026, 1, 1), object()])
def test_seconds_of_another_type_is_refused(value):
    """Booleans are not numbers here, and nothing else is guessed at."""
    with pytest.raises(
        ConfigurationError, match=r"^wait is .*; allowed are seconds, a timedelta, or text such as '15m'$"
    ):
        seconds(value, "wait")


@pytest.mark.parametrize("value", [-1, -0.001, math.nan, math.inf, -math.inf, timedelta(seconds=-1)])
def test_seconds_negative_or_not_finite_is_refused(value):
    """A duration is finite and not negative."""
    with pytest.raises(ConfigurationError) as caught:
        seconds(value)
    assert f"duration is {value!r}; allowed are finite durations >= 0" == str(caught.value)


@pytest.mark.parametrize("digits", [400, 10_000])
def test_seconds_too_large_for_a_float_is_refused(digits):
    """Also where Python itself would refuse to print the number."""
    with pytest.raises(ConfigurationError, match=r"^lease is a number too large for a duration$"):
        seconds(10**digits, "lease")


@pytest.mark.parametrize("value", [0, 0.0, -0.0, "0s", timedelta(0)])
def test_seconds_zero_is_a_value_unless_positive_is_asked_for(value):
    """Zero is not taken for "none"; where it makes no sense it is refused by name."""
    assert seconds(value) == 0.0
    with pytest.raises(ConfigurationError) as caught:
        seconds(value, "lease", positive=True)
    assert f"lease is {value!r}" in str(caught.value).partition(";")[0]


@given(st.floats(0, allow_infinity=False) | st.integers(0, 10**12))
def test_seconds_of_a_number_is_that_number(value):
    """Numbers pass unchanged."""
    assert float(value) == seconds(value)


@given(st.text(max_size=12) | st.text("0123456789.smhdw ", max_size=12))
def test_seconds_of_any_text_is_finite_or_refused(text):
    """No text leads to another error or to a number that is not a duration."""
    with contextlib.suppress(ConfigurationError):
        assert 0 <= seconds(text) < math.inf


def test_utc_of_an_aware_instant_is_in_utc_and_cut_to_the_millisecond():
    """Microseconds are cut, not rounded, and the zone is UTC."""
    instant = datetime(2026, 1, 31, 10, 0, 0, 123999, tzinfo=timezone(timedelta(hours=2)))
    assert datetime(2026, 1, 31, 8, 0, 0, 123000, tzinfo=UTC) == utc(instant)
    assert utc(instant).tzinfo is UTC


def test_utc_of_a_naive_instant_is_refused_with_a_way_out():
    """A naive datetime could mean any zone."""
    with pytest.raises(ConfigurationError) as caught:
        utc(datetime(2026, 1, 31), "due_at")  # noqa: DTZ001 - on purpose
    assert str(caught.value) == (
        "due_at is the naive datetime 2026-01-31T00:00:00; give it a timezone, for example datetime.now(timezone.utc)"
    )


class _NoOffset(tzinfo):
    def utcoffset(self, _):
        return None


def test_utc_of_an_instant_whose_zone_tells_no_offset_is_refused():
    """A tzinfo without an offset is as good as none."""
    with pytest.raises(ConfigurationError, match="naive"):
        utc(datetime(2026, 1, 31, tzinfo=_NoOffset()))


@pytest.mark.parametrize("value", [None, 0, "2026-01-31", date(2026, 1, 31)])
def test_utc_of_something_else_is_refused(value):
    """Only datetimes are instants."""
    with pytest.raises(ConfigurationError) as caught:
        utc(value, "until")
    assert f"until is {value!r}; allowed is a timezone-aware datetime" == str(caught.value)


@pytest.mark.parametrize(("edge", "hours"), [(datetime.max, -12), (datetime.min, 12)])  # noqa: DTZ901 - given a zone below
def test_utc_outside_the_years_of_datetime_is_refused(edge, hours):
    """An instant that UTC has no datetime for is named, not an OverflowError."""
    with pytest.raises(ConfigurationError, match=r"allowed are the years 1 to 9999 in UTC$"):
        utc(edge.replace(tzinfo=timezone(timedelta(hours=hours))))


@given(instants)
def test_instant_survives_milliseconds_and_text(instant):
    """What a store or a file holds is the instant itself."""
    assert instant == from_millis(to_millis(instant))
    assert instant == from_iso(to_iso(instant))
    assert instant == utc(instant)


@given(st.datetimes(timezones=st.timezones()).filter(lambda instant: 2 < instant.year < 9998))
def test_instant_of_any_zone_is_cut_to_one_millisecond(instant):
    """Reading and storing agree on the cut."""
    cut = utc(instant)
    assert timedelta(0) <= instant - cut < timedelta(milliseconds=1)
    assert to_millis(instant) == to_millis(cut)
    assert to_iso(instant) == to_iso(cut)


def test_iso_text_has_milliseconds_and_a_z():
    """The form is that of RFC 3339."""
    assert to_iso(datetime(2026, 1, 31, 8, tzinfo=UTC)) == "2026-01-31T08:00:00.000Z"


@pytest.mark.parametrize(
    "text",
    ["2026-01-31T08:00:00Z", "2026-01-31T09:00:00+01:00", "2026-01-31 08:00:00.000999+00:00", "20260131T080000Z"],
)
def test_from_iso_reads_the_usual_forms(text):
    """Zones, fractions and the basic form are read."""
    assert datetime(2026, 1, 31, 8, tzinfo=UTC) == from_iso(text)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-31T08:00:00", "2026-01-31"])
def test_from_iso_of_other_text_is_refused_by_name(text):
    """No instant, or one without a timezone."""
    with pytest.raises(ConfigurationError, match=r"^failed_at is "):
        from_iso(text, "failed_at")


@given(instants, st.integers(0, 10**12))
def test_later_by_whole_milliseconds_is_exact(instant, millis):
    """A delay that is a whole number of milliseconds does not gain one through float arithmetic."""
    assert to_millis(instant) + millis == to_millis(later(instant, millis / 1000))


@given(instants, st.floats(0, 1e7))
def test_later_rounds_up_so_that_no_wait_is_cut_short(instant, delay):
    """The result is less than a millisecond after the exact one, and never noticeably before it."""
    waited = (later(instant, delay) - instant) / timedelta(seconds=1)
    assert delay - 1e-6 <= waited < delay + 0.001 + 1e-6


@pytest.mark.parametrize("delay", [1e12, 1e300, math.inf])
def test_later_beyond_the_calendar_is_the_last_instant(delay):
    """An absurd delay is clamped; the job does not disappear."""
    assert LAST == later(datetime(2026, 1, 1, tzinfo=UTC), delay)
    assert LAST == from_millis(to_millis(LAST))


def test_later_by_zero_is_the_instant_itself():
    """Zero is a delay."""
    assert LAST == later(LAST, 0)
    assert datetime(2026, 1, 1, tzinfo=UTC) == later(datetime(2026, 1, 1, tzinfo=UTC), 0.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", datetime(2026, 1, 31, 6, tzinfo=UTC)),
        ("1d12h", datetime(2026, 1, 29, 20, tzinfo=UTC)),
        ("2026-01-30", datetime(2026, 1, 30, tzinfo=UTC)),
        ("2026-01-30T08:00:00Z", datetime(2026, 1, 30, 8, tzinfo=UTC)),
        ("2026-01-30T08:00:00.0009+01:00", datetime(2026, 1, 30, 7, tzinfo=UTC)),
    ],
)
def test_instant_is_read_as_people_write_it(text, expected):
    """How long ago, a date, or a whole instant."""
    assert expected == read_instant(text, datetime(2026, 1, 31, 8, tzinfo=UTC))


@pytest.mark.parametrize("text", ["", "soon", "2026-02-30", "2026-01-30T08:00:00", "999999999999w", "8", "h"])
def test_instant_that_is_none_is_refused_by_name(text):
    """With what is allowed."""
    with pytest.raises(
        ConfigurationError, match=r"^since is '.*'; allowed is how long ago, such as '2h', a date, or an"
    ):
        read_instant(text, datetime(2026, 1, 31, 8, tzinfo=UTC), "since")
