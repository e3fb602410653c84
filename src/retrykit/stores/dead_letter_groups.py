"""Groups of dead letters: letters with one fingerprint, that is one cause and many messages, and what people noted of it.

The functions are pure. A simple store keeps a `GroupNote` for each fingerprint, and makes its groups of all its letters; one that
keeps counts beside the letters gives the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

import attrs

from ..dead_letter import DeadLetter, DeadLetterState
from ..errors import ConfigurationError
from ..failure import ErrorClass
from ..times import to_millis, utc
from .dead_letter_query import DeadLetterQuery

__all__ = [
    "DeadLetterGroup",
    "DeadLetterGroupPage",
    "GroupChange",
    "GroupNote",
    "GroupOrder",
    "group_letters",
    "group_of",
    "page_of_groups",
    "read_group_cursor",
    "write_group_cursor",
]

GroupOrder: TypeAlias = Literal["last_seen", "matching"]
"""Which groups come first: those with the youngest letter, or those with the most letters that a query takes in."""

SAMPLES: Final = 5
"""Letters that a group names."""


@attrs.frozen(kw_only=True)
class GroupNote:
    """What people noted of a group. It stays when the letters are purged, and holds again when others come."""

    muted: bool = False
    """Whether the group is left out of the groups that are shown."""
    muted_until: datetime | None = None
    """When it is shown again, aware; None: when somebody says so."""
    owner: str = ""
    """Who looks after it."""
    note: str = ""
    """What is known of it."""
    updated_by: str | None = None
    """Who changed any of this last, or None."""
    updated_at: datetime | None = None
    """When, by the store's clock."""

    def is_muted(self, now: datetime) -> bool:
        """Tell whether the group is muted at an instant."""
        return self.muted and (self.muted_until is None or now < self.muted_until)


def _muted(value: bool | datetime | None) -> bool | datetime | None:
    if isinstance(value, datetime):
        return utc(value, "muted")
    if value is not None and not isinstance(value, bool):
        raise ConfigurationError(f"muted is {value!r}; allowed are True, False, and the instant until which it is")
    return value


def _is_text(least: int, most: int) -> Any:
    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if value is None and not least:
            return
        if not isinstance(value, str) or not least <= len(value) <= most:
            seen = f"text of {len(value)} characters" if isinstance(value, str) else repr(value)
            raise ConfigurationError(f"{field.name} is {seen}; allowed is text of {least} to {most} characters")

    return check


@attrs.frozen(kw_only=True)
class GroupChange:
    """What somebody notes of a group. What is None stays as it is."""

    by: str = attrs.field(validator=_is_text(1, 255))
    muted: bool | datetime | None = attrs.field(default=None, converter=_muted)
    owner: str | None = attrs.field(default=None, validator=_is_text(0, 255))
    note: str | None = attrs.field(default=None, validator=_is_text(0, 10_000))

    def made_to(self, old: GroupNote, now: datetime) -> GroupNote:
        """Return a note after the change: what a store keeps from then on."""
        muted, until = old.muted, old.muted_until
        if self.muted is not None:
            until = self.muted if isinstance(self.muted, datetime) else None
            muted = until is not None or self.muted is True
        return GroupNote(
            muted=muted,
            muted_until=until,
            owner=old.owner if self.owner is None else self.owner,
            note=old.note if self.note is None else self.note,
            updated_by=self.by,
            updated_at=now,
        )


@attrs.frozen(kw_only=True)
class DeadLetterGroup(GroupNote):
    """One cause: the letters of a fingerprint, and what people noted of it.

    `matching` and `letter_ids` are of the letters that a query takes in, all else is of all letters of the fingerprint that are kept:
    when a cause was first seen does not depend on where one looks.
    """

    fingerprint: str
    error_class: ErrorClass
    """Of the letter put last, as all up to `error_message`."""
    error_code: str | None
    provider: str | None
    error_message: str
    counts: Mapping[DeadLetterState, int] = attrs.field(hash=False)
    """How many letters stand where; states without a letter are left out."""
    first_seen: datetime
    """When the first of them died."""
    last_seen: datetime
    """When the last of them died."""
    matching: int
    """How many letters the query takes in, at least 1."""
    letter_ids: tuple[str, ...]
    """Of these the letters put last, at most five, the last one first."""

    @property
    def total(self) -> int:
        """How many letters there are of the fingerprint."""
        return sum(self.counts.values())


@attrs.frozen
class DeadLetterGroupPage:
    """Some groups, in the order asked for, and where the next ones begin."""

    groups: Sequence[DeadLetterGroup]
    cursor: str | None
    """Give it to the next `groups`; None when there are no more."""


