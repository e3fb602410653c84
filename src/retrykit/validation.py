"""Checks to make before a message is sent: functions for a dispatcher's `validate=`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from .classification import TaggedError
from .errors import ConfigurationError
from .failure import ErrorClass
from .message import Message

__all__ = ["InvalidAddressError", "MissingFieldsError", "address", "required"]


class MissingFieldsError(TaggedError):
    """A message lacks fields that it needs; every one of them is named."""

    error_class = ErrorClass.INVALID_PAYLOAD


class InvalidAddressError(TaggedError):
    """A message's recipient is no address that mail could be sent to."""

    error_class = ErrorClass.INVALID_RECIPIENT


_ADDRESS: Final = re.compile(
    r"[^\s@<>,;:\"()\[\]\\\x00-\x20\x7f]{1,64}@(?=[^@]{1,253}$)(?:[\w](?:[\w-]{0,61}[\w])?\.)+[\w](?:[\w-]{0,61}[\w])"
)


def _fields(message: Message) -> Mapping[str, object]:
    payload = message.payload
    own: Mapping[str, object] = payload if isinstance(payload, Mapping) else {}
    return {"message_id": message.id, **message.attributes, **own}


def required(*names: str) -> Callable[[Message], None]:
    """Return a check that the payload or the attributes have each of `names`, and not empty.

    Raises:
        ConfigurationError: no name is given.

    Example:
        >>> check = required("recipient", "template_id")
        >>> check(Message("welcome-17", {"recipient": "ada@example.org"}))
        Traceback (most recent call last):
            ...
        retrykit.validation.MissingFieldsError: the message 'welcome-17' lacks: template_id
    """
    if not names:
        raise ConfigurationError("required() needs at least one name, for example required('recipient')")

    def check(message: Message) -> None:
        fields = _fields(message)
        missing = [name for name in names if fields.get(name) in (None, "")]
        if missing:
            raise MissingFieldsError(f"the message {message.id!r} lacks: {', '.join(missing)}")

    return check


def address(name: str = "recipient") -> Callable[[Message], None]:
    """Return a check that the field `name` is plausibly one e-mail address.

    Plausible, not deliverable: a local part of up to 64 characters and a domain with a dot (RFC 5321, section 4.5.3.1).
    The address itself is not put into the error.
    """

    def check(message: Message) -> None:
        value = _fields(message).get(name)
        if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
            raise InvalidAddressError(f"the {name} of the message {message.id!r} is not an e-mail address")

    return check
