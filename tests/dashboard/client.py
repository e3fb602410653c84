"""A browser without eyes: it keeps cookies, follows nothing by itself, and fills in the forms that pages hold."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable
from typing import Any

from tests.capabilities import require

require("httpx", "jinja2", "starlette")

import httpx

LOCAL = ("127.0.0.1", 50_000)
ADDRESS = "http://127.0.0.1:8025"


class Browser:
    """Sends requests to an ASGI application, each in the same event loop."""

    def __init__(self, app: Any, *, client: tuple[str, int] = LOCAL, address: str = ADDRESS, root: str = "") -> None:
        self.runner = asyncio.Runner()
        self.address = address
        transport = httpx.ASGITransport(app, client=client, root_path=root, raise_app_exceptions=True)
        self._client = httpx.AsyncClient(transport=transport, base_url=address)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        """Send a form as this address's own page would."""
        return self.send("POST", path, data=fields, headers={"origin": self.address, **headers})

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.runner.run(self._client.request(method, path, **options))

    def submit(self, page: httpx.Response, action: str, **fields: str) -> httpx.Response:
        """Fill in the form of a page that goes to an action, and send it."""
        return self.post(action, {**hidden_fields(page.text, action), **fields})

    def csrf(self) -> str:
        return hidden_fields(self.get("/circuits").text, "/circuits/pause")["csrf"]

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Let what is under way in the background go on until something is so."""

        async def wait() -> None:
            for _ in range(400):
                if is_so():
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("it did not come to be so within 4 s")

        self.runner.run(wait())

    def close(self) -> None:
        self.runner.run(self._client.aclose())
        self.runner.close()


def hidden_fields(page: str, action: str) -> dict[str, str]:
    """Return what the first form that goes to an action holds already."""
    form = re.search(rf'<form[^>]*action="[^"]*{re.escape(action)}"[^>]*>(.*?)</form>', page, re.DOTALL)
    assert form is not None, f"no form goes to {action}"
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form[1])
    return {name: html.unescape(value) for name, value in fields}


def text_of(page: str) -> str:
    """Return what a page says, on one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())
