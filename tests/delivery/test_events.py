"""Providers' webhook events, read into one form."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit.classification import ErrorClassifier, EventKind, ProviderEvent, SmtpReply
from retrykit.delivery import parse_event, parse_events
from retrykit.errors import ConfigurationError, InvalidPayloadError

WHO = "ada@example.org"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECONDS = int(AT.timestamp())
ISO = "2026-01-02T03:04:05Z"
REFUSED = "550 5.1.1 no such person"
REPLY = SmtpReply(550, "5.1.1 no such person")
K = EventKind
CLASSIFIER = ErrorClassifier()


def parse(provider, event):
    return parse_event(provider, json.dumps(event))


SES_BOUNCE = {
    "eventType": "Bounce",
    "bounce": {
        "bounceType": "Permanent", "bounceSubType": "General", "timestamp": ISO, "feedbackId": "e-1",
        "bouncedRecipients": [{"emailAddress": WHO, "status": "5.1.1", "diagnosticCode": f"smtp; {REFUSED}"}],
    },
    "mail": {"messageId": "p-1", "tags": {"retrykit_id": ["m-1"]}},
}  # fmt: skip

WHOLE = [
    ("ses", SES_BOUNCE, "bounced", ("Permanent/General", "Permanent")),
    ("sendgrid",
     {"event": "bounce", "type": "bounce", "reason": REFUSED, "status": "5.1.1", "email": WHO, "timestamp": SECONDS, "sg_event_id": "e-1",
      "sg_message_id": "p-1", "retrykit_id": "m-1", "bounce_classification": "Invalid Address"},
     "bounced", ("Invalid Address", "bounce")),
    ("mailgun",
     {"event-data": {"event": "failed", "severity": "permanent", "reason": "bounce", "id": "e-1", "recipient": WHO, "timestamp": SECONDS + 0.0,
                     "delivery-status": {"code": 550, "message": "5.1.1 no such person"}, "user-variables": {"message_id": "m-1"},
                     "message": {"headers": {"message-id": "p-1"}}}},
     "bounced", ("550", "bounce", "permanent")),
    ("postmark",
     {"RecordType": "Bounce", "Type": "HardBounce", "Details": f"smtp;{REFUSED}", "Email": WHO, "BouncedAt": ISO, "ID": "e-1", "MessageID": "p-1",
      "Metadata": {"message_id": "m-1"}},
     "bounced", ("HardBounce",)),
    ("sparkpost",
     {"msys": {"message_event": {"type": "bounce", "bounce_class": "10", "raw_reason": REFUSED, "error_code": "550", "rcpt_to": WHO,
                                 "timestamp": str(SECONDS), "event_id": "e-1", "message_id": "p-1", "rcpt_meta": {"message_id": "m-1"}}}},
     "bounced", ("10",)),
    ("mandrill",
     {"event": "hard_bounce", "ts": SECONDS, "msg": {"_id": "p-1", "email": WHO, "diag": f"smtp;{REFUSED}", "bounce_description": "bad_mailbox",
                                                     "metadata": {"retrykit_id": "m-1"}}},
     "bounced", ("bad_mailbox", "hard_bounce")),
    ("mailjet",
     {"event": "bounce", "error": "user unknown", "error_related_to": "recipient", "hard_bounce": True, "comment": REFUSED, "email": WHO,
      "time": SECONDS, "MessageID": "p-1", "CustomID": "m-1"},
     "bounced", ("user unknown", "hard_bounce", "recipient")),
    ("unisender",
     {"event_name": "x", "event_data": {"status": "hard_bounced", "email": WHO, "job_id": "p-1", "event_time": "2026-01-02 03:04:05",
                                        "metadata": {"message_id": "m-1"},
                                        "delivery_info": {"delivery_status": "err_user_unknown", "destination_response": REFUSED}}},
     "bounced", ("err_user_unknown", "hard_bounced")),
    ("resend",
     {"type": "email.bounced", "created_at": ISO, "data": {"email_id": "p-1", "to": [WHO], "tags": {"message_id": "m-1"},
                                                          "bounce": {"type": "Permanent", "subType": "General", "message": REFUSED}}},
     "bounced", ("Permanent/General", "Permanent")),
    ("brevo",
     {"event": "hard_bounce", "email": WHO, "message-id": "p-1", "ts_event": SECONDS, "reason": REFUSED, "X-Mailin-custom": "m-1"},
     "bounced", ("hard_bounce",)),
]  # fmt: skip


@pytest.mark.parametrize(("provider", "body", "kind", "codes"), WHOLE, ids=[row[0] for row in WHOLE])
@pytest.mark.parametrize("name", [None, "primary"])
def test_bounce_of_a_mail_is_read_whole(provider, body, kind, codes, name):
    """Each provider's fields come out under the same names, whatever the application calls the provider."""
    event = parse(name or provider, body)
    assert (name or provider, provider, kind, codes) == (event.provider, event.vocabulary, event.kind, event.codes)
    assert (event.provider_id, event.message_id, event.recipient, event.at) == ("p-1", "m-1", WHO, AT)
    assert event.event_id in ("e-1", None)
    assert event.reply == REPLY
    assert event.raw == body
    assert str(CLASSIFIER.classify(event).error_class) == "invalid_recipient"


