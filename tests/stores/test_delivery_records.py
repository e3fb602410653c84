"""The records of the delivery log: JSON of every version, and what does not depend on order."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit import codec
from retrykit.classification import EventKind
from retrykit.errors import ConfigurationError, InvalidPayloadError
from retrykit.failure import ErrorGroup
from retrykit.stores import Delivery, DeliveryEvent, DeliveryFailure, DeliveryStatus
from retrykit.testing.strategies import any_text, instants, keys

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
S = DeliveryStatus

events = st.builds(
    DeliveryEvent,
    message_id=keys,
    kind=st.sampled_from(EventKind),
    provider=any_text,
    at=instants,
    provider_id=st.none() | any_text,
    event_id=st.none() | any_text,
    error_class=st.none() | any_text,
    error_group=st.none() | st.sampled_from(ErrorGroup),
    error_code=st.none() | any_text,
)


@given(events)
def test_any_event_comes_back_from_json(event):
    """As it was."""
    assert event == DeliveryEvent.from_dict(codec.decode(codec.encode(event.to_dict())))


@given(events)
def test_what_an_event_tells_comes_back_from_json(event):
    """And an event that tells nothing makes no record."""
    told = event.to_delivery()
    assert (told is None) is (event.kind is EventKind.OTHER)
    if told is not None:
        assert told == Delivery.from_dict(codec.decode(codec.encode(told.to_dict())))


def test_record_of_version_1_is_read():
    """It had six fields; what was sent was told by the provider."""
    data = {"message_id": "m", "status": "sent_to_provider", "version": 3, "provider": None, "provider_id": "p-1"}
    read = Delivery.from_dict({**data, "updated_at": "2026-01-01T12:00:00.000Z"})
    expected = Delivery(message_id="m", status=S.SENT_TO_PROVIDER, version=3, provider_id="p-1", updated_at=NOON)
    assert attrs.evolve(expected, schema_version=1) == read
    assert read.is_accepted


def test_fields_of_a_newer_version_are_kept():
    """Through reading and writing; those of an event are left out."""
    delivery = Delivery(message_id="m", status=S.UNKNOWN, updated_at=NOON)
    data = {**delivery.to_dict(), "schema_version": 9, "mood": [1]}
    assert data == Delivery.from_dict(data).to_dict()
    event = DeliveryEvent(message_id="m", kind="delivered", provider="ses", at=NOON)
    assert event == DeliveryEvent.from_dict({**event.to_dict(), "mood": 5})


@pytest.mark.parametrize(
    "change",
    [
        {"status": "lost"},
        {"message_id": None},
        {"message_id": 5},
        {"provider": 5},
        {"updated_at": "yesterday"},
        {"updated_at": None},
        {"version": "x"},
        {"told": "unknown"},
        {"event_ids": [1]},
        {"failure": {"status": "unknown", "at": "2026-01-01T12:00:00Z"}},
    ],
)
def test_record_that_is_none_is_refused(change):
    """The error says that it is no record."""
    data = Delivery(message_id="m", status=S.UNKNOWN, updated_at=NOON).to_dict()
    with pytest.raises(InvalidPayloadError, match=r"^not a record of a delivery: "):
        Delivery.from_dict({**data, **change})


@pytest.mark.parametrize("name", ["message_id", "status", "updated_at"])
def test_record_without_a_field_is_refused(name):
    """These have to be there."""
    data = Delivery(message_id="m", status=S.UNKNOWN, updated_at=NOON).to_dict()
    del data[name]
    with pytest.raises(InvalidPayloadError, match=f"KeyError: '{name}'"):
        Delivery.from_dict(data)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "lost"}, r"^the kind of event is 'lost'; allowed are accepted, delivered, "),
        ({"error_group": "lost"}, r"^the error group is 'lost'; allowed are transient_infrastructure, "),
        ({"at": datetime(2026, 1, 1)}, r"^at is the naive datetime "),  # noqa: DTZ001
    ],
)
def test_event_that_is_none_is_refused(fields, message):
    """With the value seen and what is allowed."""
    with pytest.raises(ConfigurationError, match=message):
        DeliveryEvent(**{"message_id": "m", "kind": "delivered", "provider": "ses", "at": NOON, **fields})


def test_report_that_contradicts_what_it_says_was_told_shows_what_was_told():
    """The status is what the provider has told."""
    given_ = Delivery(message_id="m", status=S.UNKNOWN, told=S.DELIVERED, updated_at=NOON)
    assert S.DELIVERED is given_.after(None).status


def test_severest_failure_stands_and_of_equal_ones_the_latest():
    """In any order; the texts decide what is left."""
    later = NOON + timedelta(minutes=1)
    order = [
        DeliveryFailure(status=S.DEFERRED, at=later),
        DeliveryFailure(status=S.BOUNCED_PERMANENT, at=NOON),
        DeliveryFailure(status=S.BOUNCED_PERMANENT, at=later),
        DeliveryFailure(status=S.BOUNCED_PERMANENT, at=later, error_code="550"),
        DeliveryFailure(status=S.BOUNCED_PERMANENT, at=later, error_class="soft_bounce"),
    ]
    for one, other in itertools.product(order, order):
        assert order[max(order.index(one), order.index(other))] == one.or_severer(other)
    assert order[0] == order[0].or_severer(None)


@pytest.mark.parametrize(
    ("status", "version", "expected"),
    [
        (S.UNKNOWN, 1, (False, False, False)),
        (S.FAILED_INTERNAL, 1, (False, False, True)),
        (S.BOUNCED_PERMANENT, 1, (False, False, True)),
        (S.SENT_TO_PROVIDER, 1, (True, False, True)),
        (S.DELIVERED, -1, (True, True, True)),
    ],
)
def test_record_tells_whether_it_is_accepted_unexpected_and_settled(status, version, expected):
    """A status of our own is no acceptance."""
    record = Delivery(message_id="m", status=status, version=version, updated_at=NOON)
    assert expected == (record.is_accepted, record.is_unexpected, record.is_settled)


def test_record_is_plain_where_its_first_fields_tell_everything():
    """Each other fact has to be kept beside them."""
    plain = Delivery(
        message_id="m", status=S.SENT_TO_PROVIDER, version=2, provider="ses", provider_id="p", updated_at=NOON
    )
    assert plain.is_plain
    facts = {
        "told": S.DELIVERED,
        "delivered_at": NOON,
        "bounced_at": NOON,
        "complained_at": NOON,
        "unsubscribed_at": NOON,
        "failure": DeliveryFailure(status=S.DEFERRED, at=NOON),
        "event_ids": (("ses", "e"),),
        "schema_version": 9,
        "extra": {"mood": 1},
    }
    assert {field.name for field in attrs.fields(Delivery)} == {
        *facts, "message_id", "status", "version", "provider", "provider_id", "updated_at"
    }  # fmt: skip
    assert [] == [name for name, value in facts.items() if attrs.evolve(plain, **{name: value}).is_plain]
