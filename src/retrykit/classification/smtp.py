"""An SMTP reply, and how its words are read.

A reply keeps what the server said: the basic code, the text without the protocol's framing, and the enhanced status
code, which mostly stands in the text. `words` is the form in which rules look at a text: lower case, single spaces, no
addresses, names of hosts and paths of URLs, which are full of words that mean nothing ("unknown@", "antispam.example.net"), and
nothing of what a reporting server says of the conversation itself ("in reply to RCPT TO command"): that tells the phase instead.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from ..errors import ConfigurationError

__all__ = ["PHASES", "SmtpReply", "asked_delay", "decoded", "words"]

PHASES: Final = ("connect", "ehlo", "auth", "mail", "rcpt", "data")
"""The phases of an SMTP conversation, in order; "data" is the command and the message that follows it."""

MAX_WORDS: Final = 4_000
"""Characters of a text that rules look at."""

MAX_TEXT: Final = 1 << 16
"""Characters of a text that a reply keeps."""

_ENHANCED: Final = re.compile(r"[245]\.\d{1,3}\.\d{1,3}", re.ASCII)
_ENHANCED_IN_TEXT: Final = re.compile(r"[45]\.\d{1,3}\.\d{1,3}(?![\d.]{0,12}\d)", re.ASCII)
# What stands before an enhanced code: the start of a line, "#", "(", or a basic code. Elsewhere three numbers are a
# version, a size or a part of an address.
_BEFORE_ENHANCED: Final = re.compile(r"(?:^|[#(\n]|\b[45]\d\d[ -]#?)\Z", re.ASCII)
_DIGITS: Final = re.compile(r"-?\d{1,9}", re.ASCII)
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
    r"""Return `text` as rules look at it, with a space at both ends. Where there were addresses, "<>" comes last.

    Args:
        text: any text; the first 4,000 characters count.

    Example:
        >>> words("550-5.1.1 <unknown@example.org>:\n550   User UNKNOWN; see https://example.org/unknown")
        ' 550-5.1.1 550 user unknown see <> '
    """
    text = text[:MAX_WORDS].lower().replace("\u2019", "'").replace("_", " ")
    if _may_tell_phase(text):
        text = _TOLD.sub(" ", text)
    kept = [word for token in text.split() if (word := _word(token))]
    if "@" in text:
        kept.append("<>")
    return f" {' '.join(kept)} " if kept else ""


def _word(token: str) -> str:
    if "@" in token:
        token = token.partition("<")[0] if "<" in token else ""
    elif "://" in token:
        token = token.partition("://")[2].partition("/")[0].partition("?")[0]
    token = token.strip(_EDGES)
    if "." in token and _is_host(token) and not any(map(token.__contains__, _LISTS)):
        return ""
    return token


def _is_host(token: str) -> bool:
    """Tell whether a word is a host's name, perhaps with an address or a port behind it."""
    name = token.partition("[")[0].partition(":")[0].partition("/")[0]
    return name.rpartition(".")[2] in _TOP and name.replace(".", "").replace("-", "").isalnum()


_TOP: Final = frozenset(
    "com net org edu gov mil int info biz arpa example test invalid local lan internal cloud email mail online site app dev io co me tv "
    "eu uk de fr it es nl be ch at se no dk fi pl cz sk hu ro pt ie gr ru ua by kz us ca mx br ar cl pe au nz jp cn kr tw hk sg my th "
    "vn id ph za tr il ir ae pk".split()
)
"""The last parts of hosts' names; text without a space after its full stops ("unknown.Please") does not end so."""
_LISTS: Final = (
    "spamhaus", "spamcop", "sorbs", "barracuda", "dnsbl", "rbl", "bl.", "surbl", "uceprotect", "senderscore", "abusix", "invaluement",
    "mailspike", "cloudmark", "proofpoint", "spamrats", "psbl", "blocklist", "blacklist",
)  # fmt: skip
"""What stands in the names of lists, which say something; other hosts' names are full of words that mean nothing."""

