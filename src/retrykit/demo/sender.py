"""The application of the demonstration: render a message, send it over SMTP, ask a server about it.

The order of providers is fixed: the second is asked only when it is certain that the first has not sent. That stands in
for a failover with circuit breakers.
"""

from __future__ import annotations

import smtplib
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from string import Template
from typing import Final, cast

import attrs

from ..classification import ErrorClassifier
from ..delivery import NotAccepted, Sent
from ..failure import Outcome
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


@attrs.frozen
class Sender:
    """Sends over SMTP, to the first provider that can be reached."""

    providers: Sequence[tuple[str, int]]
    """Name and port of each, in order of preference."""
    timeout: float
    """Real seconds to wait for an answer."""
    classifier: ErrorClassifier = attrs.field(factory=ErrorClassifier)

    def send(self, message: Message, key: str, content: EmailMessage) -> Sent:
        """Send an e-mail through one provider, or raise what the last one said."""
        last: Exception | None = None
        for name, port in self.providers:
            try:
                return Sent(self._converse(port, message.attributes["recipient"], content), name)
            except Exception as error:
                error.provider = name  # type: ignore[attr-defined]
                if self.classifier.classify(error, stage="send").outcome is not Outcome.NOT_SENT:
                    raise
                last = error
        assert last is not None, "there is at least one provider"
        raise last

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
