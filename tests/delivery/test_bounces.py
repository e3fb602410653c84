"""Bounce messages, read recipient by recipient."""

from __future__ import annotations

import email
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.classification import ErrorClassifier
from retrykit.delivery import EventKind, parse_bounce
from retrykit.errors import ConfigurationError

CLASSIFIER = ErrorClassifier()

PER_RECIPIENT = """\
From: MAILER-DAEMON@mx.example.net
Content-Type: multipart/report; report-type=delivery-status; boundary="b"

--b
Content-Type: text/plain

Sorry.

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.net
Arrival-Date: Mon, 30 Nov 2026 10:00:00 +0000

Final-Recipient: rfc822; ada@example.org
Original-Recipient: rfc822;countess@example.org
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550-5.1.1 nobody of
 that name 550 5.1.1 lives here

Final-Recipient: rfc822; bob@example.org
Action: delayed
Status: 4.0.0
Diagnostic-Code: smtp; 452 4.2.2 mailbox full

Final-Recipient: rfc822; eve@example.org
Action: relayed
Status: 2.0.0

--b
Content-Type: message/rfc822

Message-ID: <m1@shop.example>
Subject: Hello

Text.
--b--
"""

PROSE = """\
From: MAILER-DAEMON@mx.example.net
X-Failed-Recipients: ada@example.org, bob@example.org
Content-Type: text/plain

This message was created automatically.

  ada@example.org
    SMTP error from remote mail server after RCPT TO:<ada@example.org>:
    550 5.1.1 no such user
"""


def class_of(event: Any) -> str:
    return str(CLASSIFIER.classify(event).error_class)


def test_each_recipient_of_a_report_gets_an_event() -> None:
    """With action, status, the server's own words, and the id of the mail that bounced."""
    ada, bob, eve = parse_bounce(PER_RECIPIENT)
    assert (ada.kind, ada.recipient, ada.codes, ada.message_id) == (
        EventKind.BOUNCED,
        "ada@example.org",
        ("5.1.1",),
        "<m1@shop.example>",
    )
    assert ada.reply is not None
    assert (ada.reply.code, ada.reply.enhanced_code) == (550, "5.1.1")
    assert (bob.kind, eve.kind) == (EventKind.DEFERRED, EventKind.ACCEPTED)
    assert [class_of(each) for each in (ada, bob)] == ["invalid_recipient", "mailbox_full"]


@pytest.mark.parametrize("form", [str, str.encode, email.message_from_string], ids=["text", "bytes", "message"])
def test_bounce_is_read_in_every_form(form: Any) -> None:
    """As text, as bytes, and as what Python's parser made of it."""
    assert parse_bounce(form(PER_RECIPIENT)) == parse_bounce(PER_RECIPIENT)


def test_status_that_says_nothing_gives_way_to_the_one_in_the_words() -> None:
    """Some servers write 5.0.0 into the field and the truth into the diagnostic."""
    text = PER_RECIPIENT.replace("Status: 5.1.1", "Status: 5.0.0")
    event = parse_bounce(text)[0]
    assert event.reply is not None
    assert (event.codes, event.reply.enhanced_code) == (("5.0.0",), "5.1.1")


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ("Action: failed", EventKind.BOUNCED),
        ("Action: Delivered", EventKind.DELIVERED),
        ("Status: 5.1.1 (no such user)", EventKind.BOUNCED),
        ("Status: 4.4.1", EventKind.DEFERRED),
        ("Status: 2.0.0", EventKind.DELIVERED),
        ("Original-Recipient: rfc822; ada@example.org\nStatus: 5.1.1", EventKind.BOUNCED),
    ],
)
def test_report_with_few_fields_is_read(fields: str, kind: EventKind) -> None:
    """Servers leave out what they like."""
    text = f"Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/delivery-status\n\nX: y\n\n{fields}\n\n--b--\n"
    assert [event.kind for event in parse_bounce(text)] == [kind]


