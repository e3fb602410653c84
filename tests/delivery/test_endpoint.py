"""The address for webhooks, driven as an ASGI server would drive it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import threading

import pytest

from retrykit.clock import current_clock, in_trio
from retrykit.delivery.endpoint import WebhookEndpoint
from retrykit.delivery.webhooks import MailgunWebhook, PostmarkWebhook, SesWebhook, Webhook
from retrykit.errors import ConfigurationError
from retrykit.testing import manual_clock
from tests.capabilities import require
from tests.colours import both_loops, cancel, hang, run_asyncio

require("cryptography", "trio")

import trio

SECRET = "s3cr3t-of-ours"
WHO = "ada@example.org"
GENUINE = ((b"x-secret", SECRET.encode()), (b"content-type", b"application/json"))
DELIVERED = json.dumps({"RecordType": "Delivery", "Recipient": WHO}).encode()
POSTMARK = PostmarkWebhook(header="X-Secret", secret=SECRET, max_body=1_000)


class Server:
    """One request: gives its parts, notes the answer."""

    def __init__(self, *parts, gone=False, broken=None):
        self.parts = list(parts)
        self.asked = 0
        self.sent = []
        self.gone = gone
        self.broken = broken

    async def receive(self):
        self.asked += 1
        if self.parts:
            part = self.parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self.parts) or self.gone}
        return {"type": "http.disconnect"}

    async def send(self, message):
        if self.broken is not None:
            raise self.broken
        self.sent.append(message)

    @property
    def status(self):
        start, body = self.sent
        assert (start["type"], body["type"], body["body"]) == ("http.response.start", "http.response.body", b"")
        assert (b"content-length", b"0") in start["headers"]
        return start["status"]

    def header(self, name):
        return dict(self.sent[0]["headers"]).get(name)


def scope(path="/postmark", *, method="POST", headers=GENUINE, **more):
    return {"type": "http", "method": method, "path": path, "headers": [*headers], **more}


def endpoint(apply=lambda _event: None, **webhooks):
    return WebhookEndpoint(webhooks or {"postmark": POSTMARK}, apply)


def ask(app, request=None, *, parts=(DELIVERED,), runner=run_asyncio, **server):
    """Send one request; return the server with the answer."""
    made = Server(*parts, **server)

    async def main():
        await app(request or scope(), made.receive, made.send)

    runner(main)
    return made


@both_loops
def test_event_is_applied_before_the_answer(runner):
    """A function, a coroutine function, and a function that gives a coroutine; the clock in force reaches them all."""
    order = []

    async def send(message):
        order.append(message["type"])

    def note(event):
        order.append((event.kind.value, current_clock() is clock))

    async def note_async(event):
        note(event)

    for apply in [note, note_async, lambda event: note_async(event)]:
        with manual_clock() as clock:
            runner(lambda: endpoint(apply)(scope(), Server(DELIVERED).receive, send))  # noqa: B023 - called at once
    assert order == [("delivered", True), "http.response.start", "http.response.body"] * 3


@both_loops
def test_function_runs_in_a_thread_and_a_coroutine_function_in_the_loop(runner):
    """A slow function does not hold up the loop."""
    where = []

    async def in_loop(_event):
        where.append((threading.get_ident(), in_trio()))

    ask(endpoint(lambda _event: where.append(threading.get_ident())), runner=runner)
    ask(endpoint(in_loop), runner=runner)
    assert where[0] != threading.get_ident()
    assert where[1] == (threading.get_ident(), runner is not run_asyncio)


def batch(*names):
    return json.dumps([{"RecordType": name} for name in names]).encode()


@both_loops
def test_events_are_applied_in_their_order(runner):
    """One after the other, unknown ones too; none is nothing to do."""
    seen = []
    app = endpoint(lambda event: seen.append(event.kind.value))
    assert ask(app, parts=[batch("Delivery", "New", "Bounce")], runner=runner).status == 200
    assert ask(app, parts=[b"[]"], runner=runner).status == 200
    assert seen == ["delivered", "other", "bounced"]


@both_loops
@pytest.mark.parametrize("error", [ValueError("no"), StopIteration(), OSError("database")])
@pytest.mark.parametrize("is_async", [False, True])
def test_apply_that_raises_is_answered_so_that_the_provider_sends_again(runner, error, is_async, caplog):
    """It stops at the first event that fails; the log says which, and nothing of the request."""
    seen = []

    def apply(event):
        seen.append(event.kind.value)
        if event.kind.value == "bounced":
            raise error

    async def apply_async(event):
        apply(event)

    app = endpoint(apply_async if is_async else apply)
    body = json.dumps([{"RecordType": name, "Email": WHO} for name in ["Delivery", "Bounce", "Open"]]).encode()
    assert ask(app, parts=[body], runner=runner).status == 500
    assert seen == ["delivered", "bounced"]
    assert "apply= failed on event 2 of 3 of the webhook 'postmark'" in caplog.text
    assert WHO not in caplog.text and SECRET not in caplog.text


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (401, GENUINE[1:]),
        (403, [(b"x-secret", b"other")]),
        (200, [(b"X-SECRET", SECRET.encode())]),
        (200, [GENUINE[0], (b"content-type", b" Application/JSON ; charset=utf-8")]),
        (200, [GENUINE[0], (b"content-encoding", b"identity")]),
        (415, [GENUINE[0], (b"content-type", b"application/x-www-form-urlencoded")]),
        (415, [GENUINE[0], (b"content-type", b"text/plain")]),
        (415, [GENUINE[0], (b"content-encoding", b"gzip")]),
        (413, [GENUINE[0], (b"content-length", b"1001")]),
        (413, [GENUINE[0], (b"content-length", b"9" * 5_000)]),
        (200, [GENUINE[0], (b"content-length", b"1000")]),
        (200, [GENUINE[0], (b"content-length", b"-5")]),
    ],
)
def test_answer_says_what_is_wrong_with_the_headers(status, headers):
    """What cannot be ours is not read."""
    seen = []
    server = ask(endpoint(seen.append), scope(headers=headers))
    assert server.status == status
    assert len(seen) == (status == 200)
    assert server.asked == (0 if status in (413, 415) else 1)
    assert (server.header(b"www-authenticate") == b'Basic realm="webhooks"') is (status == 401)


@pytest.mark.parametrize("body", [b"", b"{", b"5", b"a=1", b"\xff"])
def test_body_that_is_no_json_is_a_bad_request(body, caplog):
    """The provider need not send it again."""
    with caplog.at_level(logging.WARNING):
        assert ask(endpoint(), parts=[body]).status == 400
    assert "webhook body of 'postmark'" in caplog.text


@pytest.mark.parametrize(
    ("status", "path", "more"),
    [
        (200, "/postmark", {}),
        (200, "/hooks/postmark", {"root_path": "/hooks"}),
        (200, "/postmark", {"root_path": "/hooks"}),
        (404, "/other", {}),
        (404, "/postmark/", {}),
        (404, "/postmark/x", {}),
        (404, "/", {}),
        (404, "", {}),
        (404, "/POSTMARK", {}),
        (404, "/other", {"method": "GET"}),
        (405, "/postmark", {"method": "GET"}),
        (405, "/postmark", {"method": "HEAD"}),
        (405, "/postmark", {"method": "OPTIONS"}),
        (405, "/postmark", {"method": "post"}),
    ],
)
def test_last_segment_of_the_path_selects_the_webhook(status, path, more):
    """With and without the prefix it is mounted under; only by POST."""
    server = ask(endpoint(), scope(path, **more))
    assert server.status == status
    assert server.header(b"allow") == (b"POST" if status == 405 else None)


@both_loops
def test_body_comes_in_parts(runner):
    """Also in empty ones, and without a body at all in the last."""
    assert ask(endpoint(), parts=[DELIVERED[:5], b"", DELIVERED[5:], None], runner=runner).status == 200


@both_loops
def test_endless_body_is_no_longer_read_once_it_is_too_large(runner):
    """Without a Content-Length too: a gigabyte costs what the limit costs."""
    part = b" " * 400
    server = Server()

    async def receive():
        server.asked += 1
        return {"type": "http.request", "body": part, "more_body": True}

    async def main():
        await endpoint()(scope(), receive, server.send)

    runner(main)
    assert (server.status, server.asked) == (413, 3)
    assert ask(endpoint(), parts=[b" " * 1_001], runner=runner).status == 413
    assert ask(endpoint(), parts=[DELIVERED.ljust(1_000)], runner=runner).status == 200


@both_loops
def test_client_that_leaves_early_ends_quietly(runner, caplog):
    """Before its request was complete nothing is applied or answered; before its answer, nothing is said."""
    seen = []
    with caplog.at_level(logging.INFO):
        assert ask(endpoint(seen.append), parts=[DELIVERED[:5]], gone=True, runner=runner).sent == []
        assert seen == []
        ask(endpoint(seen.append), broken=ConnectionResetError(), runner=runner)
    assert len(seen) == 1
    assert caplog.text == ""


def test_error_of_the_server_does_not_come_out(caplog):
    """It is logged."""
    ask(endpoint(), broken=RuntimeError("odd"))
    assert "a webhook could not be answered" in caplog.text
    ask(endpoint(), {"type": "http"})
    assert "KeyError" in caplog.text


class Own(Webhook):
    """A webhook that does what it is told to."""

    provider = "own"

    def __init__(self, error=None, forget=None):
        self.error = error
        self.forget_error = forget
        self.forgotten = []

    def _events(self, headers, body):
        if self.error is not None:
            raise self.error
        return POSTMARK.events(GENUINE, body)

    def forget(self, body):
        self.forgotten.append(body)
        if self.forget_error is not None:
            raise self.forget_error


@both_loops
@pytest.mark.parametrize("error", [TimeoutError("no certificate"), StopIteration()])
def test_webhook_that_cannot_be_verified_now_is_sent_again(runner, error, caplog):
    """A certificate that cannot be fetched is no fault of the request."""
    seen = []
    assert ask(endpoint(seen.append, own=Own(error)), scope("/own"), runner=runner).status == 500
    assert seen == []
    assert "the webhook 'own' could not be verified; the provider sends it again" in caplog.text


def test_ses_may_call_its_json_text():
    """SNS says text/plain."""
    ses = SesWebhook(topics=["arn:aws:sns:eu-west-1:1:mail"])
    for media_type, status in [(b"text/plain; charset=UTF-8", 401), (b"application/json", 401), (b"text/html", 415)]:
        assert ask(endpoint(ses=ses), scope("/ses", headers=[(b"content-type", media_type)])).status == status
    server = ask(endpoint(ses=ses), scope("/ses"))
    assert server.header(b"www-authenticate") == b'Signature realm="webhooks"'


def mailgun_body(clock, token="t-1"):
    at = str(int(clock.now().timestamp()))
    signature = hmac.new(SECRET.encode(), (at + token).encode(), hashlib.sha256).hexdigest()
    signed = {"timestamp": at, "token": token, "signature": signature}
    return json.dumps({"signature": signed, "event-data": {"event": "delivered", "recipient": WHO}}).encode()


@both_loops
def test_mailgun_request_may_come_again_until_it_was_applied(runner):
    """Afterwards it is answered so that Mailgun stops."""
    failures, seen = [ValueError("not now")], []

    def apply(event):
        if failures:
            raise failures.pop()
        seen.append(event)

    with manual_clock() as clock:
        app = endpoint(apply, mailgun=MailgunWebhook(keys=SECRET))
        body = mailgun_body(clock)
        answers = [ask(app, scope("/mailgun"), parts=[body], runner=runner).status for _ in range(3)]
    assert answers == [500, 200, 406]
    assert len(seen) == 1


@both_loops
def test_request_that_is_cancelled_may_come_again(runner):
    """A server that shuts down cancels; the cancellation passes through."""
    own, server = Own(), Server(DELIVERED)

    async def main(started):
        async def apply(_event):
            started.set()
            await hang(runner)

        await WebhookEndpoint({"own": own}, apply)(scope("/own"), server.receive, server.send)

    async def in_asyncio():
        started = asyncio.Event()
        task = asyncio.ensure_future(main(started))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def in_a_nursery():
        started = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(main, started)
            await started.wait()
            nursery.cancel_scope.cancel()

    runner(in_asyncio if runner is run_asyncio else in_a_nursery)
    assert own.forgotten == [DELIVERED]
    assert server.sent == []


@both_loops
def test_cancellation_before_the_body_came_reaches_the_caller(runner):
    """No thread was started, nothing has to be undone."""
    own = Own()

    async def receive():
        await hang(runner)

    async def main():
        await WebhookEndpoint({"own": own}, print)(scope("/own"), receive, Server().send)

    cancel(runner, main)
    assert own.forgotten == []


def test_webhook_that_cannot_forget_changes_no_answer(caplog):
    """The shared memory may be what has failed."""

    def apply(_event):
        raise ValueError("no")

    own = Own(forget=OSError("gone"))
    assert ask(endpoint(apply, own=own), scope("/own")).status == 500
    assert own.forgotten == [DELIVERED]
    assert "could not be forgotten" in caplog.text


@both_loops
def test_lifespan_is_answered_to_its_end(runner):
    """There is nothing to start and nothing to stop."""
    events, sent = ["lifespan.startup", "lifespan.shutdown"], []

    async def receive():
        return {"type": events.pop(0)}

    async def send(message):
        sent.append(message["type"])

    async def main():
        await endpoint()({"type": "lifespan"}, receive, send)

    runner(main)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_websocket_is_closed_and_what_is_unknown_is_left_alone():
    """Neither is a webhook."""
    assert [message["type"] for message in ask(endpoint(), {"type": "websocket"}).sent] == ["websocket.close"]
    assert ask(endpoint(), {"type": "something"}).sent == []


@pytest.mark.parametrize(
    ("match", "webhooks", "apply"),
    [
        ("webhooks is {}", {}, print),
        ("has the name ''", {"": POSTMARK}, print),
        ("has the name 'a/b'", {"a/b": POSTMARK}, print),
        ("has the name 5", {5: POSTMARK}, print),
        ("the webhook 'a' is a str", {"a": "postmark"}, print),
        ("apply is a NoneType", {"a": POSTMARK}, None),
    ],
)
def test_endpoint_that_could_not_work_is_refused(match, webhooks, apply):
    """When it is made."""
    with pytest.raises(ConfigurationError, match=match):
        WebhookEndpoint(webhooks, apply)


def test_endpoint_tells_its_names_and_no_secret():
    """It may be printed."""
    assert repr(endpoint()) == "WebhookEndpoint('postmark')"


def test_address_serves_many_requests_at_once():
    """One that waits does not hold up another."""
    gate, done = threading.Event(), []

    def apply(event):
        if event.kind.value == "bounced":
            assert gate.wait(10)
        else:
            gate.set()
        done.append(event.kind.value)

    app, first, second = endpoint(apply), Server(batch("Bounce")), Server(batch("Delivery"))

    async def main():
        await asyncio.gather(*(app(scope(), server.receive, server.send) for server in (first, second)))

    asyncio.run(main())
    assert (first.status, second.status) == (200, 200)
    assert done == ["delivered", "bounced"]
