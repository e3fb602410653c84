"""Whatever stands in an address or in a form, the answer is a page and never a fault of the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

import pytest

from tests.capabilities import require

require("httpx", "jinja2", "starlette")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrykit.backends import MemoryBackend
from retrykit.dashboard import Dashboard
from retrykit.dashboard.app import _CHANGES, _LOOKS
from retrykit.testing import ManualClock
from tests.dashboard.client import Browser
from tests.dashboard.town import Town

Browse = Callable[..., Browser]

NAMES = (
    "q cursor id fingerprint since order muted span kind name status after everything act why key reason length mute owner note root_cause canary "
    "rate tolerance patience not_sent max_redrives cut_off planned to"
).split()
"""Every parameter that any page reads."""

VALUES = st.one_of(
    st.text(max_size=60),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(
        [
            "spring-0#1", "campaign:spring", "state:quarantined", "since:2h", "since:99999999d", "until:0001-01-01", "text:\"", "class:", "attribute.x:y",
            "1h", "0s", "9e99w", "2026-01-31", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+14:00", "last_seen", "matching", "6h", "14d", "forever",
            "campaign", "unknown", "unexpected", "resume", "pause", "stop", "on", "1", "-1", "0", "\u0661", "\u00b2", "1_000", "1" * 30, "x" * 5_000, "\x00", "\ud800", "%", "@@",
            "after-1-76.00000000", "a@b@c", "@2026-01-31T00:00:00Z@2020-01-31T00:00:00Z", "1.1.0123456789ab", "//evil.example", "<script>", "{{ 7 }}",
        ]
    ),
)  # fmt: skip

FIELDS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6)


def encoded(fields: dict[str, str]) -> str:
    return "&".join(f"{name}={quote_plus(value, errors='surrogatepass')}" for name, value in fields.items())


@pytest.fixture(scope="module")
def house() -> Any:
    """Return a browser on a store in which something is wrong, by a clock that lets nobody search too fast."""
    clock = ManualClock()
    town = Town(MemoryBackend(clock=clock))
    town.grow_up()
    town.die(3)
    browser = Browser(Dashboard(town.backend, clock=clock, run_redrives=False))
    yield browser, clock
    browser.close()


fuzz = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(answer: Any, sent: object) -> None:
    assert answer.status_code in (200, 303, 400, 404, 409), (answer.status_code, sent)
    assert 303 == answer.status_code or "</main>" in answer.text
    assert "<script>" not in answer.text.replace("<script src", "")


@pytest.mark.unmeasured
@pytest.mark.parametrize("path", _LOOKS)
@fuzz
@given(fields=FIELDS)
def test_address_with_any_parameters_is_answered_with_a_page(house: Any, path: str, fields: dict[str, str]) -> None:
    """Every parameter of every page, of any text: found, not found, or said what is wrong with it."""
    browser, clock = house
    clock.advance(10)
    check(browser.get(f"{path}?{encoded(fields)}"), (path, fields))


@pytest.mark.unmeasured
@pytest.mark.parametrize("path", _CHANGES)
@fuzz
@given(fields=FIELDS)
def test_form_with_any_fields_is_answered_with_a_page(house: Any, path: str, fields: dict[str, str]) -> None:
    """Every field of every form, of any text: done, or said what is wrong with it."""
    browser, clock = house
    clock.advance(10)
    body = encoded({**fields, "csrf": browser.csrf()})
    headers = {"origin": browser.address, "content-type": "application/x-www-form-urlencoded"}
    check(browser.send("POST", path, content=body, headers=headers), (path, fields))


@pytest.mark.unmeasured
@fuzz
@given(
    path=st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=40),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "QUERY"]),
)
def test_any_path_by_any_method_is_answered_with_a_page(house: Any, path: str, method: str) -> None:
    """What is no page is said to be none."""
    browser, _ = house
    answer = browser.send(method, "/" + quote_plus(path))
    assert answer.status_code in (200, 400, 403, 404, 405), (method, path, answer.status_code)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"csrf=" + b"x" * 70_000, "application/x-www-form-urlencoded", 413),
        (b"{}", "application/json", 415),
        (b"x", "multipart/form-data; boundary=x", 415),
        (b"", "", 415),
        ("é".encode(), "application/x-www-form-urlencoded", 400),
        (b"&".join(b"a=b" for _ in range(100)), "application/x-www-form-urlencoded", 400),
        (b"csrf=%ff%fe", "application/x-www-form-urlencoded", 403),
    ],
)
def test_form_that_is_none_is_refused(browse: Browse, body: bytes, kind: str, status: int) -> None:
    """A body is bounded, and of the one type that pages send."""
    browser = browse(Dashboard(MemoryBackend()))
    headers = {"origin": browser.address, "content-type": kind}
    assert status == browser.send("POST", "/circuits/pause", content=body, headers=headers).status_code


def test_query_string_of_any_bytes_is_answered_with_a_page(browse: Browse) -> None:
    """An address that is not UTF-8, or has no sense, is answered as any other."""
    browser = browse(Dashboard(MemoryBackend()))
    for query in ("%ff%fe", "q=%ff", "q=%00", "q=%ED%A0%80", "&&&", "=", "q", "q=a&q=b", "%"):
        assert browser.get(f"/letters?{query}").status_code in (200, 400)
