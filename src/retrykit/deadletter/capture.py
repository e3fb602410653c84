"""What is written down of a message that died: the rules that keep personal data out of the dead letters.

They are applied in this order, once, before the letter is put into its store:

1. `redact`, a function of the application's, sees the whole letter and gives another.
2. The recipient becomes a hash, and what `mask` leads to in the payload is covered in the letter's texts.
3. A payload of more than `max_payload` bytes is withheld.
4. With a cipher (`encrypt`) the message as it came in is encrypted, whole. Without one the payload is kept with its masked values
   replaced, for good; where nothing had to be replaced it is complete.

No letter is lost to a rule that fails, and nothing leaks: of a letter that `redact` fails on, texts and payload are left out; a payload
that cannot be encrypted, or cannot be masked as it is no JSON, is withheld. The letter says so.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import attrs

from .. import codec
from .._steps import is_async
from ..checks import check_limit
from ..codec import JSON
from ..dead_letter import DeadLetter, PayloadState
from ..decision import Attempt
from ..errors import ConfigurationError, InvalidPayloadError
from .covering import Secrets, address_of, cover_json, cover_members, forms_of
from .masks import MASK, mask_json, read_path
from .payload import Cipher, message_of, repaired_by, seal

__all__ = ["Capture", "Cipher"]

_MANY: Final = 1_000
"""Values that are looked for in a letter's texts; with more of them the texts are left out instead."""

_KEY_BYTES: Final = 16

_HASH: Final = "hmac-sha256:"

_FOUND_BY: Final = frozenset({"campaign_id", "provider", "source", "tenant", "template_id"})
"""Attributes that name no person: letters are found by them."""


def _masks(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"mask is {value!r}; allowed is a list of paths, for example ['card.number']")
    masks = tuple(value)
    for mask in masks:
        read_path(mask)
    return masks


def _key(value: bytes | str | None) -> bytes | None:
    if value is None:
        return None
    key = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    if not isinstance(key, bytes) or len(key) < _KEY_BYTES:  # pyright: ignore[reportUnnecessaryIsInstance]
        seen = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"the key of hash_recipient is {seen}; allowed are {_KEY_BYTES} bytes and more, since addresses can be guessed: "
            "secrets.token_hex(32) makes one"
        )
    return key


def _redact(_: object, __: object, value: Any) -> None:
    if value is not None and (not callable(value) or is_async(value)):
        raise ConfigurationError(
            f"redact is {value!r}; allowed is a function of a letter, which is called and never awaited"
        )


def _cipher(_: object, __: object, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, Cipher):
        raise ConfigurationError(f"encrypt is {value!r}; allowed is an object with a name, encrypt() and decrypt()")
    if not isinstance(value.name, str) or not value.name:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"the name of the cipher {value!r} is {value.name!r}; allowed is text")


def _limit(value: int | None) -> int | None:
    return None if value is None else check_limit(value, "max_payload")


