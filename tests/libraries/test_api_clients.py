"""What the clients of single APIs raise: stripe, twilio, sendgrid, slack and google."""

from __future__ import annotations

from tests.capabilities import require

require("stripe", "twilio", "sendgrid", "slack_sdk", "googleapiclient", "grpc", "trustme", "loopback")

import google.api_core.exceptions as google_errors
import googleapiclient.errors
import httplib2
import pytest
import python_http_client
import requests
import slack_sdk
import slack_sdk.errors
import stripe
import twilio.base.exceptions
import twilio.http.http_client
import twilio.rest

from tests.libraries import servers
from tests.libraries.servers import PATIENCE, classified, closed_port, http, raised, serving


def charge(port):
    client = stripe.StripeClient(
        "sk_test_x",
        base_addresses={"api": f"http://127.0.0.1:{port}"},
        max_network_retries=0,
        http_client=stripe.RequestsClient(timeout=PATIENCE),
    )
    return client.v1.payment_intents.create({"amount": 1, "currency": "eur"})


def mail(port):
    client = python_http_client.Client(host=f"http://127.0.0.1:{port}", timeout=PATIENCE)
    return client.mail.send.post(request_body={"x": 1})


def chat(port):
    client = slack_sdk.WebClient("x", base_url=f"http://127.0.0.1:{port}/", timeout=5, retry_handlers=[])
    return client.chat_postMessage(channel="x", text="x")


def text(port):
    class ToUs(twilio.http.http_client.TwilioHttpClient):
        def request(self, method, url, *arguments, **options):
            return super().request(method, f"http://127.0.0.1:{port}/x", *arguments, **options)

    client = twilio.rest.Client("ACx", "x", http_client=ToUs(timeout=PATIENCE))
    return client.messages.create(to="+1", from_="+1", body="x")


def call_google(port):
    http_client = httplib2.Http(timeout=PATIENCE, proxy_info=None)
    response, content = http_client.request(f"http://127.0.0.1:{port}/", "POST", b"x")
    if response.status >= 400:
        raise googleapiclient.errors.HttpError(response, content)
    return content


ALL = pytest.mark.parametrize("send", [charge, mail, chat, text, call_google])


@ALL
def test_refused_connection_has_sent_nothing(send):
    """Each has its own HTTP client below."""
    assert ("connection_error", "not_sent") == classified(raised(lambda: send(closed_port())))


@ALL
def test_failure_after_the_request_leaves_the_outcome_open(send):
    """The server closes the connection without an answer."""
    with serving(servers.hang_up_later) as port:
        assert ("connection_error", "unknown") == classified(raised(lambda: send(port)))


@pytest.mark.parametrize(
    ("send", "expected", "status", "body"),
    [
        (charge, "provider_throttled", 429, {"error": {"type": "invalid_request_error", "code": "rate_limit"}}),
        (
            charge,
            "provider_misconfigured",
            401,
            {"error": {"type": "invalid_request_error", "message": "Invalid API Key provided: x"}},
        ),
        (charge, "provider_unavailable", 500, {"error": {"type": "api_error", "message": "oops"}}),
        (mail, "provider_throttled", 429, {"errors": [{"message": "too many requests"}]}),
        (mail, "provider_unavailable", 503, {"errors": [{"message": "down"}]}),
        (chat, "provider_misconfigured", 200, {"ok": False, "error": "invalid_auth"}),
        (chat, "provider_throttled", 429, {"ok": False, "error": "ratelimited"}),
        (text, "provider_throttled", 429, {"code": 20429, "message": "Too Many Requests", "status": 429}),
        (text, "provider_misconfigured", 401, {"code": 20003, "message": "Authenticate", "status": 401}),
        (call_google, "provider_throttled", 429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}),
        (call_google, "provider_unavailable", 503, {"error": {"code": 503, "status": "UNAVAILABLE"}}),
    ],
)
def test_answer_is_read(send, expected, status, body):
    """Whatever exception carries it."""
    with serving(http(status, body)) as port:
        assert (expected, "rejected") == classified(raised(lambda: send(port)))


def test_slack_answer_given_as_a_document_is_read():
    """Its asynchronous clients may give the document itself."""
    error = slack_sdk.errors.SlackApiError("no", {"ok": False, "error": "invalid_auth"})
    assert ("provider_misconfigured", "rejected") == classified(error)


def test_twilio_problem_document_is_read():
    """Its second kind of exception has other names for the same."""
    error = twilio.base.exceptions.TwilioServiceException("x", "Too many", 429, 20429)
    assert ("provider_throttled", "rejected") == classified(error)


def test_google_answer_to_a_rest_call_is_read():
    """With the body of the response where there is one."""
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down"}}
    with serving(http(429, body)) as port:
        response = requests.post(f"http://127.0.0.1:{port}", timeout=PATIENCE)
    assert ("provider_throttled", "rejected") == classified(google_errors.from_http_response(response))
    assert ("provider_unavailable", "rejected") == classified(google_errors.ServiceUnavailable("down"))


def test_google_error_of_a_grpc_call_is_what_grpc_said():
    """Its cause knows more: an HTTP status was made up for it."""
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{closed_port()}") as channel:
        cause = raised(lambda: channel.unary_unary("/x/y")(b"", timeout=2))
    error = google_errors.from_grpc_error(cause)
    error.__cause__ = cause
    assert isinstance(error, google_errors.ServiceUnavailable)
    assert ("connection_error", "not_sent") == classified(error)


def test_google_retries_end_in_what_the_last_one_met():
    """A RetryError holds it."""
    error = google_errors.RetryError("gave up", google_errors.TooManyRequests("slow down"))
    assert ("provider_throttled", "rejected") == classified(error)
    assert ("network_timeout", "unknown") == classified(google_errors.RetryError("gave up", None))
