"""Hypothesis strategies for the words of the core."""

from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from retrykit.dead_letter import DeadLetter, DeadLetterState, dead_letter_id
from retrykit.decision import Action, Attempt, DeadLetterReason, DispositionKind
from retrykit.failure import ErrorClass, ErrorGroup, Failure, Outcome
from retrykit.lease import Lease
from retrykit.machines.claim import ClaimRecord, ClaimState, Counters
from retrykit.message import Message

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

hostile_characters = st.characters() | st.integers(0xD800, 0xDFFF).map(chr) | st.sampled_from(list("\0\n\x1b\"'{}%\\ "))


def _pairs_joined(characters):
    """Return the text with surrogate pairs as the characters they stand for: what is left over is lone."""
    return "".join(characters).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


any_text = st.text(max_size=40) | st.lists(hostile_characters, max_size=20).map(_pairs_joined)
"""Any Unicode, lone surrogates and control characters included."""

keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=255)
"""What may be a message id."""

instants = st.integers(-2_000_000_000_000, 4_000_000_000_000).map(lambda millis: EPOCH + timedelta(milliseconds=millis))
"""Aware instants in UTC, in whole milliseconds."""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)

built_in_classes = st.sampled_from(
    [value for name, value in sorted(vars(ErrorClass).items()) if isinstance(value, ErrorClass)]
)
own_classes = st.builds(
    lambda name, group: ErrorClass(f"own.{name}", group=group),
    st.text(string.ascii_lowercase + string.digits + "_.-", max_size=60),
    st.sampled_from(ErrorGroup),
)
error_classes = built_in_classes | own_classes

failures = st.builds(
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

attempts = st.builds(
    Attempt,
    number=st.integers(1, 1000),
    generation=st.integers(1, 1000),
    failed_at=instants,
    failure=failures,
    action=st.sampled_from(Action),
    delay=st.floats(0, 1e9),
    reason=any_text,
    worker=st.none() | any_text,
)

attributes = st.dictionaries(any_text, any_text, max_size=3)

messages = st.builds(Message, keys, json_values | st.binary(max_size=200), attributes)

letters = st.builds(
    lambda message_id, generation, **fields: DeadLetter(
        id=dead_letter_id(message_id, generation), message_id=message_id, generation=generation, **fields
    ),
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
    original_payload=st.binary(max_size=60) | any_text.map(lambda text: text.encode("utf-8", "surrogatepass")),
    attributes=attributes,
    extra=st.dictionaries(any_text.map(lambda name: f"x-{name}"), json_values, max_size=2),
)

claim_records = st.builds(
    ClaimRecord,
    key=keys,
    state=st.sampled_from(ClaimState),
    seq=st.integers(0, 2**53),
    lease=st.none() | st.builds(Lease, any_text, st.integers(0, 2**53), instants),
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
    schema_version=st.integers(1, 9),
    attempts=st.lists(attempts, max_size=2).map(tuple),
    extra=st.dictionaries(any_text.map(lambda name: f"x-{name}"), json_values, max_size=2),
)