@pytest.mark.parametrize(
    ("kind", "error_class", "provider", "body"),
    [
        (K.DELIVERED, None, "ses", {"eventType": "Delivery", "delivery": {"timestamp": ISO, "recipients": [WHO]}}),
        (K.DEFERRED, "mailbox_full", "ses", {"eventType": "DeliveryDelay", "deliveryDelay": {"delayType": "MailboxFull"}}),
        (K.COMPLAINED, "recipient_suppressed", "ses", {"notificationType": "Complaint", "complaint": {"complaintFeedbackType": "abuse"}}),
        (K.REJECTED, "policy_violation", "ses", {"eventType": "Reject", "reject": {"reason": "Bad content"}}),
        (K.REJECTED, "rendering_failure", "ses", {"eventType": "Rendering Failure", "failure": {"errorMessage": "a value is missing"}}),
        (K.ACCEPTED, None, "ses", {"eventType": "Send", "mail": {"destination": [WHO]}}),
        (K.UNSUBSCRIBED, None, "ses", {"eventType": "Subscription", "subscription": {"newTopicPreferences": {"unsubscribeAll": True}}}),
        (K.OTHER, None, "ses", {"eventType": "Subscription", "subscription": {"newTopicPreferences": {"unsubscribeAll": False}}}),
        (K.BOUNCED, "recipient_suppressed", "ses",
         {"eventType": "Bounce", "bounce": {"bounceType": "Permanent", "bounceSubType": "OnAccountSuppressionList"}}),
        (K.REJECTED, "recipient_suppressed", "sendgrid", {"event": "dropped", "reason": "Bounced Address"}),
        (K.DEFERRED, "mailbox_full", "sendgrid", {"event": "deferred", "response": "452 4.2.2 over quota"}),
        (K.BOUNCED, "reputation_blocked", "sendgrid", {"event": "bounce", "type": "blocked"}),
        (K.ENGAGED, None, "sendgrid", {"event": "click"}),
        (K.DEFERRED, None, "mailgun", {"event-data": {"event": "failed", "severity": "temporary", "delivery-status": {"code": 452}}}),
        (K.BOUNCED, "recipient_suppressed", "mailgun",
         {"event-data": {"event": "failed", "severity": "permanent", "reason": "suppress-bounce", "delivery-status": {"code": 605}}}),
        (K.REJECTED, None, "mailgun", {"event-data": {"event": "rejected", "reject": {"reason": "no"}}}),
        (K.DELIVERED, None, "postmark", {"RecordType": "Delivery", "DeliveredAt": ISO}),
        (K.COMPLAINED, "recipient_suppressed", "postmark", {"RecordType": "SpamComplaint", "Type": "SpamComplaint"}),
        (K.DEFERRED, None, "postmark", {"RecordType": "Bounce", "Type": "Transient"}),
        (K.UNSUBSCRIBED, "recipient_suppressed", "postmark", {"RecordType": "SubscriptionChange", "SuppressSending": True}),
        (K.OTHER, None, "postmark", {"RecordType": "SubscriptionChange", "SuppressSending": False}),
        (K.BOUNCED, "mailbox_full", "sparkpost", {"type": "bounce", "bounce_class": 22, "rcpt_to": WHO}),
        (K.UNSUBSCRIBED, None, "sparkpost", {"msys": {"unsubscribe_event": {"type": "list_unsubscribe"}}}),
        (K.OTHER, None, "sparkpost", {"msys": {}}),
        (K.REJECTED, "recipient_suppressed", "mandrill", {"event": "reject", "msg": {"reject": {"reason": "unsub"}}}),
        (K.REJECTED, "soft_bounce", "mandrill", {"status": "rejected", "reject_reason": "soft-bounce", "_id": "p-1"}),
        (K.DEFERRED, None, "mandrill", {"event": "deferral", "msg": {"smtp_events": [{"diag": "451 4.3.0 later"}]}}),
        (K.REJECTED, "recipient_suppressed", "mailjet", {"event": "blocked", "error": "preblocked", "error_related_to": "mailjet"}),
        (K.BOUNCED, "mailbox_full", "unisender",
         {"event_data": {"status": "soft_bounced", "delivery_info": {"delivery_status": "err_mailbox_full"}}}),
        (K.BOUNCED, "soft_bounce", "twilio", {"MessageStatus": "undelivered", "ErrorCode": "30003", "MessageSid": "p-1"}),
        (K.DELIVERED, None, "twilio", {"SmsStatus": "delivered", "SmsSid": "p-1"}),
        (K.BOUNCED, "invalid_recipient", "vonage", {"msisdn": "0", "status": "failed", "err-code": "3", "messageId": "p-1"}),
        (K.DELIVERED, None, "vonage", {"msisdn": "0", "status": "delivered", "err-code": "0"}),
        (K.REJECTED, "recipient_suppressed", "vonage",
         {"message_uuid": "p-1", "status": "rejected", "to": "0", "error": {"type": "https://example.org/errors#1240", "title": 1240}}),
        (K.BOUNCED, "provider_throttled", "vonage",
         {"message_uuid": "p-1", "status": "undeliverable", "to": {"number": "0"}, "error": {"type": "https://example.org/errors#1000"}}),
        (K.REJECTED, None, "resend", {"type": "email.suppressed", "data": {"to": [WHO]}}),
        (K.OTHER, None, "resend", {"type": "domain.created", "data": {}}),
        (K.BOUNCED, "soft_bounce", "brevo", {"event": "soft_bounce", "message-id": "p-1"}),
        (K.OTHER, None, "ses", {"eventType": "SomethingNew"}),
        (K.OTHER, None, "nobody", {}),
        (K.BOUNCED, "invalid_recipient", "nobody", {"type": "bounced", "data": {"email": WHO, "reason": "the recipient does not exist"}}),
        (K.DELIVERED, None, "nobody", {"status": "Delivered", "to": WHO, "timestamp": ISO}),
    ],
)  # fmt: skip
def test_event_tells_what_has_happened_and_why(kind, error_class, provider, body):
    """The kind is ours, the codes are theirs; both lead to a class."""
    event = parse(provider, body)
    assert event.kind is kind
    assert error_class is None or error_class == str(CLASSIFIER.classify(event).error_class)


