"""Who is let in, who may change something, and what every answer carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tests.capabilities import require

require("httpx", "jinja2", "starlette")

from starlette.applications import Starlette
from starlette.routing import Mount

from retrykit.backends import MemoryBackend
from retrykit.dashboard import Dashboard, Operator, Role
from retrykit.dashboard.access import Limit
from retrykit.errors import ConfigurationError
from retrykit.testing import ManualClock
from tests.dashboard.client import Browser, text_of
from tests.dashboard.town import Town
from tests.fresh import run_fresh

Browse = Callable[..., Browser]
ADA, BEA = "token-of-ada-the-operator", "token-of-bea-the-viewer"
TOKENS = {ADA: Operator("ada", Role.OPERATOR), BEA: Operator("bea", Role.VIEWER)}
PAUSE = {"kind": "campaign", "name": "spring", "reason": "wrong prices"}


@pytest.mark.parametrize("host", ["localhost:8025", "127.0.0.1", "127.1.2.3:1", "[::1]:8025"])
def test_request_of_this_machine_under_its_name_is_let_in(browse: Browse, host: str) -> None:
    """Without anybody to ask, this machine itself is let in."""
    assert 200 == browse(Dashboard(MemoryBackend())).get("/", host=host).status_code


@pytest.mark.parametrize(
    ("client", "headers", "why"),
    [
        ("192.0.2.7", {}, "another machine"),
        ("somewhere", {}, "another machine"),
        ("127.0.0.1", {"host": "evil.example:8025"}, "not one of this machine"),
        ("127.0.0.1", {"host": "["}, "not one of this machine"),
        ("127.0.0.1", {"host": ""}, "not one of this machine"),
        ("127.0.0.1", {"x-forwarded-for": "192.0.2.7"}, "through a proxy"),
        ("127.0.0.1", {"forwarded": "for=192.0.2.7"}, "through a proxy"),
    ],
)
def test_request_from_elsewhere_without_authenticator_is_refused(
    browse: Browse, client: str, headers: dict[str, str], why: str
) -> None:
    """Other machines, names that were rebound to this one and proxies are refused, and told what to do."""
    answer = browse(Dashboard(MemoryBackend()), client=(client, 1)).get("/", **headers)
    assert 403 == answer.status_code
    assert why in text_of(answer.text)
    assert "--token-file" in answer.text


def test_token_signs_in_elsewhere_and_signs_out(browse: Browse) -> None:
    """Whoever has a token signs in with it, goes where they wanted to, and out again; the cookie is strict and hidden from scripts."""
    browser = browse(Dashboard(MemoryBackend(), tokens=TOKENS), client=("192.0.2.7", 1))
    first = browser.get("/letters?q=state:quarantined")
    assert (303, "/sign-in?to=%2Fletters%3Fq%3Dstate%3Aquarantined") == (first.status_code, first.headers["location"])
    answer = browser.submit(browser.get(first.headers["location"]), "/sign-in", token=ADA)
    assert (303, "/letters?q=state:quarantined") == (answer.status_code, answer.headers["location"])
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and ADA not in cookie
    assert "ada operator" in text_of(browser.get("/").text)
    assert 303 == browser.post("/sign-out", {}).status_code
    assert 303 == browser.get("/").status_code


def test_cookie_under_https_is_secure(browse: Browse) -> None:
    """Under HTTPS the cookie never goes over anything else."""
    app = Dashboard(MemoryBackend(), tokens=TOKENS)
    direct = browse(app, address="https://ops.example.org").post("/sign-in", {"token": ADA})
    behind = browse(app, address="http://ops.example.org")
    proxied = behind.post("/sign-in", {"token": ADA}, origin="https://ops.example.org")
    plain = behind.post("/sign-in", {"token": ADA})
    cookies = [each.headers["set-cookie"].lower() for each in (direct, proxied, plain)]
    assert [True, True, False] == ["secure" in each for each in cookies]


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", "/\r\nx", "evil"])
def test_sign_in_leads_to_pages_of_its_own_only(browse: Browse, to: str) -> None:
    """Nobody is sent elsewhere after signing in."""
    browser = browse(Dashboard(MemoryBackend(), tokens=TOKENS))
    assert "/" == browser.post("/sign-in", {"token": ADA, "to": to}).headers["location"]


def test_tokens_cannot_be_tried_for_long(browse: Browse, clock: ManualClock) -> None:
    """After ten wrong tokens an address has to wait."""
    browser = browse(Dashboard(MemoryBackend(clock=clock), tokens=TOKENS, clock=clock))
    assert [401] * 10 == [browser.post("/sign-in", {"token": f"wrong-{n}"}).status_code for n in range(10)]
    refused = browser.post("/sign-in", {"token": ADA})
    assert (429, "5") == (refused.status_code, refused.headers["retry-after"])
    clock.advance(60)
    assert 303 == browser.post("/sign-in", {"token": ADA}).status_code


def test_session_ends_after_twelve_hours(browse: Browse, clock: ManualClock) -> None:
    """A session does not last for ever."""
    browser = browse(Dashboard(MemoryBackend(clock=clock), tokens=TOKENS, clock=clock))
    browser.post("/sign-in", {"token": ADA})
    assert 200 == browser.get("/").status_code
    clock.advance(12 * 3600 + 1)
    assert 303 == browser.get("/").status_code


@pytest.mark.parametrize("cookie", ["", "x", "a.b.c.d", "....", "a.b.9999999999.0", "é.ü.1.ö"])
def test_cookie_that_is_forged_signs_nobody_in(browse: Browse, cookie: str) -> None:
    """A cookie counts only with our signature."""
    browser = browse(Dashboard(MemoryBackend(), tokens=TOKENS))
    answer = browser.send("GET", "/", headers={"cookie": f"retrykit_session={cookie}".encode()})
    assert 303 == answer.status_code


@pytest.mark.parametrize("is_async", [False, True])
def test_authenticator_of_the_application_says_who_it_is(browse: Browse, is_async: bool) -> None:
    """The application's own way is asked, in either colour; whom it does not know is not let in."""

    def known(request: Any) -> Operator | None:
        name = request.headers.get("x-user")
        return Operator(name, "operator") if name else None  # type: ignore[arg-type]

    async def known_async(request: Any) -> Operator | None:
        return known(request)

    app = Dashboard(MemoryBackend(), authenticate=known_async if is_async else known)
    browser = browse(app, client=("192.0.2.7", 1))
    assert 401 == browser.get("/").status_code
    assert "eve operator" in text_of(browser.get("/", **{"x-user": "eve"}).text)


