"""What an API's answer says of the cause: whose codes it carries, which, and in what words.

A status lies: APIs fail with 200, throttle with 400 and 403, and answer a wrong key with 500. So the body is read first. Each API
family is a **vocabulary**: a shape by which its bodies are known, and where its codes stand in them. The shape decides, not the
provider's name, which is the application's to choose; the name settles what the shape leaves open.

Beside the provider's codes an answer carries **marks**, tokens of our own for what rules cannot see elsewhere: that there is no
code, the kind of an event, the server's word on trying again. Where a code is in no table, what its name is like ("QueueThrottled",
                                                                                                                   "invalid_field_format") is a hint of the last resort.
"""

from __future__ import annotations

import functools
import re
from typing import Final

import attrs

from .http import HttpReply
from .provider_event import EventKind, ProviderEvent
from .smtp import SmtpReply

__all__ = ["Answer", "answer_of", "event_answer", "quoted_reply"]

MAX_CODES: Final = 8
"""Codes of one answer that are looked at."""
_MAX_CODE: Final = 128
_MAX_TEXT: Final = 4_000

_LIKE: Final = (
    ("suppressed", "opted out", "opt out", "unsubscribed", "suppress", "complain", "blacklisted", "blocklisted"),
    ("throttled", "throttl", "too many", "rate limit", "ratelimit", "rate exceeded", "limit exceeded", "slow down"),
    ("quota", "quota", "credit", "insufficient funds", "insufficient balance", "limit reached"),
    ("recipient", "recipient", "unregistered", "not registered", "device token", "registration token"),
    ("access", "auth", "access", "permission", "forbidden", "credential", "token", "signature", "api key", "suspend",
     "paused", "disabled", "not verified", "not enabled", "not allowed", "restricted", "payment", "billing", "license",
     "scope", "login", "password", "certificate", "denied", "kms"),
    ("large", "too large", "too long", "too big", "size exceeded"),
    ("policy", "spam", "policy", "blocked", "prohibited", "violation", "fraud"),
    ("passing", "unavailable", "timeout", "timed out", "internal", "server error", "service error", "try again",
     "temporar", "in progress", "pending", "busy", "maintenance", "concurrent", "backend", "overload", "dependency"),
    ("payload", "invalid", "missing", "malformed", "bad ", "validation", "unsupported", "not supported", "required",
     "unprocessable", "parse", "schema", "format", "mismatch", "incorrect", "illegal", "empty", "unknown", "duplicate",
     "not found", "does not exist", "no such", "already exists", "conflict", "argument", "parameter", "not allowed"),
)  # fmt: skip
"""What the name of a code is like, and the words in it that say so; the first that fits."""
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SPACE: Final = re.compile(r"\s+")

_SMTP: Final = re.compile(
    r"(?:smtp; ?)?(?:[\w ]{0,40}: )?(?=[45]\d\d[ -]|#?[45]\.\d{1,3}\.\d{1,3}\b)", re.ASCII | re.IGNORECASE
)
_SMTP_CODES: Final = (range(420, 460), range(500, 560))
"""What a mail server's code can be; numbers outside are providers' own."""

_GOOD: Final = (EventKind.ACCEPTED, EventKind.DELIVERED, EventKind.ENGAGED)

_RETRIED: Final = frozenset({408, 409, 424, 425, 429, *range(500, 600)})
_STRIPE_PASSING: Final = frozenset(
    {
        "rate_limit",
        "lock_timeout",
        "idempotency_key_in_use",
        "processing_error",
        "try_again_later",
        "issuer_not_available",
    }
)
"""Codes of Stripe's that would be tried again if the server did not forbid it."""


@attrs.frozen
class Answer:
    """What was read from one answer or event."""

    vocabulary: str | None = None
    """Whose codes they are: "twilio"; None where the shape is nobody's."""
    codes: tuple[str, ...] = ()
    """The provider's own codes, verbatim, the most specific first."""
    text: str = ""
    """Its words."""
    reply: SmtpReply | None = None
    """What a mail server answered, where it is quoted."""
    retry_after: float | None = None
    """Seconds that the body asks us to wait."""
    marks: tuple[str, ...] = ()
    """Tokens of our own: "http.uncoded", "kind.bounced"."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The codes as rules look for them: in lower case, with the vocabulary and, for rules of applications, without.

        White space within a code becomes "_" where the vocabulary stands before it. Marks come first, likenesses last.
        """
        bounded = [code[:_MAX_CODE].lower() for code in self.codes[:MAX_CODES]]
        named = [f"{self.vocabulary}.{_SPACE.sub('_', code)}" for code in bounded] if self.vocabulary else []
        like = [f"like.{found}" for code in self.codes[:MAX_CODES] if (found := _likeness(code[:_MAX_CODE]))]
        return (*self.marks, *named, *bounded, *like)