@pytest.mark.parametrize(
    ("expected", "moment"),
    [
        (AT, SECONDS), (AT, SECONDS * 1_000), (AT, str(SECONDS)), (AT, ISO), (AT, "2026-01-02T05:04:05+02:00"), (AT, "2026-01-02 03:04:05"),
        (None, None), (None, 0), (None, -5), (None, 10**30), (None, "soon"), (None, True), (None, "nan"), (None, [1]),
        (None, "0001-01-01T00:00:00+14:00"),
    ],
)  # fmt: skip
def test_moment_is_read_in_the_forms_that_providers_use(expected, moment):
    """Seconds, milliseconds, or a date; without a zone it is UTC."""
    assert expected == parse("sendgrid", {"event": "open", "timestamp": moment}).at


def test_sns_envelope_is_opened():
    """SNS delivers an event as text within an object; a message of its own stays as it is."""
    envelope = {"Type": "Notification", "TopicArn": "arn", "Message": json.dumps(SES_BOUNCE)}
    assert parse("ses", envelope).codes == ("Permanent/General", "Permanent")
    assert parse("ses", {**envelope, "Message": "please confirm"}).kind is K.OTHER
    assert parse("ses", {**envelope, "Message": "{broken"}).kind is K.OTHER


@pytest.mark.parametrize(
    ("kind", "codes", "provider", "body"),
    [
        (K.BOUNCED, ("30003",), "twilio", b"MessageSid=p-1&MessageStatus=undelivered&ErrorCode=30003"),
        (K.DELIVERED, (), "vonage", "msisdn=0&status=delivered&err-code=0"),
        (K.BOUNCED, ("hard_bounce",), "mandrill", "mandrill_events=%5B%7B%22event%22%3A%22hard_bounce%22%2C%22msg%22%3A%7B%7D%7D%5D"),
        (K.OTHER, (), "mandrill", "mandrill_events=%5B"),
    ],
)  # fmt: skip
def test_form_is_read_where_the_provider_sends_forms(kind, codes, provider, body):
    """Twilio and Vonage send forms, Mandrill an array within one."""
    event = parse_event(provider, body)
    assert (kind, codes) == (event.kind, event.codes)


