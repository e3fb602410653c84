"""The audit log: who did what, why, and with what result."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from ..errors import ConfigurationError
from ..machines.redrive import AuditEntry
from ..times import from_millis, to_millis
from .asking import Ask
from .site import Site

__all__ = ["audit"]

_PAGE: Final = 50
_AT_ONCE: Final = 50
"""Entries of one millisecond that a page may begin amid."""


async def audit(site: Site, ask: Ask) -> Response:
    """List entries, the latest first."""
    after = ask.text("after", most=100)
    entries = await _entries(site, after)
    more = _cursor(entries[_PAGE - 1]) if len(entries) > _PAGE else None
    return site.page(ask, "audit.html", entries=entries[:_PAGE], more=more, is_first=not after)


async def _entries(site: Site, after: str) -> Sequence[AuditEntry]:
    """Return a page of entries and one more. A cursor is short, since the texts of an entry may not be."""
    read = re.fullmatch(r"(\d{1,15})\.(\d{1,9})\.[0-9a-f]{12}", after, re.ASCII)
    if not after:
        return await site.backend.redrives.audit(limit=_PAGE + 1)
    if read is None:
        raise ConfigurationError(f"after is {after[:40]!r}; allowed is what the page before has linked to")
    try:
        at = from_millis(int(read[1]))
    except OverflowError:
        raise ConfigurationError(f"after is {after!r}, which no entry was written at") from None
    first = AuditEntry(at=at, by="", action="", subject="", step=int(read[2]))  # before all of its millisecond and step
    found = await site.backend.redrives.audit(limit=_PAGE + 1 + _AT_ONCE, after=first)
    place = next((number for number, each in enumerate(found) if _cursor(each) == after), -1)
    return found[place + 1 : place + 2 + _PAGE]


def _cursor(entry: AuditEntry) -> str:
    return f"{to_millis(entry.at)}.{entry.step}.{hashlib.sha256(entry.key.encode()).hexdigest()[:12]}"
