"""A headless Chromium, and dashboards that it can reach.

What these need is imported where it is used: the tests beside this file say what they require, and are left out where it is absent.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from retrykit.backends import MemoryBackend
from tests import capabilities
from tests.dashboard.town import Town

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync"
)


class House:
    """A dashboard on a port of its own, with the workers of a service beside it."""

    def __init__(self, town: Town, options: dict[str, Any]) -> None:
        import uvicorn

        from retrykit.dashboard import Dashboard

        self.town = town
        self._app = Dashboard(town.backend, **options)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        config = uvicorn.Config(self._app, log_level="error", access_log=False, proxy_headers=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()

    async def _serve(self) -> None:
        ended = asyncio.Event()
        working = asyncio.create_task(self.town.work(ended))
        await self._server.serve(sockets=[self._listener])
        ended.set()
        await working

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)


@pytest.fixture
def town() -> Town:
    return Town(MemoryBackend())


@pytest.fixture
def serve(town: Town) -> Iterator[Callable[..., House]]:
    opened = list[House]()

    def served(**options: Any) -> House:
        opened.append(House(town, options))
        return opened[-1]

    yield served
    for each in opened:
        each.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start Chromium, for one module: while its driver is there, its thread can run no other event loop."""
    from playwright.sync_api import sync_playwright

    path = capabilities.chromium()
    if path is None:
        pytest.skip("no Chromium is here: install Debian's chromium, or give RETRYKIT_CHROMIUM its path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS.split())
        yield browser
        browser.close()


class Watched:
    """A browser window that notes what a page should never do: ask others, run what it was not given, complain."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.page: Page = context.new_page()
        self.foreign = list[str]()
        self.complaints = list[str]()
        self.page.on(
            "request", lambda request: None if request.url.startswith(address) else self.foreign.append(request.url)
        )
        self.page.on("console", lambda told: self.complaints.append(told.text) if told.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.goto(address)


@pytest.fixture
def window(chromium: Browser) -> Iterator[Callable[..., Watched]]:
    """Open windows, each of somebody else; at their end none has asked others for anything."""
    opened: list[tuple[BrowserContext, Watched]] = []

    def made(house: House, **options: Any) -> Watched:
        context = chromium.new_context(**options)
        opened.append((context, Watched(context, house.address)))
        return opened[-1][1]

    yield made
    for context, watched in opened:
        context.close()
        assert [] == watched.foreign
