"""Groups: one cause, many messages; how they come, who looks after them, and what is known."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, cast, get_args

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..errors import ConfigurationError
from ..stores import DeadLetterQuery
from ..stores.dead_letter_groups import DeadLetterGroup, GroupOrder
from .asking import Ask, cursor_with
from .charts import chart_of
from .site import Site

__all__ = ["annotate", "group", "groups"]

_PAGE: Final = 20
_SPANS: Final = {"6h": (timedelta(hours=6), "10m"), "2d": (timedelta(days=2), "1h"), "14d": (timedelta(days=14), "6h")}
"""How long a trend looks back, and its step."""
_MUTES: Final = ("", "no", "8h", "1d", "7d", "forever")


async def groups(site: Site, ask: Ask) -> Response:
    """List the groups of a query."""
    order = cast("GroupOrder", ask.choice("order", get_args(GroupOrder), "matching"))
    muted = ask.flag("muted")
    query, cursor = ask.going_on(ask.query())
    page = await site.backend.dead_letters.groups(query, order=order, muted=muted, limit=_PAGE, cursor=cursor)
    return site.page(
        ask,
        "groups.html",
        q=ask.text("q"),
        order=order,
        muted=muted,
        groups=page.groups,
        cursor=cursor_with(page.cursor, query),
        is_first=cursor is None,
    )


async def group(site: Site, ask: Ask) -> Response:
    """Show one group, its trend and some of its letters."""
    found = await _found(site, ask)
    span = ask.choice("span", _SPANS, "2d")
    length, step = _SPANS[span]
    now = ask.now()
    query = DeadLetterQuery(fingerprint=found.fingerprint)
    window = DeadLetterQuery(fingerprint=found.fingerprint, since=now - length, until=now + timedelta(milliseconds=1))
    letters = site.backend.dead_letters
    return site.page(
        ask,
        "group.html",
        group=found,
        query=str(query),
        span=span,
        spans=_SPANS,
        mutes=_MUTES,
        trend=chart_of(await letters.trend(window, step=step)),
        letters=(await letters.search(query, limit=5)).letters,
    )


async def annotate(site: Site, ask: Ask) -> Response:
    """Note who looks after a group, what is known of it, and whether it is listed."""
    found = await _found(site, ask)
    mute = ask.choice("mute", _MUTES, "")
    muted: bool | datetime | None = {"": None, "no": False, "forever": True}.get(mute)
    if mute in ("8h", "1d", "7d"):
        muted = ask.end("mute")
    owner, note = ask.text("owner"), ask.text("note")
    if len(owner) > 255 or len(note) > 10_000:
        raise ConfigurationError("the owner may have 255 characters, and the note 10,000; use shorter ones")
    by = ask.session.operator.name
    await site.backend.dead_letters.annotate(found.fingerprint, by=by, muted=muted, owner=owner, note=note)
    said = {"": "", "no": "listed again", "forever": "muted"}.get(mute, f"muted for {mute}")
    told = [
        said,
        f"owner {owner or 'nobody'}" if owner != found.owner else "",
        "note changed" if note != found.note else "",
    ]
    if any(told):
        await site.note(ask, "group noted", found.fingerprint, note, ", ".join(filter(None, told)))
    return site.to(ask, "/group", fingerprint=found.fingerprint)


async def _found(site: Site, ask: Ask) -> DeadLetterGroup:
    fingerprint = ask.needed("fingerprint")
    found = await site.backend.dead_letters.group(fingerprint)
    if found is None:
        raise HTTPException(
            404,
            f"There is no dead letter with the fingerprint {fingerprint[:255]!r}. All of the group may have been purged.",
        )
    return found
