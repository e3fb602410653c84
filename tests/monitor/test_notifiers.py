"""Webhooks, against a real server: what is posted, how it is signed, and what is neither followed nor logged."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from retrykit.errors import ConfigurationError, NotificationError
from retrykit.monitor import Alert, AlertState, Severity, WebhookNotifier
from retrykit.testing import manual_clock
from tests.capabilities import require

require("loopback")

ALERT = Alert(
    key="own:a",
    rule="own",
    severity=Severity.PAGE,
    title="5 of 5 <b>&",
    evidence={"died": 5},
    commands=("retrykit runbook",),
    since=datetime(2026, 1, 1, tzinfo=UTC),
    changed_at=datetime(2026, 1, 1, 0, 1, tzinfo=UTC),
)


class Server:
    """Takes posts and answers as it is told to."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.hangs = threading.Event()
        self.hangs.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posts.append((self.path, dict(self.headers), body))
                outer.hangs.wait(10)
                self.send_response(outer.status)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"x" * 5000)

            def log_message(self, *_: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/services/T0/s3cret"


@pytest.fixture
def server():
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.hangs.set()
    made.http.shutdown()
    made.http.server_close()
    thread.join()


def test_alert_is_posted_as_json(server):
    """All of it, and nothing else."""
    WebhookNotifier(server.url, headers={"Authorization": "Bearer t"})(ALERT)
    ((path, headers, body),) = server.posts
    assert ("/services/T0/s3cret", "application/json", "Bearer t") == (
        path,
        headers["Content-Type"],
        headers["Authorization"],
    )
    assert {
        "key": "own:a",
        "rule": "own",
        "severity": "page",
        "state": "firing",
        "title": "5 of 5 <b>&",
        "since": "2026-01-01T00:00:00.000Z",
        "changed_at": "2026-01-01T00:01:00.000Z",
        "evidence": {"died": 5},
        "runbook": "own",
        "commands": ["retrykit runbook"],
    } == json.loads(body)
    assert "X-Retrykit-Signature" not in headers


@pytest.mark.parametrize("secret", ["s3", b"s3"])
def test_request_is_signed_with_its_time(server, secret):
    """So that the receiver can tell it from a forged and from an old one."""
    with manual_clock():
        WebhookNotifier(server.url, secret=secret)(ALERT)
    ((_, headers, body),) = server.posts
    digest = hmac.new(b"s3", b"1767225600." + body, hashlib.sha256).hexdigest()
    assert f"t=1767225600,v1={digest}" == headers["X-Retrykit-Signature"]


def test_slack_form_is_one_text_without_markup(server):
    """What is over needs no commands."""
    import attrs

    notifier = WebhookNotifier(server.url, form="slack")
    notifier(ALERT)
    notifier(attrs.evolve(ALERT, state=AlertState.RESOLVED))
    assert [
        {"text": "[firing] page: 5 of 5 &lt;b&gt;&amp;\n$ retrykit runbook"},
        {"text": "[resolved] page: 5 of 5 &lt;b&gt;&amp;"},
    ] == [json.loads(body) for *_, body in server.posts]


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 404, 500])
def test_answer_that_is_no_success_is_an_error_and_no_redirect_is_followed(server, status):
    """To nowhere: not to another path either. The address's path is not told."""
    server.status, server.headers = status, {"Location": "/elsewhere"}
    with pytest.raises(NotificationError) as caught:
        WebhookNotifier(server.url)(ALERT)
    host = server.url.partition("/services")[0]
    assert f"{host} answered {status}; allowed are 200 to 299" == str(caught.value)
    assert 1 == len(server.posts)


def test_server_that_does_not_answer_is_an_error_in_time(server):
    """And so is one that is not there."""
    server.hangs.clear()
    with pytest.raises(NotificationError, match=r"could not be reached: TimeoutError: timed out$"):
        WebhookNotifier(server.url, timeout=0.05)(ALERT)
    with pytest.raises(NotificationError, match=r"^http://127\.0\.0\.1:1 could not be reached: ") as caught:
        WebhookNotifier("http://127.0.0.1:1/s3cret")(ALERT)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://host/x", "hooks.example.com", "http://", "https:///x", ""]
)
def test_address_that_is_neither_http_nor_https_is_refused(url):
    """When the notifier is made, and without showing it."""
    with pytest.raises(ConfigurationError, match="allowed are http and https addresses with a host"):
        WebhookNotifier(url)


def test_form_and_timeout_that_do_not_exist_are_refused():
    """By name."""
    with pytest.raises(ConfigurationError, match=r"form is 'xml'; allowed are 'json' and 'slack'"):
        WebhookNotifier("https://host", form="xml")
    with pytest.raises(ConfigurationError, match="timeout is 0"):
        WebhookNotifier("https://host", timeout=0)


def test_secrets_are_not_shown():
    """Neither the path nor the secret nor a password in the address."""
    shown = repr(WebhookNotifier("https://u:p4ss@hooks.example.com:8443/T0/s3cret?k=t0ken", secret="signing"))
    assert "WebhookNotifier('https://hooks.example.com:8443', form='json')" == shown
