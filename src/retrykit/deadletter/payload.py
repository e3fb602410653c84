"""The message of a dead letter: sealed with a cipher of the application's, and made again for whoever may put it back.

What is encrypted is the message whole, its attributes included, and its id with it: the payload of one letter does not open in the
place of another's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast, runtime_checkable

import attrs

from .. import codec
from ..dead_letter import SCHEMA_VERSION, DeadLetter, Edit, PayloadState
from ..errors import InvalidMessageError, InvalidPayloadError, PayloadUnavailableError
from ..message import Message

__all__ = ["Cipher", "message_of", "payload_of", "seal"]


@runtime_checkable
class Cipher(Protocol):
    """Encrypts and decrypts for the application, with a key that only it has.

    Both methods are called where the letter is written and read, and never awaited. What `encrypt` gives has to be authenticated, as
    AES-GCM and Fernet do it, so that a changed payload does not decrypt.
    """

    @property
    def name(self) -> str:
        """What letters say they were encrypted with: a name for the key, not the key. It is kept as long as the letters are."""
        ...

    def encrypt(self, data: bytes, /) -> bytes:
        """Return the data encrypted."""
        ...

    def decrypt(self, data: bytes, /) -> bytes:
        """Return what was encrypted, or raise."""
        ...


def seal(letter: DeadLetter, cipher: Cipher) -> bytes:
    """Return a complete letter's message encrypted.

    Raises:
        TypeError: the cipher gave no bytes.
    """
    head = codec.encode({"message_id": letter.message_id, "attributes": dict(letter.attributes)})
    sealed = cipher.encrypt(head + b"\n" + letter.original_payload)
    if not isinstance(sealed, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - the application's own
        raise TypeError(f"the cipher {cipher.name!r} gave {type(sealed).__name__}")
    return sealed


def payload_of(letter: DeadLetter, cipher: Cipher | None = None) -> bytes:
    """Return the payload of a letter as it came in, byte for byte.

    Args:
        letter: whose `payload_state` is complete or encrypted.
        cipher: the one that it was encrypted with, if it was.

    Raises:
        PayloadUnavailableError: the payload is masked or withheld, or does not decrypt with this cipher.
    """
    return _opened(letter, cipher)[0]


def message_of(letter: DeadLetter, cipher: Cipher | None = None) -> Message:
    """Return the message of a letter, repaired or as it came in, with the attributes it had: what may be put back into circulation.

    The letter's own attributes will not do for that: the recipient among them may be a hash.

    Args:
        letter: whose `payload_state` is complete or encrypted.
        cipher: the one that it was encrypted with, if it was.

    Raises:
        PayloadUnavailableError: as for `payload_of`.
        InvalidMessageError: the letter's message id is none, as an imported one may be.
    """
    body, attributes = _opened(letter if letter.edit is None else repaired_by(letter, letter.edit), cipher)
    return Message(letter.message_id, body, attributes, max_payload=len(body))


def repaired_by(letter: DeadLetter, edit: Edit) -> DeadLetter:
    """Return a letter that has a repair in place of what came in."""
    return attrs.evolve(
        letter,
        edit=None,
        original_payload=edit.payload,
        attributes=edit.attributes,
        payload_state=PayloadState.COMPLETE if edit.cipher is None else PayloadState.ENCRYPTED,
        payload_cipher=edit.cipher,
    )


def message_to_put_back(letter: DeadLetter, cipher: Cipher | None = None) -> Message | None:
    """Return the message of a letter, or None where it is not there whole, or the letter is of a version that is not understood."""
    if letter.schema_version > SCHEMA_VERSION:
        return None
    try:
        return message_of(letter, cipher)
    except (PayloadUnavailableError, InvalidMessageError):
        return None


def _opened(letter: DeadLetter, cipher: Cipher | None) -> tuple[bytes, Mapping[str, str]]:
    state = letter.payload_state
    if state is PayloadState.COMPLETE:
        return letter.original_payload, letter.attributes
    if state is not PayloadState.ENCRYPTED:
        why = f" ({letter.capture_note})" if letter.capture_note else ""
        raise PayloadUnavailableError(letter.id, f"it is {state}{why}; put the message back from where it came from")
    if cipher is None or cipher.name != letter.payload_cipher:
        seen = "no cipher was given" if cipher is None else f"the cipher given is {cipher.name!r}"
        raise PayloadUnavailableError(
            letter.id, f"it is encrypted, and {seen}; give the one named {letter.payload_cipher!r}"
        )
    try:
        head, _, body = cipher.decrypt(letter.original_payload).partition(b"\n")
        fields = cast("Mapping[str, codec.JSON]", codec.decode(head))
        message_id, attributes = fields["message_id"], cast("Mapping[str, str]", fields["attributes"])
    except InvalidPayloadError as error:
        raise PayloadUnavailableError(letter.id, "what was encrypted is no message of retrykit") from error
    except Exception as error:
        raise PayloadUnavailableError(
            letter.id,
            f"the cipher {cipher.name!r} failed with {type(error).__name__}; was it changed, or is the key another?",
        ) from error
    if message_id != letter.message_id:
        raise PayloadUnavailableError(letter.id, "what was encrypted is another message")
    return body, dict(attributes)
