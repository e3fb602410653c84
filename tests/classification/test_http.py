"""The Retry-After field of HTTP."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.classification.http import retry_after

MIDNIGHT = datetime(1999, 12, 31, 23, 58, tzinfo=UTC)
RFC_EXAMPLE = datetime(1994, 11, 6, 8, 48, 37, tzinfo=UTC)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def instants(first: int, last: int) -> st.SearchStrategy[datetime]:
    """Whole seconds of the years from `first` to `last`."""
    low, high = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (first, last))
    return st.integers(low, high).map(lambda second: datetime.fromtimestamp(second, UTC))


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (120.0, "120"),
        (0.0, "0"),
        (7.0, " 7 "),
        (119.0, "Fri, 31 Dec 1999 23:59:59 GMT"),
        (119.0, "Friday, 31-Dec-99 23:59:59 GMT"),
        (119.0, "Fri Dec 31 23:59:59 1999"),
        (120.0, "Fri, 31 Dec 1999 23:59:60 GMT"),
        (0.0, "Fri, 31 Dec 1999 23:57:00 GMT"),
        (None, "-5"),
        (None, "2.5"),
        (None, "soon"),
        (None, ""),
        (None, "1e3"),
        (None, "+10"),
        (None, "0x10"),
        (None, "\u0661\u0662"),
        (None, "Fri, 31 Feb 1999 23:59:59 GMT"),
        (None, "Fri, 31 Foo 1999 23:59:59 GMT"),
        (None, "Fri, 31 Dec 1999 24:00:00 GMT"),
        (None, "Fri, 31 Dec 1999 23:59:59 CET"),
        (None, "120, 60"),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_nothing_else(expected: float | None, value: str) -> None:
    """RFC 9110, section 10.2.3: what is neither is ignored, and a date in the past is no wait."""
    assert expected == retry_after(value, MIDNIGHT)


@pytest.mark.parametrize(
    "value", ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
)
def test_retry_after_reads_the_rfcs_own_instant_in_all_three_forms(value: str) -> None:
    """The example of RFC 9110, section 5.6.7, one minute ahead."""
    assert retry_after(value, RFC_EXAMPLE) == 60.0


@pytest.mark.parametrize(
    ("expected", "value"), [(60.0, "Thursday, 01-Jan-26 00:01:00 GMT"), (0.0, "Sunday, 06-Nov-94 08:49:37 GMT")]
)
def test_retry_after_two_digit_year_is_within_fifty_years(expected: float, value: str) -> None:
    """A year more than fifty years ahead belongs to the century before."""
    assert expected == retry_after(value, NOW)


@pytest.mark.parametrize(("expected", "value"), [(30.0, 30), (0.0, -30)])
def test_retry_after_in_seconds_since_1970_is_an_instant(expected: float, value: int) -> None:
    """Some servers send the instant itself; nobody asks for a wait of decades."""
    assert expected == retry_after(str(int(NOW.timestamp()) + value), NOW)


@pytest.mark.parametrize("digits", ["9999999999999999", "9" * 5000])
def test_retry_after_huge_number_is_bounded(digits: str) -> None:
    """No number of digits leads to an error or to an infinity."""
    assert 0 < (retry_after(digits, NOW) or 0) <= 1e12


@pytest.fixture
def jerusalem() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Jerusalem"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.usefixtures("jerusalem")
def test_retry_after_date_is_utc_whatever_the_local_zone() -> None:
    """The form without a zone is UTC as well, not local time."""
    assert retry_after("Mon Jun  3 11:30:12 2019", datetime(2019, 6, 3, 11, 30, tzinfo=UTC)) == 12.0


@given(st.text(max_size=60), instants(1971, 9000))
def test_retry_after_of_any_text_is_a_wait_or_none(value: str, now: datetime) -> None:
    """No text leads to an error or to a negative wait."""
    answer = retry_after(value, now)
    assert answer is None or answer >= 0


@given(instants(1990, 2090), st.integers(0, 10**6))
def test_retry_after_of_a_date_ahead_is_the_time_until_then(now: datetime, seconds: int) -> None:
    """Any date in the preferred form is read to the second."""
    value = (now + timedelta(seconds=seconds)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert float(seconds) == retry_after(value, now)
