"""What must be true of a message when everything has come to rest, whoever looks at it."""

from __future__ import annotations

from retrykit import Message
from retrykit.dead_letter import DeadLetterState
from retrykit.decision import DispositionKind
from retrykit.machines.status import ACCEPTED
from retrykit.stores import Backend, ClaimRecord, ClaimState, DeadLetterQuery, DeliveryStatus


def audit(backend: Backend, message: Message, accepted: int) -> ClaimRecord:
    """Check that a message ended in exactly one final place, the one that the provider knows of; return its record.

    Args:
        backend: where it was handled.
        message: as it was first queued.
        accepted: how often the provider accepted it.
    """
    record = backend.claims.get(message.id)
    assert record is not None and record.state is ClaimState.DONE, f"not settled: {record}"
    assert record.disposition is not None, record
    delivery = backend.deliveries.get(message.id)
    assert delivery is not None, f"not in the delivery log: {record}"
    assert accepted <= 1, "sent twice"
    letters = backend.dead_letters.search(DeadLetterQuery(message_id=message.id)).letters
    assert len({letter.generation for letter in letters}) == len(letters), "two letters for one death"
    quarantined = [letter for letter in letters if letter.state is DeadLetterState.QUARANTINED]
    assert all(letter.generation == record.generation for letter in quarantined), "an earlier letter still waits"
    assert not any(letter.state is DeadLetterState.REDRIVING for letter in letters), "a letter was left behind"
    sent = delivery.status in ACCEPTED
    bounced = delivery.status is DeliveryStatus.BOUNCED_PERMANENT
    assert [sent, bool(quarantined), bounced].count(True) == 1, (record, delivery, letters)
    assert sent == (record.disposition is DispositionKind.SENT), (record, delivery)
    assert accepted or not sent, "recorded as sent, and the provider does not know it"
    assert record.is_unsure or sent == (accepted == 1), "what the provider has and what is recorded differ"
    for letter in quarantined:
        assert letter.original_payload == message.body
        assert letter.attempts == record.attempts
    return record