def group_letters(
    letters: Iterable[DeadLetter], query: DeadLetterQuery, notes: Mapping[str, GroupNote], now: datetime
) -> list[DeadLetterGroup]:
    """Return the groups of which a query takes in a letter.

    Args:
        letters: all, in the order in which they were put, the last one first.
        query: which of them are asked for.
        notes: what was noted, by fingerprint.
        now: by the store's clock.
    """
    members = dict[str, list[DeadLetter]]()
    for letter in letters:
        if letter.fingerprint is not None:
            members.setdefault(letter.fingerprint, []).append(letter)
    matching = {name: [letter for letter in those if query.matches(letter)] for name, those in members.items()}
    return [
        _group(name, those, matching[name], notes.get(name, GroupNote()), now)
        for name, those in members.items()
        if matching[name]
    ]


def _group(
    fingerprint: str, letters: Sequence[DeadLetter], matching: Sequence[DeadLetter], note: GroupNote, now: datetime
) -> DeadLetterGroup:
    died = [letter.dead_lettered_at for letter in letters]
    return group_of(
        fingerprint,
        letters[0],
        note,
        now,
        counts=dict(Counter(letter.state for letter in letters)),
        first_seen=min(died),
        last_seen=max(died),
        matching=len(matching),
        letter_ids=tuple(letter.id for letter in matching[:SAMPLES]),
    )


def group_of(
    fingerprint: str,
    last: DeadLetter,
    note: GroupNote,
    now: datetime,
    *,
    counts: Mapping[DeadLetterState, int],
    first_seen: datetime,
    last_seen: datetime,
    matching: int,
    letter_ids: tuple[str, ...],
) -> DeadLetterGroup:
    """Return a group as it stands at an instant.

    Args:
        fingerprint: of the group, as the store gives it.
        last: the letter of the group that was put last.
        note: what was noted of the group.
        now: by the store's clock.
        counts: as in the group, like all that follow.
        first_seen: when the first letter died.
        last_seen: when the last one died.
        matching: how many letters the query takes in.
        letter_ids: of these the ones put last, the last one first.
    """
    return DeadLetterGroup(
        fingerprint=fingerprint,
        error_class=last.error_class,
        error_code=last.error_code,
        provider=last.provider,
        error_message=last.error_message,
        counts=counts,
        first_seen=first_seen,
        last_seen=last_seen,
        matching=matching,
        letter_ids=letter_ids,
        **attrs.asdict(attrs.evolve(note, muted=note.is_muted(now))),
    )


def page_of_groups(
    groups: Iterable[DeadLetterGroup], order: GroupOrder, limit: int, cursor: str | None, *, muted: bool
) -> DeadLetterGroupPage:
    """Return one page of groups: those that are muted only if asked for, ties by fingerprint.

    Raises:
        ConfigurationError: the cursor is none.
    """
    shown = [(-_rank(group, order), group.fingerprint, group) for group in groups if muted or not group.muted]
    if cursor is not None:
        rank, fingerprint = read_group_cursor(cursor)
        shown = [row for row in shown if row[:2] > (-rank, fingerprint)]
    shown.sort(key=lambda row: row[:2])
    page = [group for _, _, group in shown[:limit]]
    more = len(shown) > limit
    return DeadLetterGroupPage(page, write_group_cursor(page[-1], order) if more else None)


def _rank(group: DeadLetterGroup, order: GroupOrder) -> int:
    return group.matching if order == "matching" else to_millis(group.last_seen)


def write_group_cursor(last: DeadLetterGroup, order: GroupOrder) -> str:
    """Return the cursor of a page that ends with this group: text that survives a command line."""
    return f"after-{_rank(last, order)}-{last.fingerprint.encode('utf-8', 'surrogatepass').hex()}"


def read_group_cursor(cursor: str) -> tuple[int, str]:
    """Return the rank and the fingerprint of the group that a page ended with.

    Raises:
        ConfigurationError: the text is not a cursor.
    """
    try:
        head, rank, name = cursor.rsplit("-", 2) if cursor.startswith("after-") else ("", "", "")
        if head in ("after", "after-") and rank.isascii() and rank.isdigit() and len(rank) <= 18:
            sign = -1 if head == "after-" else 1
            return sign * int(rank), bytes.fromhex(name).decode("utf-8", "surrogatepass")
    except ValueError:
        pass
    raise ConfigurationError(f"the cursor is {cursor[:40]!r}; allowed is the cursor of the page before")
