"""What a provider's event and the log cannot both be right about."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from retrykit.classification import EventKind
from retrykit.delivery.conflicts import conflict_of
from retrykit.stores import Delivery, DeliveryEvent, DeliveryStatus

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
S, K = DeliveryStatus, EventKind


def conflict(status: DeliveryStatus, kind: EventKind, ours: str = "", theirs: str = "", by: str = "ses") -> str | None:
    log = Delivery(message_id="m", status=status, provider="ses", provider_id=ours or None, updated_at=NOON)
    event = DeliveryEvent(message_id="m", kind=kind, provider=by, provider_id=theirs or None, at=NOON)
    return conflict_of(log, event)


@pytest.mark.parametrize("kind", [kind for kind in K if kind is not K.OTHER])
@pytest.mark.parametrize("status", [S.SENT_TO_PROVIDER, S.DELIVERED, S.UNKNOWN, S.PROCESSING, S.PENDING])
def test_event_of_what_was_sent_or_is_unknown_is_no_conflict(status: DeliveryStatus, kind: EventKind) -> None:
    """It settles the message, or tells what came of it."""
    assert conflict(status, kind) is None


@pytest.mark.parametrize("status", [S.DEFERRED, S.FAILED_INTERNAL, S.BOUNCED_TRANSIENT, S.BOUNCED_PERMANENT])
def test_event_of_what_was_not_taken_is_a_conflict(status: DeliveryStatus) -> None:
    """The provider has it all the same."""
    assert conflict(status, K.DELIVERED) == f"the log has it as {status.value}, and 'ses' has taken it"


def test_bounce_of_what_counts_as_bounced_is_no_conflict() -> None:
    """Both tell the same."""
    assert conflict(S.BOUNCED_PERMANENT, K.REJECTED) is None


def test_event_of_another_provider_is_a_conflict() -> None:
    """Two have it; the case of a name makes no difference."""
    assert conflict(S.SENT_TO_PROVIDER, K.DELIVERED, by="mailgun") == (
        "the log has it as sent by 'ses', and 'mailgun' has it too"
    )
    assert conflict(S.SENT_TO_PROVIDER, K.DELIVERED, by="SES") is None


def test_event_with_another_id_is_a_conflict() -> None:
    """The same provider has taken it twice, unless an id is not known or only in brackets."""
    assert conflict(S.SENT_TO_PROVIDER, K.DELIVERED, "p-1", "p-2") == (
        "the log has it as 'p-1', and 'ses' tells of 'p-2': it may have been sent twice"
    )
    same = [("p-1", "p-1"), ("p-1", "<p-1>"), ("<p-1>", "p-1"), ("", "p-2"), ("p-1", "")]
    assert [None] * 5 == [conflict(S.SENT_TO_PROVIDER, K.DELIVERED, *ids) for ids in same]


@pytest.mark.parametrize("status", list(S))
def test_event_that_tells_nothing_is_no_conflict(status: DeliveryStatus) -> None:
    """Whatever the log says."""
    assert conflict(status, K.OTHER, "p-1", "p-2", by="mailgun") is None