def test_form_without_token_of_its_session_is_refused(browse: Browse, town: Town) -> None:
    """A form has to bring what its page held; another session's does not do."""
    app = Dashboard(town.backend)
    browser, other = browse(app), browse(app)
    other_csrf = other.csrf()
    browser.csrf()
    for csrf in ("", "x", "é", other_csrf):
        assert 403 == browser.post("/circuits/pause", {**PAUSE, "csrf": csrf}).status_code
    assert [] == town.backend.circuits.pauses()
    assert 303 == browser.post("/circuits/pause", {**PAUSE, "csrf": browser.csrf()}).status_code
    assert ["campaign:spring"] == [each.key for each in town.backend.circuits.pauses()]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {},
    ],
)
def test_form_of_another_origin_is_refused(browse: Browse, town: Town, headers: dict[str, str]) -> None:
    """A form that another site sends changes nothing, also with the right token."""
    browser = browse(Dashboard(town.backend))
    fields = {**PAUSE, "csrf": browser.csrf()}
    answer = browser.send("POST", "/circuits/pause", data=fields, headers=headers)
    assert (403, []) == (answer.status_code, town.backend.circuits.pauses())


def test_viewer_sees_everything_and_changes_nothing(browse: Browse, town: Town) -> None:
    """A viewer has no forms, and is refused where they send one all the same."""
    town.die(2)
    browser = browse(Dashboard(town.backend, tokens=TOKENS))
    browser.post("/sign-in", {"token": BEA})
    page = browser.get("/plan?q=campaign:spring")
    assert 200 == page.status_code and 'name="root_cause"' not in page.text
    assert "viewer" in text_of(page.text)
    answer = browser.post("/circuits/pause", PAUSE)
    assert 403 == answer.status_code


def test_role_decides_even_with_the_right_token_of_the_form(browse: Browse, town: Town) -> None:
    """What a viewer may not do does not hang on a hidden button."""
    role = [Role.OPERATOR]
    app = Dashboard(town.backend, authenticate=lambda _: Operator("eve", role[0]))
    browser = browse(app)
    fields = {**PAUSE, "csrf": browser.csrf()}
    role[0] = Role.VIEWER
    answer = browser.post("/circuits/pause", fields)
    assert (403, []) == (answer.status_code, town.backend.circuits.pauses())
    assert "may look but not change" in answer.text


def test_read_only_dashboard_changes_nothing(browse: Browse, town: Town) -> None:
    """What was started read-only stays so for operators too."""
    app = Dashboard(town.backend)
    browser = browse(app)
    fields = {**PAUSE, "csrf": browser.csrf()}
    app._site = attrs.evolve(app._site, read_only=True)
    assert 403 == browser.post("/circuits/pause", fields).status_code
    assert "read-only" in browser.get("/circuits").text


