"""What an API's answer says of the cause: whose codes it carries, which, and in what words.

A status lies: APIs fail with 200, throttle with 400 and 403, and answer a wrong key with 500. So the body is read first. Each API
family is a **vocabulary**: a shape by which its bodies are known, and where its codes stand in them. The shape decides, not the
provider's name, which is the application's to choose; the name settles what the shape leaves open.
"""

from __future__ import annotations

from typing import Final

import attrs

from .http import HttpReply
from .provider_event import ProviderEvent
from .smtp import SmtpReply

__all__ = ["Answer", "answer_of", "event_answer"]

MAX_CODES: Final = 8
"""Codes of one answer that are looked at."""
_MAX_CODE: Final = 128


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

    @property
    def tokens(self) -> tuple[str, ...]:
        """The codes as rules look for them: in lower case, with the vocabulary and, for rules of applications, without."""
        bounded = [code[:_MAX_CODE].lower() for code in self.codes[:MAX_CODES]]
        named = [f"{self.vocabulary}.{code}" for code in bounded] if self.vocabulary else []
        return (*named, *bounded)


def answer_of(reply: HttpReply, provider: str | None) -> Answer:
    """Read an HTTP answer.

    Args:
        reply: the answer.
        provider: the name of who gave it, as the application calls it.
    """
    del provider
    return Answer(text=reply.text)


def event_answer(event: ProviderEvent) -> Answer:
    """Read a provider's event."""
    return Answer(event.provider.lower(), (*event.codes, f"kind.{event.kind}"), event.text, event.reply)
