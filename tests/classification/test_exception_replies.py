"""Answers of servers that stand on exceptions of libraries, and how they are read."""

from __future__ import annotations

import email.message
import io
import smtplib
import urllib.error
from types import SimpleNamespace

import pytest

from retrykit.classification import ErrorClassifier, HttpReply, SmtpReply
from retrykit.classification.exceptions import REPLY_READERS, refusals_of, wrapped_by
from retrykit.failure import Outcome
from tests.classification.foreign import foreign

CLASSIFIER = ErrorClassifier()
ONE, TWO = "ada@example.org", "grace@example.org"
HEADERS = {"Retry-After": "7"}


def made(name, **attributes):
    """Make an exception of a library with these attributes."""
    error = foreign(name)("x")
    for attribute, value in attributes.items():
        setattr(error, attribute, value)
    return error


def read(error):
    """Return what is read from an exception."""
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    return [
        (reply.status, dict(reply.headers), reply.document or reply.text)
        if isinstance(reply, HttpReply)
        else (reply.code, reply.text, reply.phase)
        for reply in REPLY_READERS[name](error)
    ]


def response(status=503, body=b"down", headers=HEADERS):
    return SimpleNamespace(status_code=status, headers=headers, _content=body)


class Live:
    """A response whose body was not read; asking for it would wait for the network."""

    status_code = 503
    headers = HEADERS
    _content = False

    @property
    def content(self):
        raise AssertionError("the body was read")


FIELDS = {"retry-after": "7"}
ERROR = {"error": {"type": "overloaded_error"}}
MESSAGE = email.message.Message()
MESSAGE["Retry-After"] = "7"


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        ([(503, FIELDS, "down")], made("httpx.HTTPStatusError", response=response())),
        ([(503, FIELDS, "down")], made("requests.exceptions.HTTPError", response=response())),
        ([(503, FIELDS, "")], made("httpx.HTTPStatusError", response=Live())),
        ([(503, FIELDS, "")], made("requests.exceptions.HTTPError", response=Live())),
        ([], made("requests.exceptions.HTTPError", response=None)),
        ([], made("httpx.HTTPStatusError", response=response(302))),
        ([], made("httpx.HTTPStatusError", response=response(True))),
        ([], made("httpx.HTTPStatusError", response=response(700))),
        ([], made("httpx.HTTPStatusError", response=response("many"))),
        ([(503, {}, "down")], made("httpx.HTTPStatusError", response=response("503", headers=[1]))),
        ([(503, {}, "down")], made("httpx.HTTPStatusError", response=response(headers={"a": 1, 2: "b"}))),
        ([(503, FIELDS, "No")], made("aiohttp.client_exceptions.ClientResponseError", status=503, headers=HEADERS, message="No")),
        ([], made("aiohttp.client_exceptions.ClientHttpProxyError", status=503)),
        ([], made("aiohttp.client_exceptions.TooManyRedirects", status=302)),
        ([(503, {}, "")], made("aiohttp.client_exceptions.WSServerHandshakeError", status=503, message="made up")),
        ([(529, FIELDS, "down")], made("anthropic.APIError", response=response(529))),
        ([(529, FIELDS, ERROR)], made("anthropic.APIError", response=response(529, b""), status_code=529, body=ERROR)),
        ([(None, {}, ERROR)], made("anthropic.APIError", response=response(200, b""), status_code=200, body=ERROR)),
        ([(None, {}, ERROR)], made("openai.APIError", body={"type": "overloaded_error"})),
        ([], made("openai.APIError", body=None)),
        ([(503, FIELDS, "")], made("openai.APIError", response=response(body=b""), body=None)),
        ([], made("openai.APIConnectionError", body=ERROR)),
        (
            [(400, FIELDS, {"__type": "Throttling", "message": "slow"})],
            made(
                "botocore.exceptions.ClientError",
                response={
                    "Error": {"Code": "Throttling", "Message": "slow"},
                    "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {"retry-after": "7"}},
                },
            ),
        ),
        (
            [(None, {}, {"__type": "Throttling", "message": None})],
            made("botocore.exceptions.ClientError", response={"Error": {"Code": "Throttling"}}),
        ),
        ([], made("botocore.exceptions.ClientError", response={})),
        ([(503, {}, "down")], made("google.api_core.exceptions.GoogleAPICallError", code=503, response=SimpleNamespace(_content=b"down"))),
        (
            [(429, {}, {"error": {"status": "RESOURCE_EXHAUSTED", "message": "slow"}})],
            made(
                "google.api_core.exceptions.GoogleAPICallError",
                code=429,
                message="slow",
                response=None,
                grpc_status_code=SimpleNamespace(name="RESOURCE_EXHAUSTED"),
            ),
        ),
        ([], made("google.api_core.exceptions.GoogleAPICallError", code=503, response=SimpleNamespace(code=lambda: 14))),
        (
            [(503, {"status": "503", "retry-after": "7"}, "down")],
            made(
                "googleapiclient.errors.HttpError",
                resp=type("Response", (dict,), {"status": "503"})({"status": "503", "retry-after": "7"}),
                content=b"down",
            ),
        ),
        (
            [(503, FIELDS, "down")],
            made("python_http_client.exceptions.HTTPError", status_code=503, headers=MESSAGE, body=b"down"),
        ),
        ([(402, FIELDS, "no")], made("stripe._error.StripeError", http_status=402, headers=HEADERS, http_body="no")),
        ([], made("stripe._error.StripeError", http_status=None, headers={}, http_body=None)),
        (
            [(200, {}, {"error": "invalid_auth"})],
            made("slack_sdk.errors.SlackApiError", response={"error": "invalid_auth"}),
        ),
        (
            [(429, FIELDS, {"error": "ratelimited"})],
            made(
                "slack_sdk.errors.SlackApiError",
                response=SimpleNamespace(status_code=429, headers=HEADERS, data={"error": "ratelimited"}),
            ),
        ),
        (
            [(429, {}, {"code": 20429, "message": "slow", "status": 429})],
            made("twilio.base.exceptions.TwilioRestException", status=429, code=20429, msg="slow"),
        ),
        (
            [(429, {}, {"code": 20429, "message": "Slow", "status": 429})],
            made("twilio.base.exceptions.TwilioServiceException", status=429, code=20429, detail=None, title="Slow"),
        ),
        ([(554, "no", "connect")], made("aiosmtplib.errors.SMTPConnectResponseError", code=554, message="no")),
        ([(535, "no", "auth")], made("aiosmtplib.errors.SMTPAuthenticationError", code=535, message="no")),
        ([(554, "spam", "data")], made("aiosmtplib.errors.SMTPDataError", code=554, message="spam")),
        ([(None, "", None)], made("aiosmtplib.errors.SMTPResponseException", code=-1, message=None)),
    ],
)  # fmt: skip
def test_answer_is_read_from_where_the_library_keeps_it(expected, error):
    """Without asking the network, and without taking a success for a refusal."""
    assert expected == read(error)


