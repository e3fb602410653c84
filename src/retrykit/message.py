"""A message: one unit of work, as the application's queue delivered it.

The body stays byte for byte what came in; the payload is the body read as JSON, on demand. So a message whose body is
broken can still be claimed, counted, parked and dead-lettered.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

import attrs

from . import codec
from .codec import JSON
from .errors import ConfigurationError, InvalidMessageError, InvalidPayloadError, PayloadTooLargeError

__all__ = [
    "CALL_MARK",
    "DEFAULT_MAX_PAYLOAD",
    "MAX_ID_LENGTH",
    "Message",
    "check_author",
    "check_id",
    "check_name",
    "receive",
]

MAX_ID_LENGTH: Final = 255
"""Characters in a message id."""
CALL_MARK: Final = "\x1e"
"""Begins the key of a guarded call in the claim store, and no message id: calls and messages never share a key."""
DEFAULT_MAX_PAYLOAD: Final = 1_048_576
"""Bytes in a payload, unless said otherwise."""

_SURROGATE = re.compile("[\ud800-\udfff]")

_ID_FIELDS = ("message_id", "id")
_ATTRIBUTE_FIELDS = ("campaign_id", "recipient", "provider", "tenant", "template_id")


def check_id(value: str, name: str = "message id") -> str:
    """Return `value` if it can be a key in every store.

    Raises:
        InvalidMessageError: it is not text, empty, over 255 characters, or holds a NUL or a lone surrogate.
    """
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise InvalidMessageError(f"the {name} is {value!r}; allowed is text of 1 to {MAX_ID_LENGTH} characters")
    if not 0 < len(value) <= MAX_ID_LENGTH:
        seen = "empty" if not value else f"{len(value):,} characters long ({value[:20]!r}...)"
        raise InvalidMessageError(f"the {name} is {seen}; allowed is text of 1 to {MAX_ID_LENGTH} characters")
    if (not value.isascii() and _SURROGATE.search(value)) or "\0" in value:
        raise InvalidMessageError(
            f"the {name} {value!r} holds a NUL or a lone surrogate, which not every store can keep"
        )
    return value


def check_name(value: str, name: str) -> str:
    """Return `value` if it can be a key in every store, as `check_id`; it names a part, not a message.

    Raises:
        ConfigurationError: it cannot.
    """
    try:
        return check_id(value, name)
    except InvalidMessageError as error:
        raise ConfigurationError(str(error)) from None


def check_author(value: str) -> str:
    """Return who does something, as `by=` gives it: text of 1 to 255 characters that is not blank.

    Raises:
        ConfigurationError: it is not.
    """
    if check_name(value, "by").isspace():
        raise ConfigurationError(f"by is {value!r}; allowed is who does it, text of 1 to {MAX_ID_LENGTH} characters")
    return value


def _frozen_attributes(value: Mapping[str, str] | None) -> dict[str, str]:
    attributes = dict(value or {})
    for name, item in attributes.items():
        if not isinstance(name, str) or not isinstance(item, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidMessageError(
                f"the attribute {name!r} is of type {type(item).__name__}; names and values of attributes are text"
            )
    return attributes


@attrs.frozen(init=False)
class Message:
    """One unit of work.

    Args:
        id: unique for this piece of work, 1 to 255 characters; it is the idempotency key.
        payload: a JSON value, or the bytes of a body, which are kept as they are.
        attributes: text by name: campaign_id, recipient, provider, tenant, ...
        max_payload: bytes that the body may have.

    Raises:
        InvalidMessageError: the id or an attribute is not allowed; an id may not begin with `CALL_MARK`.
        InvalidPayloadError: the payload cannot be written as JSON.
        PayloadTooLargeError: the body is larger than `max_payload`.

    Example:
        >>> message = Message("welcome-17", {"name": "Ada"}, attributes={"recipient": "ada@example.org"})
        >>> message.payload["name"], message.body
        ('Ada', b'{"name":"Ada"}')
    """

    id: str
    body: bytes
    attributes: Mapping[str, str] = attrs.field(hash=False)

    def __init__(
        self,
        id: str,
        payload: JSON | bytes,
        attributes: Mapping[str, str] | None = None,
        *,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
    ) -> None:
        body = bytes(payload) if isinstance(payload, (bytes, bytearray)) else codec.encode(payload)
        if len(body) > max_payload:
            raise PayloadTooLargeError(len(body), max_payload)
        if check_id(id).startswith(CALL_MARK):
            raise InvalidMessageError(
                f"the message id {id!r} begins with {CALL_MARK!r}, as the keys of guarded calls do; allowed is any other character"
            )
        self.__attrs_init__(  # type: ignore[attr-defined,unused-ignore]  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
            id=id, body=body, attributes=_frozen_attributes(attributes)
        )

    @property
    def payload(self) -> JSON:
        """The body read as JSON, anew at each access.

        Raises:
            InvalidPayloadError: the body is not JSON.
        """
        return codec.decode(self.body)

    @property
    def fingerprint(self) -> str:
        """A digest of the body, equal for equal JSON whatever its spacing (not its order), for spotting a reused id."""
        try:
            body = codec.encode(self.payload)
        except InvalidPayloadError:
            body = self.body
        return hashlib.sha256(body).hexdigest()[:32]


def _is_plain(value: JSON) -> bool:
    """Tell whether a field of the payload can be an id or an attribute: text, or a whole number."""
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _body_of(raw: bytes | bytearray | memoryview | str | Mapping[str, JSON]) -> bytes:
    if isinstance(raw, Mapping):
        return codec.encode(raw)
    if isinstance(raw, str):
        return raw.encode("utf-8", "surrogatepass")
    if isinstance(raw, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
        return bytes(raw)
    raise InvalidMessageError(
        f"what was handed over is a {type(raw).__name__}; allowed are a Message, bytes, text or a mapping"
    )


def receive(
    raw: Message | bytes | str | Mapping[str, JSON],
    *,
    id: str | None = None,
    max_payload: int = DEFAULT_MAX_PAYLOAD,
) -> Message:
    """Take in what an application's queue delivered, whatever its state.

    The id is the one given, else the payload's "message_id" or "id", else a digest of the body, so that every copy of a
    broken payload is the same message. Well-known fields of a JSON object (campaign_id, recipient, provider, tenant,
    template_id) become attributes, where the message has none of that name.

    Args:
        raw: a message, a body (bytes or text), or a JSON object.
        id: the queue's or envelope's id for it, 1 to 255 characters.
        max_payload: bytes that the body may have.

    Raises:
        InvalidMessageError: the id is not allowed, `id` contradicts the message's own, or `raw` is of another type.
        InvalidPayloadError: a mapping cannot be written as JSON.
        PayloadTooLargeError: the body is larger than `max_payload`.
    """
    attributes: Mapping[str, str] = {}
    if isinstance(raw, Message):
        if id is not None and id != raw.id:
            raise InvalidMessageError(
                f"the message {raw.id!r} was handed over with the other id {id!r}; give one of them"
            )
        id, body, attributes = raw.id, raw.body, raw.attributes
    else:
        body = _body_of(raw)
    if len(body) > max_payload:
        raise PayloadTooLargeError(len(body), max_payload)
    try:
        payload = codec.decode(body)
    except InvalidPayloadError:
        payload = None
    fields: Mapping[str, JSON] = payload if isinstance(payload, Mapping) else {}
    lifted = {name: str(fields[name]) for name in _ATTRIBUTE_FIELDS if _is_plain(fields.get(name))}
    if id is None:
        own = next((fields[name] for name in _ID_FIELDS if _is_plain(fields.get(name))), None)
        id = f"sha256:{hashlib.sha256(body).hexdigest()}" if own is None else str(own)
    return Message(id, body, {**lifted, **attributes}, max_payload=max_payload)
