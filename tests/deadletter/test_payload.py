"""What may be put back: a payload that is complete, or one that was sealed for a cipher, and no other."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given

from retrykit.dead_letter import DeadLetter, PayloadState
from retrykit.deadletter import Cipher, message_of, payload_of
from retrykit.deadletter.payload import seal
from retrykit.errors import InvalidMessageError, PayloadUnavailableError
from retrykit.testing.strategies import messages
from tests.deadletter.ciphers import BrokenCipher, XorCipher

LETTER = DeadLetter.from_dict(
    {
        "message_id": "m-1",
        "error_class": "mailbox_full",
        "attempt_count": 1,
        "last_failed_at": "2026-01-31T08:00:00Z",
        "original_payload": '{"to": "ada@example.org"}\n',
        "attributes": {"recipient": "ada@example.org"},
    }
)
CIPHER = XorCipher("key of 2026")
SEALED = attrs.evolve(
    LETTER,
    original_payload=seal(LETTER, CIPHER),
    attributes={"recipient": "***"},
    payload_state=PayloadState.ENCRYPTED,
    payload_cipher=CIPHER.name,
)


def test_complete_payload_is_given_byte_for_byte():
    """With the attributes; a cipher is not asked."""
    assert LETTER.original_payload == payload_of(LETTER) == payload_of(LETTER, BrokenCipher())
    message = message_of(LETTER)
    assert ("m-1", LETTER.original_payload, {"recipient": "ada@example.org"}) == (
        message.id,
        message.body,
        message.attributes,
    )


def test_encrypted_message_is_given_to_whoever_has_the_cipher():
    """Byte for byte, and with the attributes that it came with, not those of the letter."""
    assert isinstance(CIPHER, Cipher)
    assert b"ada" not in SEALED.original_payload
    assert LETTER.original_payload == payload_of(SEALED, CIPHER)
    assert message_of(LETTER) == message_of(SEALED, CIPHER)


@given(messages)
def test_any_message_is_the_same_after_sealing(message):
    """Whatever its bytes and attributes."""
    letter = attrs.evolve(LETTER, message_id=message.id, original_payload=message.body, attributes=message.attributes)
    sealed = attrs.evolve(SEALED, message_id=message.id, original_payload=seal(letter, CIPHER), attributes={})
    assert message == message_of(sealed, CIPHER)


@pytest.mark.parametrize("state", [PayloadState.MASKED, PayloadState.WITHHELD])
@pytest.mark.parametrize(("note", "why"), [("", ""), ("it was too large", r" \(it was too large\)")])
def test_payload_that_is_not_there_is_refused(state, note, why):
    """With the reason that the letter gives."""
    letter = attrs.evolve(LETTER, payload_state=state, capture_note=note)
    with pytest.raises(
        PayloadUnavailableError, match=rf"of the dead letter 'm-1#1' cannot be had: it is {state}{why}; put"
    ) as caught:
        payload_of(letter, CIPHER)
    assert "m-1#1" == caught.value.letter_id


@pytest.mark.parametrize(
    ("cipher", "complaint"),
    [
        (None, "it is encrypted, and no cipher was given; give the one named 'key of 2026'"),
        (XorCipher("key of 2027"), "the cipher given is 'key of 2027'; give the one named 'key of 2026'"),
        (
            BrokenCipher("key of 2026"),
            "the cipher 'key of 2026' failed with RuntimeError; was it changed, or is the key an",
        ),
        (XorCipher("key of 2026", 7), "what was encrypted is no message of retrykit"),
    ],
)
def test_encrypted_payload_without_its_cipher_is_refused(cipher, complaint):
    """By the name of the cipher that is needed; nothing is quoted."""
    with pytest.raises(PayloadUnavailableError) as caught:
        message_of(SEALED, cipher)
    assert complaint in str(caught.value)
    assert "ada" not in str(caught.value)


@pytest.mark.parametrize("plain", [b"{}\n", b"[]\n", b'{"message_id": "m-1"}\nx', b"5\n", b""])
def test_encrypted_text_that_is_no_sealed_message_is_refused(plain):
    """It was encrypted with the key, but not by retrykit."""
    letter = attrs.evolve(SEALED, original_payload=CIPHER.encrypt(plain))
    with pytest.raises(PayloadUnavailableError):
        payload_of(letter, CIPHER)


def test_encrypted_payload_in_the_place_of_another_letters_is_refused():
    """Whoever may write to the store cannot let one message go out as another."""
    with pytest.raises(PayloadUnavailableError, match="what was encrypted is another message"):
        payload_of(attrs.evolve(SEALED, message_id="m-2"), CIPHER)


def test_message_of_an_imported_letter_with_an_impossible_id_is_refused():
    """Its payload can still be had."""
    letter = attrs.evolve(LETTER, message_id="")
    assert LETTER.original_payload == payload_of(letter)
    with pytest.raises(InvalidMessageError):
        message_of(letter)
