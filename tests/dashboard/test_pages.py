"""What the pages show of what is in the stores, and what they say where there is nothing."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import attrs
import pytest

from tests.capabilities import require

require("httpx", "jinja2", "starlette")

from retrykit.backends import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.clock import current_clock
from retrykit.dashboard import Dashboard, Operator
from retrykit.dead_letter import PayloadState
from retrykit.dead_letter_queue import DeadLetterQueue
from retrykit.errors import StoreCorruptError, StoreUnavailableError
from retrykit.events import UnknownCode
from retrykit.failure import ErrorClass, Failure, Outcome
from retrykit.machines.redrive import AuditEntry
from retrykit.monitor import Monitor
from retrykit.stores import Delivery, DeliveryStatus, as_async
from retrykit.testing import ManualClock
from retrykit.testing.conformance.dead_letters_samples import full_letter, letter
from tests.dashboard.client import Browser, text_of
from tests.dashboard.town import Town

Browse = Callable[..., Browser]
PAGES = (
    "/",
    "/letters",
    "/groups",
    "/redrives",
    "/plan",
    "/plan?everything=1",
    "/circuits",
    "/deliveries",
    "/audit",
    "/runbook",
)

HOSTILE = [
    "<script>alert(1)</script>",
    "{{ 7 * 7 }}{% raw %}",
    '"><img src=x onerror=alert(1)>',
    "\u202eevil\u2066\x1b[2J\x00\x07",
    "\ud800 half",
    "مرحبا بالعالم",
    "javascript:alert(1)",
    "a/../../b?c=d#e&f%2f\\",
]


def said(browser: Browser, path: str) -> str:
    page = browser.get(path)
    assert 200 == page.status_code, text_of(page.text)
    return text_of(page.text)


@pytest.mark.parametrize("path", PAGES)
def test_page_of_an_empty_store_says_what_to_do(browse: Browse, path: str) -> None:
    """Where there is nothing yet, a page is whole and not a blank."""
    assert 60 < len(said(browse(Dashboard(MemoryBackend())), path))


def test_search_goes_on_page_by_page_with_the_window_of_its_first(browse: Browse, town: Town) -> None:
    """Each letter is seen once, though `since:2d` is another instant on the next page."""
    town.die(60)
    browser, address, seen = browse(Dashboard(town.backend)), "/letters?q=since:2d", list[str]()
    while address:
        page = browser.get(address).text
        seen += [each.split('"')[0] for each in page.split('title="spring-')[1:]]
        after = page.split('rel="next"')[0].rsplit('href="', 1) if 'rel="next"' in page else None
        address = after[1].split('"')[0].replace("&amp;", "&") if after else ""
    assert 60 == len(seen) == len(set(seen))


def test_search_is_narrowed_and_widened_by_its_facets(browse: Browse, town: Town) -> None:
    """A facet adds a term and leaves the words as they were written; a chosen one takes its term away."""
    town.grow_up()
    page = browse(Dashboard(town.backend)).get("/letters?q=since:2d provider:ses").text
    assert f"q={quote('since:2d provider:ses class:mailbox_full', safe='')}" in page
    assert "do not narrow to it" in page


def test_letter_shows_all_of_its_evidence(browse: Browse) -> None:
    """Every field of a full letter stands on its page."""
    backend = MemoryBackend()
    full = full_letter()
    backend.dead_letters.put(full)
    text = said(browse(Dashboard(backend)), f"/letter?id={quote(full.id)}")
    for value in (
        full.error_message,
        full.decision,
        full.recipient,
        full.campaign_id,
        full.note,
        full.error_code,
        full.capture_note,
    ):
        assert not value or " ".join(value.split()) in text


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        (
            {"payload_state": PayloadState.ENCRYPTED, "payload_cipher": "key-7", "original_payload": b"sealed"},
            "not opened here",
        ),
        ({"payload_state": PayloadState.WITHHELD, "original_payload": b""}, "Nothing of the payload is kept"),
        ({"payload_state": PayloadState.MASKED, "original_payload": b'{"to": "***"}'}, '"to": "***"'),
        ({"original_payload": b"[" * 90 + b"]" * 90}, "["),
        ({"original_payload": b"x" * 1_000_000}, "The first 100,000 characters"),
    ],
)
def test_payload_is_shown_as_the_store_holds_it(browse: Browse, fields: dict[str, Any], wanted: str) -> None:
    """Masked stays masked, encrypted is not opened, and a large one is cut."""
    backend = MemoryBackend()
    backend.dead_letters.put(letter("m", **fields))
    page = browse(Dashboard(backend)).get("/letter?id=m%231")
    assert wanted in text_of(page.text)
    assert "sealed" not in page.text and len(page.text) < 140_000


@pytest.mark.parametrize("evil", HOSTILE)
def test_hostile_text_is_harmless_on_every_page(browse: Browse, evil: str) -> None:
    """Whatever somebody has put into a message, a page shows it and does not obey it."""
    backend, storable = MemoryBackend(), evil.replace("\ud800", "").replace("\x00", "")
    backend.dead_letters.put(
        letter(storable, error_message=evil, error_code=evil, provider=storable, campaign_id=storable, recipient=evil,
               fingerprint=storable, decision=evil, original_payload=evil.encode("utf-8", "surrogatepass"), attributes={evil: evil},
               dead_lettered_at=current_clock().now())
    )  # fmt: skip
    backend.deliveries.record(
        Delivery(message_id=storable, status=DeliveryStatus.UNKNOWN, provider_id=evil, updated_at=current_clock().now())
    )
    backend.circuits.pause(f"campaign:{storable}", reason=evil, by=evil)
    backend.circuits.trip(storable, by="x", recovery="1h")
    backend.redrives.note(
        AuditEntry(at=current_clock().now(), by=storable, action="edited", subject=storable, why=storable)
    )
    backend.dead_letters.annotate(storable, by="x", owner=storable, note=storable)
    browser, id_ = browse(Dashboard(backend)), quote(f"{storable}#1", safe="")
    name = quote(storable, safe="")
    for path in (
        *PAGES,
        f"/letter?id={id_}",
        f"/group?fingerprint={name}",
        f"/delivery?id={name}",
        "/deliveries?status=unknown",
        f"/letters?q={name}",
        f"/circuits?name={name}",
    ):
        page = browser.get(path)
        assert page.status_code in (200, 400), (path, text_of(page.text))
        body = page.text.split("<main")[1]
        assert not [each for each in ("<script", "<img", "<textarea><") if each in body]
        told = text_of(re.sub(r"<textarea.*?</textarea>", "", page.text, flags=re.DOTALL))
        assert not set(told) & set("\u202e\u2066\x1b\x00\x07")
        assert 'href="javascript' not in page.text
    if evil.isprintable():
        assert " ".join(evil.split()) in text_of(browser.get(f"/letter?id={id_}").text)


def test_group_is_noted_muted_and_listed_again(browse: Browse, town: Town) -> None:
    """Owner, note and mute are kept, and stand in the audit log under the operator's name."""
    town.die(3)
    fingerprint = town.backend.dead_letters.groups().groups[0].fingerprint
    browser = browse(Dashboard(town.backend, local=Operator("ada", "operator")))  # type: ignore[arg-type]
    address = f"/group?fingerprint={fingerprint}"
    browser.submit(browser.get(address), "/group", owner="bea", note="deploy 41\r\nagain", mute="8h")
    group = town.backend.dead_letters.group(fingerprint)
    assert group is not None
    assert ("bea", "deploy 41\nagain", True, "ada") == (group.owner, group.note, group.muted, group.updated_by)
    assert "No group is found" in said(browser, "/groups")
    assert "muted" in said(browser, "/groups?muted=1")
    entry = town.backend.redrives.audit()[0]
    assert ("ada", "group noted", "muted for 8h, owner bea, note changed") == (entry.by, entry.action, entry.result)
    browser.submit(browser.get(address), "/group", owner="bea", note="deploy 41\nagain", mute="no")
    assert "rendering_failure" in said(browser, "/groups")
    before = len(town.backend.redrives.audit())
    browser.submit(browser.get(address), "/group", owner="bea", note="deploy 41\nagain")
    assert before == len(town.backend.redrives.audit())
    answer = browser.submit(browser.get(address), "/group", owner="x" * 256)
    assert 400 == answer.status_code


