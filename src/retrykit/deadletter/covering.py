"""Texts in which what nobody should see is covered: values that were masked elsewhere, and the recipient's address."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Final, cast

import attrs

from ..codec import JSON
from .masks import MASK

__all__ = ["SHORTEST", "Secrets", "address_of", "cover", "cover_json", "cover_members", "forms_of"]

SHORTEST: Final = 4
"""Characters that a value has to have to be looked for inside other texts: shorter ones stand everywhere."""


@attrs.frozen
class Secrets:
    """What must not stand in a letter, as `str.casefold` gives it."""

    values: frozenset[str]
    """Of the payload."""
    addresses: tuple[str, ...]
    """Of the recipient."""
    needles: tuple[str, ...] = attrs.field(
        init=False, default=attrs.Factory(lambda self: _long_enough(self.values, self.addresses), takes_self=True)
    )
    """What is looked for inside other texts."""

    def with_values(self, values: Iterable[str]) -> Secrets:
        """Return these and others of the payload, folded as well."""
        return Secrets(self.values.union(values), self.addresses)

    def cover(self, text: str) -> str:
        """Return a text in which none of them stands."""
        if text.casefold() in self.values:
            return MASK
        return cover(text, self.needles)

    def cover_value(self, text: str) -> str:
        """Return a text of the payload: it is not one of the values, and the recipient does not stand in it.

        A payload may have as many values as texts, so that each is not looked for in every one.
        """
        return MASK if len(text) >= SHORTEST and text.casefold() in self.values else cover(text, self.addresses)


def _long_enough(values: Iterable[str], addresses: tuple[str, ...]) -> tuple[str, ...]:
    return (*(value for value in values if len(value) >= SHORTEST), *addresses)


def address_of(recipient: str) -> str:
    """Return the address of a recipient that may be written with a name before it."""
    bracketed = re.search(r"<([^<>]+)>\s*$", recipient)
    return (bracketed[1] if bracketed else recipient).strip()


def forms_of(recipient: str) -> tuple[str, ...]:
    """Return how an address may stand in a text: plain, in a URL, in the sender of a bounce; none that is too short to tell."""
    address = address_of(recipient)
    forms = {recipient, address, address.replace("@", "%40"), address.replace("@", "=")}
    return tuple(form.casefold() for form in forms if len(form) >= SHORTEST)


def cover(text: str, needles: Iterable[str]) -> str:
    """Replace each place where a needle stands in a text, whatever the case.

    Args:
        text: of any length.
        needles: not empty, as `str.casefold` gives them.
    """
    folded, hidden = text.casefold(), bytearray()
    for needle in needles:
        place = folded.find(needle)
        while place >= 0:
            hidden = hidden or bytearray(len(folded))
            end = place + len(needle)
            hidden[place:end] = b"\1" * len(needle)
            place = folded.find(needle, end)
    if not hidden:
        return text
    if len(folded) > len(text):
        hidden = _unfolded(text, hidden)
    kept, place = list[str](), 0
    for run in re.finditer(b"\1+", hidden):
        kept += text[place : run.start()], MASK
        place = run.end()
    return "".join([*kept, text[place:]])


def _unfolded(text: str, hidden: bytearray) -> bytearray:
    """Return which characters of a text are hidden: one of them may be several when it is folded."""
    ends = [*accumulate(len(character.casefold()) for character in text)]
    return bytearray(any(hidden[end - len(text[place].casefold()) : end]) for place, end in enumerate(ends))


def cover_json(value: JSON, change: Callable[[str], str]) -> JSON:
    """Return a value with every text in it changed, keys included; a number is replaced where its text would be changed whole.

    Args:
        value: JSON of at most 100 levels.
        change: gives the text without what is to be covered.
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return cover_members(value, change)
    if isinstance(value, list):
        return [cover_json(item, change) for item in cast("list[JSON]", value)]
    if value is None or isinstance(value, bool):
        return value
    return MASK if change(str(value)) == MASK else value


def cover_members(value: Mapping[str, JSON], change: Callable[[str], str]) -> dict[str, JSON]:
    """Return an object with every text in it changed, as `cover_json`."""
    return {change(key): cover_json(item, change) for key, item in value.items()}