# How reporting servers name the command that was answered: Postfix, Exim, Sendmail, qmail.
_COMMAND: Final = r"(?:end of )?([a-z]{4}(?: (?:from|to)\b)?)"
_TOLD: Final = re.compile(
    rf"\(?\bin reply to {_COMMAND} command\)?"
    rf"|\bsmtp error from remote (?:mail server|mailer) after {_COMMAND}"
    rf"|>>> ?{_COMMAND}"
    rf"|\bdid not like our {_COMMAND}"
    r"|\brefused to talk to me\b",
    re.ASCII,
)
_PHASES_OF: Final = {
    "helo": "ehlo",
    "ehlo": "ehlo",
    "auth": "auth",
    "mail": "mail",
    "mail from": "mail",
    "rcpt": "rcpt",
    "rcpt to": "rcpt",
    "data": "data",
}


def _may_tell_phase(text: str) -> bool:
    """Tell whether it is worth a search, which costs as much as all else."""
    return "in reply to" in text or ">>>" in text or "smtp error from" in text or "like our" in text or "to me" in text


def _phase_in(text: str) -> str | None:
    """Return the phase that a reporting server tells; of several the last."""
    text = text[:MAX_WORDS].lower()
    if not _may_tell_phase(text):
        return None
    phase = None
    for told in _TOLD.finditer(text):
        command = next(filter(None, told.groups()), None)
        phase = "connect" if command is None else _PHASES_OF.get(command, phase)
    return phase


def decoded(data: bytes) -> str:
    """Read text of an unknown charset: UTF-16 by its mark, else UTF-8, else Latin-1, which takes everything."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


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
        code: the basic code, 200 to 599, also as text; None where it was lost, as in many bounce texts: then one that begins
            the text is taken. Another number is no code, and is put before the text.
        text: the reply's text, of one line or many ("550-5.1.1 no\n550 5.1.1 such user"). The basic code at the
            beginning of its lines is framing and is cut off. Bytes are read in the charset they seem to be in. The first
            64 Ki characters count.
        enhanced_code: the enhanced status code ("5.1.1"); None, or what is none: the one in the text, if there is one.
        phase: what the server answered to: "connect", "ehlo", "auth", "mail", "rcpt" or "data"; None: what a reporting server
            says in the text ("in reply to RCPT TO command"), else not known.

    Raises:
        ConfigurationError: an argument has a type that no reply could have been read into, or the phase is none of these.

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
        self,
        code: int | str | None,
        text: str | bytes = "",
        *,
        enhanced_code: str | None = None,
        phase: str | None = None,
    ) -> None:
        if phase is not None and phase not in PHASES:
            raise ConfigurationError(f"the SMTP phase is {phase!r}; allowed are {', '.join(PHASES)}, and None")
        text = _text(text)
        number = _number(code)
        if number is not None and not 200 <= number <= 599:
            text, number = f"{number} {text}", None
        elif number is None:
            number = _code_in(text)
        text = _unframed(text, number)
        if enhanced_code is None or not _ENHANCED.fullmatch(str(enhanced_code)):
            enhanced_code = _enhanced_in(text)
        self.__attrs_init__(number, text, enhanced_code, phase or _phase_in(text))  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]

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


def _text(value: object) -> str:
    if isinstance(value, (bytes, bytearray)):
        return decoded(bytes(value[:MAX_TEXT]))
    if not isinstance(value, str):
        raise ConfigurationError(f"the text of an SMTP reply is {value!r}; allowed are text and bytes")
    return value[:MAX_TEXT]


def _number(value: object) -> int | None:
    """Return a basic code as a number; None where it is not known."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        digits = value.strip()
        return int(digits) if _DIGITS.fullmatch(digits) else None
    raise ConfigurationError(f"the SMTP code is {value!r}; allowed are whole numbers from 200 to 599, and None")


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
