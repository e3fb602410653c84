"""What openai and anthropic raise."""

from __future__ import annotations

from tests.capabilities import require

require("openai", "anthropic", "trustme", "loopback")

import anthropic
import openai
import pytest

from tests.libraries import servers
from tests.libraries.servers import PATIENCE, TIMEOUT, classified, closed_port, http, patience, raised, serving

MESSAGES = [{"role": "user", "content": "x"}]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


def ask_openai(url, wait=PATIENCE, **options):
    with openai.OpenAI(base_url=url, api_key="x", max_retries=0, timeout=wait) as client:
        answer = client.chat.completions.create(model="x", messages=MESSAGES, **options)
        return list(answer) if options else answer


def ask_anthropic(url, wait=PATIENCE, **options):
    with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0, timeout=wait) as client:
        answer = client.messages.create(model="x", messages=MESSAGES, max_tokens=9, **options)
        return list(answer) if options else answer


BOTH = pytest.mark.parametrize("ask", [ask_openai, ask_anthropic])


@BOTH
def test_failure_to_connect_has_sent_nothing(ask, tls_port):
    """An APIConnectionError has as its cause what the HTTP client raised."""
    assert ("connection_error", "not_sent") == classified(raised(lambda: ask(f"http://127.0.0.1:{closed_port()}")))
    assert ("provider_misconfigured", "not_sent") == classified(raised(lambda: ask(f"https://127.0.0.1:{tls_port}")))
    with servers.unreachable_port() as port:
        assert ("network_timeout", "not_sent") == classified(raised(lambda: ask(f"http://127.0.0.1:{port}", TIMEOUT)))


@BOTH
@pytest.mark.parametrize(
    ("expected", "handle"),
    [
        ("connection_error", servers.hang_up_later),
        ("connection_error", servers.reset),
        ("network_timeout", servers.stay_silent),
    ],
)
def test_failure_after_the_request_leaves_the_outcome_open(ask, expected, handle):
    """An APITimeoutError is an APIConnectionError."""
    with serving(handle) as port:
        assert (expected, "unknown") == classified(raised(lambda: ask(f"http://127.0.0.1:{port}", patience(handle))))


@BOTH
@pytest.mark.parametrize(
    ("expected", "status", "kind"),
    [
        ("provider_misconfigured", 401, "authentication_error"),
        ("provider_throttled", 429, "rate_limit_error"),
        ("provider_unavailable", 500, "api_error"),
        ("provider_unavailable", 503, "api_error"),
    ],
)
def test_answer_is_read_with_headers_and_body(ask, expected, status, kind):
    """An APIStatusError."""
    body = {"type": "error", "error": {"type": kind, "message": "no"}}
    with serving(http(status, body, Retry_After="7")) as port:
        error = raised(lambda: ask(f"http://127.0.0.1:{port}"))
    assert (expected, "rejected") == classified(error)


@BOTH
def test_success_that_is_none_leaves_the_outcome_open(ask):
    """What came is no JSON, though it says so."""
    with serving(http(200, b"fine", Content_Type="application/json")) as port:
        error = raised(lambda: ask(f"http://127.0.0.1:{port}"))
    assert "unknown" == classified(error)[1]


def test_error_within_a_stream_is_read_from_its_body():
    """The status was 200 by then."""
    event = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}\n\n'
    with serving(http(200, event, Content_Type="text/event-stream")) as port:
        error = raised(lambda: ask_anthropic(f"http://127.0.0.1:{port}", stream=True))
    failure = servers.CLASSIFIER.classify(error, stage="send")
    assert isinstance(error, anthropic.APIError)
    assert "rejected" == failure.outcome.value
    event = b'data: {"error": {"message": "busy", "type": "server_error", "code": "server_error"}}\n\n'
    with serving(http(200, event, Content_Type="text/event-stream")) as port:
        error = raised(lambda: ask_openai(f"http://127.0.0.1:{port}", stream=True))
    failure = servers.CLASSIFIER.classify(error, stage="send")
    assert isinstance(error, openai.APIError)
    assert "rejected" == failure.outcome.value


def test_missing_key_is_a_matter_of_settings():
    """Nothing was sent."""
    assert ("provider_misconfigured", "not_sent") == classified(raised(lambda: openai.OpenAI(base_url="http://x")))
