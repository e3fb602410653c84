"""What a request asks for: its parameters and its form, each bounded, and what is not allowed said so that a person can mend it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import parse_qs

import attrs
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..clock import Clock
from ..errors import ConfigurationError
from ..stores import DeadLetterQuery
from ..times import from_iso, read_instant, seconds, to_iso
from .access import Session

__all__ = ["Ask", "read_form"]

MAX_BODY: Final = 65_536
"""Bytes of a form."""
_MAX_FIELDS: Final = 40
_MAX_VALUE: Final = 12_000


@attrs.frozen
class Ask:
    """One request, of somebody who may send it."""

    request: Request
    session: Session
    clock: Clock
    given: Mapping[str, str]
    """The parameters of the address, or for a form its fields."""

    def now(self) -> datetime:
        """Return the time."""
        return self.clock.now()

    def text(self, name: str, default: str = "", *, most: int = _MAX_VALUE) -> str:
        """Return a value as text of at most so many characters, without what stands around it."""
        value = self.given.get(name, default).strip()
        if len(value) > most:
            raise ConfigurationError(f"{name} has {len(value):,} characters; allowed are {most:,}")
        return value

    def needed(self, name: str) -> str:
        """Return a value that has to be there, as it stands: an id may begin with a space."""
        value = self.given.get(name, "")
        if not value:
            raise ConfigurationError(f"{name} is missing; allowed is text of 1 to 255 characters")
        return value

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """Return a value as a whole number."""
        text = self.text(name, str(default), most=20)
        value = int(text) if text.isascii() and text.isdigit() else least - 1
        if not least <= value <= most:
            raise ConfigurationError(f"{name} is {text!r}; allowed are whole numbers from {least:,} to {most:,}")
        return value

    def number(self, name: str) -> float | None:
        """Return a value as a number, or None where none is given."""
        text = self.text(name, most=40)
        try:
            return float(text) if text else None
        except ValueError:
            raise ConfigurationError(f"{name} is {text!r}; allowed are numbers") from None

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        """Return a value that is one of a few."""
        value = self.text(name, default, most=100) or default
        if value not in allowed:
            raise ConfigurationError(f"{name} is {value!r}; allowed are {', '.join(each for each in allowed if each)}")
        return value

    def flag(self, name: str) -> bool:
        """Tell whether a box is ticked."""
        return self.text(name, most=10) not in ("", "0", "no", "off")

    def end(self, name: str) -> datetime | None:
        """Return the end of a length of time that begins now, such as ``2h``; None where none is given."""
        text = self.text(name, most=40)
        return None if not text else self.now() + timedelta(seconds=seconds(text, name, positive=True, most=3.2e8))

    def query(self, name: str = "q") -> DeadLetterQuery:
        """Return the query that was written."""
        return DeadLetterQuery.parse(self.text(name), now=self.now())

    def going_on(self, query: DeadLetterQuery) -> tuple[DeadLetterQuery, str | None]:
        """Return the query of the page before, with the window that it had then, and the store's cursor."""
        own, *window = self.text("cursor", most=2_000).split("@")
        if len(window) != 2:
            return query, own or None
        since, until = (from_iso(each, "the cursor's window") if each else None for each in window)
        return attrs.evolve(query, since=since, until=until), own

    def since(self, default: str = "1h") -> tuple[str, datetime]:
        """Return how long ago a window begins, as it was written and as an instant before now."""
        said = self.text("since", default, most=40) or default
        now = self.now()
        begin = read_instant(said, now, "since")
        if begin >= now:
            raise ConfigurationError(f"since is {said!r}; allowed is an instant in the past, such as '1h'")
        return said, begin


def cursor_with(cursor: str | None, query: DeadLetterQuery) -> str | None:
    """Return a store's cursor that has its query's window with it: ``since:2h`` is another instant at the next call."""
    if cursor is None:
        return None
    return "@".join([cursor, *(to_iso(each) if each else "" for each in (query.since, query.until))])


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form, of each name the last.

    Raises:
        HTTPException: it is too large, or no form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(
            415, f"The form is of the type {kind[:60]!r}; this page sends application/x-www-form-urlencoded."
        )
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise HTTPException(413, f"The form is larger than {MAX_BODY:,} bytes. Use shorter texts.")
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise HTTPException(
            400, f"The form cannot be read: it is not ASCII, or has more than {_MAX_FIELDS} fields."
        ) from None
    return {name: values[-1].replace("\r\n", "\n") for name, values in fields.items()}