def test_status_that_aiohttp_made_up_is_no_answer():
    """It stands for what came and was not HTTP."""
    error = made("aiohttp.client_exceptions.ClientResponseError", status=400, headers={}, message="Bad status line")
    error.__cause__ = foreign(
        "aiohttp.http_exceptions.BadStatusLine", foreign("aiohttp.http_exceptions.HttpProcessingError")
    )()
    assert [] == read(error)


def test_answer_of_urllib_is_read_without_its_body():
    """The error is a file, which stays unread."""
    body = io.BytesIO(b"down")
    with urllib.error.HTTPError("http://example.org", 503, "Down", MESSAGE, body) as error:
        assert [(503, FIELDS, "Down")] == read(error)
        assert b"down" == body.read()


def test_answer_that_an_exception_carries_is_a_rejection():
    """With what it says about waiting."""
    failure = CLASSIFIER.classify(made("httpx.HTTPStatusError", response=response(429)), stage="send")
    assert ("provider_throttled", Outcome.REJECTED, "429") == (
        str(failure.error_class),
        failure.outcome,
        failure.error_code,
    )


REFUSALS = {ONE: (550, b"5.1.1 user unknown"), TWO: (452, b"4.2.2 mailbox full")}


def refusal(recipient, code, text):
    return made("aiosmtplib.errors.SMTPRecipientRefused", recipient=recipient, code=code, message=text)


@pytest.mark.parametrize(
    "refused",
    [
        REFUSALS,
        smtplib.SMTPRecipientsRefused(REFUSALS),
        made(
            "aiosmtplib.errors.SMTPRecipientsRefused",
            recipients=[refusal(ONE, 550, "5.1.1 user unknown"), refusal(TWO, 452, "4.2.2 mailbox full")],
        ),
    ],
)
def test_refusals_give_a_reply_for_each_recipient(refused):
    """Of both libraries, and of what `sendmail` returns."""
    assert {
        ONE: SmtpReply(550, "5.1.1 user unknown", phase="rcpt"),
        TWO: SmtpReply(452, "4.2.2 mailbox full", phase="rcpt"),
    } == refusals_of(refused)


def test_refusals_of_one_recipient_are_one():
    """What aiosmtplib raises for a single command."""
    assert {ONE: SmtpReply(550, "no", phase="rcpt")} == refusals_of(refusal(ONE, 550, "no"))


def test_refusals_keep_the_phase_that_a_sender_knows():
    """A server may refuse recipients after the message (LMTP)."""
    error = smtplib.SMTPRecipientsRefused(REFUSALS)
    error.smtp_phase = "data"
    assert {"data"} == {reply.phase for reply in refusals_of(error).values()}


@pytest.mark.parametrize(
    ("expected", "refused"),
    [
        ([], {}),
        ([], None),
        ([], ValueError("x")),
        ([], smtplib.SMTPRecipientsRefused(7)),
        ([], {7: (550, b"no")}),
        ([ONE], {ONE: None}),
        ([ONE], {ONE: (550, b"no", "more")}),
        ([ONE], {ONE: ("550", 7)}),
    ],
)
def test_refusals_lose_no_recipient_whose_answer_cannot_be_read(expected, refused):
    """It is refused all the same; what is no recipient is none."""
    found = refusals_of(refused)
    assert expected == list(found)
    assert all((reply.code, reply.text) == (None, "") for reply in found.values())


def test_wrapped_exception_is_found_among_several_values():
    """Arguments hold it anywhere."""
    inner = ValueError("x")
    assert inner is wrapped_by(RuntimeError("x", inner), "args")
    assert wrapped_by(RuntimeError("x"), "args") is None
    assert wrapped_by(RuntimeError("x"), "reason") is None
