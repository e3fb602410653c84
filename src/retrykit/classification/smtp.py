"""An SMTP reply, and how its words are read.

A reply keeps what the server said: the basic code, the text without the protocol's framing, and the enhanced status
code, which mostly stands in the text. `words` is the form in which rules look at a text: lower case, single spaces, no
addresses and no paths of URLs, which are full of words that mean nothing ("unknown@", "/blocked").
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from ..errors import ConfigurationError

__all__ = ["PHASES", "SmtpReply", "asked_delay", "words"]

PHASES: Final = ("connect", "ehlo", "auth", "mail", "rcpt", "data")
"""The phases of an SMTP conversation, in order; "data" is the command and the message that follows it."""

MAX_WORDS: Final = 4_000
"""Characters of a text that rules look at."""

_ENHANCED: Final = re.compile(r"[245]\.\d{1,3}\.\d{1,3}", re.ASCII)
_ENHANCED_IN_TEXT: Final = re.compile(r"[45]\.\d{1,3}\.\d{1,3}(?![\d.]{0,12}\d)", re.ASCII)
# What stands before an enhanced code: the start of a line, "#", "(", or a basic code. Elsewhere three numbers are a
# version, a size or a part of an address.
_BEFORE_ENHANCED: Final = re.compile(r"(?:^|[#(\n]|\b[45]\d\d[ -]#?)\Z", re.ASCII)
_FRAME: Final = re.compile(r"([2-5]\d\d)(?:[ -]|$)", re.ASCII)
_EDGES: Final = ".,;:!?*\"'`()[]<>{}"
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_DELAY: Final = re.compile(
    r"\b(?:again|retry|wait|greylist(?:ed)?|graylist(?:ed)?)\b[^.\d]{0,24}?"
    r"(\d{1,6}) ?(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)\b",
    re.ASCII,
)
_DAY: Final = 86_400.0


def words(text: str) -> str:
    r"""Return `text` as rules look at it, with a space at both ends.

    Args:
        text: any text; the first 4,000 characters count.

    Example:
        >>> words("550-5.1.1 <unknown@example.org>:\n550   User UNKNOWN; see https://example.org/unknown")
        ' 550-5.1.1 550 user unknown see example.org '
    """
    tokens = text[:MAX_WORDS].lower().replace("\u2019", "'").split()
    kept = [word for token in tokens if (word := _word(token))]
    return f" {' '.join(kept)} " if kept else ""


def _word(token: str) -> str:
    if "@" in token:
        token = token.partition("<")[0] if "<" in token else ""
    elif "://" in token:
        token = token.partition("://")[2].partition("/")[0].partition("?")[0]
    return token.strip(_EDGES)


def asked_delay(text: str) -> float | None:
    """Return the seconds, at most a day, that a text asks the sender to wait; None where it names no time.

    Args:
        text: in the form that `words` gives.

    Example:
        >>> asked_delay(words("4.7.1 Greylisted, please try again in 5 minutes"))
        300.0
    """
    found = _DELAY.search(text)
    if found is None:
        return None
    return min(int(found[1]) * _UNITS[found[2][0]], _DAY)


@attrs.frozen(init=False)
class SmtpReply:
    r"""What an SMTP server answered.

    Args:
        code: the basic code, 200 to 599; None where it was lost, as in many bounce texts: then one that begins the text
            is taken.
        text: the reply's text, of one line or many ("550-5.1.1 no\n550 5.1.1 such user"). The basic code at the
            beginning of its lines is framing and is cut off. Bytes are read as UTF-8.
        enhanced_code: the enhanced status code ("5.1.1"); None: the one in the text, if there is one.
        phase: what the server answered to: "connect", "ehlo", "auth", "mail", "rcpt" or "data"; None: not known.

    Raises:
        ConfigurationError: a code is out of range, or the phase is none of these.

    Example:
        >>> reply = SmtpReply(550, "5.1.1 user unknown", phase="rcpt")
        >>> reply.code, reply.enhanced_code
        (550, '5.1.1')
    """

    code: int | None
    """The basic code."""
    text: str
    """The server's words, lines joined by line feeds, without the basic code that begins each."""
    enhanced_code: str | None
    """The enhanced status code, RFC 3463."""
    phase: str | None
    """What the server answered to."""

    def __init__(
        self, code: int | None, text: str | bytes = "", *, enhanced_code: str | None = None, phase: str | None = None
    ) -> None:
        if isinstance(text, (bytes, bytearray)):
            text = bytes(text).decode("utf-8", "replace")
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
            raise ConfigurationError(f"the text of an SMTP reply is {text!r}; allowed are text and bytes")
        if code is None:
            code = _code_in(text)
        elif not _is_code(code):
            raise ConfigurationError(f"the SMTP code is {code!r}; allowed are whole numbers from 200 to 599, and None")
        if phase is not None and phase not in PHASES:
            raise ConfigurationError(f"the SMTP phase is {phase!r}; allowed are {', '.join(PHASES)}, and None")
        text = _unframed(text, code)
        if enhanced_code is None:
            enhanced_code = _enhanced_in(text)
        elif not _ENHANCED.fullmatch(str(enhanced_code)):
            raise ConfigurationError(
                f"the enhanced status code is {enhanced_code!r}; allowed is text such as '5.1.1', "
                "beginning with 2, 4 or 5"
            )
        self.__attrs_init__(code, text, enhanced_code, phase)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]

    @classmethod
    def parse(cls, text: str | bytes, *, phase: str | None = None) -> SmtpReply:
        r"""Read a whole reply, code and text, as it came over the wire or stands in a log.

        Args:
            text: the reply, of one line or many. Where lines differ in their code, the last line's counts.
            phase: what the server answered to, as for the class.

        Returns:
            The reply; its `code` is None where no line begins with one.

        Raises:
            ConfigurationError: the phase is not allowed.

        Example:
            >>> SmtpReply.parse("550-5.1.1 no such\n550 5.1.1 user")
            SmtpReply(code=550, text='5.1.1 no such\n5.1.1 user', enhanced_code='5.1.1', phase=None)
        """
        return cls(None, text, phase=phase)


def _is_code(value: object) -> bool:
    return isinstance(value, int) and 200 <= value <= 599  # True and False are far from that


def _code_in(text: str) -> int | None:
    """Return the code that the last framed line begins with."""
    frames = [found for line in text.splitlines() if (found := _FRAME.match(line))]
    return int(frames[-1][1]) if frames else None


def _enhanced_in(text: str) -> str | None:
    for found in _ENHANCED_IN_TEXT.finditer(text, 0, MAX_WORDS):
        if _BEFORE_ENHANCED.search(text, max(0, found.start() - 6), found.start()):
            return found[0]
    return None


def _unframed(text: str, code: int | None) -> str:
    """Cut the basic code off the beginning of each line."""
    frame = str(code)
    if frame not in text:
        return text.strip()
    lines = [line[4:] if line.startswith(frame) and _FRAME.match(line) else line for line in text.splitlines()]
    return "\n".join(lines).strip()
