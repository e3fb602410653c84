"""What an on-call engineer does with the dashboard, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.capabilities import require

require("axe_playwright_python", "jinja2", "playwright", "starlette", "uvicorn")

import axe_playwright_python
from playwright.sync_api import Page, expect

from retrykit.dashboard import Operator, Role
from retrykit.errors import StoreUnavailableError
from retrykit.stores import AuditEntry
from retrykit.testing.conformance.dead_letters_samples import letter
from tests.browser.conftest import House, Watched
from tests.dashboard.town import Town

Serve = Callable[..., House]
Window = Callable[..., Watched]

AXE = next(Path(axe_playwright_python.__file__).parent.rglob("axe.min.js"))
SHOTS = Path(__file__).parent.parent.parent / "build" / "screenshots"
ADA = Operator("ada", Role.OPERATOR)

PAGES = {
    "overview": "/",
    "search": "/letters?q=state:quarantined",
    "nothing-found": "/letters?q=campaign:none",
    "letter": "/letter?id=deploy-0%231",
    "groups": "/groups?q=state:quarantined",
    "group": f"/group?fingerprint=v1:{0:016x}",
    "plan": "/plan?q=campaign:deploy",
    "plan-none": "/plan",
    "redrives": "/redrives",
    "redrive": "/redrive?id={redrive}",
    "circuits": "/circuits",
    "deliveries": "/deliveries?status=unknown",
    "delivery": "/delivery?id=deploy-0",
    "audit": "/audit",
    "runbook": "/runbook?since=2d",
    "refused": "/letters?q=campaigns:spring",
}


def put_back(page: Page, cause: str = "template repaired in release 42") -> None:
    page.get_by_role("textbox", name="Root cause").fill(cause)
    page.get_by_role("button", name="Continue to confirm").click()
    page.get_by_role("button", name=re.compile("Put .* back")).click()


def test_engineer_searches_opens_a_record_and_puts_the_cause_back(town: Town, serve: Serve, window: Window) -> None:
    """From the overview to the last message sent: search, record, plan, root cause, confirmation, progress, result, audit."""
    town.die(30)
    town.is_repaired = True
    watched = window(serve(local=ADA))
    page = watched.page
    page.keyboard.press("/")
    page.keyboard.type("campaign:spring since:2h")
    page.keyboard.press("Enter")
    expect(page.get_by_text("30 dead letters")).to_be_visible()
    page.get_by_role("link", name="spring-29#1").click()
    expect(page.get_by_role("heading", name="spring-29#1")).to_be_visible()
    expect(page.get_by_text('"name": "Ada"')).to_be_visible()
    page.get_by_role("link", name="Plan a redrive of all").click()
    expect(page.get_by_text("30 dead letters wait")).to_be_visible()
    put_back(page)
    expect(page.get_by_role("heading", name="Done: 30 of 30")).to_be_visible(timeout=20_000)
    assert 30 == len(set(town.sent)) == len(town.sent)
    page.get_by_role("link", name="Audit").click()
    expect(page.get_by_text("redrive started")).to_be_visible()
    assert [] == watched.complaints


def test_redrive_is_stopped_by_its_button(town: Town, serve: Serve, window: Window) -> None:
    """What runs is stopped with a reason, and the page says so."""
    town.die(20)
    page = window(serve(local=ADA, run_redrives=False)).page
    page.goto(f"{page.url}plan?q=campaign:spring")
    put_back(page)
    page.get_by_label("Why stop it?").fill("wrong template")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("heading", name="Stopped: 0 of 20")).to_be_visible()


def test_redrive_is_followed_without_scripts(town: Town, serve: Serve, window: Window) -> None:
    """Without JavaScript the progress is loaded anew every few seconds, and everything else works the same."""
    town.die(5)
    town.is_repaired = True
    page = window(serve(local=ADA), java_script_enabled=False).page
    page.goto(f"{page.url}plan?q=campaign:spring")
    put_back(page)
    expect(page.get_by_role("heading", name="Done: 5 of 5")).to_be_visible(timeout=20_000)


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "{{ 7 * 7 }}{% include 'x' %}",
    "\u202egnp.exe\u2066 مرحبا بالعالم",
]


def test_hostile_messages_are_harmless(town: Town, serve: Serve, window: Window) -> None:
    """Scripts, templates, right-to-left text and a megabyte are shown as what they are: text."""
    for number, evil in enumerate([*HOSTILE, "x" * 1_000_000]):
        body = evil.encode() if number % 2 else f'{{"to": "{"y" * 50}", "text": "{evil}"}}'.encode()
        fields = {"error_message": evil, "campaign_id": evil[:200], "recipient": evil, "original_payload": body}
        town.backend.dead_letters.put(letter(f"m{number}", fingerprint="v1:00", **fields))
    house = serve(local=ADA)
    watched = window(house, viewport={"width": 360, "height": 800})
    for path in (
        "/",
        "/letters",
        "/groups",
        "/group?fingerprint=v1:00",
        *(f"/letter?id=m{number}%231" for number in range(6)),
    ):
        watched.page.goto(house.address + path)
        assert 0 == watched.page.evaluate("document.querySelectorAll('main script, main img, svg[onload]').length")
        assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert [] == watched.complaints
    watched.page.goto(f"{house.address}/letter?id=m3%231")
    expect(watched.page.get_by_text("{{ 7 * 7 }}").first).to_be_visible()


def test_form_of_another_site_is_refused(town: Town, serve: Serve, window: Window) -> None:
    """A page elsewhere that sends the dashboard's form with the visitor's cookie changes nothing."""
    house = serve(local=ADA)
    watched = window(house)
    watched.page.goto("about:blank")
    watched.page.set_content(
        f'<form method=post action="{house.address}/circuits/pause"><input name=kind value=campaign><input name=name value=x>'
        "<input name=reason value=x><button>Win</button></form>"
    )
    watched.page.get_by_role("button").click()
    expect(watched.page.get_by_text("nothing was done")).to_be_visible()
    assert [] == town.backend.circuits.pauses()


def test_viewer_looks_and_cannot_put_back(town: Town, serve: Serve, window: Window) -> None:
    """Somebody who may only look finds no button, and is refused with a form of their own making."""
    town.die(2)
    token = "token-of-bea-the-viewer"
    house = serve(tokens={token: Operator("bea", Role.VIEWER)})
    page = window(house).page
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.goto(f"{house.address}/plan?q=campaign:spring")
    expect(page.get_by_text("You are signed in as a viewer")).to_be_visible()
    assert 0 == page.get_by_role("textbox", name="Root cause").count()
    status = page.evaluate(
        "fetch('/plan/start', {method: 'POST', body: new URLSearchParams({q: 'x'})}).then(answer => answer.status)"
    )
    assert (403, []) == (status, town.backend.redrives.jobs())


def test_two_operators_at_once_do_one_redrive(town: Town, serve: Serve, window: Window) -> None:
    """The second one to confirm the same letters is told who was first, and led to that redrive."""
    town.die(10)
    tokens = {"token-of-ada-the-operator": ADA, "token-of-bea-the-operator": Operator("bea", Role.OPERATOR)}
    house, pages = serve(tokens=tokens, run_redrives=False), list[Page]()
    for token in tokens:
        page = window(house).page
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.goto(f"{house.address}/plan?q=campaign:spring")
        page.get_by_role("textbox", name="Root cause").fill("repaired")
        page.get_by_role("button", name="Continue to confirm").click()
        pages.append(page)
    for page in pages:
        page.get_by_role("button", name="Put 10 letters back").click()
    expect(pages[1].get_by_role("heading", name="Somebody else is at it")).to_be_visible()
    pages[1].get_by_role("link", name="Look at that redrive").click()
    expect(pages[1].get_by_role("heading", name="The canary goes ahead")).to_be_visible()
    assert ["ada"] == [job.by for job in town.backend.redrives.jobs()]


def test_keyboard_alone_pauses_a_campaign(town: Town, serve: Serve, window: Window) -> None:
    """Everything can be reached with the Tab key, in the order in which it stands; the first stop skips to the content."""
    page = window(serve(local=ADA)).page
    page.goto(f"{page.url}circuits")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Pause a")).to_be_focused()
    for text in ("", "spring", "wrong prices", "2h"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("campaign:spring")).to_be_visible()
    assert ["wrong prices"] == [each.reason for each in town.backend.circuits.pauses()]


def test_times_are_in_the_zone_of_the_reader(town: Town, serve: Serve, window: Window) -> None:
    """A time is the reader's, and UTC when pointed at."""
    entry = AuditEntry(at=letter().dead_lettered_at, by="ada", action="edited", subject="m#1")
    town.backend.redrives.note(entry)
    house = serve(local=ADA)
    shown = list[str]()
    for zone in ("UTC", "Asia/Kolkata"):
        page = window(house, timezone_id=zone).page
        page.goto(f"{house.address}/audit")
        time = page.locator("time").first
        assert f"{entry.at:%Y-%m-%d %H:%M:%S} UTC" == time.get_attribute("title")
        shown.append(time.inner_text())
    assert shown[0] != shown[1]


