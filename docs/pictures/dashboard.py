"""Take the pictures of the dashboard in the tutorial, of the very night it tells of: python docs/pictures/dashboard.py [FOLDER].

It needs the extra `dashboard`, and of the group `browser` Playwright and a Chromium; the path of one that is not on PATH stands in RETRYKIT_CHROMIUM.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import string
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import Page, sync_playwright

from retrykit import Dispatcher, Message, RetryScheduler, open_backend
from retrykit.dashboard import Dashboard, Operator
from retrykit.redrive import Redriver
from retrykit.testing import ManualClock

NIGHT = datetime(2026, 3, 14, 3, tzinfo=UTC)
SIZE = {"width": 1120, "height": 640}


class Night:
    """The service of the tutorial, in which release 41 has broken a template."""

    def __init__(self) -> None:
        self.clock = ManualClock(NIGHT)
        self.backend = open_backend("memory://", clock=self.clock)
        self.templates = {"parcel": "Hello $frist_name, your parcel is on its way."}
        self._dispatcher: Any = Dispatcher(
            lambda message, key, text: None, render=self._render, backend=self.backend, clock=self.clock
        )
        self.redriver = Redriver(self.backend, clock=self.clock)
        self._messages: list[Message] = []
        self._scheduler = RetryScheduler(self.backend, self._messages.append, clock=self.clock)

    def _render(self, message: Message) -> str:
        return string.Template(self.templates["parcel"]).substitute(message.payload)

    def die(self) -> None:
        """Let forty mails die, a few each minute."""
        for number in range(40):
            attributes = {"campaign_id": "parcels", "provider": "ses"}
            self._dispatcher.handle(Message(f"parcel-{number}", {"first_name": f"Customer {number}"}, attributes))
            self.clock.advance(20)
        self.backend.circuits.pause("campaign:parcels", reason="broken template", by="ada")
        (group,) = self.backend.dead_letters.groups().groups
        self.backend.dead_letters.annotate(
            group.fingerprint, by="ada", owner="mail team", note="release 41: frist_name"
        )

    def repair(self) -> None:
        """Deploy release 42."""
        self.templates["parcel"] = "Hello $first_name, your parcel is on its way."
        self.backend.circuits.resume("campaign:parcels")

    def work(self) -> None:
        """Do what workers do all the time."""
        while self._scheduler.run_once():
            while self._messages:
                self._dispatcher.handle(self._messages.pop())


def served(dashboard: Dashboard) -> str:
    """Serve a dashboard until the program ends, and return where it is."""
    server = uvicorn.Server(uvicorn.Config(dashboard, host="127.0.0.1", port=0, log_config=None))
    threading.Thread(target=asyncio.run, args=(server.serve(),), daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


def photograph(page: Page, url: str, night: Night, folder: Path) -> None:
    """Go through the night, and take a picture of each step."""
    page.clock.set_fixed_time(night.clock.now())

    def keep(name: str) -> None:
        page.screenshot(path=folder / f"{name}.png")

    page.goto(url)
    keep("overview")
    page.get_by_role("link", name="rendering_failure").last.click()
    keep("group")
    night.repair()
    page.get_by_role("link", name="Plan a redrive").click()
    page.get_by_label("Root cause").fill("release 41: frist_name; repaired in 42")
    page.locator('input[name="canary"]').fill("5")
    keep("plan")
    page.get_by_role("button", name="Continue to confirm").click()
    page.get_by_role("button", name="Put 40 letters back").click()
    page.wait_for_url("**/redrive?*")
    (job,) = night.backend.redrives.jobs()
    while job.is_active:
        night.clock.advance(1)
        job = night.redriver.step(job.id)
        night.work()
    page.clock.set_fixed_time(night.clock.now())
    page.reload()
    keep("redrive")


def main(folder: Path) -> None:
    """Take the pictures."""
    night = Night()
    night.die()
    url = served(Dashboard(night.backend, local=Operator("ada", "operator"), run_redrives=False, clock=night.clock))
    path = os.environ.get("RETRYKIT_CHROMIUM") or shutil.which("chromium")
    sandbox = [] if os.getuid() else ["--no-sandbox"]
    with sync_playwright() as playwright:
        flags = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", *sandbox]
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        page = browser.new_context(viewport=SIZE, locale="en-GB", timezone_id="UTC").new_page()  # type: ignore[arg-type]
        photograph(page, url, night, folder)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent)
