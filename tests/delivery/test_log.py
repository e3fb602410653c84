"""How a provider's events settle deliveries, in both colours."""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit import Dispatcher, Message
from retrykit.backends.memory import MemoryBackend
from retrykit.classification import ErrorClassifier, EventKind, ProviderEvent, Rule, SmtpReply
from retrykit.decision import DispositionKind
from retrykit.delivery import Sent, parse_event
from retrykit.delivery.log import AsyncDeliveryLog, DeliveryLog, delivery_event
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass
from retrykit.reconcile import Reconciler, ReconcileReport
from retrykit.stores import Delivery, DeliveryStatus, as_async
from retrykit.testing import ManualClock

S, K = DeliveryStatus, EventKind
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class _InBoth:
    """A log of either colour, called as a synchronous one."""

    def __init__(self, backend, is_async, **options):
        self.is_async = is_async
        self.log = (
            AsyncDeliveryLog(as_async(backend).deliveries, **options)
            if is_async
            else DeliveryLog(backend.deliveries, **options)
        )

    def __getattr__(self, name):
        method = getattr(self.log, name)
        return (lambda *args: asyncio.run(method(*args))) if self.is_async else method


@pytest.fixture
def clock():
    return ManualClock(NOON)


@pytest.fixture
def backend(clock):
    return MemoryBackend(clock=clock)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def log(request, backend, clock):
    return _InBoth(backend, request.param, clock=clock)


def event(kind, event_id=None, *, minutes=0, **fields):
    """Return an event of the message m, so many minutes after noon."""
    usual = {"provider": "ses", "message_id": "m", "at": NOON + timedelta(minutes=minutes)}
    return ProviderEvent(kind=kind, event_id=event_id, **{**usual, **fields})


def refused(text, event_id=None, kind=K.BOUNCED, **fields):
    """Return a failure with what the recipient's server said."""
    return event(kind, event_id, text=text, reply=SmtpReply(int(text[:3]), text[4:]), **fields)


def report(backend, status, version, message_id="m", **fields):
    """Report a status of our own."""
    return backend.deliveries.record(
        Delivery(message_id=message_id, status=status, version=version, updated_at=NOON, **fields)
    )


def test_event_settles_the_message_it_names(log, backend):
    """A bounce is classified: its class and code stand in the record."""
    report(backend, S.SENT_TO_PROVIDER, 2)
    stands = log.apply(refused("550 5.1.1 no such user", "e-1", minutes=1, provider_id="p-1"))
    assert (S.BOUNCED_PERMANENT, "p-1") == (stands.status, stands.provider_id)
    failure = stands.failure
    assert (S.BOUNCED_PERMANENT, "invalid_recipient", "permanent_recipient", "550", NOON + timedelta(minutes=1)) == (
        failure.status,
        failure.error_class,
        failure.error_group,
        failure.error_code,
        failure.at,
    )
    assert stands == backend.deliveries.get("m")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("550 5.1.1 no such user", S.BOUNCED_PERMANENT),
        ("452 4.2.2 mailbox full", S.BOUNCED_TRANSIENT),
        ("421 4.7.0 too many connections, try again later", S.BOUNCED_TRANSIENT),
        ("554 5.7.1 message rejected as spam", S.BOUNCED_PERMANENT),
    ],
)
def test_bounce_is_transient_or_permanent_by_its_class(log, text, expected):
    """A provider that gave up for a passing cause leaves a transient bounce."""
    assert expected is log.apply(refused(text)).status
    assert S.BOUNCED_PERMANENT is log.apply(refused(text, kind=K.REJECTED)).status


@pytest.mark.parametrize("spelled", ["postmark", "Postmark", "POSTMARK"])
def test_event_finds_its_message_however_the_provider_is_spelled(log, backend, spelled):
    """In the answer of the send as in the event."""
    Dispatcher(lambda _message, _key: Sent("PID", spelled), backend=backend).handle(Message("m", {"n": 1}))
    for name in ("postmark", "PostMark"):
        stands = log.apply(parse_event(name, '{"RecordType": "Delivery", "MessageID": "PID"}'))
        assert ("m", S.DELIVERED, "postmark") == (stands.message_id, stands.status, stands.provider)
    assert backend.deliveries.by_provider_id(spelled, "PID").message_id == "m"


