"""Hypothesis strategies for the values of the library, hostile ones included, for property tests of your own.

They draw what the types allow, however unlikely: any Unicode with lone surrogates and control characters, instants of
two centuries, classes of your own, records with the fields of a newer version.

Example:
    >>> from hypothesis import given
    >>> @given(letters)
    ... def test_letter_survives_my_archive(letter):
    ...     assert DeadLetter.from_json(letter.to_json()) == letter
    >>> test_letter_survives_my_archive()
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ..codec import JSON
from ..dead_letter import DeadLetter, DeadLetterState, Edit, PayloadState, dead_letter_id
from ..decision import Action, Attempt, DeadLetterReason, DispositionKind
from ..failure import ErrorClass, ErrorGroup, Failure, Outcome
from ..lease import Lease
from ..machines.claim import ClaimRecord, ClaimState, Counters
from ..message import Message

__all__ = [
    "any_text",
    "attempts",
    "claim_records",
    "error_classes",
    "failures",
    "hostile_characters",
    "instants",
    "json_values",
    "keys",
    "letters",
    "messages",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

hostile_characters: Final[SearchStrategy[str]] = (
    st.characters() | st.integers(0xD800, 0xDFFF).map(chr) | st.sampled_from(list("\0\n\x1b\"'{}%\\ "))
)
"""Single characters: any of Unicode, and more often those that break escaping."""


def _pairs_joined(characters: Iterable[str]) -> str:
    """Return the text with surrogate pairs as the characters they stand for: what is left over is lone."""
    return "".join(characters).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


any_text: Final[SearchStrategy[str]] = st.text(max_size=40) | st.lists(hostile_characters, max_size=20).map(
    _pairs_joined
)
"""Any Unicode, lone surrogates and control characters included."""

keys: Final[SearchStrategy[str]] = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\x1e"), min_size=1, max_size=255
)
"""What may be a message id."""

instants: Final[SearchStrategy[datetime]] = st.integers(-2_000_000_000_000, 4_000_000_000_000).map(
    lambda millis: _EPOCH + timedelta(milliseconds=millis)
)
"""Aware instants in UTC, in whole milliseconds."""

json_values: Final[SearchStrategy[JSON]] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)
"""What may be a payload."""


def _own_class(name: str, group: ErrorGroup) -> ErrorClass:
    return ErrorClass(f"own.{name}", group=group)


_built_in_classes = st.sampled_from(
    [value for _, value in sorted(vars(ErrorClass).items()) if isinstance(value, ErrorClass)]
)
_own_classes = st.builds(
    _own_class,
    st.text(string.ascii_lowercase + string.digits + "_.-", max_size=60),
    st.sampled_from(ErrorGroup),
)
error_classes: Final[SearchStrategy[ErrorClass]] = _built_in_classes | _own_classes
"""The library's own classes, and such as an application adds."""

failures: Final[SearchStrategy[Failure]] = st.builds(
    Failure,
    error_class=error_classes,
    outcome=st.sampled_from(Outcome),
    error_code=st.none() | any_text,
    enhanced_code=st.none() | any_text,
    error_message=any_text,
    provider=st.none() | any_text,
    stage=st.none() | any_text,
    retry_after=st.none() | st.floats(0, 1e9),
    rule=any_text,
    frame=st.none() | any_text,
)
"""What a try may end with."""

attempts: Final[SearchStrategy[Attempt]] = st.builds(
    Attempt,
    number=st.integers(1, 1000),
    generation=st.integers(1, 1000),
    failed_at=instants,
    failure=failures,
    action=st.sampled_from(Action),
    delay=st.floats(0, 1e9),
    reason=any_text,
    worker=st.none() | any_text,
    started_at=st.none() | instants,
)
"""What stands in a history."""


def _letter(message_id: str, generation: int, **fields: Any) -> DeadLetter:
    return DeadLetter(id=dead_letter_id(message_id, generation), message_id=message_id, generation=generation, **fields)


_attributes = st.dictionaries(any_text, any_text, max_size=3)

messages: Final[SearchStrategy[Message]] = st.builds(Message, keys, json_values | st.binary(max_size=200), _attributes)
"""Whatever a queue may deliver, bodies that are no JSON included."""

_payloads = st.binary(max_size=60) | any_text.map(lambda text: text.encode("utf-8", "surrogatepass"))
_edits = st.builds(
    Edit, payload=_payloads, attributes=_attributes, cipher=st.none() | any_text, by=any_text, why=any_text, at=instants
)

letters: Final[SearchStrategy[DeadLetter]] = st.builds(
    _letter,
    message_id=keys,
    generation=st.integers(1, 99),
    source=st.none() | any_text,
    campaign_id=st.none() | any_text,
    recipient=st.none() | any_text,
    provider=st.none() | any_text,
    error_class=error_classes,
    error_code=st.none() | any_text,
    enhanced_code=st.none() | any_text,
    error_message=any_text,
    stage=st.none() | any_text,
    reason=st.sampled_from(DeadLetterReason),
    attempt_count=st.integers(0, 100),
    first_failed_at=st.none() | instants,
    last_failed_at=instants,
    dead_lettered_at=instants,
    attempts=st.lists(attempts, max_size=2).map(tuple),
    decision=any_text,
    fingerprint=st.none() | any_text,
    state=st.sampled_from(DeadLetterState),
    redrive_count=st.integers(0, 100),
    redrive_id=st.none() | any_text,
    note=any_text,
    edit=st.none() | _edits,
    original_payload=_payloads,
    payload_state=st.sampled_from(PayloadState),
    payload_cipher=st.none() | any_text,
    capture_note=any_text,
    attributes=_attributes,
    extra=st.dictionaries(any_text.map(lambda name: f"x-{name}"), json_values, max_size=2),
)
"""Dead letters whose id is the one of their message and generation."""

leases: Final[SearchStrategy[Lease]] = st.builds(
    Lease, any_text, st.integers(0, 2**53), instants, st.none() | instants, st.none() | any_text
)
"""Holds of this version and of earlier ones, which kept less."""

claim_records: Final[SearchStrategy[ClaimRecord]] = st.builds(
    ClaimRecord,
    key=keys,
    state=st.sampled_from(ClaimState),
    seq=st.integers(0, 2**53),
    lease=st.none() | leases,
    generation=st.integers(1, 1000),
    fingerprint=st.none() | any_text,
    opened_at=instants,
    not_before=st.none() | instants,
    disposition=st.none() | st.sampled_from(DispositionKind),
    reason=st.none() | st.sampled_from(DeadLetterReason),
    dead_letter_id=st.none() | any_text,
    provider=st.none() | any_text,
    provider_id=st.none() | any_text,
    settled_at=st.none() | instants,
    counters=st.builds(Counters, *[st.integers(0, 1000)] * 4),
    checks=st.integers(0, 1000),
    note=any_text,
    is_unsure=st.booleans(),
    redriven_from=st.none() | any_text,
    replaced=st.lists(any_text, max_size=3).map(tuple),
    schema_version=st.integers(1, 9),
    attempts=st.lists(attempts, max_size=2).map(tuple),
    extra=st.dictionaries(any_text.map(lambda name: f"x-{name}"), json_values, max_size=2),
)
"""Records in every state, whether or not a machine would lead there."""
