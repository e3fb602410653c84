"""An HTTP answer, and what its fields say about waiting."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.classification.http import MAX_BODY, MAX_FIELDS, HttpReply, retry_after, wait_of
from retrykit.errors import ConfigurationError

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


EPOCH = int(NOW.timestamp())


@pytest.mark.parametrize(
    ("expected", "status", "headers"),
    [
        (30.0, 429, {"Retry-After": "30"}),
        (30.0, 200, {"Retry-After": "30"}),
        (2.5, 503, {"Retry-After": "2.5"}),
        (60.0, 503, {"Retry-After": "30, 60"}),
        (60.0, 503, {"Retry-After": "Thu, 01 Jan 2026 00:01:00 GMT"}),
        (60.0, 503, {"Retry-After": "2026-01-01T00:01:00Z"}),
        (60.0, 503, {"Retry-After": "2026-01-01T02:01:00+02:00"}),
        (None, 503, {"Retry-After": "2026-13-01T02:01:00Z"}),
        (60.0, 503, {"Retry-After": "Thu, 01 Jan 2026 12:01:00 GMT", "Date": "Thu, 01 Jan 2026 12:00:00 GMT"}),
        (60.0, 503, {"Retry-After": "Thu, 01 Jan 2026 00:01:00 GMT", "Date": "yesterday"}),
        (0.0, 503, {"Retry-After": "-5"}),
        (366 * 86_400.0, 503, {"Retry-After": "9" * 15}),
        (None, 503, {"Retry-After": "soon"}),
        (1.5, 429, {"retry-after-ms": "1500", "Retry-After": "2"}),
        (2.0, 429, {"retry-after-ms": "soon", "Retry-After": "2"}),
        (5.0, 429, {"RateLimit-Reset": "5"}),
        (30.0, 429, {"RateLimit": '"default";r=0;t=30'}),
        (30.0, 429, {"RateLimit": "limit=10, remaining=0, reset=30"}),
        (40.0, 429, {"RateLimit": '"a";r=5;t=9, "b";r=0;t=40'}),
        (None, 429, {"RateLimit": '"default";r=0'}),
        (20.0, 429, {"X-RateLimit-Reset": str(EPOCH + 20)}),
        (20.0, 429, {"X-RateLimit-Reset": str((EPOCH + 20) * 1_000)}),
        (0.0, 429, {"X-RateLimit-Reset": str(EPOCH - 20)}),
        (20.0, 429, {"X-RateLimit-Reset": "2026-01-01T00:00:20Z"}),
        (0.25, 429, {"X-RateLimit-Reset-After": "0.25"}),
        (360.0, 429, {"X-RateLimit-Reset-Requests": "6m0s", "X-RateLimit-Reset-Tokens": "20ms"}),
        (None, 429, {"X-RateLimit-Reset": "nan"}),
        (None, 429, {"X-RateLimit-Reset": "inf"}),
        (9.0, 403, {"X-RateLimit-Reset": "9", "X-RateLimit-Remaining": "0"}),
        (None, 403, {"X-RateLimit-Reset": "9", "X-RateLimit-Remaining": "10"}),
        (None, 400, {"RateLimit-Reset": "9"}),
        (None, 429, {}),
    ],
)
def test_wait_that_fields_ask_for_is_read(expected: float | None, status: int, headers: dict[str, str]) -> None:
    """Fields of rate limits stand in good answers too, and count only where the answer refuses."""
    assert expected == wait_of(HttpReply(status, headers), NOW)


def test_wait_counts_fields_of_rate_limits_where_the_caller_knows_of_a_throttle() -> None:
    """A throttle may come with any status."""
    assert wait_of(HttpReply(400, {"RateLimit-Reset": "9"}), NOW, throttled=True) == 9.0


@given(
    st.integers(100, 599),
    st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "date", "ratelimit", "ratelimit-reset", "x-ratelimit-reset"]),
        st.text(max_size=30) | st.from_regex(r"-?[0-9]{1,30}(\\.[0-9]{1,30})?", fullmatch=True),
    ),
    instants(1971, 9000),
)
def test_wait_of_any_fields_is_bounded(status: int, headers: dict[str, str], now: datetime) -> None:
    """No field leads to an error, to a negative wait or to one of more than a year and a day."""
    wait = wait_of(HttpReply(status, headers), now)
    assert wait is None or 0 <= wait <= 366 * 86_400


@pytest.mark.parametrize(
    ("text", "document", "body"),
    [
        ("", None, None),
        ("", None, b""),
        ('{"a": 1}', {"a": 1}, b'{"a": 1}'),
        ('{"a": 1}', {"a": 1}, bytearray(b'{"a": 1}')),
        ('{"a": 1}', {"a": 1}, memoryview(b'{"a": 1}')),
        ('{"a": 1}', {"a": 1}, '{"a": 1}'.encode("utf-16")),
        ('{"a": 1}', {"a": 1}, b'\xef\xbb\xbf{"a": 1}'),
        ("caf\u00e9", None, b"caf\xe9"),
        ("{", None, "{"),
        ('"text"', None, '"text"'),
        ("", {"a": 1}, {"a": 1}),
        ("", [1], [1]),
    ],
)
def test_body_is_read_in_any_form(text: str, document: object, body: bytes) -> None:
    """As text, and as JSON where it is an object or an array."""
    reply = HttpReply(400, body=body)
    assert (text, document) == (reply.text, reply.document)


def test_fields_are_found_in_any_letter_case() -> None:
    """Names and values may be bytes, values may come several at a time."""
    pairs = [("A", "1"), (b"a", b"2"), ("B", ["3", b"4"]), ("C", 5)]
    assert dict(HttpReply(400, pairs).headers) == {"a": "1, 2", "b": "3, 4", "c": "5"}  # type: ignore[arg-type]
    assert dict(HttpReply(400, {b"A": b"1"}).headers) == {"a": "1"}


def test_size_of_an_answer_is_bounded() -> None:
    """However much a server sends."""
    reply = HttpReply(400, [(f"x-{number}", "1" * 10_000) for number in range(1_000)], "x" * (MAX_BODY + 1))
    assert (MAX_BODY, MAX_FIELDS) == (len(reply.text), len(reply.headers))
    assert max(map(len, reply.headers.values())) < 10_000


@pytest.mark.parametrize(
    ("expected", "status"), [(404, 404), (404, "404"), (None, None), (None, 0), (None, 999), (None, "9" * 50)]
)
def test_status_outside_of_http_is_not_known(expected: int | None, status: int | str | None) -> None:
    """Clients give 0 or -1 where there was no answer."""
    assert expected == HttpReply(status).status


@pytest.mark.parametrize("arguments", [(4.5,), (True,), ("four",), (400, (), 5)])
def test_argument_that_is_no_answer_is_refused(arguments: tuple[object, ...]) -> None:
    """What cannot have come from a server is a mistake of the caller's."""
    with pytest.raises(ConfigurationError, match="allowed are"):
        HttpReply(*arguments)  # type: ignore[arg-type]


def test_representation_shows_no_secrets() -> None:
    """Fields and bodies stay out of logs."""
    assert repr(HttpReply(401, {"authorization": "secret"}, "secret")) == "<HttpReply 401>"
