"""What is read from the answers of APIs: whose codes they are, which, and in what words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.classification import EventKind, HttpReply, ProviderEvent, SmtpReply
from retrykit.classification.answers import Answer, answer_of, event_answer, quoted_reply
from retrykit.classification.documents import as_list, as_map, at, code, first_map, join, number, text
from retrykit.classification.vocabularies import known


def read(body, provider=None, status=400, **fields):
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    return answer_of(HttpReply(status, headers, body if isinstance(body, str) else json.dumps(body)), provider)


@pytest.mark.parametrize(
    ("vocabulary", "codes", "body"),
    [
        ("aws", ("Throttling",), "<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>"),
        ("aws", ("InvalidInput",), {"__type": "com.example.service.v1#InvalidInput"}),
        ("aws", ("NonExistentQueue", "AWS.SimpleQueueService.NonExistentQueue"), {"__type": "AWS.SimpleQueueService.NonExistentQueue"}),
        ("google", ("rateLimitExceeded", "RESOURCE_EXHAUSTED"),
         {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "errors": [{"reason": "rateLimitExceeded"}]}}),
        ("fcm", ("UNREGISTERED", "NOT_FOUND"),
         {"error": {"code": 404, "status": "NOT_FOUND", "details": [{"@type": "FcmError", "errorCode": "UNREGISTERED"}]}}),
        ("whatsapp", ("2494", "100"), {"error": {"code": 100, "error_subcode": 2494, "fbtrace_id": "a"}}),
        ("stripe", ("lost_card", "card_declined", "card_error"),
         {"error": {"type": "card_error", "code": "card_declined", "decline_code": "lost_card"}}),
        ("microsoft", ("innermost", "inner", "outer"),
         {"error": {"code": "outer", "innererror": {"code": "inner", "innererror": {"code": "innermost"}}}}),
        ("twilio", ("20003",), {"code": 20003, "message": "no", "more_info": "see"}),
        ("vonage", ("throttled",), {"type": "https://developer.vonage.com/api-errors#throttled", "title": "no"}),
        ("telegram", ("CHAT_ADMIN_REQUIRED", "400"), {"ok": False, "error_code": 400, "description": "Bad: CHAT_ADMIN_REQUIRED"}),
        ("slack", ("not_authed",), {"ok": False, "error": "not_authed"}),
        ("postmark", ("406",), {"ErrorCode": 406, "Message": "no"}),
        ("postmark", ("406",), [{"ErrorCode": 0, "Message": "OK"}, {"ErrorCode": 406, "Message": "no"}]),
        ("mandrill", ("unsub", "rejected"), [{"status": "rejected", "reject_reason": "unsub"}]),
        ("resend", ("not_found",), {"statusCode": 404, "name": "not_found", "message": "no"}),
        ("apns", ("BadTopic",), {"reason": "BadTopic"}),
        ("expo", ("DeviceNotRegistered",), {"data": [{"status": "error", "details": {"error": "DeviceNotRegistered"}}]}),
        ("sparkpost", ("1902",), {"errors": [{"message": "no", "code": "1902"}]}),
        ("sendgrid", ("personalizations.to.email",), {"errors": [{"message": "no", "field": "personalizations.0.to.3.email", "help": None}]}),
        ("mailjet", ("mj-0001",), {"ErrorIdentifier": "a", "ErrorCode": "mj-0001", "ErrorMessage": "no", "StatusCode": 400}),
        ("oauth", ("invalid_client",), {"error": "invalid_client"}),
        (None, ("E_LATE",), {"errors": [{"message": "no", "extensions": {"code": "E_LATE"}}]}),
        (None, ("late",), {"type": "https://example.org/problems/late", "title": "no", "status": 409}),
        (None, (), {"message": "no", "code": 400}),
        (None, ("rate_limit_error",), {"type": "error", "error": {"type": "rate_limit_error", "message": "no"}}),
    ],
)  # fmt: skip
def test_shape_tells_whose_codes_they_are(vocabulary, codes, body):
    """No name is needed; codes come most specific first."""
    answer = read(body, "primary")
    assert (vocabulary, codes) == (answer.vocabulary, answer.codes)


@pytest.mark.parametrize(
    ("vocabulary", "name"),
    [
        ("aws", "ses"), ("aws", "ses-eu-west"), ("aws", "amazon_ses"), ("aws", "AWS-SES"), ("aws", "amazonses2"),
        ("sendgrid", "twilio-sendgrid"), ("twilio", "twilio2"), ("mandrill", "Mailchimp Transactional"), ("brevo", "sendinblue"),
        ("microsoft", "office365"), ("vonage", "nexmo"), (None, "primary"), (None, "sessions"), (None, ""), (None, None),
    ],
)  # fmt: skip
def test_name_of_a_provider_is_known_with_its_variants(vocabulary, name):
    """A word of the name counts, and a long name within a longer word."""
    assert vocabulary == known(name)


@pytest.mark.parametrize(
    ("expected", "body"),
    [
        ("a b", {"message": " a b "}),
        ("title\ndetail", {"type": "about:blank", "title": "title", "detail": "detail"}),
        ("one\ntwo", {"errors": ["one", {"message": "two", "more": ["one"]}]}),
        ("deep\n(field field)", {"errors": {"field": [{"x": "deep"}]}}),
        ("", {"errors": {"a": {"b": {"c": {"d": {"e": "too deep"}}}}}}),
        ("words", {"error": {"message": "words", "code": 3, "details": None}}),
        ("Not here", "<html><head><title>Not here</title></head>"),
        ("plain", "plain"),
        ("", "Bad Request"),
        ("", {"message": "Bad request."}),
        ("", "[1, 2]"),
    ],
)
def test_text_is_the_words_for_people(expected, body):
    """Several are joined, each once, to a bounded depth."""
    assert expected == read(body).text


@pytest.mark.parametrize(
    ("expected", "body"),
    [
        (7.0, {"ok": False, "error_code": 429, "description": "no", "parameters": {"retry_after": 7}}),
        (2.5, {"message": "slow down", "retry_after": 2.5}),
        (3.0, {"message": "slow down", "retryAfter": "3"}),
        (4.0, {"error": {"message": "slow down", "retry_after": 4}}),
        (0.0, {"message": "slow down", "retry_after": -4}),
        (30.5, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "30.5s"}]}}),
        (None, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "soon"}]}}),
        (None, {"message": "slow down", "retry_after": "soon"}),
        (None, {"message": "slow down", "retry_after": "nan"}),
        (None, {"message": "slow down", "retry_after": True}),
    ],
)
def test_wait_that_the_body_asks_for_is_read(expected, body):
    """In seconds, from 0; what is no number is not there."""
    assert expected == read(body, status=429).retry_after


def test_answer_without_an_error_is_marked():
    """Rules cannot see what is not there."""
    assert read({"id": 1}, status=200).marks == ("http.silent", "http.uncoded")
    assert read({"message": "no"}).marks == ("http.uncoded",)
    assert read({"ok": False, "error": "x"}).marks == ()


def test_tokens_are_marks_then_named_then_plain_codes_then_likeness():
    """White space within a code is no reason not to find it in a table."""
    answer = Answer("mailjet", ("User Unknown", "KmsDisabled"), marks=("kind.bounced",))
    assert answer.tokens == (
        "kind.bounced", "mailjet.user_unknown", "mailjet.kmsdisabled", "user unknown", "kmsdisabled", "like.payload", "like.access",
    )  # fmt: skip
    assert Answer(codes=tuple("abcdefghijk")).tokens == tuple("abcdefgh")


def test_codes_are_bounded():
    """However many and however long they come."""
    answer = read({"ok": False, "error": "x" * 1_000})
    assert [len(code) for code in answer.codes] == [128]
    many = {"error": {"code": 400, "status": "X", "errors": [{"reason": f"r{n}"} for n in range(100)]}}
    assert len(read(many).codes) == 8


def test_words_are_bounded():
    """However many texts a body holds, and however long they are."""
    lists = [[f"{row} {column}" for column in range(30)] for row in range(30)]
    assert len(read({"errors": lists}).text.splitlines()) == 32
    assert len(read({"message": "x" * 10_000}).text) == 4_000


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        (SmtpReply(550, "5.1.1 no"), ("550 5.1.1 no",)),
        (SmtpReply(550, "5.1.1 no"), ("smtp; 550 5.1.1 no",)),
        (SmtpReply(550, "5.1.1 no"), ("Their server said: 550 5.1.1 no",)),
        (SmtpReply(None, "5.1.1 no"), ("5.1.1 no",)),
        (SmtpReply(550, "no"), ("no", 550)),
        (SmtpReply(None, "no", enhanced_code="5.2.2"), ("no", None, "5.2.2")),
        (SmtpReply(452, "4.2.2 full"), ("452 4.2.2 full", 552)),
        (None, ("no",)),
        (None, ("no", 605)),
        (None, ("no", 499)),
        (None, ("no", None, "junk")),
        (None, ("499 too slow",)),
        (None, ("",)),
    ],
)
def test_reply_of_a_mail_server_is_told_from_a_providers_words(expected, arguments):
    """Numbers that no mail server gives are the provider's own."""
    assert expected == quoted_reply(*arguments)


def test_event_is_read_with_the_words_of_its_provider():
    """The vocabulary stands beside the name that the application uses."""
    reply = SmtpReply(550, "5.1.1 no")
    event = ProviderEvent(provider="EU", vocabulary="ses", kind=EventKind.BOUNCED, codes=("A",), text="t", reply=reply)
    assert event_answer(event) == Answer("ses", ("A",), "t", reply, None, ("kind.bounced",))
    assert event_answer(ProviderEvent(provider="EU", kind=EventKind.DELIVERED)).vocabulary == "eu"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(ANYTHING, st.lists(st.text() | st.integers(0, 5)))
def test_helpers_take_any_value(value, path):
    """What is read from a document is of the type that was asked for, whatever stands there."""
    assert isinstance(text(value), str)
    assert len(code(value)) <= 128
    assert number(value) is None or isinstance(number(value), float)
    assert isinstance(as_list(value), list)
    assert len(as_map(value)) >= len(first_map([])) == 0
    assert len(join(value, value)) <= 4_000
    at(value, *path)


def test_helpers_do_not_turn_huge_numbers_into_text():
    """Python refuses numbers of thousands of digits; so do we, before."""
    assert code(10**5_000) == ""
    assert number(10**5_000) is None
    assert code(1.5) == ""
