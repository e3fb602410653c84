"""The application of the demonstration: render a message, send it over SMTP, ask a server about it.

A failover chooses the provider: the second is asked only when it is certain that the first has not sent, or while the first
is closed off by its circuit breaker.
"""

from __future__ import annotations

import smtplib
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from functools import partial
from string import Template
from typing import Final, cast

from ..clock import Clock
from ..delivery import NotAccepted, Sent
from ..failover import Failover
from ..message import Message
from ..validation import address, required

__all__ = ["Sender", "render", "validate"]

_TEMPLATES: Final = {"greeting": Template("Dear $name,\n\nspring has come to $city.\n")}

_has_fields: Final = required("message_id", "recipient", "template_id", "campaign_id")
_has_address: Final = address("recipient")


def validate(message: Message) -> None:
    """Check that the message has all it needs and a plausible address."""
    _has_fields(message)
    _has_address(message)


def render(message: Message) -> EmailMessage:
    """Make the e-mail of a message; a missing variable is a KeyError."""
    payload = cast("Mapping[str, object]", message.payload)
    text = _TEMPLATES[cast("str", payload["template_id"])].substitute(cast("Mapping[str, str]", payload["variables"]))
    email = EmailMessage()
    email["From"] = "news@example.org"
    email["To"] = message.attributes["recipient"]
    email["Subject"] = "Spring"
    email["X-Message-ID"] = message.id  # travels with the mail, so that the provider's answers can be matched
    email.set_content(text)
    return email


class Sender:
    """Sends over SMTP, to the first provider that can be reached.

    Args:
        providers: name and port of each, in order of preference.
        timeout: real seconds to wait for an answer.
        clock: where the time of the breakers comes from.
    """

    def __init__(self, providers: Sequence[tuple[str, int]], timeout: float, clock: Clock) -> None:
        self.providers: Final = providers
        self.timeout: Final = timeout
        self.send: Final = Failover({name: partial(self._send, port) for name, port in providers}, clock=clock)
        """Called with a message, its key and its content; shared by all workers."""

    def _send(self, port: int, message: Message, key: str, content: EmailMessage) -> str:
        """Send an e-mail through the provider at a port; the key stands in it."""
        return self._converse(port, message.attributes["recipient"], content)

    def lookup(self, key: str) -> Sent | NotAccepted | None:
        """Ask every provider whether it has accepted a message; None when one that cannot be asked might have."""
        certain = True
        for name, port in self.providers:
            try:
                with smtplib.SMTP("127.0.0.1", port, timeout=self.timeout) as smtp:
                    code, _ = smtp.verify(key)
            except OSError:
                certain = False
            else:
                if code == 250:
                    return Sent(provider=name)
        return NotAccepted() if certain else None

    def _converse(self, port: int, recipient: str, content: EmailMessage) -> str:
        """Hold one SMTP conversation; an error before the text says so in its `smtp_phase`."""
        phase = "connect"
        try:
            smtp = smtplib.SMTP("127.0.0.1", port, timeout=self.timeout)
            try:
                phase = "ehlo"
                smtp.ehlo_or_helo_if_needed()
                phase = "mail"
                _expect(smtp.mail("news@example.org"))
                phase = "rcpt"
                _expect(smtp.rcpt(recipient))
                phase = "data"
                reply = _expect(smtp.data(content.as_bytes()))
            finally:
                smtp.close()
        except Exception as error:
            error.smtp_phase = phase  # type: ignore[attr-defined]
            raise
        return reply.rpartition(" ")[2]


def _expect(answer: tuple[int, bytes]) -> str:
    """Return the words of a positive answer.

    Raises:
        SMTPResponseException: the answer is not positive.
    """
    code, words = answer
    if code >= 400:
        raise smtplib.SMTPResponseException(code, words)
    return words.decode("utf-8", "replace")