@attrs.frozen(kw_only=True)
class Capture:
    """What a dispatcher writes down of a message that died.

    Args:
        mask: paths in the JSON of the payload, for example ``card.number``, ``items.*.email`` and ``**.password``, whose values are
            replaced by ``***``, in the payload and wherever they stand in the error messages, the recipient and the attributes. See
            `retrykit.deadletter.masks`.
        hash_recipient: a key of 16 bytes and more, which the application keeps secret; the recipient becomes a hash, by which it is
            still found (`hashed`), and wherever else the address stands it is replaced by ``***``.
        redact: gives a letter for a letter; called, never awaited. It may change all but the ids.
        max_payload: bytes; a larger payload is withheld. None: whatever the dispatcher takes in.
        encrypt: a cipher of the application's; see `Cipher`.

    Raises:
        ConfigurationError: a value is not allowed.

    Example:
        >>> from retrykit import Dispatcher
        >>> from retrykit.backends import MemoryBackend
        >>> backend = MemoryBackend()
        >>> def validate(message):
        ...     raise ValueError("no card 4111111111111111")
        >>> capture = Capture(mask=["card.number"])
        >>> dispatcher = Dispatcher(lambda message, key: None, validate=validate, backend=backend, capture=capture)
        >>> _ = dispatcher.handle(b'{"id": "order-1", "card": {"number": "4111111111111111"}}')
        >>> (letter,) = backend.dead_letters.search().letters
        >>> letter.error_message, letter.original_payload
        ('no card ***', b'{"id":"order-1","card":{"number":"***"}}')
        >>> letter.payload_state.value
        'masked'
    """

    mask: tuple[str, ...] = attrs.field(default=(), converter=_masks)
    hash_recipient: bytes | None = attrs.field(default=None, converter=_key, repr=False)
    redact: Callable[[DeadLetter], DeadLetter] | None = attrs.field(default=None, validator=_redact)
    max_payload: int | None = attrs.field(default=None, converter=_limit)
    encrypt: Cipher | None = attrs.field(default=None, validator=_cipher, repr=False)

    def hashed(self, address: str) -> str:
        """Return what stands for a recipient in the letters, to find them by. Upper and lower case are one.

        Args:
            address: the recipient; of ``Ada <ada@example.org>`` what stands in the brackets. What is a hash already stays one.

        Raises:
            ConfigurationError: there is no `hash_recipient`.

        Example:
            >>> capture = Capture(hash_recipient="a key that nobody knows")
            >>> capture.hashed("Ada@Example.org") == capture.hashed("ada@example.org")
            True
        """
        if self.hash_recipient is None:
            raise ConfigurationError("recipients are not hashed: the capture has no hash_recipient")
        if address.startswith(_HASH):
            return address
        data = address_of(address).casefold().encode("utf-8", "surrogatepass")
        return f"{_HASH}{hmac.new(self.hash_recipient, data, hashlib.sha256).hexdigest()}"

    def apply(self, letter: DeadLetter) -> DeadLetter:
        """Return what is kept of a letter.

        Args:
            letter: with all evidence, and its payload complete.
        """
        shown, why = self._redacted(letter)
        seen = self._seen(letter.original_payload)
        addresses = () if self.hash_recipient is None else forms_of(letter.recipient or "")
        secrets = Secrets(frozenset() if seen is None else seen.values, addresses)
        if shown is not None and len(secrets.values) <= _MANY:
            kept = self._covered(shown, letter, secrets)
        else:
            kept = _noted(self._bare(letter), why or f"its texts are left out: more than {_MANY:,} values are masked")
        size = len(letter.original_payload)
        if self.max_payload is not None and size > self.max_payload:
            return _withheld(kept, f"its payload has {size:,} bytes, and {self.max_payload:,} are kept at the most")
        if self.encrypt is not None:
            return _encrypted(kept, letter, self.encrypt)
        if shown is None:
            return _withheld(kept, "its payload is withheld")
        if shown.original_payload != letter.original_payload:
            seen = self._seen(shown.original_payload)
        return self._masked(kept, letter, shown.original_payload, seen, secrets)

    def shown(self, letter: DeadLetter) -> DeadLetter:
        """Return a letter as people may see it: what is encrypted is decrypted, and masked as if there was no cipher; so is a repair.

        Args:
            letter: as its store holds it; what was masked before stays so.

        Raises:
            PayloadUnavailableError: the letter does not decrypt with this cipher.
        """
        shown = self._shown(attrs.evolve(letter, edit=None))
        if letter.edit is None:
            return shown
        repaired = self._shown(repaired_by(letter, letter.edit))
        edit = attrs.evolve(letter.edit, payload=repaired.original_payload, attributes=repaired.attributes, cipher=None)
        return attrs.evolve(shown, edit=edit)

    def _shown(self, letter: DeadLetter) -> DeadLetter:
        if letter.payload_state not in (PayloadState.COMPLETE, PayloadState.ENCRYPTED):
            return letter
        message = message_of(letter, self.encrypt)
        whole = attrs.evolve(
            letter,
            recipient=message.attributes.get("recipient", letter.recipient),
            attributes=message.attributes,
            original_payload=message.body,
            payload_state=PayloadState.COMPLETE,
            payload_cipher=None,
        )
        return attrs.evolve(self, encrypt=None, max_payload=None).apply(whole)

    def _redacted(self, letter: DeadLetter) -> tuple[DeadLetter | None, str]:
        """Return the application's letter, or None and why there is none."""
        if self.redact is None:
            return letter, ""
        try:
            given = self.redact(attrs.evolve(letter, attributes=dict(letter.attributes)))
            shown = DeadLetter.from_json(given.to_json())  # with fields that every store can keep
            if (shown.id, shown.message_id, shown.generation) == (letter.id, letter.message_id, letter.generation):
                return shown, ""
            why = "changed an id"
        except Exception as error:  # noqa: BLE001 - the letter comes first, whatever the function raises
            why = f"failed with {type(error).__name__}"
        _log_failure(letter, f"redact {why}")
        return None, f"its texts are left out: redact {why}"

    def _seen(self, payload: bytes) -> _Seen | None:
        """Return what the masks make of a payload; None where there is nothing to mask, or no JSON."""
        if not self.mask and self.hash_recipient is None:
            return None
        try:
            value, is_plain = _read(payload)
        except InvalidPayloadError:
            return None
        masked, values = mask_json(value, map(read_path, self.mask))
        folded = frozenset(text.casefold() for text in values)
        return _Seen(value, masked, folded - {"", MASK}, is_plain)

    def _recipient(self, letter: DeadLetter) -> str | None:
        """Return what stands for the recipient, if he is hashed."""
        return None if self.hash_recipient is None or letter.recipient is None else self.hashed(letter.recipient)

    def _bare(self, letter: DeadLetter) -> DeadLetter:
        """Return a letter without any free text: with what letters are counted and found by."""
        return attrs.evolve(
            letter,
            recipient=self._recipient(letter),
            error_message="",
            decision="",
            attempts=tuple(
                attrs.evolve(attempt, failure=attrs.evolve(attempt.failure, error_message=""), reason="", extra={})
                for attempt in letter.attempts
            ),
            attributes={name: value for name, value in letter.attributes.items() if name in _FOUND_BY},
            extra={},
        )

    def _covered(self, shown: DeadLetter, letter: DeadLetter, secrets: Secrets) -> DeadLetter:
        """Return a letter in whose texts the recipient and what was masked do not stand."""
        change, hashed = cache(secrets.cover), self._recipient(letter)  # attempts often say the same

        def of_person(text: str) -> str:
            return hashed if hashed is not None and text == letter.recipient else change(text)

        return attrs.evolve(
            shown,
            recipient=None if shown.recipient is None else of_person(shown.recipient),
            error_message=change(shown.error_message),
            decision=change(shown.decision),
            attempts=tuple(_covered_attempt(attempt, change) for attempt in shown.attempts),
            attributes={
                name: value if name in _FOUND_BY else of_person(value) for name, value in shown.attributes.items()
            },
            extra=cover_members(shown.extra, change),
        )

    def _masked(
        self, kept: DeadLetter, letter: DeadLetter, payload: bytes, seen: _Seen | None, secrets: Secrets
    ) -> DeadLetter:
        """Return a letter with the payload as it may be seen."""
        if kept.payload_state is PayloadState.WITHHELD:  # by `redact`
            return attrs.evolve(kept, original_payload=b"")
        if seen is not None:
            masked = cover_json(seen.masked, secrets.with_values(seen.values).cover_value)
            if masked != seen.value or not seen.is_plain:
                payload = codec.encode(masked)
        elif self.mask or self.hash_recipient is not None:
            return _withheld(kept, "its payload is withheld: it is not JSON, so that nothing in it can be masked")
        is_whole = payload == letter.original_payload and kept.attributes == letter.attributes
        is_masked = kept.payload_state is PayloadState.COMPLETE and not is_whole
        state = PayloadState.MASKED if is_masked else kept.payload_state
        return attrs.evolve(kept, original_payload=payload, payload_state=state)


