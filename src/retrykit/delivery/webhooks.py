"""Providers' webhooks: a request is verified first, and only then read into events.

One class for each provider, all with `events(headers, body)`. It gives the events of a genuine request; everything else is a
`WebhookRefusedError`, or an `InvalidPayloadError` where the body is no JSON. Neither quotes the body, a signature or a secret, and
secrets stay out of every repr. The objects are immutable and safe to share among threads; the time comes from the clock in force.

A genuine request may still come twice: providers send again what they got no answer for. Whatever is done with an event must
bear being done twice.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Final, cast, final

import attrs

from .._steps import is_async
from ..checks import provider_name, whole
from ..classification.documents import as_map
from ..classification.provider_event import EventKind, ProviderEvent
from ..codec import JSON
from ..errors import ConfigurationError, InvalidPayloadError, WebhookRefusedError
from ..times import Duration, from_iso, seconds
from .events import parse_events
from .webhook_signatures import (
    AHEAD,
    SIGNING_CERTIFICATE,
    Certificates,
    EcKeys,
    Headers,
    SeenTokens,
    as_bytes,
    by_name,
    check_age,
    decoded,
    fetch_certificate,
    need_cryptography,
    unix_seconds,
)

__all__ = ["Headers", "MailgunWebhook", "PostmarkWebhook", "SendGridWebhook", "SesWebhook", "Webhook"]

MAX_BODY: Final = 1 << 20
"""Bytes of a request that are read, unless told otherwise."""
MAX_TOKENS: Final = 100_000
"""Tokens of Mailgun that one process remembers."""
_MAX_TOKEN: Final = 200
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of a header (RFC 9110, section 5.1)."""


class Webhook(ABC):
    """The requests by which one provider reports events. Subclass it for a provider that is not here: write `_events`."""

    provider: str
    """Who sends them, as the application calls the provider; each event carries it."""
    max_body: int = MAX_BODY
    """Bytes of a body that are looked at, >= 1; a larger one is refused unread."""
    media_types: ClassVar[frozenset[str]] = frozenset({"application/json"})
    """What a request may call its content, in lower case."""
    scheme: ClassVar[str] = "Signature"
    """How a request has to show where it comes from, for the answer to one that does not (`WWW-Authenticate`)."""

    @final
    def events(self, headers: Headers, body: bytes) -> list[ProviderEvent]:
        """Verify a request, then read its events in their order. May block: for SES, a certificate may have to be fetched.

        Args:
            headers: the headers of the request: a mapping, or pairs, of text or of bytes; names in any case.
            body: the body as it came, before anybody has parsed it.

        Returns:
            The events; none where the provider sends an empty array.

        Raises:
            WebhookRefusedError: nothing shows that the provider sent it, or sent it now; `reason` says why.
            InvalidPayloadError: it is no JSON, or holds something else than events.
        """
        if not isinstance(body, (bytes, bytearray, memoryview)):
            raise InvalidPayloadError(
                f"the webhook body of {self.provider!r} is a {type(body).__name__}; allowed are the bytes of the request"
            )
        size = memoryview(body).nbytes
        if size > self.max_body:
            raise WebhookRefusedError(
                self.provider,
                "too_large",
                f"its body has {size:,} bytes, allowed are at most {self.max_body:,}; raise max_body if it is genuine",
            )
        return self._events(by_name(headers), bytes(body))

    def forget(self, body: bytes) -> None:  # noqa: B027 - most remember nothing
        """Accept a request once more that was accepted before, because its events could not be applied.

        Args:
            body: the body of a request of which `events` gave the events.
        """

    @abstractmethod
    def _events(self, headers: Mapping[str, str], body: bytes) -> list[ProviderEvent]:
        """Verify a request, then read its events.

        Args:
            headers: by name in lower case; the values of one that came several times are joined by ", ".
            body: at most `max_body` bytes.

        Raises:
            WebhookRefusedError: as for `events`.
            InvalidPayloadError: as for `events`.
        """