def test_link_from_another_site_brings_the_cookie_at_the_second_try(browse: Browse) -> None:
    """A strict cookie is not sent along from a chat; the page sends the browser here again, instead of to the sign-in."""
    browser = browse(Dashboard(MemoryBackend(), tokens=TOKENS))
    answer = browser.get("/groups", **{"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})
    assert (200, "0") == (answer.status_code, answer.headers["refresh"])
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/nope", "/letter?id=x", "/static/x/style.css", "/sign-in"])
def test_every_answer_carries_what_protects_it(browse: Browse, path: str) -> None:
    """Pages, errors and files: no inline scripts, no frames, no guessing of types, no addresses to others."""
    headers = browse(Dashboard(MemoryBackend())).get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert ("nosniff", "same-origin") == (headers["x-content-type-options"], headers["referrer-policy"])


def test_files_are_kept_for_a_year_under_their_digest(browse: Browse) -> None:
    """A file under its current digest is kept; under another one it is looked for anew. Pages are never kept."""
    browser = browse(Dashboard(MemoryBackend()))
    page = browser.get("/")
    assert "no-store" == page.headers["cache-control"]
    for name in ("style.css", "app.js", "icon.svg"):
        address = next(each for each in page.text.split('"') if each.endswith(f"/{name}"))
        assert "immutable" in browser.get(address).headers["cache-control"]
        assert "no-cache" == browser.get(f"/static/old/{name}").headers["cache-control"]
    assert 404 == browser.get("/static/x/secrets.txt").status_code


def test_dashboard_that_is_mounted_keeps_all_addresses_below_its_path(browse: Browse, town: Town) -> None:
    """Under a path of another application, every link, form, file and cookie begins with that path."""
    town.die(1)
    browser = browse(Starlette(routes=[Mount("/ops/dead", Dashboard(town.backend))]))
    page = browser.get("/ops/dead/letters")
    links = [each.split('"')[0] for each in page.text.replace("action=", "href=").split('href="')[1:]]
    assert links and all(link.startswith(("/ops/dead/", "#main")) for link in links)
    assert "path=/ops/dead/" in page.headers["set-cookie"].lower()
    answer = browser.submit(browser.get("/ops/dead/circuits"), "/ops/dead/circuits/pause", **PAUSE)
    assert "/ops/dead/circuits" == answer.headers["location"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": {}}, "tokens is empty"),
        ({"tokens": {"short": Operator("ada")}}, "16 characters"),
        ({"tokens": {"long enough for a token": "ada"}}, "for an Operator"),
        ({"tokens": TOKENS, "authenticate": lambda _: None}, "not both"),
        ({"clock": 3}, "clock"),
    ],
)
def test_dashboard_with_wrong_settings_says_so(options: dict[str, Any], message: str) -> None:
    """A setting that is not allowed is named when the dashboard is made, and no token is repeated."""
    with pytest.raises(ConfigurationError, match=message):
        Dashboard(MemoryBackend(), **options)


@pytest.mark.parametrize(("name", "role"), [("", "viewer"), ("ada", "admin")])
def test_operator_without_name_or_role_is_refused(name: str, role: Any) -> None:
    """Somebody has a name for the audit log, and one of two roles."""
    with pytest.raises(ConfigurationError):
        Operator(name, role)


def test_limit_gives_some_at_once_and_then_so_many_a_second(clock: ManualClock) -> None:
    """Each has a number at once, gets more with time, and forgotten are those who were away longest."""
    limit = Limit(2, 0.5, clock)
    assert [True, True, False] == [limit.takes("ada") for _ in range(3)]
    assert limit.takes("bea")
    clock.advance(2)
    assert [True, False] == [limit.takes("ada") for _ in range(2)]
    assert all(limit.takes(f"{number}") for number in range(1000))
    assert limit.takes("ada")


def test_search_that_is_repeated_too_fast_waits(browse: Browse, clock: ManualClock) -> None:
    """Whoever searches in a hurry is told to wait a moment."""
    browser = browse(Dashboard(MemoryBackend(clock=clock), clock=clock))
    assert [200] * 30 + [429] == [browser.get("/letters").status_code for _ in range(31)]
    assert 200 == browser.get("/").status_code
    clock.advance(1)
    assert 200 == browser.get("/letters").status_code


def test_address_by_the_wrong_method_says_so(browse: Browse) -> None:
    """A page takes no form it does not know, and a form's address shows nothing."""
    browser = browse(Dashboard(MemoryBackend()))
    assert [405, 405] == [browser.post("/audit", {}).status_code, browser.get("/circuits/pause").status_code]


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out"])
def test_signing_in_and_out_by_another_site_is_refused(browse: Browse, path: str) -> None:
    """Nobody is signed in or out by a page elsewhere."""
    browser = browse(Dashboard(MemoryBackend(), tokens=TOKENS))
    assert 403 == browser.post(path, {"token": ADA}, origin="http://evil.example").status_code


def test_package_without_its_extra_names_it() -> None:
    """Whoever has not installed what it is made of is told what to install; any other module that is missing is a fault."""
    for missing, said in (("jinja2", "MissingExtraError"), ("retrykit.throttles", "ModuleNotFoundError")):
        told = run_fresh(
            "import json, sys\n"
            "class Gone:\n"
            "    def find_spec(self, name, *_):\n"
            f"        if name == 'jinja2': raise ModuleNotFoundError('gone', name={missing!r})\n"
            "sys.meta_path.insert(0, Gone())\n"
            "try: import retrykit.dashboard\n"
            "except ImportError as error: print(json.dumps(type(error).__name__))"
        )
        assert said == told
