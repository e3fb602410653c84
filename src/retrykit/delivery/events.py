"""Providers' webhook events, read into one form.

The shape of an event decides how it is read; the provider's name, which is the application's to choose ("ses-eu"), only settles
what the shape leaves open. Signatures are not checked here: check them over the raw body before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import parse_qsl

from ..checks import provider_name
from ..classification.documents import as_map
from ..classification.provider_event import ProviderEvent
from ..classification.vocabularies import known
from ..errors import InvalidPayloadError
from .event_shapes import Event, of_form, read_event

__all__ = ["parse_event", "parse_events"]

_MAX_FIELDS: Final = 1_000


def parse_event(provider: str, body: bytes | str) -> ProviderEvent:
    """Read one event.

    Args:
        provider: who sent it, as the application calls the provider: "ses", "sendgrid", "ses-eu". A name of its own ("primary")
            will do: then the shape alone decides.
        body: the body of the request: JSON (UTF-8), a form where the provider sends forms (Twilio, Vonage, Mandrill), or an SNS
            envelope around either. An array of one event is that event.

    Returns:
        The event. What the provider does not say is None, an event that is not known has the kind "other"; `raw` holds it as it came.

    Raises:
        InvalidPayloadError: the body is neither JSON nor a form, is not an object or an array of objects, or holds no event or
            several: `parse_events` reads those.

    Example:
        >>> event = parse_event(
        ...     "ses",
        ...     '{"notificationType": "Bounce", "bounce": {"bounceType": "Permanent", "bounceSubType": "NoEmail"}}',
        ... )
        >>> event.kind.value, event.codes
        ('bounced', ('Permanent/NoEmail', 'Permanent'))
    """
    events = parse_events(provider, body)
    if len(events) != 1:
        raise InvalidPayloadError(
            f"the webhook body of {provider!r} holds {len(events)} events, not one; read it with parse_events"
        )
    return events[0]


def parse_events(provider: str, body: bytes | str) -> list[ProviderEvent]:
    """Read all events of a body, in their order; many providers send several at once.

    Args:
        provider: who sent them, as for `parse_event`.
        body: the body of the request, as for `parse_event`.

    Returns:
        The events; none for an empty array.

    Raises:
        InvalidPayloadError: the body is neither JSON nor a form, or is not an object or an array of objects.
        ConfigurationError: the provider is no text.

    Example:
        >>> body = '[{"event": "delivered"}, {"event": "bounce", "reason": "550 5.1.1 no such user"}]'
        >>> [event.kind.value for event in parse_events("sendgrid", body)]
        ['delivered', 'bounced']
    """
    vocabulary = known(provider_name(provider))
    document = _opened(_document(provider, body))
    events: list[object] = cast("list[object]", document) if isinstance(document, list) else [document]
    read: list[ProviderEvent] = []
    for event in events:
        opened = _opened(event)
        if not isinstance(opened, Mapping):
            raise InvalidPayloadError(
                f"the webhook body of {provider!r} holds a {type(opened).__name__} where an event is expected; "
                "allowed are a JSON object and an array of objects"
            )
        read.append(read_event(provider, vocabulary, cast("Event", opened)))
    return read


def _document(provider: str, body: bytes | str) -> object:
    """Read the body as JSON, or as a form."""
    if isinstance(body, (bytes, bytearray, memoryview)):
        words = bytes(body).decode("utf-8-sig", "replace")
    elif isinstance(body, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        words = body
    else:
        raise InvalidPayloadError(
            f"the webhook body of {provider!r} is a {type(body).__name__}; allowed are bytes and text"
        )
    try:
        return cast("object", json.loads(words))
    except (ValueError, RecursionError):
        fields = _form(words)
    if fields is None:
        raise InvalidPayloadError(
            f"the webhook body of {provider!r} is neither JSON nor a form ({len(words):,} characters)"
        )
    return fields


def _form(words: str) -> object:
    """Read a form, or return None; Mandrill sends its array in a field of one."""
    if words.lstrip()[:1] in ("{", "[", "<", '"') or "=" not in words:
        return None
    try:
        pairs = parse_qsl(words.strip(), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        return None
    fields = of_form(pairs)
    inner = _loaded(fields.get("mandrill_events"))
    return fields if inner is None else inner


def _loaded(value: object) -> object:
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return cast("object", json.loads(value))
    except (ValueError, RecursionError):
        return None


def _opened(document: object) -> object:
    """Take an event out of the envelope in which SNS delivers it."""
    envelope = as_map(document)
    is_envelope = "Message" in envelope and ("TopicArn" in envelope or "Type" in envelope)
    inner = _loaded(envelope["Message"]) if is_envelope else None
    return document if inner is None else inner
