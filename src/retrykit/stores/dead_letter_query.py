"""Which dead letters: one query for all that is done with them, so that what is counted is what is shown and acted upon."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

import attrs

from .. import codec
from ..clock import current_clock
from ..dead_letter import DeadLetter, DeadLetterState
from ..decision import DeadLetterReason
from ..errors import ConfigurationError
from ..failure import ErrorClass, ErrorGroup
from ..tables import nearest
from ..times import to_iso, utc
from .dead_letter_text import parse_fields, write_fields

__all__ = ["DeadLetterQuery"]

E = TypeVar("E", bound=StrEnum)


def _member(vocabulary: type[E], value: E | str | None, name: str) -> E | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in list(vocabulary):
        raise ConfigurationError(f"{name} is {value!r}{nearest(value, vocabulary)}")
    return vocabulary(value)


def _group(value: ErrorGroup | str | None) -> ErrorGroup | None:
    return _member(ErrorGroup, value, "error_group")


def _reason(value: DeadLetterReason | str | None) -> DeadLetterReason | None:
    return _member(DeadLetterReason, value, "reason")


def _state(value: DeadLetterState | str | None) -> DeadLetterState | None:
    return _member(DeadLetterState, value, "state")


def _since(value: datetime | None) -> datetime | None:
    return None if value is None else utc(value, "since")


def _until(value: datetime | None) -> datetime | None:
    return None if value is None else utc(value, "until")


def _attributes(value: Mapping[str, str]) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for item in value.items() for each in item):
        raise ConfigurationError(f"attributes is of type {type(value).__name__}; allowed is a mapping of text to text")
    return dict(value)


def _is_text(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str | None):
        raise ConfigurationError(f"{field.name} is of type {type(value).__name__}; allowed is text")


@attrs.frozen(kw_only=True)
class DeadLetterQuery:
    """Which letters: every condition given has to hold, and without any they are all letters.

    A field is equal to its value, character by character; a letter without the field is not found by it, not even by the
    empty text. `str` gives the short text form, of which `parse` makes an equal query.

    Raises:
        ConfigurationError: a value is of another type or is none of a closed vocabulary, an instant is naive, `since` is not
            before `until`, or `text` is empty.

    Example:
        >>> query = DeadLetterQuery(
        ...     campaign_id="spring", state=DeadLetterState.QUARANTINED, attributes={"tenant": "acme"}
        ... )
        >>> str(query)
        'campaign:spring state:quarantined attribute.tenant:acme'
        >>> DeadLetterQuery.parse(str(query)) == query
        True
    """

    message_id: str | None = attrs.field(default=None, validator=_is_text)
    campaign_id: str | None = attrs.field(default=None, validator=_is_text)
    provider: str | None = attrs.field(default=None, validator=_is_text)
    recipient: str | None = attrs.field(default=None, validator=_is_text)
    error_class: ErrorClass | str | None = attrs.field(default=None, validator=_is_text)
    error_group: ErrorGroup | None = attrs.field(default=None, converter=_group)
    error_code: str | None = attrs.field(default=None, validator=_is_text)
    enhanced_code: str | None = attrs.field(default=None, validator=_is_text)
    reason: DeadLetterReason | None = attrs.field(default=None, converter=_reason)
    state: DeadLetterState | None = attrs.field(default=None, converter=_state)
    stage: str | None = attrs.field(default=None, validator=_is_text)
    source: str | None = attrs.field(default=None, validator=_is_text)
    fingerprint: str | None = attrs.field(default=None, validator=_is_text)
    """Those of one group: one cause."""
    attributes: Mapping[str, str] = attrs.field(factory=dict[str, str], converter=_attributes, hash=False)
    """Values of the message's attributes, by name."""
    since: datetime | None = attrs.field(default=None, converter=_since)
    """The earliest `dead_lettered_at`, aware; cut to the millisecond."""
    until: datetime | None = attrs.field(default=None, converter=_until)
    """What `dead_lettered_at` has to be before, aware; cut to the millisecond."""
    text: str | None = attrs.field(default=None, validator=_is_text)
    """What stands somewhere in `error_message` or in `decision`, whatever the case: both sides are compared as
    `str.casefold` gives them."""

    def __attrs_post_init__(self) -> None:
        """Refuse what no letter can meet."""
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ConfigurationError(
                f"since is {to_iso(self.since)} and until {to_iso(self.until)}; allowed is a since before until"
            )
        if self.text == "":
            raise ConfigurationError("text is ''; allowed is text of one character and more, or None")

    @classmethod
    def parse(cls, text: str, *, now: datetime | None = None) -> DeadLetterQuery:
        """Read the short text form.

        Args:
            text: terms such as ``campaign:spring since:2h text:"first name"``, at most 4,000 characters.
            now: what ``2h`` is counted from, aware; None: the clock in force.

        Raises:
            ConfigurationError: the text is no query; the place is quoted, and the nearest word that is allowed.

        Example:
            >>> DeadLetterQuery.parse('class:mailbox_full attribute.tenant:acme "over quota"').text
            'over quota'
            >>> DeadLetterQuery.parse("campaigns:spring")
            Traceback (most recent call last):
            ...
            retrykit.errors.ConfigurationError: the query at character 1, 'campaigns:spring', has the unknown key 'campaigns'
            (text with a colon in it has to be quoted); did you mean 'campaign'?
        """
        fields: dict[str, Any] = parse_fields(text, current_clock().now() if now is None else now)
        return cls(**fields)

    def __str__(self) -> str:
        """Return the short text form; `parse` takes it when it has no more than 4,000 characters."""
        return write_fields(attrs.asdict(self, recurse=False))

    def conditions(self) -> dict[str, str]:
        """Return the values that fields have to have, by field; `attributes`, `since`, `until` and `text` stand apart."""
        return {name: str(value) for name in EQUAL_FIELDS if (value := getattr(self, name)) is not None}

    def matches(self, letter: DeadLetter) -> bool:
        """Tell whether a letter meets every condition: what every store goes by, and a simple one may call."""
        return (
            all(getattr(letter, name) == value for name, value in self.conditions().items())
            and all(letter.attributes.get(name) == value for name, value in self.attributes.items())
            and self.takes_in(letter.dead_lettered_at)
            and self.says(letter)
        )

    def matches_early(self, resolved_at: datetime) -> bool:
        """Tell whether what was resolved before its letter came is meant: it is resolved, dead since then, and no more is known."""
        known = {"state": DeadLetterState.RESOLVED.value}
        is_known = self.conditions().items() <= known.items() and not self.attributes and self.text is None
        return is_known and self.takes_in(resolved_at)

    def takes_in(self, instant: datetime) -> bool:
        """Tell whether an instant lies in the window [since, until)."""
        return (self.since is None or instant >= self.since) and (self.until is None or instant < self.until)

    def says(self, letter: DeadLetter) -> bool:
        """Tell whether the text stands in the letter's error message or decision."""
        if self.text is None:
            return True
        wanted = self.text.casefold()
        return wanted in letter.error_message.casefold() or wanted in letter.decision.casefold()

    def digest(self, *more: str) -> str:
        """Return eight hexadecimal digits by which a cursor knows its query again, and what else belongs to the pages."""
        return hashlib.sha256(codec.encode([str(self), *more])).hexdigest()[:8]


EQUAL_FIELDS: Final = tuple(
    field.name for field in attrs.fields(DeadLetterQuery) if field.name not in ("attributes", "since", "until", "text")
)
"""The fields of a letter that a query compares."""