def test_recipient_of_whom_nothing_is_said_is_left_out() -> None:
    """Neither action nor status: there is nothing to tell."""
    text = PER_RECIPIENT.replace("Action: relayed\nStatus: 2.0.0\n", "")
    assert [event.recipient for event in parse_bounce(text)] == ["ada@example.org", "bob@example.org"]


def test_prose_gives_an_event_for_each_recipient_that_the_header_names() -> None:
    """Older servers write no fields; the reply stands in the text."""
    events = parse_bounce(PROSE)
    assert [(event.kind, event.recipient, class_of(event)) for event in events] == [
        (EventKind.BOUNCED, "ada@example.org", "invalid_recipient"),
        (EventKind.BOUNCED, "bob@example.org", "invalid_recipient"),
    ]


def test_mail_that_is_no_bounce_is_told_as_such() -> None:
    """An answer that says that nothing is known, not an error."""
    (event,) = parse_bounce("Subject: Hello\n\nHow are you?\n")
    assert (event.kind, event.recipient, event.text) == (EventKind.OTHER, None, "How are you?\n")


@pytest.mark.parametrize(
    "head",
    [
        "From: bob@example.org\nAuto-Submitted: auto-replied\nSubject: out of office",
        "From: Bob <bob@example.org>\nSubject: Re: your mail",
        "From: MAILER-DAEMON@mx.example.org\nAuto-Submitted: auto-replied",
    ],
)
def test_words_of_people_and_automatic_answers_are_no_bounce(head: str) -> None:
    """They quote bounces, and say that a mailbox does not exist any more."""
    (event,) = parse_bounce(f"{head}\n\n> 550 5.1.1 user unknown\nBob is gone, his mailbox does not exist.\n")
    assert (event.kind, event.reply, class_of(event)) == (EventKind.OTHER, None, "unknown")


def test_id_is_read_from_the_enclosed_header_alone() -> None:
    """Some servers return only the header of the mail."""
    text = PER_RECIPIENT.replace("message/rfc822", "text/rfc822-headers")
    assert parse_bounce(text)[0].message_id == "<m1@shop.example>"
    assert parse_bounce(text.replace("Message-ID: <m1@shop.example>\n", ""))[0].message_id is None


def test_what_is_no_mail_is_refused() -> None:
    """A bug of the caller."""
    with pytest.raises(ConfigurationError, match="the bounce message is a int; allowed are bytes, text and Message"):
        parse_bounce(5)  # type: ignore[arg-type]


def nested(depth: int) -> str:
    head = "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(depth))
    return head + "Content-Type: text/plain\n\nx\n"


@pytest.mark.parametrize(
    "hostile",
    [
        nested(2_000),
        PER_RECIPIENT.replace("Final-Recipient", "Final-Recipient: rfc822; x@y\nAction: failed\n\n" * 3_000 + "X"),
        "Content-Type: message/delivery-status\n\nno fields at all",
        "Content-Type: text/plain; charset=nonsense\nContent-Transfer-Encoding: base64\n\n%%%",
        "X-Failed-Recipients: " + "a@example.org," * 5_000 + "\n\n550 no",
        b"\xff\xfe\x00" * 100,
        b"",
        "Content-Type: multipart/report\n\n",
    ],
    ids=["nested", "many", "empty status", "base64", "many named", "binary", "nothing", "no boundary"],
)
def test_hostile_mail_is_answered(hostile: Any) -> None:
    """Whatever it is, there is an answer, of a bounded number of events."""
    events = parse_bounce(hostile)
    assert 1 <= len(events) <= 1_000
    assert all(class_of(event) for event in events)


LINES = st.lists(
    st.sampled_from(PER_RECIPIENT.splitlines() + PROSE.splitlines()) | st.text(max_size=20), max_size=40
).map("\n".join)


@given(LINES | st.binary(max_size=200))
def test_mail_of_any_kind_is_answered(mail: Any) -> None:
    """Fields in any order, torn and mixed."""
    assert all(class_of(event) for event in parse_bounce(mail))
