"""The delivery log's contract, the same for every backend and colour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from retrykit.errors import ConfigurationError, InvalidMessageError
from retrykit.machines.status import may_follow
from retrykit.stores import Delivery, DeliveryStatus

S = DeliveryStatus
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def delivery(status, version=1, message_id="m", minutes=0, **fields):
    return Delivery(
        message_id=message_id, status=status, version=version, updated_at=NOW + timedelta(minutes=minutes), **fields
    )


def record(backend, *deliveries):
    for each in deliveries:
        backend.deliveries.record(each)


def test_first_report_stands_as_it_is(backend):
    """Whatever it says."""
    first = delivery(S.SENT_TO_PROVIDER, 4, provider="ses", provider_id="p-1")
    assert first == backend.deliveries.record(first)
    assert first == backend.deliveries.get("m")


def test_get_of_a_message_without_a_report_is_none(backend):
    """A missing message is no error."""
    assert backend.deliveries.get("m") is None


@pytest.mark.parametrize("current", list(S))
def test_report_replaces_another_exactly_where_the_lattice_allows(backend, current):
    """Every status after every other, from an older, an equal and a newer version."""
    for new in S:
        for version in (1, 2, 3):
            message_id = f"{new.value} {version}"
            before = delivery(current, 2, message_id)
            record(backend, before)
            stands = backend.deliveries.record(delivery(new, version, message_id, minutes=1))
            if may_follow(current, new, newer=version > 2):
                assert delivery(new, max(version, 2), message_id, minutes=1) == stands
            else:
                assert before == stands
            assert stands == backend.deliveries.get(message_id)


def test_report_repeated_changes_nothing(backend):
    """A projection may be repeated after a lost answer."""
    first = delivery(S.DEFERRED, 2)
    record(backend, first)
    assert first == backend.deliveries.record(delivery(S.DEFERRED, 2, minutes=5))


def test_acceptance_is_never_forgotten(backend):
    """A late failure of any version does not undo what the provider took, and the delivery follows."""
    record(backend, delivery(S.UNKNOWN, 3), delivery(S.SENT_TO_PROVIDER, 2), delivery(S.FAILED_INTERNAL, 9))
    assert (S.SENT_TO_PROVIDER, 3) == (backend.deliveries.get("m").status, backend.deliveries.get("m").version)
    record(backend, delivery(S.DELIVERED, 0), delivery(S.SENT_TO_PROVIDER, 9))
    assert backend.deliveries.get("m").status is S.DELIVERED


def test_provider_and_its_id_are_kept_by_reports_that_do_not_know_them(backend):
    """The delivery event need not repeat who took the message."""
    record(
        backend, delivery(S.SENT_TO_PROVIDER, 2, provider="ses", provider_id="p-1"), delivery(S.DELIVERED, 1, minutes=9)
    )
    assert delivery(S.DELIVERED, 2, minutes=9, provider="ses", provider_id="p-1") == backend.deliveries.get("m")


def test_messages_of_a_status_come_in_the_order_of_their_ids_page_by_page(backend):
    """The last id of a page is where the next begins."""
    names = ["Z", "a", "a ", "b", "ü", "😀"]
    for name in reversed(names):
        record(backend, delivery(S.UNKNOWN, message_id=name))
    record(backend, delivery(S.DEFERRED, message_id="aa"))
    seen, after = [], ""
    while page := backend.deliveries.with_status(S.UNKNOWN, limit=2, after=after):
        assert len(page) == 2
        seen += [each.message_id for each in page]
        after = seen[-1]
    assert names == seen
    assert [delivery(S.DEFERRED, message_id="aa")] == list(backend.deliveries.with_status("deferred"))


def test_counts_tell_how_many_messages_each_status_has(backend):
    """A status that none has is left out."""
    assert backend.deliveries.counts() == {}
    for message_id in "abc":
        record(backend, delivery(S.DEFERRED, message_id=message_id))
    record(backend, delivery(S.DELIVERED, message_id="a"))
    counts = backend.deliveries.counts()
    assert {S.DEFERRED: 2, S.DELIVERED: 1} == counts
    assert {S} == {type(status) for status in counts}


def test_report_for_a_key_that_is_not_allowed_is_refused(backend):
    """The same keys as everywhere."""
    for call in (
        lambda: backend.deliveries.record(delivery(S.UNKNOWN, message_id="")),
        lambda: backend.deliveries.get(""),
    ):
        with pytest.raises(InvalidMessageError):
            call()


def test_status_or_limit_that_is_not_allowed_is_refused(backend):
    """A status is one of nine."""
    with pytest.raises(
        ConfigurationError, match=r"^the status is 'lost'; allowed are pending, processing, sent_to_prov"
    ):
        backend.deliveries.with_status("lost")
    with pytest.raises(ConfigurationError, match=r"^limit is 0; allowed are whole numbers >= 1$"):
        backend.deliveries.with_status(S.UNKNOWN, limit=0)


def test_report_with_a_naive_instant_is_refused():
    """The same in every store, since the record itself refuses it; aware ones are cut to the millisecond."""
    with pytest.raises(ConfigurationError, match=r"^updated_at is the naive datetime"):
        Delivery(message_id="m", status=S.UNKNOWN, updated_at=datetime(2026, 1, 1))  # noqa: DTZ001 - on purpose
    cut = Delivery(message_id="m", status=S.UNKNOWN, updated_at=NOW + timedelta(microseconds=1999))
    assert NOW + timedelta(milliseconds=1) == cut.updated_at