def test_pause_resume_and_reset_are_done_and_audited(browse: Browse, town: Town) -> None:
    """What is switched off and on by hand stands in the audit log with its reason; what changes nothing does not."""
    town.backend.circuits.trip("ses", by="worker-1", recovery="1h")
    browser = browse(Dashboard(town.backend, local=Operator("ada", "operator")))  # type: ignore[arg-type]
    page = browser.get("/circuits")
    browser.submit(page, "/circuits/pause", kind="campaign", name="spring", reason="wrong prices", length="2h")
    (pause,) = town.backend.circuits.pauses()
    assert ("campaign:spring", "ada", True) == (pause.key, pause.by, pause.until is not None)
    page = browser.get("/circuits")
    assert 400 == browser.submit(page, "/circuits/reset").status_code
    for _ in range(2):
        browser.submit(page, "/circuits/resume", why="prices are right")
        browser.submit(page, "/circuits/reset", why="the provider is back")
    assert [] == town.backend.circuits.pauses() and not town.backend.circuits.circuits()[0].is_open
    done = [(each.by, each.action, each.subject, each.why) for each in town.backend.redrives.audit()]
    assert [
        ("ada", "breaker closed", "ses", "the provider is back"),
        ("ada", "paused", "campaign:spring", "wrong prices"),
        ("ada", "resumed", "campaign:spring", "prices are right"),
    ] == sorted(done, key=lambda each: each[1])