def test_class_of_an_application_decides(backend):
    """The classifier that is given is the one asked."""
    busy = ErrorClass("mailbox_moved", group="temporary_mailbox")
    classifier = ErrorClassifier([Rule("own.moved", busy, predicate=lambda _: True)])
    stands = DeliveryLog(backend.deliveries, classifier).apply(refused("550 5.1.1 no such user"))
    assert (S.BOUNCED_TRANSIENT, "mailbox_moved") == (stands.status, stands.failure.error_class)


@pytest.mark.parametrize(("recorded", "told"), [("p-1", "p-1"), ("<p@x>", "p@x"), ("p@x", "<p@x>")])
@pytest.mark.parametrize("own", [None, "", "x" * 256, "\0", "\ud800"])
def test_event_without_an_id_of_ours_is_found_by_the_providers(log, backend, recorded, told, own):
    """What can be no id of ours counts as none; a Message-ID is found with its brackets and without."""
    report(backend, S.SENT_TO_PROVIDER, 2, provider="ses", provider_id=recorded)
    stands = log.apply(event(K.DELIVERED, message_id=own, provider_id=told))
    assert ("m", S.DELIVERED) == (stands.message_id, stands.status)
    assert log.apply(event(K.OTHER, message_id=own, provider_id=told)) == stands


def test_event_of_no_message_that_is_known_is_none(log, backend):
    """It may be of another system that shares the account."""
    report(backend, S.SENT_TO_PROVIDER, 2, provider="ses", provider_id="p-1")
    for each in (
        event(K.DELIVERED, message_id=None),
        event(K.DELIVERED, message_id=None, provider_id=""),
        event(K.DELIVERED, message_id=None, provider_id="p-2"),
        event(K.DELIVERED, message_id=None, provider_id="p-1", provider="mailgun"),
        event(K.OTHER, message_id="other"),
    ):
        assert log.apply(each) is None
    assert {S.SENT_TO_PROVIDER: 1} == backend.deliveries.counts()


def test_event_of_a_message_never_sent_is_unexpected(log, backend):
    """It names an id of ours that nobody reported: a person should see it."""
    stands = log.apply(event(K.DELIVERED, "e-1"))
    assert stands.is_unexpected
    assert [stands] == backend.deliveries.unexpected()


def test_bounce_mail_with_one_id_for_both_makes_no_record(log, backend):
    """A Message-ID is looked up as the provider's id, then as our own."""
    both = {"provider": "dsn", "message_id": "<m@x>", "provider_id": "<m@x>"}
    assert log.apply(event(K.BOUNCED, **both)) is None
    report(backend, S.SENT_TO_PROVIDER, 2, "own", provider_id="<m@x>")
    assert log.apply(event(K.DEFERRED, **both)).message_id == "own"
    report(backend, S.SENT_TO_PROVIDER, 2, "<n@x>")
    assert log.apply(event(K.BOUNCED, provider="dsn", message_id="<n@x>", provider_id="<n@x>")).message_id == "<n@x>"


def test_instant_of_an_event_that_does_not_say_is_now(log, clock):
    """By the clock in force."""
    clock.advance("1m")
    assert NOON + timedelta(minutes=1) == log.apply(event(K.DELIVERED, at=None)).delivered_at


def test_all_events_of_a_request_are_applied_in_their_order(log):
    """Each answer stands where its event stood."""
    events = [event(K.ACCEPTED), event(K.DELIVERED, message_id=None), event(K.DELIVERED)]
    applied = log.apply_all(iter(events))
    assert [S.SENT_TO_PROVIDER, None, S.DELIVERED] == [each and each.status for each in applied]
    assert log.apply_all([]) == []


def test_event_that_comes_46_times_is_applied_once(log, backend):
    """Among the events of other messages, shuffled."""
    report(backend, S.SENT_TO_PROVIDER, 2)
    copies = [event(K.DEFERRED, "e-1")] * 46
    others = [event(K.DELIVERED, f"o-{number}", message_id=f"o-{number}") for number in range(10)]
    mixed = copies + others
    random.Random(7).shuffle(mixed)
    log.apply_all(mixed)
    stands = backend.deliveries.get("m")
    assert (S.DEFERRED, (("ses", "e-1"),)) == (stands.status, stands.event_ids)