def test_several_events_are_read_in_their_order():
    """Batches go through `parse_events`; an array of one is one event."""
    body = json.dumps([{"event": "delivered"}, {"event": "open"}])
    assert [event.kind for event in parse_events("sendgrid", body)] == [K.DELIVERED, K.ENGAGED]
    assert parse_events("sendgrid", "[]") == []
    assert parse("sendgrid", [{"event": "open"}]).kind is K.ENGAGED
    with pytest.raises(InvalidPayloadError, match="2 events, not one; read it with parse_events"):
        parse_event("sendgrid", body)
    with pytest.raises(InvalidPayloadError, match="0 events"):
        parse_event("sendgrid", "[]")


@pytest.mark.parametrize(
    ("match", "body"),
    [
        ("'eu' is neither JSON nor a form", "ada@example.org is gone"),
        ("'eu' is neither JSON nor a form", "{ada=1"),
        ("'eu' is neither JSON nor a form", b""),
        ("'eu' is neither JSON nor a form", "a=1&" * 2_000),
        ("'eu' is neither JSON nor a form", "[" * 100_000),
        ("'eu' holds a str", '"ada@example.org"'),
        ("'eu' holds a NoneType", "null"),
        ("'eu' holds a int", "[1]"),
        ("'eu' is a NoneType", None),
    ],
)
def test_body_that_is_no_event_is_refused_without_quoting_it(match, body):
    """The error names the provider and what is wrong; addresses stay out of it."""
    with pytest.raises(InvalidPayloadError, match=match) as caught:
        parse_event("eu", body)
    assert "ada" not in str(caught.value)


def test_body_may_be_any_kind_of_bytes():
    """Frameworks give views as well."""
    assert parse_event("sendgrid", memoryview(b'{"event": "open"}')).kind is K.ENGAGED
    assert parse_event("sendgrid", b'\xef\xbb\xbf{"event": "open"}').kind is K.ENGAGED