def test_audit_goes_on_page_by_page_also_within_a_millisecond(browse: Browse) -> None:
    """Each entry is seen once, the latest first, also where many were written at one instant."""
    backend, at = MemoryBackend(), current_clock().now()
    for number in range(120):
        backend.redrives.note(
            AuditEntry(at=at - timedelta(days=number // 60), by="ada", action="edited", subject=f"letter-{number}.")
        )
    browser, address, seen = browse(Dashboard(backend)), "/audit", list[str]()
    while address:
        page = browser.get(address).text
        seen += [each.split(".")[0] for each in page.split("id=letter-")[1:]]
        address = f"/audit?after={page.split('/audit?after=')[1].split(chr(34))[0]}" if "/audit?after=" in page else ""
    assert 120 == len(seen) == len(set(seen))
    assert 400 == browser.get("/audit?after=999999999999999.1.0123456789ab").status_code


def test_deliveries_of_a_status_are_listed_and_looked_up(browse: Browse, town: Town) -> None:
    """Statuses are counted, their messages listed page by page, and one is looked up by its id."""
    now = current_clock().now()
    for number in range(60):
        town.backend.deliveries.record(
            Delivery(message_id=f"m-{number:03}", status=DeliveryStatus.UNKNOWN, updated_at=now)
        )
    town.die(1)
    browser = browse(Dashboard(town.backend))
    page = browser.get("/deliveries?status=unknown")
    assert "unknown 60" in text_of(page.text) and "m-049" in page.text and "m-050" not in page.text
    assert "m-050" in browser.get("/deliveries?status=unknown&after=m-049").text
    assert "No message has this status" in said(browser, "/deliveries?status=unexpected")
    assert "rendering_failure" in said(browser, "/delivery?id=spring-0")
    assert 404 == browser.get("/delivery?id=nobody").status_code


def test_alerts_in_force_stand_first(browse: Browse, town: Town) -> None:
    """What a monitor has fired stands at the top of the overview."""
    monitor = Monitor(town.backend)
    monitor(
        UnknownCode(
            at=current_clock().now(),
            provider="ses",
            code="599",
            failure=Failure(error_class=ErrorClass.UNKNOWN, outcome=Outcome.NOT_SENT),
        )
    )
    monitor.run_once()
    text = said(browse(Dashboard(town.backend)), "/")
    assert "Something is wrong ticket" in text and "599" in text


class _Away:
    """A store of which every call fails, while it is away."""

    def __init__(self, store: Any, error: list[Exception]) -> None:
        self._store, self._error = store, error

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if self._error:
                raise self._error[0]
            return await found(*args, **kwargs)

        return call


@pytest.mark.parametrize("path", [each for each in PAGES if each != "/plan"])
def test_store_that_is_away_gives_a_calm_page_that_recovers(browse: Browse, path: str) -> None:
    """While the store is away a page says so and looks again by itself; afterwards it is what it was."""
    error: list[Exception] = [StoreUnavailableError("the server at db.example.org does not answer")]
    stores: Any = as_async(MemoryBackend())
    for name in ("claims", "retries", "dead_letters", "deliveries", "circuits", "redrives", "signals"):
        setattr(stores, name, _Away(getattr(stores, name), error))
    browser = browse(_with_stores(stores))
    answer = browser.get(path)
    assert (503, "5") == (answer.status_code, answer.headers["refresh"])
    assert "does not answer" in answer.text
    if path != "/":
        error[0] = StoreCorruptError("the record 'x' cannot be read")
        answer = browser.get(path)
        assert 503 == answer.status_code and "refresh" not in answer.headers and "retrykit doctor" in answer.text
    error.clear()
    assert 200 == browser.get(path).status_code


def _with_stores(stores: Any) -> Dashboard:
    app = Dashboard(MemoryBackend())
    queue = type(app._site.queue)(stores)
    app._site = app._changing = attrs.evolve(app._site, backend=stores, queue=queue)
    return app


PAUSE = {"kind": "campaign", "name": "spring", "reason": "a broken template", "length": "2h"}


def test_form_that_meets_a_store_that_is_away_says_what_to_do_with_it(browse: Browse) -> None:
    """It does not look again by itself, which would not send the form again."""
    error: list[Exception] = []
    stores: Any = as_async(MemoryBackend())
    stores.circuits = _Away(stores.circuits, error)
    browser = browse(_with_stores(stores))
    csrf = browser.csrf()
    error.append(StoreUnavailableError("the server at db.example.org does not answer"))
    answer = browser.post("/circuits/pause", {"csrf": csrf, **PAUSE})
    assert 503 == answer.status_code and "refresh" not in answer.headers
    assert "Look whether it was done" in answer.text and "looks again by itself" not in answer.text


def test_form_with_a_mistake_says_that_nothing_was_changed(browse: Browse) -> None:
    """And where what was written is."""
    browser = browse(Dashboard(MemoryBackend()))
    answer = browser.post("/circuits/pause", {"csrf": browser.csrf(), **PAUSE, "length": "soon"})
    assert 400 == answer.status_code and "Nothing was changed" in answer.text


def test_nobody_who_looks_waits_for_who_waits_to_write(browse: Browse, tmp_path: Any) -> None:
    """Another process holds the file, and a form waits for it: pages are shown meanwhile."""
    with closing(SQLiteBackend(tmp_path / "x.db", busy_timeout="40s")) as backend:
        browser = browse(Dashboard(backend))
        csrf = browser.csrf()
        with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")

            async def both() -> tuple[int, bool, int]:
                headers = {"origin": browser.address}
                form = {"csrf": csrf, **PAUSE}
                writes = asyncio.create_task(browser._client.post("/circuits/pause", data=form, headers=headers))
                await asyncio.sleep(0.3)
                shown = (await browser._client.get("/")).status_code
                waited = not writes.done()
                other.execute("ROLLBACK")
                return shown, waited, (await writes).status_code

            assert (200, True, 303) == browser.runner.run(both())


def test_commands_that_are_shown_have_the_options_they_were_given(browse: Browse, town: Town) -> None:
    """What is copied finds the same store."""
    town.die(1)
    browser = browse(Dashboard(town.backend, options=" --url sqlite:///mail.db"))
    assert "retrykit dlq show 'spring-0#1' --url sqlite:///mail.db" in said(browser, "/letter?id=spring-0%231")
    assert "retrykit dlq watch --url sqlite:///mail.db" in said(browser, "/runbook")


def test_fault_of_the_dashboard_is_a_page_that_tells_nothing(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw is an error page without details; the server's log has them."""
    app = Dashboard(MemoryBackend())

    async def broken(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr("retrykit.dashboard.app._LOOKS", {"/": broken})
    browser = browse(app)
    browser._client._transport.raise_app_exceptions = False  # type: ignore[attr-defined]
    answer = browser.get("/")
    assert 500 == answer.status_code and "secret" not in answer.text and "Something broke" in answer.text


def test_redrive_of_another_runner_is_left_to_it(browse: Browse, town: Town) -> None:
    """A redrive that a service's runner holds is shown, and not taken away."""
    town.die(3)
    queue = DeadLetterQueue(town.backend)
    job = queue.redrive(queue.plan("campaign:spring"), root_cause="repaired", by="ada")
    town.backend.redrives.hold(job.id, owner="runner-of-a-service", lease="1h")
    app = Dashboard(town.backend)
    browser = browse(app)
    assert "The canary goes ahead" in said(browser, f"/redrive?id={job.id}")
    browser.wait_for(lambda: not app._site.running._tasks)
    known = town.backend.redrives.get(job.id)
    assert known is not None and known.lease is not None and "runner-of-a-service" == known.lease.owner


def counting(monkeypatch: pytest.MonkeyPatch, clock: ManualClock, store: Any, name: str, takes: str) -> list[object]:
    """Let a call of a store take so long, and return what grows by one with each call."""
    call, calls = getattr(store, name), list[object]()

    async def count() -> object:
        calls.append(clock.advance(takes))
        return await call()

    monkeypatch.setattr(store, name, count)
    return calls


def test_what_takes_long_to_count_is_counted_again_after_fifty_times_as_long(
    town: Town, browse: Browse, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a log of ten million is not walked for everybody who looks. Pages say how old the figure is."""
    town.die(1)
    backend = as_async(town.backend)
    calls = counting(monkeypatch, clock, backend.deliveries, "counts", "0.5s")
    browser = browse(Dashboard(backend, clock=clock))
    pages = [said(browser, "/")]
    clock.advance("24.9s")
    pages += [said(browser, "/"), said(browser, "/deliveries")]
    found = [re.findall("[bB]y status(?:, counted .*? ago)?", page) for page in pages]
    assert [["by status"], ["by status, counted 25s ago"], ["By status, counted 25s ago"]] == found
    assert len(calls) == 1
    clock.advance("0.1s")
    assert "counted" not in said(browser, "/")
    assert len(calls) == 2


def test_what_is_counted_quickly_is_counted_for_each_page(
    town: Town, browse: Browse, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody has done is seen at once."""
    backend = as_async(town.backend)
    calls = counting(monkeypatch, clock, backend.retries, "stats", "0.02s")
    browser = browse(Dashboard(backend, clock=clock))
    for _ in range(3):
        browser.get("/")
    assert len(calls) == 3
