"""Hostile keys and values: what breaks a store that glues text together without care."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import attrs

from ...failure import Failure
from ...message import MAX_ID_LENGTH, Message

__all__ = ["KEYS", "NO_COUNTS", "NO_DURATIONS", "NO_KEYS", "TEXTS", "escaped", "sound_failure", "sound_message"]

KEYS: Final = (
    "{}",
    "{0.__class__}",
    "{k}:1",
    "k:",
    ":k",
    "a/b\\c",
    "*?[a-z]",
    "%s%n",
    "'; DROP TABLE claims; --",
    '"quoted"',
    "a\nb\r\n\tc",
    "\x01\x1b[31m\x7f",
    "a\x1eb",
    "../../etc/passwd",
    "كتاب\u202e\u200d",
    "e\u0301",
    "é",
    "K",
    "k",
    "😀" * MAX_ID_LENGTH,
    "x" * MAX_ID_LENGTH,
    " ",
    " k",
    "0",
    "NULL",
    "\ufeff\ufffe",
)
"""Keys that a store has to keep apart."""

TEXTS: Final = (*KEYS, "", "\0", "a\0b")
"""Text that a store has to keep, where it is no key."""

NO_DURATIONS: Final[tuple[Any, ...]] = (-1, -0.001, float("nan"), float("inf"), "soon", "", None, True)
"""What is no duration, whatever it is for."""

NO_COUNTS: Final[tuple[Any, ...]] = (0, -1, True, 1.5, None, "5")
"""What is no limit."""

NO_KEYS: Final[tuple[Any, ...]] = ("", "x" * 256, "a\0b", "\ud800", None, 5, b"k")
"""What is no key."""


def escaped(value: Any) -> Any:
    r"""Return a value in whose text, however deep, NULs and lone surrogates stand as escapes (``\\x00``, ``\\ud800``).

    A store that has no form for these may keep the escapes instead; it may not cut the text or fail.
    """
    if isinstance(value, str):
        return str(value).replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
    if attrs.has(value.__class__):
        return {name: escaped(item) for name, item in attrs.asdict(value, recurse=False).items()}
    if isinstance(value, Mapping):
        items: Iterable[tuple[Any, Any]] = cast("Any", value).items()
        return {escaped(name): escaped(item) for name, item in items}
    if isinstance(value, (list, tuple)):
        return [escaped(item) for item in cast("list[Any]", value)]
    return value


def _sound(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def sound_failure(failure: Failure) -> Failure:
    """Return a failure without the lone surrogates in its text."""
    fields = attrs.asdict(failure, recurse=False)
    text: dict[str, Any] = {name: _sound(value) for name, value in fields.items() if type(value) is str}
    return attrs.evolve(failure, **text)


def sound_message(message: Message) -> Message:
    """Return a message without the lone surrogates in its attributes."""
    attributes = {_sound(name): _sound(value) for name, value in message.attributes.items()}
    return Message(message.id, message.body, attributes)
