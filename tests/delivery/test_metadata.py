"""Our message id on its way through a provider and back."""

from __future__ import annotations

import contextlib
import json
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.delivery import parse_bounce, parse_event
from retrykit.delivery.metadata import (
    HEADER,
    mailgun_variables,
    postmark_metadata,
    sendgrid_custom_args,
    sendgrid_smtp_header,
    ses_message_tags,
    smtp_headers,
)
from retrykit.errors import InvalidMessageError
from retrykit.testing.strategies import keys

ID = "campaign-7.ada@example.org"


def through_ses(message_id):
    """SES gives tags back as lists, beside its own."""
    tags = {each["Name"]: [each["Value"]] for each in ses_message_tags(message_id)}
    mail = {"messageId": "p-1", "tags": {"ses:source-ip": ["192.0.2.1"], **tags}}
    return parse_event("ses", json.dumps({"eventType": "Delivery", "mail": mail, "delivery": {}}))


def through_ses_headers(message_id):
    """A feedback that holds the mail's headers."""
    headers = [{"name": name, "value": value} for name, value in smtp_headers(message_id).items()]
    mail = {"messageId": "p-1", "headers": [{"name": "Subject", "value": "Hello"}, *headers]}
    return parse_event("ses", json.dumps({"notificationType": "Bounce", "mail": mail, "bounce": {}}))


def through_sendgrid(message_id):
    """SendGrid gives custom arguments back beside its own fields."""
    event = {"event": "delivered", "sg_event_id": "e-1", **sendgrid_custom_args(message_id)}
    return parse_event("sendgrid", json.dumps([event]))


def through_sendgrid_smtp(message_id):
    """The same for unique arguments."""
    event = {"event": "delivered", "sg_event_id": "e-1", **sendgrid_smtp_header(message_id)["unique_args"]}
    return parse_event("sendgrid", json.dumps([event]))


def through_mailgun(message_id):
    """Mailgun gives variables back without their prefix."""
    variables = {name.removeprefix("v:"): value for name, value in mailgun_variables(message_id).items()}
    return parse_event("mailgun", json.dumps({"event-data": {"event": "delivered", "user-variables": variables}}))


def through_postmark(message_id):
    """Postmark gives metadata back as it is."""
    return parse_event("postmark", json.dumps({"RecordType": "Delivery", "Metadata": postmark_metadata(message_id)}))


def through_bounce(message_id):
    """A mail server returns the header of the mail."""
    mail = EmailMessage()
    mail["Message-ID"] = "<p-1@shop.example>"
    for name, value in smtp_headers(message_id).items():
        mail[name] = value
    text = (
        "Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/delivery-status\n\n"
        "Reporting-MTA: dns; mx.example.org\n\nFinal-Recipient: rfc822; ada@example.org\nAction: failed\nStatus: 5.1.1\n\n"
        f"--b\nContent-Type: message/rfc822\n\n{mail.as_string()}\n--b--\n"
    )
    (event,) = parse_bounce(text)
    return event


WAYS = {
    way.__name__: way
    for way in (
        through_ses,
        through_ses_headers,
        through_sendgrid,
        through_sendgrid_smtp,
        through_mailgun,
        through_postmark,
        through_bounce,
    )
}


@pytest.mark.parametrize("way", WAYS)
def test_message_id_comes_back_with_the_events(way):
    """As it was sent along."""
    assert ID == WAYS[way](ID).message_id


@given(keys)
def test_any_message_id_comes_back_whole_or_is_refused_before_it_is_sent(message_id):
    """Never cut or changed: it could be that of another message."""
    for way in (
        through_ses,
        through_ses_headers,
        through_sendgrid,
        through_sendgrid_smtp,
        through_mailgun,
        through_postmark,
    ):
        with contextlib.suppress(InvalidMessageError):
            assert (None if message_id.isspace() else message_id) == way(message_id).message_id


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40))
def test_any_message_id_comes_back_in_a_bounce(message_id):
    """In a header of the mail that bounced."""
    assert message_id == through_bounce(message_id).message_id


def test_message_id_of_255_characters_comes_back_whole():
    """And one that is longer is none of ours."""
    for length, expected in ((255, "x" * 255), (256, None)):
        event = {"event": "delivered", "sg_event_id": "e", "message_id": "x" * length}
        assert expected == parse_event("sendgrid", json.dumps(event)).message_id


def test_header_of_the_bounced_mail_alone_gives_the_id_back():
    """Some servers return no more than the header; without ours the Message-ID is all there is."""
    text = (
        "Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: text/plain\n\n550 5.1.1 no such user\n"
        "--b\nContent-Type: text/rfc822-headers\n\n{}Message-ID: <p-1@shop.example>\n\n--b--\n"
    )
    for header, expected in ((f"{HEADER}: {ID}\n", ID), ("", "<p-1@shop.example>")):
        (event,) = parse_bounce(text.format(header))
        assert (expected, "<p-1@shop.example>") == (event.message_id, event.provider_id)


@pytest.mark.parametrize(
    ("function", "message_id", "message"),
    [
        (smtp_headers, "a\r\nBcc: eve@example.org", "a header"),
        (smtp_headers, " a", "a header"),
        (smtp_headers, "ü", "a header"),
        (ses_message_tags, "a b", "a tag of SES"),
        (ses_message_tags, "a:b", "a tag of SES"),
        (postmark_metadata, "x" * 81, "Postmark's metadata"),
    ],
)
def test_message_id_that_does_not_fit_is_refused(function, message_id, message):
    """The error names the id, the place and what is allowed."""
    with pytest.raises(InvalidMessageError, match=f"does not fit into {message}; allowed are "):
        function(message_id)


@pytest.mark.parametrize(
    "function",
    [smtp_headers, ses_message_tags, sendgrid_custom_args, sendgrid_smtp_header, mailgun_variables, postmark_metadata],
)
@pytest.mark.parametrize("message_id", ["", "x" * 256, "\0", "\ud800", None])
def test_what_is_no_message_id_is_refused(function, message_id):
    """As everywhere."""
    with pytest.raises(InvalidMessageError, match=r"^the message id "):
        function(message_id)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("14c5d75ce93.dfd.64b469.filter0001.16648.5515E0B88.0", "14c5d75ce93.dfd.64b469"),
        ("rTZ8Szo0SgWHuiNeYaqWRA.recvd-5f7d-1-6543-9C.0", "rTZ8Szo0SgWHuiNeYaqWRA"),
        ("p-1", "p-1"),
    ],
)
def test_id_of_sendgrid_is_the_one_that_the_send_was_answered_with(told, expected):
    """Events append the server that handled it."""
    assert expected == parse_event("sendgrid", json.dumps({"event": "delivered", "sg_message_id": told})).provider_id
    assert parse_event("sendgrid", json.dumps({"event": "delivered", "smtp-id": "<s>"})).provider_id == "<s>"


@pytest.mark.parametrize(
    "headers", [None, 5, [], [None], [{"name": HEADER}], [{"name": HEADER, "value": " "}], {"name": HEADER}]
)
def test_headers_without_an_id_give_none(headers):
    """Whatever stands there."""
    event = {"notificationType": "Bounce", "mail": {"messageId": "p-1", "headers": headers}, "bounce": {}}
    assert parse_event("ses", json.dumps(event)).message_id is None