FULL, GONE = "452 4.2.2 mailbox full", "550 5.1.1 no such user"
SEQUENCES = {
    "delivered after two delays": (
        [
            event(K.ACCEPTED, "1"),
            refused(FULL, "2", K.DEFERRED, minutes=1),
            refused(FULL, "3", K.DEFERRED, minutes=2),
            event(K.DELIVERED, "4", minutes=3),
            event(K.ENGAGED, "5", minutes=4),
        ],
        S.DELIVERED,
    ),
    "bounced after it was delivered, and complained of": (
        [
            event(K.ACCEPTED, "1"),
            event(K.DELIVERED, "2", minutes=1),
            refused(GONE, "3", minutes=2),
            event(K.COMPLAINED, "4", minutes=3),
            event(K.UNSUBSCRIBED, "5", minutes=4),
        ],
        S.BOUNCED_PERMANENT,
    ),
    "given up with a full mailbox": (
        [
            event(K.ACCEPTED, "1"),
            refused(FULL, "2", K.DEFERRED, minutes=1),
            refused(FULL, "3", K.DEFERRED, minutes=2),
            refused(FULL, "4", minutes=3),
            event(K.OTHER, "5", minutes=4),
        ],
        S.BOUNCED_TRANSIENT,
    ),
    "dropped": (
        [event(K.ACCEPTED, "1"), refused(GONE, "2", K.REJECTED, minutes=1), refused(GONE, "3", K.REJECTED, minutes=2)],
        S.BOUNCED_PERMANENT,
    ),
    "without ids and instants": (
        [event(K.ACCEPTED, at=None), event(K.DELIVERED, at=None), refused(FULL, kind=K.DEFERRED, at=None)],
        S.DELIVERED,
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_every_order_of_a_realistic_sequence_ends_in_the_same_record(name, clock):
    """Whenever our own reports arrive among them, the unknown outcome and the send."""
    events, expected = SEQUENCES[name]
    own = (S.UNKNOWN, 2), (S.SENT_TO_PROVIDER, 3)
    records = []
    for number, order in enumerate(itertools.permutations(events)):
        backend = MemoryBackend(clock=clock)
        log = DeliveryLog(backend.deliveries, clock=clock)
        steps = list(order)
        steps[number % len(steps) : 0] = own  # our reports at every place
        for step in steps:
            _ = log.apply(step) if isinstance(step, ProviderEvent) else report(backend, *step)
        stands = backend.deliveries.get("m")
        records.append(attrs.evolve(stands, event_ids=tuple(sorted(stands.event_ids))))
    assert expected is records[0].status
    assert all(each == records[0] for each in records)


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(S), st.integers(0, 5)),
        st.builds(
            event,
            st.sampled_from(K),
            st.none() | st.sampled_from("abc"),
            minutes=st.integers(0, 9),
            provider=st.sampled_from(["ses", "mailgun"]),
        ),
        st.builds(refused, st.sampled_from([FULL, GONE]), st.none(), st.sampled_from([K.BOUNCED, K.DEFERRED])),
    ),
    min_size=1,
    max_size=8,
)


@given(steps, st.data())
def test_any_events_and_reports_end_in_the_same_status_in_any_order(steps, data):
    """One report for each version, and one event for each id."""
    agreed = {}
    for step in steps:
        is_event = isinstance(step, ProviderEvent)
        key = (step.provider, step.event_id or object()) if is_event else step[1]
        agreed.setdefault(key, step)
    order = data.draw(
        st.permutations([*agreed.values(), *data.draw(st.lists(st.sampled_from([*agreed.values()]), max_size=3))])
    )
    ends = []
    for each in (agreed.values(), order):
        backend = MemoryBackend(clock=ManualClock(NOON))
        log = DeliveryLog(backend.deliveries)
        for step in each:
            _ = log.apply(step) if isinstance(step, ProviderEvent) else report(backend, *step)
        stands = backend.deliveries.get("m")
        ends.append(stands and (stands.status, stands.told, stands.version, stands.complained_at, stands.failure))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("told", [K.ACCEPTED, K.DEFERRED, K.DELIVERED, K.BOUNCED, K.COMPLAINED])