def answer_of(reply: HttpReply, provider: str | None) -> Answer:
    """Read an HTTP answer.

    Args:
        reply: the answer.
        provider: the name of who gave it, as the application calls it; None: not known.

    Returns:
        What was read; of a body that cannot be read, its text at most. Never raises.

    Example:
        >>> reply = HttpReply(
        ...     400, body=b'{"code": 21211, "message": "no such number", "more_info": "...", "status": 400}'
        ... )
        >>> answer = answer_of(reply, "texts")
        >>> answer.vocabulary, answer.codes, answer.text
        ('twilio', ('21211',), 'no such number')
    """
    from .vocabularies import read  # only here: it is needed when the first HTTP answer comes

    said = read(reply, provider)
    if said is None:
        text = "" if reply.document is not None else reply.text[:_MAX_TEXT].strip()
        return Answer(text=text, marks=(*_word_on_retries(reply, ()), "http.silent", "http.uncoded"))
    codes = said.codes[:MAX_CODES]
    marks = (*_word_on_retries(reply, codes), *(() if codes else ("http.uncoded",)))
    return Answer(said.vocabulary, codes, said.text, quoted_reply(said.text), said.retry_after, marks)


def _word_on_retries(reply: HttpReply, codes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the mark for the field in which a server says itself whether to try again."""
    word = reply.headers.get("stripe-should-retry", "").strip().lower()
    if word == "true":
        return ("stripe.should_retry",)
    forbids = word == "false" and (reply.status in _RETRIED or not _STRIPE_PASSING.isdisjoint(codes))
    return ("stripe.should_not_retry",) if forbids else ()


def event_answer(event: ProviderEvent) -> Answer:
    """Read a provider's event. What it says of a cause counts only where it can be a failure."""
    vocabulary = event.vocabulary or event.provider.lower()
    marks = (f"kind.{event.kind}",)
    if event.kind.is_failure or event.kind is EventKind.OTHER:
        return Answer(vocabulary, event.codes, event.text, event.reply if event.kind.is_failure else None, None, marks)
    return Answer(vocabulary, marks=(*marks, "kind.no_failure") if event.kind in _GOOD else marks)


def quoted_reply(text: str, code: int | None = None, enhanced_code: str | None = None) -> SmtpReply | None:
    """Return the SMTP reply that a provider quotes, or None where its words are its own.

    Args:
        text: the words; a reply begins with its code, after "smtp;" perhaps.
        code: the basic code, where it stands apart; one that no mail server gives (602) is a provider's own.
        enhanced_code: the enhanced code, where it stands apart; ignored where it is none.

    Example:
        >>> quoted_reply("smtp; 550 5.1.1 user unknown")
        SmtpReply(code=550, text='5.1.1 user unknown', enhanced_code='5.1.1', phase=None)
        >>> quoted_reply("the address is suppressed") is None
        True
    """
    found = _SMTP.match(text)
    enhanced = enhanced_code if enhanced_code and re.fullmatch(r"[45]\.\d{1,3}\.\d{1,3}", enhanced_code) else None
    if code is not None and not any(code in numbers for numbers in _SMTP_CODES):
        code = None
    if found is None and code is None and enhanced is None:
        return None
    words = text[found.end() :] if found else text
    own = SmtpReply(None, words, enhanced_code=enhanced)
    if own.code is not None and not any(own.code in numbers for numbers in _SMTP_CODES):
        return None
    if own.code is not None or code is None:
        return own
    return SmtpReply(code, words, enhanced_code=enhanced)


@functools.lru_cache(1_024)
def _likeness(code: str) -> str | None:
    """Return what the name of a code is like, or None.

    Example:
        >>> _likeness("KmsKeyDisabledException"), _likeness("too_many_requests"), _likeness("30003")
        ('access', 'throttled', None)
    """
    words = f" {' '.join(_PARTS.findall(code)).lower()} "
    return next((name for name, *parts in _LIKE if any(part in words for part in parts)), None)
