"""Webhooks, against a real server: what is posted, how it is signed, and what is neither followed nor logged."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import socket
import threading
import traceback
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import attrs
import pytest

from retrykit.errors import ConfigurationError, NotificationError
from retrykit.monitor import Alert, AlertState, LogNotifier, Severity, WebhookNotifier
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
        self.endless = threading.Event()
        self.ends = threading.Event()
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
                if outer.endless.is_set():
                    outer.ends.wait(30)

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
    made.ends.set()
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


def test_answer_whose_body_never_ends_is_taken_by_its_status(server):
    """Nobody is woken again because a receiver is slow to say more."""
    server.endless.set()
    WebhookNotifier(server.url, timeout=20)(ALERT)
    assert 1 == len(server.posts)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/s3cret", "the server's"])
def test_error_stands_by_itself(server, url):
    """What it was made of may quote the address, and tools that report errors show what stands behind them."""
    server.status = 500
    with pytest.raises(NotificationError) as caught:
        WebhookNotifier(url if url.startswith("http") else server.url)(ALERT)
    assert (None, None) == (caught.value.__cause__, caught.value.__context__)


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


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (5, "the url is of type int; allowed are http and https addresses"),
        (None, "the url is of type NoneType; allowed"),
        (b"https://host/s3cret", "the url is of type bytes; allowed"),
        ("https://host/s3cret path", "the url has a blank, an end of line, or another character"),
        ("https://host/s3cret\n", "the url has a blank, an end of line, or another character"),
        ("https://host/s3cret\N{LATIN SMALL LETTER E WITH ACUTE}", "the url has a blank, an end of line, or another"),
        ("http://x y/s3cret", "the url has a blank"),
        ("https://host:s3cret/", "the url has a host or a port that cannot be read; allowed"),
        ("https://host:99999/s3cret", "the url has a host or a port that cannot be read"),
        ("https://[::1/s3cret", "the url has a host or a port that cannot be read"),
        ("https://host:0/s3cret", "the url has no host, or the port 0"),
        ("https://u:s3cret@/x", "the url has no host, or the port 0"),
        ("ftp://host/s3cret", "the url does not begin with http:// or https://"),
    ],
)
def test_address_that_cannot_be_asked_is_refused_and_not_quoted(url, message):
    """Whatever reading it runs into: for Slack its path is the secret."""
    with pytest.raises(ConfigurationError) as caught:
        WebhookNotifier(url)
    assert str(caught.value).startswith(message)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"secret": 5}, "secret is of type int; allowed are text or bytes that are not empty, or None"),
        ({"secret": ""}, "secret is empty; allowed are text or bytes that are not empty"),
        ({"secret": b""}, "secret is empty; allowed"),
        ({"secret": "k3y\ud800"}, "secret holds a lone surrogate"),
        ({"headers": 5}, "headers is of type int; allowed is a mapping of names to text"),
        ({"headers": [("A", "k3y")]}, "headers is of type list; allowed is a mapping"),
        (
            {"headers": {"A": "k3y\r\nB: c"}},
            "headers has a value with an end of line or another character that none has for",
        ),
        (
            {"headers": {"A": "k3y\u20ac"}},
            "headers has a value with an end of line or another character that none has for",
        ),
        ({"headers": {"A": 5}}, "headers has a value of type int for 'A'; allowed is one line of text"),
        ({"headers": {"A": b"k3y"}}, "headers has a value of type bytes for 'A'; allowed is one line of text"),
        ({"headers": {"A B": "k3y"}}, "headers has the name 'A B'; allowed are letters"),
        ({"headers": {"": "k3y"}}, "headers has the name ''; allowed are letters"),
        ({"headers": {5: "k3y"}}, "headers has the name 5; allowed are letters"),
        ({"headers": {"Content-length": "5"}}, "headers has 'Content-length', which the notifier sets itself"),
        ({"headers": {"x-retrykit-Signature": "k3y"}}, "headers has 'x-retrykit-Signature', which the notifier"),
        ({"timeout": "5m"}, "timeout is '5m'; allowed are durations of at most 1m"),
        ({"timeout": None}, "timeout is None; allowed are seconds"),
        ({"form": None}, "form is None; allowed are 'json' and 'slack'"),
        ({"form": []}, "form is []; allowed are 'json' and 'slack'"),
    ],
)
def test_option_that_is_not_allowed_is_named_without_its_secrets(options, message):
    """When the notifier is made, not when somebody should be woken."""
    with pytest.raises(ConfigurationError) as caught:
        WebhookNotifier("https://host/s3cret", **options)
    assert str(caught.value).startswith(message)
    assert "k3y" not in str(caught.value)


def test_user_and_password_in_the_address_become_a_header(server):
    """The HTTP client would take them for the host, and say so; a header of one's own goes first."""
    url = server.url.replace("http://", "http://ada:p%404ss@") + "#part"
    WebhookNotifier(url)(ALERT)
    WebhookNotifier(url, headers={"authorization": "Bearer t"})(ALERT)
    basic = "Basic " + base64.b64encode(b"ada:p@4ss").decode()
    assert [("/services/T0/s3cret", basic), ("/services/T0/s3cret", "Bearer t")] == [
        (path, headers["Authorization"]) for path, headers, _ in server.posts
    ]


def read_request(connection):
    """Read all of it: what is left unread at the end would reset the connection."""
    read = b""
    while b"\r\n\r\n" not in read:
        read += connection.recv(65536)
    head, _, body = read.partition(b"\r\n\r\n")
    (length,) = [
        int(line.partition(b":")[2]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    ]
    while len(body) < length:
        body += connection.recv(65536)


def test_server_that_repeats_what_it_was_asked_does_not_bring_it_into_the_error():
    """An answer that is no HTTP, a line that is too long; and a proxy that refuses says it in its own words."""
    answers = [b"POST /services/s3cret HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\ns3cret: " + b"s3cret" * 20_000, b""]
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            for answer in answers:
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    read_request(connection)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        said = []
        for _ in answers:
            with pytest.raises(NotificationError) as caught:
                WebhookNotifier(f"{url}/services/s3cret")(ALERT)
            said.append(str(caught.value))
        thread.join()
    kinds = ["BadStatusLine", "LineTooLong", "RemoteDisconnected"]
    assert [f"{url} could not be reached: {kind}" for kind in kinds] == said


def test_proxy_of_the_environment_that_cannot_be_used_is_not_quoted(monkeypatch):
    """Its address may hold a password; and the client's own complaint is one about values."""
    monkeypatch.setenv("http_proxy", "http://ada:s3cret@127.0.0.1:s3cret/")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(NotificationError) as caught:
        WebhookNotifier("http://hooks.example.com/s3cret")(ALERT)
    assert str(caught.value).startswith("http://hooks.example.com could not be reached: ")
    assert "s3cret" not in str(caught.value)


def test_log_line_is_one_line_whatever_a_provider_wrote_into_it(caplog):
    """Its code is in the title."""
    LogNotifier()(attrs.evolve(ALERT, title="no rule knows the code ses: X\n2026 ERROR forged\x1b[2J"))
    assert [
        r"firing own: no rule knows the code ses: X\n2026 ERROR forged\x1b[2J; first: retrykit runbook"
    ] == caplog.messages


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