@pytest.mark.parametrize("is_reconciled", [True, False])
def test_send_that_was_unknown_is_settled_by_an_event_and_not_repeated(backend, clock, told, is_reconciled):
    """By the reconciler or by the next copy, without a lookup; a bounce too tells that the provider took it."""
    sends = []

    def send(message, key):
        sends.append(key)
        raise TimeoutError("no answer after the message was handed over")

    dispatcher = Dispatcher(send, backend=backend, clock=clock)
    assert dispatcher.handle(Message("m", {})).kind is DispositionKind.VERIFYING
    assert S.UNKNOWN is backend.deliveries.get("m").status
    stands = DeliveryLog(backend.deliveries).apply(event(told, "e-1", provider_id="p-1"))
    clock.advance("1h")
    if is_reconciled:
        assert Reconciler(backend, clock=clock).run_once() == ReconcileReport(sent=1)
    else:
        assert dispatcher.handle(Message("m", {})).kind in (DispositionKind.SENT, DispositionKind.DUPLICATE)
    assert ["m"] == sends
    record = backend.claims.get("m")
    assert (DispositionKind.SENT, "ses", "p-1") == (record.disposition, record.provider, record.provider_id)
    assert stands.status is backend.deliveries.get("m").status


def test_event_in_the_form_of_a_store_is_json():
    """So that it can be queued on its way."""
    for each in (refused(FULL, "e-1", provider_id="p-1"), event(K.DELIVERED)):
        told = delivery_event(each, "m", at=NOON)
        assert told == type(told).from_dict(told.to_dict())
        assert told.error_class == (ErrorClass.MAILBOX_FULL if each.text else None)


STORIES = {
    "delivered before the send was recorded": [
        (("processing", 1), S.PROCESSING),
        ((K.DELIVERED, "e1"), S.DELIVERED),
        (("sent_to_provider", 2), S.DELIVERED),
    ],
    "the same deferral again and again": [
        (("processing", 1), S.PROCESSING),
        (("sent_to_provider", 2), S.SENT_TO_PROVIDER),
        *[((K.DEFERRED, "e7"), S.DEFERRED)] * 46,
    ],
    "a bounce after the delivery": [
        (("processing", 1), S.PROCESSING),
        (("sent_to_provider", 2), S.SENT_TO_PROVIDER),
        ((K.DELIVERED, "e3"), S.DELIVERED),
        ((K.BOUNCED, "e4"), S.BOUNCED_PERMANENT),
    ],
}


@pytest.mark.parametrize("name", STORIES)
def test_story_goes_as_told(name, log, backend):
    """Step by step; the instants of delivery and bounce are both kept."""
    stands = report(backend, S.PENDING, 0)
    for number, ((what, which), expected) in enumerate(STORIES[name]):
        if isinstance(what, EventKind):
            before = stands
            stands = log.apply(event(what, which, minutes=number))
            assert (stands == before) is (which in {each for _, each in before.event_ids})
        else:
            stands = report(backend, S(what), which)
        assert expected is stands.status
    if "bounce" in name:
        assert stands.delivered_at < stands.bounced_at


@pytest.mark.parametrize("make", [DeliveryLog, AsyncDeliveryLog])
def test_log_of_what_is_no_delivery_store_is_refused_at_once(make):
    """Of a backend the error says what to give instead."""
    backend = MemoryBackend()
    for wrong in (backend, as_async(backend)):
        with pytest.raises(ConfigurationError, match=r"is the backend .*; give its delivery log: backend.deliveries"):
            make(wrong)
    for wrong in (None, backend.claims, "sqlite:///mail.db"):
        with pytest.raises(ConfigurationError, match=f"store is .*; allowed is a {make.__name__[:-3]}Store$"):
            make(wrong)


def test_log_of_a_store_of_the_other_colour_is_refused():
    """The error says what to use."""
    store = MemoryBackend().deliveries
    with pytest.raises(ConfigurationError, match=r"AsyncDeliveryStore; as_async\(backend\).deliveries is one"):
        AsyncDeliveryLog(store)
    with pytest.raises(ConfigurationError, match="DeliveryStore; AsyncDeliveryLog takes it"):
        DeliveryLog(as_async(MemoryBackend()).deliveries)


@pytest.mark.parametrize(("options", "said"), [({"classifier": 5}, "classifier is 5"), ({"clock": 5}, "clock is 5")])
def test_log_with_a_wrong_part_is_refused_by_its_name(options, said):
    """Not at the first event."""
    with pytest.raises(ConfigurationError, match=said):
        DeliveryLog(MemoryBackend().deliveries, **options)