@attrs.frozen
class _Seen:
    """A payload, read and masked."""

    value: JSON
    masked: JSON
    values: frozenset[str]
    """What was masked, as `str.casefold` gives it."""
    is_plain: bool
    """Whether the value is all that stands in the payload."""


def _covered_attempt(attempt: Attempt, change: Callable[[str], str]) -> Attempt:
    return attrs.evolve(
        attempt,
        failure=attrs.evolve(attempt.failure, error_message=change(attempt.failure.error_message)),
        reason=change(attempt.reason),
        extra=cover_members(attempt.extra, change),
    )


def _read(payload: bytes) -> tuple[JSON, bool]:
    """Return a payload's JSON, and whether it holds all that stands in the text: of a key that comes twice, it has the last value.

    Raises:
        InvalidPayloadError: it is no JSON.
    """
    value, is_plain = codec.decode(payload), True

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal is_plain
        found = dict(pairs)
        is_plain = is_plain and len(found) == len(pairs)
        return found

    json.loads(str(payload, "utf-8-sig", "surrogatepass"), object_pairs_hook=members)
    return value, is_plain


def _noted(letter: DeadLetter, note: str) -> DeadLetter:
    return attrs.evolve(letter, capture_note="; ".join(filter(None, [letter.capture_note, note])))


def _withheld(letter: DeadLetter, note: str) -> DeadLetter:
    return attrs.evolve(
        _noted(letter, note), original_payload=b"", payload_state=PayloadState.WITHHELD, payload_cipher=None
    )


def _encrypted(kept: DeadLetter, letter: DeadLetter, cipher: Cipher) -> DeadLetter:
    try:
        sealed = seal(letter, cipher)
    except Exception as error:  # noqa: BLE001 - the letter comes first, whatever the cipher raises
        failed = f"the cipher {cipher.name!r} failed with {type(error).__name__}"
        _log_failure(letter, failed)
        return _withheld(kept, f"its payload is withheld: {failed}")
    return attrs.evolve(kept, original_payload=sealed, payload_state=PayloadState.ENCRYPTED, payload_cipher=cipher.name)


def _log_failure(letter: DeadLetter, what: str) -> None:
    import logging  # only on the failing path

    logging.getLogger("retrykit.deadletter").error(
        "the dead letter %r is kept without all of its evidence: %s", letter.id, what
    )
