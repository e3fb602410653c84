"""What all pages share: the stores, the templates, the files beside them, and how a page is made."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, urlencode

import attrs
import jinja2
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..checks import counted, printable
from ..clock import Clock, current_clock
from ..dead_letter_queue import AsyncDeadLetterQueue
from ..machines.redrive import AuditEntry
from ..stores import AsyncBackend
from ..times import short, to_iso
from .access import Access, Role, Session
from .asking import Ask
from .figures import Figures
from .running import Running

__all__ = ["Site", "asset"]

_SHOWN: Final = 100_000
"""Characters of a payload that a page shows."""


@cache
def asset(name: str) -> tuple[bytes, str]:
    """Return a file that pages refer to, and a digest of it for its address."""
    data = files("retrykit.dashboard").joinpath("static", name).read_bytes()
    return data, hashlib.sha256(data).hexdigest()[:12]


def digest_of(name: str) -> str:
    """Return the digest of a file that pages refer to."""
    return asset(name)[1]


def root_of(request: Request) -> str:
    """Return the path under which the dashboard is mounted, without a slash at its end."""
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")


def link(root: str, path: str, **params: object) -> str:
    """Return the address of a page; parameters that are None or empty are left out."""
    given = {name: str(value) for name, value in params.items() if value not in (None, "", False)}
    query = urlencode(given, quote_via=quote, errors="surrogatepass")
    return f"{quote(root)}{path}{'?' if query else ''}{query}"


def _line(value: object) -> str:
    """Return text on one line, with what could disturb the page around it spelled out."""
    return printable(str(value))


def _block(data: str) -> str:
    """Return text on several lines, cut to what a page shows."""
    cut = data[:_SHOWN]
    return "\n".join(printable(line) for line in cut.expandtabs(4).split("\n"))


def payload_text(data: bytes) -> str:
    """Return a payload for people: JSON indented, anything else as it is."""
    text = data.decode("utf-8", "backslashreplace")
    if len(text) <= _SHOWN:
        with contextlib.suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return text


def _instant(value: datetime | None) -> Markup:
    """Return an instant as the browser can show it in the reader's zone."""
    if value is None:
        return Markup("<span class=muted>&ndash;</span>")
    iso = to_iso(value)
    shown = f"{iso[:10]} {iso[11:19]}"
    return Markup('<time datetime="{0}" title="{1} UTC">{1}<abbr> UTC</abbr></time>').format(iso, shown)


def _said(text: object) -> Markup:
    """Return a stranger's text for a line: kept apart from the direction of the text around it."""
    return Markup("<bdi>{}</bdi>").format(_line(text))


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0:.2f}"


_templates: Final = jinja2.Environment(
    loader=jinja2.PackageLoader("retrykit.dashboard"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_FILTERS: Final[dict[str, Callable[..., object]]] = {
    "block": _block,
    "counted": counted,
    "line": _line,
    "n": "{:,}".format,
    "payload": payload_text,
    "said": _said,
    "share": _share,
    "shell": shlex.quote,
    "short": short,
    "time": _instant,
}
_templates.filters.update(_FILTERS)


@attrs.frozen(kw_only=True)
class Site:
    """What the pages are made of."""

    backend: AsyncBackend
    queue: AsyncDeadLetterQueue
    access: Access
    running: Running
    figures: Figures
    read_only: bool
    options: str
    """What commands that pages show end with."""
    clock_given: Clock | None

    @property
    def clock(self) -> Clock:
        """Where the time comes from."""
        return self.clock_given or current_clock()

    def may_change(self, session: Session) -> bool:
        """Tell whether somebody may change anything here."""
        return not self.read_only and session.operator.role is Role.OPERATOR

    def page(self, ask: Ask, template: str, code: int = 200, /, **values: object) -> Response:
        """Return a page."""
        session = ask.session
        own = {"csrf": session.csrf, "operator": session.operator, "may_change": self.may_change(session)}
        return self.bare(ask.request, template, code, **own, **values)

    def bare(self, request: Request, template: str, code: int = 200, /, **values: object) -> Response:
        """Return a page that needs nobody to be signed in."""
        root = root_of(request)
        now = self.clock.now()

        def url(path: str, **params: object) -> str:
            return link(root, path, **params)

        def ago(instant: datetime | None) -> str:
            return "" if instant is None else f"{short(max(0, round((now - instant).total_seconds())))} ago"

        def as_given(command: str) -> str:
            return f"{command}{self.options}"

        def counted_ago(instant: datetime) -> str:
            return f", counted {ago(instant)}" if now - instant >= timedelta(seconds=1) else ""

        known: dict[str, Any] = {
            "operator": None,
            "may_change": False,
            "csrf": "",
            "is_form": request.method == "POST",
            "here": request.scope["path"].removeprefix(root),
            "refresh": None,
            "q": "",
        }
        html = _templates.get_template(template).render(
            {
                **known,
                **values,
                "ago": ago,
                "as_given": as_given,
                "asset": digest_of,
                "counted_ago": counted_ago,
                "now": now,
                "read_only": self.read_only,
                "shown": _SHOWN,
                "signs_in": self.access.has_sign_in,
                "url": url,
            }
        )
        return Response(html.encode("utf-8", "backslashreplace"), code, media_type="text/html; charset=utf-8")

    def to(self, ask: Ask, path: str, **params: object) -> Response:
        """Return the answer to a form that was carried out: go there."""
        return RedirectResponse(link(root_of(ask.request), path, **params), 303)

    async def note(self, ask: Ask, action: str, subject: str, why: str = "", result: str = "") -> None:
        """Write into the audit log what the operator does."""
        by = ask.session.operator.name
        entry = AuditEntry(at=ask.now(), by=by, action=action, subject=subject, why=why, result=result)
        await self.backend.redrives.note(entry)