NAMES = st.sampled_from(
    "notificationType eventType bounce bounceType bounceSubType bouncedRecipients mail tags timestamp event event-data delivery-status "
    "code message severity reason RecordType Type Details Metadata msys type bounce_class msg reject _id status reject_reason smtp_events "
    "error error_related_to MessageID event_data delivery_info MessageStatus ErrorCode message_uuid msisdn err-code data email_id to "
    "message-id Message TopicArn deliveryDelay headers user-variables".split()
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    | st.sampled_from(["bounce", "Bounce", "failed", "550 5.1.1 x", "email.bounced", 10**400, -1, 1e300]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=25,
)  # fmt: skip


@pytest.mark.unmeasured
@settings(max_examples=400)
@given(
    st.sampled_from(
        "ses sendgrid mailgun postmark sparkpost mandrill mailjet unisender twilio vonage resend brevo eu".split()
    ),
    VALUES,
)
def test_any_json_is_read_or_refused(provider, document):
    """No type in any place leads to another error; every event is classified."""
    try:
        events = parse_events(provider, json.dumps(document))
    except InvalidPayloadError:
        assert not isinstance(document, dict)
        return
    for event in events:
        assert event.provider == provider
        assert event.at is None or event.at.tzinfo is UTC
        assert CLASSIFIER.classify(event).error_class.is_built_in


@given(st.binary(max_size=60), st.text(max_size=20))
def test_any_bytes_are_read_or_refused(body, provider):
    """Whatever arrives at a public address."""
    with contextlib.suppress(InvalidPayloadError):
        assert all(event.provider == provider.lower() for event in parse_events(provider, body))


@pytest.mark.parametrize("provider", [None, 5])
def test_provider_that_is_no_text_is_refused(provider):
    """A bug of the caller, told as one."""
    with pytest.raises(ConfigurationError, match="the provider is"):
        parse_events(provider, b"{}")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"provider": None}, "the provider is None"),
        ({"provider": 5}, "the provider is 5"),
        ({"kind": "nope"}, "the kind of event is 'nope'; allowed are accepted, delivered"),
        ({"kind": None}, "the kind of event is None"),
        ({"codes": "NoEmail"}, "codes of a provider's event is of type str; allowed is a tuple of texts"),
        ({"codes": ["NoEmail"]}, "codes of a provider's event is of type list"),
        ({"codes": (5,)}, "codes of a provider's event is of type tuple that holds something else"),
        ({"text": None}, "text of a provider's event is of type NoneType; allowed is text"),
        ({"reply": "550"}, "reply of a provider's event is of type str; allowed is an SmtpReply, or None"),
        ({"vocabulary": 5}, "vocabulary of a provider's event is of type int; allowed is text, or None"),
        ({"event_id": 5}, "event_id of"),
        ({"provider_id": b"p"}, "provider_id of a provider's event is of type bytes"),
        ({"message_id": 5}, "message_id of"),
        (
            {"recipient": ["secret@example.org"]},
            "recipient of a provider's event is of type list; allowed is text, or None$",
        ),
        ({"at": datetime(2026, 1, 1)}, "at is the naive datetime"),  # noqa: DTZ001 - that is the point
        ({"at": 1767225600}, "at is 1767225600; allowed is a timezone-aware datetime"),
    ],
)
def test_event_with_a_field_of_a_wrong_type_is_refused_by_its_name(fields, said):
    """When it is made, not where it is used; and without what it holds of a person."""
    with pytest.raises(ConfigurationError, match=said) as caught:
        ProviderEvent(**{"provider": "ses", "kind": EventKind.DELIVERED, **fields})
    assert "secret" not in str(caught.value)


def test_event_takes_the_name_of_its_kind_and_any_timezone():
    """As an application may write them."""
    at = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    event = ProviderEvent(provider="SES", kind="delivered", at=at)
    assert ("ses", EventKind.DELIVERED, False) == (event.provider, event.kind, event.kind.is_failure)
    assert (datetime(2026, 1, 1, tzinfo=UTC), timedelta(0)) == (event.at, event.at.utcoffset())