def _json_text(provider: str, body: bytes) -> str:
    """Return a body that begins like JSON as text, so that all who read it read the same."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidPayloadError(f"the webhook body of {provider!r} is not UTF-8") from None
    if text.lstrip()[:1] not in ("{", "["):
        raise InvalidPayloadError(f"the webhook body of {provider!r} is no JSON object or array")
    return text


def _json_object(provider: str, text: str) -> Mapping[str, object]:
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidPayloadError(f"the webhook body of {provider!r} is not JSON ({len(text):,} characters)") from None
    if not isinstance(document, dict):
        raise InvalidPayloadError(f"the webhook body of {provider!r} is an array; allowed is a JSON object")
    return cast("dict[str, object]", document)


def _provider(value: str) -> str:
    if not isinstance(value, str) or not value:  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise ConfigurationError(f"provider is {value!r}; allowed is a name, as the application calls the provider")
    return provider_name(value)


def _max_body(value: int) -> int:
    return whole(value, "max_body")


def _tolerance(value: Duration) -> float:
    return seconds(value, "tolerance", positive=True)


def _function(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (not callable(value) or is_async(value)):
        raise ConfigurationError(f"{attribute.name} is {value!r}; allowed is a function that is not asynchronous")


def _several(value: str | bytes | Iterable[str | bytes]) -> tuple[str | bytes, ...]:
    """Return keys as a tuple; none of them is quoted, they are secrets."""
    given: object = (value,) if isinstance(value, (str, bytes)) else value
    if not isinstance(given, Iterable):
        raise ConfigurationError(
            f"keys is of type {type(given).__name__}; allowed is a key as text or bytes, or a list"
        )
    keys = tuple(cast("Iterable[object]", given))
    for key in keys:
        if not isinstance(key, (str, bytes)):
            raise ConfigurationError(f"one of keys is of type {type(key).__name__}; allowed are text and bytes")
    return cast("tuple[str | bytes, ...]", keys)


def _topics(value: Iterable[str]) -> frozenset[str]:
    given: object = value
    is_list = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    topics = list(cast("Iterable[object]", given)) if is_list else []
    if not topics or not all(isinstance(topic, str) and topic.startswith("arn:") for topic in topics):
        raise ConfigurationError(f"topics is {value!r}; allowed is a list of at least one TopicArn ('arn:aws:sns:...')")
    return frozenset(cast("list[str]", topics))


def _sendgrid_keys(value: str | bytes | Iterable[str | bytes]) -> EcKeys:
    return EcKeys(_several(value))


def _mailgun_keys(value: str | bytes | Iterable[str | bytes]) -> tuple[bytes, ...]:
    keys = tuple(key if isinstance(key, bytes) else as_bytes(key) for key in _several(value))
    if not keys or not all(keys):
        raise ConfigurationError("keys is empty, or one of them is; give the HTTP webhook signing key")
    return keys


@attrs.frozen(kw_only=True, eq=False)
class SesWebhook(Webhook):
    """SES through SNS: notifications signed by a certificate of Amazon, and the confirmations of a subscription.

    A confirmation is not followed. It comes out as one event of the kind "other" with the code "SubscriptionConfirmation" (or
    "UnsubscribeConfirmation"); to confirm, open its `raw["SubscribeURL"]`. Raw message delivery must be off: raw messages are not signed.

    Args:
        topics: the TopicArns that are ours, at least one; anybody can have SNS sign a message of another topic.
        provider: see `Webhook`.
        tolerance: how old a message may be, > 0; default an hour. SNS goes on trying for up to an hour, and never renews the time.
        max_body: see `Webhook`; SNS sends up to 256 KiB of message.
        fetch: gives the certificate (PEM) at a checked https address of Amazon. Raises LookupError where there is none, which
            refuses the request; any other error goes through, so that SNS sends again. Default: urllib, five seconds, no redirects.

    Raises:
        ConfigurationError: one of these is not allowed.
        MissingExtraError: cryptography is not installed.

    Source:
        Amazon SNS Developer Guide, "Verifying the signatures of Amazon SNS messages".
    """

    media_types: ClassVar[frozenset[str]] = frozenset({"application/json", "text/plain"})

    topics: frozenset[str] = attrs.field(converter=_topics)
    provider: str = attrs.field(default="ses", converter=_provider)
    tolerance: float = attrs.field(default=3_600.0, converter=_tolerance)
    max_body: int = attrs.field(default=MAX_BODY, converter=_max_body)
    fetch: Callable[[str], bytes] = attrs.field(default=fetch_certificate, repr=False, validator=_function)
    _certificates: Certificates = attrs.field(
        init=False, repr=False, default=attrs.Factory(lambda self: Certificates(self.fetch), takes_self=True)
    )

    _SIGNED: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
        "SubscriptionConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
        "UnsubscribeConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
    }

    def __attrs_post_init__(self) -> None:
        need_cryptography()

    def _events(self, headers: Mapping[str, str], body: bytes) -> list[ProviderEvent]:
        del headers  # say nothing that is signed
        text = _json_text(self.provider, body)
        envelope = _json_object(self.provider, text)
        kind, message_id, sent_at = self._verify(envelope)
        if kind == "Notification":
            events = parse_events(self.provider, text)
            if len(events) == 1 and events[0].event_id is None:
                return [attrs.evolve(events[0], event_id=message_id)]  # the same whenever SNS sends it again
            return events
        return [
            ProviderEvent(
                provider=self.provider,
                kind=EventKind.OTHER,
                codes=(kind,),
                vocabulary="aws",
                event_id=message_id,
                at=sent_at,
                raw=cast("JSON", envelope),
            )
        ]

    def _verify(self, envelope: Mapping[str, object]) -> tuple[str, str, datetime]:
        """See that an envelope is genuine, ours and of now; return its type, id and time."""
        kind = envelope.get("Type")
        if not isinstance(kind, str) or kind not in self._SIGNED:
            raise self._refused("missing", "it has no Type that SNS signs; switch raw message delivery off")
        signed = ""
        for name in self._SIGNED[kind]:
            if name == "Subject" and envelope.get(name) is None:
                continue
            value = self._field(envelope, name)
            if name != "Message" and "\n" in value:  # the signature would also fit other fields, cut elsewhere
                raise self._refused("signature", f"its {name} has several lines")
            signed += f"{name}\n{value}\n"
        if envelope["TopicArn"] not in self.topics:
            raise self._refused("topic", "its TopicArn is not among topics")
        sent_at = self._sent_at(envelope)
        check_age(self.provider, sent_at.timestamp(), self.tolerance)
        url = self._field(envelope, "SigningCertURL")
        if not SIGNING_CERTIFICATE.fullmatch(url):
            raise self._refused(
                "certificate",
                "its SigningCertURL is not allowed; allowed is https://sns.<region>.amazonaws.com/<name>.pem",
            )
        version = self._field(envelope, "SignatureVersion")
        signature = decoded(self._field(envelope, "Signature"))
        if version not in ("1", "2") or signature is None:
            raise self._refused("signature", "its signature is not base64, or of another version than 1 and 2")
        self._certificates.check(self.provider, url, signature, as_bytes(signed), is_sha1=version == "1")
        return kind, str(envelope["MessageId"]), sent_at

    def _field(self, envelope: Mapping[str, object], name: str) -> str:
        value = envelope.get(name)
        if not isinstance(value, str):
            raise self._refused("missing", f"it has no {name}, or one that is not text")
        return value

    def _sent_at(self, envelope: Mapping[str, object]) -> datetime:
        try:
            return from_iso(str(envelope["Timestamp"]))
        except ConfigurationError:
            raise self._refused("missing", "its Timestamp is no instant") from None

    def _refused(self, reason: str, detail: str) -> WebhookRefusedError:
        return WebhookRefusedError(self.provider, reason, detail)


@attrs.frozen(kw_only=True, eq=False)
class SendGridWebhook(Webhook):
    """SendGrid's signed event webhook: ECDSA over the timestamp and the body, in two headers.

    Args:
        keys: the verification key that SendGrid shows (base64), or PEM; several while one replaces another.
        provider: see `Webhook`.
        tolerance: how old a request may be, > 0; default 25 hours. SendGrid sends again for 24 hours and does not say whether it signs anew; since
            the signature covers the body, a request that is sent again can only repeat the same events.
        max_body: see `Webhook`.

    Raises:
        ConfigurationError: one of these is not allowed.
        MissingExtraError: cryptography is not installed.

    Source:
        Twilio SendGrid, "Getting Started with the Event Webhook Security Features".
    """

    keys: EcKeys = attrs.field(converter=_sendgrid_keys, repr=False)
    provider: str = attrs.field(default="sendgrid", converter=_provider)
    tolerance: float = attrs.field(default=90_000.0, converter=_tolerance)
    max_body: int = attrs.field(default=MAX_BODY, converter=_max_body)

    def _events(self, headers: Mapping[str, str], body: bytes) -> list[ProviderEvent]:
        given = headers.get("x-twilio-email-event-webhook-signature", "")
        timestamp = headers.get("x-twilio-email-event-webhook-timestamp", "")
        if not given or not timestamp:
            raise WebhookRefusedError(
                self.provider,
                "missing",
                "it has no signature or no timestamp; switch signatures on in the settings of SendGrid",
            )
        signature, sent_at = decoded(given), unix_seconds(timestamp)
        if signature is None or sent_at is None:
            raise WebhookRefusedError(
                self.provider, "signature", "its signature is not base64, or its timestamp no number"
            )
        if not self.keys.have_signed(signature, timestamp.encode("ascii") + body):
            raise WebhookRefusedError(self.provider, "signature", "its signature is by none of keys")
        check_age(self.provider, sent_at, self.tolerance)
        return parse_events(self.provider, _json_text(self.provider, body))


@attrs.frozen(kw_only=True, eq=False)
class MailgunWebhook(Webhook):
    """Mailgun: an HMAC over a timestamp and a token, within the body.

    The event itself is not signed. So each token passes once: a request that brings it again, with whatever event, is refused until it
    is too old anyway. Call `forget` where the events could not be applied (`WebhookEndpoint` does), for Mailgun sends again
    with the same token.

    Args:
        keys: the HTTP webhook signing key; several while one replaces another, or for subaccounts.
        provider: see `Webhook`.
        tolerance: how old a request may be, > 0; default nine hours. Mailgun sends again for eight hours.
        max_body: see `Webhook`.
        seen: tells whether a token was seen before, and remembers it for at least `tolerance`, in one step; for several processes, a
            shared store. Called only with tokens that are genuine. Default: the last 100,000 of this process.
        unsee: takes a token out again, for `forget`; belongs to `seen`, and neither goes without the other: an event that could not be
            applied would be refused when Mailgun sends it again, and lost.

    Raises:
        ConfigurationError: one of these is not allowed.

    Source:
        Mailgun, "Securing Webhooks".
    """

    keys: tuple[bytes, ...] = attrs.field(converter=_mailgun_keys, repr=False)
    provider: str = attrs.field(default="mailgun", converter=_provider)
    tolerance: float = attrs.field(default=32_400.0, converter=_tolerance)
    max_body: int = attrs.field(default=MAX_BODY, converter=_max_body)
    seen: Callable[[str], bool] | None = attrs.field(default=None, repr=False, validator=_function)
    unsee: Callable[[str], object] | None = attrs.field(default=None, repr=False, validator=_function)
    _own: SeenTokens = attrs.field(
        init=False,
        repr=False,
        default=attrs.Factory(lambda self: SeenTokens(self.tolerance + AHEAD, MAX_TOKENS), takes_self=True),
    )

    def __attrs_post_init__(self) -> None:
        if (self.seen is None) != (self.unsee is None):
            given, absent = ("unsee", "seen") if self.seen is None else ("seen", "unsee")
            raise ConfigurationError(
                f"{given} is given without {absent}; give both, or neither: what could not be applied has to pass again"
            )

    def forget(self, body: bytes) -> None:
        """See `Webhook`."""
        token = _mailgun_token(_json_object(self.provider, _json_text(self.provider, body)))
        (self.unsee or self._own.forget)(token)

    def _events(self, headers: Mapping[str, str], body: bytes) -> list[ProviderEvent]:
        del headers  # the signature is in the body
        text = _json_text(self.provider, body)
        document = _json_object(self.provider, text)
        fields, token = as_map(document.get("signature")), _mailgun_token(document)
        timestamp = fields.get("timestamp")
        timestamp = str(timestamp) if isinstance(timestamp, int) else timestamp
        given = [value for name in ("signature", "parent-signature") if isinstance(value := fields.get(name), str)]
        if not token or not isinstance(timestamp, str) or not given:
            raise WebhookRefusedError(self.provider, "missing", "its signature, timestamp or token is absent")
        sent_at = unix_seconds(timestamp)
        if sent_at is None or len(token) > _MAX_TOKEN or not self._is_genuine(timestamp + token, given):
            raise WebhookRefusedError(self.provider, "signature", "its signature is by none of keys")
        check_age(self.provider, sent_at, self.tolerance)
        events = parse_events(self.provider, text)
        if (self.seen or self._own)(token):
            raise WebhookRefusedError(self.provider, "replay", "its token was seen before")
        return events

    def _is_genuine(self, signed: str, given: list[str]) -> bool:
        made = [hmac.new(key, as_bytes(signed), hashlib.sha256).hexdigest().encode("ascii") for key in self.keys]
        return any([hmac.compare_digest(own, as_bytes(each)) for own in made for each in given])  # noqa: C419 - all, always


def _mailgun_token(document: Mapping[str, object]) -> str:
    token = as_map(document.get("signature")).get("token")
    return token if isinstance(token, str) else ""


@attrs.frozen(kw_only=True, eq=False)
class PostmarkWebhook(Webhook):
    """Postmark, which signs nothing: a user and a password (HTTP Basic), or a secret in a header of your choice.

    Args:
        user: the user in the webhook's address, without a colon; with `password`.
        password: its password.
        header: the name of a custom header of the webhook; with `secret`, and instead of a user.
        secret: what that header holds.
        provider: see `Webhook`.
        max_body: see `Webhook`.

    Raises:
        ConfigurationError: one of these is not allowed, or not exactly one of the two pairs is given.

    Source:
        Postmark, "Webhooks overview"; RFC 7617 for HTTP Basic.
    """

    user: str | None = attrs.field(default=None, repr=False)
    password: str | None = attrs.field(default=None, repr=False)
    header: str | None = None
    secret: str | None = attrs.field(default=None, repr=False)
    provider: str = attrs.field(default="postmark", converter=_provider)
    max_body: int = attrs.field(default=MAX_BODY, converter=_max_body)

    scheme: ClassVar[str] = "Basic"

    def __attrs_post_init__(self) -> None:
        for name in ("user", "password", "header", "secret"):
            value: object = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ConfigurationError(f"{name} is of type {type(value).__name__}; allowed is text")
        if self.header and not _TOKEN.fullmatch(self.header):
            raise ConfigurationError(
                f"header is {self.header!r}; allowed is the name of a header: ASCII letters, digits and !#$%&'*+.^_`|~-"
            )
        pairs = [(self.user, self.password), (self.header, self.secret)]
        given = [pair for pair in pairs if pair != (None, None)]
        if len(given) != 1 or not all(given[0]) or ":" in (self.user or ""):
            raise ConfigurationError(
                "allowed are user and password, or header and secret, none of them empty, and no colon in user"
            )

    def _events(self, headers: Mapping[str, str], body: bytes) -> list[ProviderEvent]:
        name = (self.header or "authorization").lower()
        if name not in headers:
            raise WebhookRefusedError(
                self.provider, "missing", f"it has no header {name!r}; set it in the webhook's settings"
            )
        if not self._is_genuine(headers[name]):
            raise WebhookRefusedError(self.provider, "signature", f"its header {name!r} holds something else than ours")
        return parse_events(self.provider, _json_text(self.provider, body))

    def _is_genuine(self, value: str) -> bool:
        if self.header is not None:
            return hmac.compare_digest(as_bytes(value), as_bytes(self.secret or ""))
        scheme, _, credentials = value.strip().partition(" ")
        given = decoded(credentials.strip())
        own = as_bytes(f"{self.user}:{self.password}")
        return hmac.compare_digest(given or b"", own) and scheme.lower() == "basic"
