"""Search, and the record of one dead letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..dead_letter import DeadLetter, DeadLetterState
from ..stores import DeadLetterQuery
from ..stores.dead_letters import Facet
from .asking import Ask, cursor_with
from .site import Site

__all__ = ["letter", "search"]

_PAGE: Final = 25
_FACETS: Final[dict[str, Facet]] = {
    "class": "error_class",
    "state": "state",
    "provider": "provider",
    "campaign": "campaign_id",
    "code": "error_code",
}
"""What a search may be narrowed by, under the word that the query has for it."""


@attrs.frozen
class _Narrowed:
    """A value that a search may be narrowed to, or is."""

    value: str
    count: int | None
    query: str
    """The search with it; where it is narrowed already, without."""


async def search(site: Site, ask: Ask) -> Response:
    """Show the letters of a query, and what it may be narrowed by."""
    written = ask.text("q")
    query, cursor = ask.going_on(ask.query())
    letters = site.backend.dead_letters
    page = await letters.search(query, limit=_PAGE, cursor=cursor)
    facets = dict[str, Sequence[_Narrowed]]()
    for word, field in _FACETS.items():
        value = getattr(query, field)
        if value is not None:
            without: dict[str, Any] = {field: None}
            rest = str(attrs.evolve(query, **without))
            facets[word] = [_Narrowed(str(value), None, rest)]
        else:
            found = await letters.top(field, query=query, limit=6)
            facets[word] = [_Narrowed(value, count, _with(written, field, value)) for value, count in found]
    return site.page(
        ask,
        "search.html",
        q=written,
        count=await letters.count(query),
        letters=page.letters,
        cursor=cursor_with(page.cursor, query),
        is_first=cursor is None,
        facets={word: values for word, values in facets.items() if values},
        can_put_back=query.state in (None, DeadLetterState.QUARANTINED),
    )


def _with(written: str, field: str, value: str) -> str:
    """Return a query as it was written, with one more term: ``since:2h`` stays what it is."""
    term: dict[str, Any] = {field: value}
    return f"{written} {DeadLetterQuery(**term)}".strip()


async def letter(site: Site, ask: Ask) -> Response:
    """Show all of one letter: what came in, what was tried, what was decided, and what it has in common with others."""
    found = await site.backend.dead_letters.get(ask.needed("id"))
    if found is None:
        raise HTTPException(
            404, f"There is no dead letter {ask.needed('id')[:255]!r}. It may have been purged; search for its message."
        )
    claim = await site.backend.claims.get(found.message_id)
    delivery = await site.backend.deliveries.get(found.message_id)
    group, near = None, list[DeadLetter]()
    if found.fingerprint:
        group = await site.backend.dead_letters.group(found.fingerprint)
        query = DeadLetterQuery(fingerprint=found.fingerprint)
        page = await site.backend.dead_letters.search(query, limit=6)
        near = [each for each in page.letters if each.id != found.id][:5]
    only = DeadLetterQuery(message_id=found.message_id)
    return site.page(
        ask,
        "letter.html",
        letter=found,
        claim=claim,
        delivery=delivery,
        group=group,
        near=near,
        only=str(only),
        alike=str(DeadLetterQuery(fingerprint=found.fingerprint)) if found.fingerprint else "",
    )
