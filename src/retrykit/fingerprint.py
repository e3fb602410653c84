"""One cause, many letters: a short text that is equal for failures of the same kind from the same place.

Two failures have the same fingerprint when they agree in error class, error code, enhanced code, stage, the frame of the
application's own code, and the message without what differs from case to case. `normalise` says what that leaves.

The fingerprint begins with the version of the rule that made it ("v1:"). A version never changes: a better rule is a
new version, so that what an application has noted about a fingerprint stays true.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from typing import Final

from . import codec
from .failure import Failure

__all__ = ["fingerprint", "normalise"]

_READ: Final = 2_000
"""Characters of a message that are looked at."""
_KEPT: Final = 500
"""Characters of what is left that count: a cut through the middle of an address lies behind them."""


def fingerprint(failure: Failure) -> str:
    """Return the fingerprint of a failure: "v1:" and 16 hexadecimal digits.

    Example:
        >>> from retrykit.failure import ErrorClass, Outcome
        >>> one, other = (
        ...     Failure(error_class=ErrorClass.MAILBOX_FULL, outcome=Outcome.REJECTED, error_message=text)
        ...     for text in ("<ada@example.org>: quota of 10 MB used", "<bob@example.net>: quota of 250 MB used")
        ... )
        >>> fingerprint(one) == fingerprint(other)
        True
    """
    parts = [
        str(failure.error_class),
        failure.error_code,
        failure.enhanced_code,
        failure.stage,
        normalise(failure.error_message),
        failure.frame,
    ]
    return f"v1:{hashlib.sha256(codec.encode(parts)).hexdigest()[:16]}"


def normalise(message: str) -> str:
    """Return a message without what differs from case to case.

    Lower case, each run of white space one space, and placeholders: ``<text>`` for what stands in quotes, ``<url>``,
    ``<email>``, ``<ip>``, ``<time>`` for dates and times, ``<id>`` for every word with a digit in it (numbers, sizes,
    UUIDs, ``abc-123``) or of eight and more hexadecimal digits. Only the first 2,000 characters are looked at, and the
    first 500 of what is left are kept.

    Example:
        >>> normalise("550 5.1.1 <ada@example.org>: mailbox 'ada' not found at 2026-01-31T08:00:00Z (id=f00-17)")
        '<id> <id> <<email>>: mailbox <text> not found at <time> (id=<id>)'
    """
    text = " ".join(message[:_READ].lower().split())
    for pattern, placeholder in _rules():
        text = pattern.sub(placeholder, text)
    return text[:_KEPT]


def _word(match: re.Match[str]) -> str:
    word = match[0]
    return "<id>" if re.search(_VARIABLE, word) else word


# No pattern repeats a repetition, and none sees more than _READ characters: no text takes long.
_VARIABLE: Final = r"\d|^[0-9a-f]{8,}$"
_QUOTED: Final = (
    r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"|`[^`]*`|\u201c[^\u201d]*\u201d|\u2018[^\u2019]*\u2019|\u00ab[^\u00bb]*\u00bb"
)
_URL: Final = r"\b[a-z][a-z0-9+.-]{1,15}://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}]"
_NO_ADDRESS: Final = r"\s<>()\[\],;:@"
_EMAIL: Final = rf"(?<![^{_NO_ADDRESS}])[^{_NO_ADDRESS}]+@[^{_NO_ADDRESS}]*\w"
_HEX: Final = r"[0-9a-f]{1,4}"
_V4: Final = r"\d{1,3}(?:\.\d{1,3}){3}"
_V6: Final = (
    rf"(?:(?:{_HEX}:){{7}}{_HEX}|(?:{_HEX}(?::{_HEX}){{0,6}})?::(?:{_HEX}(?::{_HEX}){{0,6}})?)(?:(?<=:){_V4}|:{_V4})?"
)
_IP: Final = rf"(?<![\w:.])(?:ipv6:)?{_V6}(?![\w:]|\.\d)|(?<![\w.-]){_V4}(?![\w-]|\.\w)"
_CLOCK: Final = r"\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?: ?(?:z|utc|gmt|[+-]\d{2}:?\d{2})\b)?"
_MONTH: Final = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_DAY: Final = rf"\d{{4}}-\d{{2}}-\d{{2}}|(?:(?:mon|tue|wed|thu|fri|sat|sun),? )?\d{{1,2}} {_MONTH} \d{{4}}"
_TIME: Final = rf"(?<![\w.:-])(?:(?:{_DAY})(?:[t ]{_CLOCK})?|{_CLOCK})(?![\w:-])"
_WORD: Final = r"[+-]?\w[\w.-]*(?:,\d[\w.-]*)*(?<![.-])"
_SIZE: Final = r"<id> ?(?:[kmgt]i?b|bytes?|octets?)\b"


@functools.cache
def _rules() -> tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]:
    """Return the patterns in their order, compiled when the first message comes."""
    return (
        (re.compile(_QUOTED), "<text>"),
        (re.compile(_URL), "<url>"),
        (re.compile(_EMAIL), "<email>"),
        (re.compile(_IP), "<ip>"),
        (re.compile(_TIME), "<time>"),
        (re.compile(_WORD), _word),
        (re.compile(_SIZE), "<id>"),
    )