def test_store_that_was_away_comes_back_by_itself(
    town: Town, serve: Serve, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page that says so looks again until the store is there."""
    is_away, known = [True], type(town.backend.redrives)._audit

    def audit(self: Any, *args: Any) -> Any:
        if is_away[0]:
            raise StoreUnavailableError("the server does not answer")
        return known(self, *args)

    monkeypatch.setattr(type(town.backend.redrives), "_audit", audit)
    house = serve(local=ADA)
    watched = window(house)
    watched.page.goto(f"{house.address}/audit")
    expect(watched.page.get_by_role("heading", name="The store cannot be reached")).to_be_visible()
    is_away[0] = False
    expect(watched.page.get_by_role("heading", name="Audit")).to_be_visible(timeout=10_000)


@pytest.mark.unmeasured
@pytest.mark.timeout(240)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible_and_fits_a_phone(town: Town, serve: Serve, window: Window, scheme: str) -> None:
    """Axe finds nothing, 360 pixels are enough, nothing is written to the console; each page is photographed."""
    town.grow_up()
    town.die(12, "deploy")
    town.is_repaired = True
    house = serve(local=ADA, run_redrives=False)
    watched = window(house, color_scheme=scheme, viewport={"width": 1440, "height": 900})
    page = watched.page
    page.goto(f"{house.address}/plan?q=campaign:deploy")
    put_back(page)
    expect(page.get_by_role("heading", name="Redrive", exact=True)).to_be_visible()
    town.backend.redrives.note(
        AuditEntry(
            at=town.backend.redrives.jobs()[0].created_at,
            by="ada",
            action="paused",
            subject="campaign:spring",
            why="wrong prices",
        )
    )
    SHOTS.mkdir(parents=True, exist_ok=True)
    script, found = AXE.read_text(encoding="utf-8"), dict[str, Any]()
    for name, path in PAGES.items():
        address = house.address + path.format(redrive=quote(town.backend.redrives.jobs()[0].id))
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(address)
        page.screenshot(path=SHOTS / f"{name}-{scheme}.png", full_page=True)
        for width in (1440, 360):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, width)
            if (width, scheme) == (360, "dark"):  # axe finds there what it finds in light, and at 1440
                continue
            page.evaluate(script)
            result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            for each in result["violations"]:
                found[f"{name} {width} {each['id']}"] = [node["html"][:200] for node in each["nodes"][:3]]
        page.screenshot(path=SHOTS / f"{name}-{scheme}-phone.png")
    assert {} == found
    assert [] == [each for each in watched.complaints if "400" not in each]
