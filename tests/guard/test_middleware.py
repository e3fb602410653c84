"""Repeated HTTP requests get the response of the first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retrykit.errors import ConfigurationError, StoreUnavailableError
from retrykit.guard import AsyncIdempotencyGuard
from retrykit.guard.middleware import IdempotencyMiddleware
from tests.colours import both_loops
from tests.guard.guards import Awaited, memory, stored


class App:
    """An application that counts its calls and answers in parts."""

    def __init__(self, status: int = 201, *, parts: int = 2, error: Exception | None = None) -> None:
        self.status, self.parts, self.error = status, parts, error
        self.bodies: list[bytes] = []
        self.after: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        self.bodies.append(message["body"])
        self.after.append((await receive())["type"])
        if self.error is not None:
            raise self.error
        headers = [(b"X-Receipt", b"7"), (b"Connection", b"close")]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        for part in range(self.parts):
            await send({"type": "http.response.body", "body": b"\xffpart", "more_body": part + 1 < self.parts})


def request(app: Any, runner: Any, *fields: tuple[bytes, bytes], **scope: Any) -> tuple[int, dict[bytes, bytes], bytes]:
    """Make one request and return status, fields and body of the response."""
    body = scope.pop("body", [b"a", b"b"])
    send_error: Exception | None = scope.pop("send_error", None)
    full = {"type": "http", "method": "POST", "path": "/pay", "query_string": b"", "headers": list(fields), **scope}
    messages = scope.pop("messages", None) or [
        *({"type": "http.request", "body": part, "more_body": True} for part in body),
        {"type": "http.request"},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if send_error is not None:
            raise send_error
        sent.append(message)

    async def main() -> None:
        await app(full, receive, send)

    runner(main)
    if not sent:
        return 0, {}, b""
    assert [message["type"] for message in sent[:1]] == ["http.response.start"]
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(message["body"] for message in sent[1:])


def key(text: str) -> tuple[bytes, bytes]:
    return (b"Idempotency-Key", text.encode())


def made(app: Any, store: Any = None, *, guard: Any = None, **options: Any) -> IdempotencyMiddleware:
    own = AsyncIdempotencyGuard(Awaited(store or memory()), **(guard or {}))  # type: ignore[arg-type]
    return IdempotencyMiddleware(app, own, **options)


@both_loops
def test_repeated_request_gets_the_first_response(runner: Any) -> None:
    """Status, fields and bytes of it, and a field that says so; the application is called once."""
    app = App()
    middleware = made(app)
    first = request(middleware, runner, key('"k1"'))
    again = request(middleware, runner, key('"k1"'))
    bare = request(middleware, runner, key("k1"))
    assert first == (201, {b"X-Receipt": b"7", b"Connection": b"close"}, b"\xffpart\xffpart")
    assert again == bare == (201, {b"X-Receipt": b"7", b"idempotency-replayed": b"true"}, b"\xffpart\xffpart")
    assert (app.bodies, app.after) == ([b"ab"], ["http.disconnect"])


@both_loops
def test_requests_without_a_key_pass(runner: Any) -> None:
    """And so do other methods, and what is not HTTP."""
    app = App()
    middleware = made(app)
    for _ in range(2):
        request(middleware, runner)
        request(middleware, runner, key("k"), method="GET")
    assert len(app.bodies) == 4


def problem(answer: tuple[int, dict[bytes, bytes], bytes]) -> tuple[int, str]:
    status, headers, body = answer
    assert headers[b"content-type"] == b"application/problem+json"
    assert json.loads(body)["status"] == status
    return status, json.loads(body)["title"]


@both_loops
def test_request_that_breaks_the_rules_is_refused(runner: Any) -> None:
    """400, 409, 413, 422 as the draft says; the application is not called."""
    app = App()
    store = memory()
    middleware = made(app, store, required=True, max_body=4)
    assert problem(request(middleware, runner)) == (400, "no usable key")
    assert problem(request(middleware, runner, key('""'))) == (400, "no usable key")
    assert problem(request(middleware, runner, key("a"), key("b"))) == (400, "no usable key")
    for text in ("x" * 254, '"' + "x" * 254 + '"', '"a", "b"', '"a"b"', "a, b", '"a', "a\x00b", "a\x1eb", '"a\\b"'):
        assert problem(request(middleware, runner, key(text))) == (400, "no usable key")
    assert problem(request(middleware, runner, key("k"), body=[b"12345"])) == (413, "too large")
    store.claim(stored("busy"), owner="other", lease=30, sending=True)
    answer = request(middleware, runner, key("busy"))
    assert (problem(answer), answer[1][b"retry-after"]) == ((409, "in progress"), b"30")
    assert app.bodies == []
    assert request(middleware, runner, key("k"))[0] == 201
    for other in ({"path": "/other"}, {"query_string": b"a=1"}, {"body": [b"x"]}, {"method": "PATCH"}):
        assert problem(request(middleware, runner, key("k"), **other)) == (422, "key used before")


@both_loops
def test_tenants_have_keys_of_their_own(runner: Any) -> None:
    """As the scope says who asks."""
    app = App()
    middleware = made(app, namespace=lambda scope: scope["client"][0])
    for client in ("ada", "bob", "ada"):
        request(middleware, runner, key("k"), client=(client, 1))
    assert len(app.bodies) == 2


def detail(answer: tuple[int, dict[bytes, bytes], bytes]) -> str:
    return str(json.loads(answer[2])["detail"]).split(":")[0]


@both_loops
def test_key_that_is_refused_is_told_why(runner: Any) -> None:
    """A control character is not a length, and two keys in one field are not one."""
    middleware = made(App(), namespace=lambda scope: "ada", guard={"namespace": "t" * 40}, required=True)
    told = {text: detail(request(middleware, runner, key(text))) for text in ("a\x00b", "x" * 210, '"a", "b"', '""')}
    unusable = (
        "the Idempotency-Key field is empty, or is neither one string in quotes nor a text without quotes and commas"
    )
    assert told == {
        "a\x00b": "the Idempotency-Key field holds control characters",
        "x" * 210: "the Idempotency-Key field is too long, allowed are 209 characters",
        '"a", "b"': unusable,
        '""': unusable,
    }
    assert detail(request(middleware, runner)) == "there has to be one Idempotency-Key field"
    assert request(middleware, runner, key("x" * 209))[0] == 201


@both_loops
def test_quoted_key_is_the_text_in_its_quotes(runner: Any) -> None:
    """With its escapes undone, in whatever order they stand."""
    app = App()
    middleware = made(app)
    for text in (r'"a\"b"', r'"a\\b"', r'"a\\\"b"', '"a,b"'):
        assert request(middleware, runner, key(text))[0] == 201
    assert len(app.bodies) == 4


@both_loops
def test_namespace_and_key_of_a_request_are_never_taken_for_another_pair(runner: Any) -> None:
    """No tenant gets what another one was answered, however they are called."""
    app = App()
    middleware = made(app, namespace=lambda scope: scope["user"])
    pairs = [
        ("a", "b/c"),
        ("a/b", "c"),
        ("a%2Fb", "c"),
        ("", "a/b/c"),
        ("a\x1eb", "c"),
        ("a\ud800", "00"),
        ("a%D8", "00/00"),
    ]
    for user, text in pairs * 2:
        assert request(middleware, runner, key(text), user=user)[0] == 201
    assert len(app.bodies) == len(pairs)


@both_loops
def test_key_is_never_a_namespace(runner: Any) -> None:
    """Of two middlewares with one guard, one of which has no namespaces: another one's response is refused."""
    app, store = App(), memory()
    request(made(app, store, namespace=lambda scope: "ada"), runner, key("k"))
    assert problem(request(made(app, store), runner, key("ada/k"))) == (422, "key used before")


@both_loops
@pytest.mark.parametrize(
    "name", [None, 17, b"ada", "x" * 252, "/" * 84], ids=["None", "17", "bytes", "long", "escaped"]
)
def test_namespace_that_is_not_allowed_is_the_servers_error(runner: Any, name: Any) -> None:
    """And no fault of the client's: nobody is told that its key is too long."""
    app = App()
    with pytest.raises(ConfigurationError, match="namespace= gave"):
        request(made(app, namespace=lambda scope: name), runner, key("k"))
    assert app.bodies == []


@both_loops
def test_application_hears_after_the_body_what_the_server_says(runner: Any) -> None:
    """Nothing as long as the client is there: a `receive` beside the answer waits, and the answer is whole."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.append(dict(await receive()))
        heard.append(dict(await receive()))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"whole"})

    heard: list[Any] = []
    said = [{"type": "http.request", "body": b"ab", "more_body": False}, {"type": "http.later", "by": "the server"}]
    middleware = made(app)
    assert request(middleware, runner, key("k"), messages=said)[2] == b"whole"
    assert heard == [
        {"type": "http.request", "body": b"ab", "more_body": False},
        {"type": "http.later", "by": "the server"},
    ]


@both_loops
def test_request_that_breaks_off_in_its_body_is_nobodys(runner: Any) -> None:
    """The application is not called and nothing is claimed: the whole request, sent again, is answered."""
    app, store = App(), memory()
    middleware = made(app, store)
    broken: list[Any] = [{"type": "http.request", "body": b"ab", "more_body": True}, {"type": "http.disconnect"}]
    for messages in (broken, [{"type": "http.disconnect"}]):
        assert request(middleware, runner, key("k"), messages=messages) == (0, {}, b"")
    assert (app.bodies, store.get(stored("k"))) == ([], None)
    assert request(middleware, runner, key("k"), body=[b"ab", b"cd"])[0] == 201
    assert app.bodies == [b"abcd"]


@both_loops
def test_client_that_goes_away_during_the_answer_finds_it_when_it_comes_again(runner: Any) -> None:
    """Also where the server says so by an error."""
    app = App()
    middleware = made(app)
    assert request(middleware, runner, key("k"), send_error=ConnectionResetError("gone")) == (0, {}, b"")
    again = request(middleware, runner, key("k"))
    assert again == (201, {b"X-Receipt": b"7", b"idempotency-replayed": b"true"}, b"\xffpart\xffpart")
    assert len(app.bodies) == 1


@both_loops
def test_client_that_goes_away_ends_an_answer_that_cannot_be_kept(runner: Any) -> None:
    """Or an application would go on for nobody."""
    app = App(parts=100)
    middleware = made(app, max_response=10)
    with pytest.raises(ConnectionResetError):
        request(middleware, runner, key("k"), send_error=ConnectionResetError("gone"))
    assert problem(request(middleware, runner, key("k"))) == (409, "not repeatable")


@both_loops
def test_failed_response_leaves_the_outcome_open(runner: Any) -> None:
    """It goes out; a repetition is refused, or made again by choice."""
    app = App(503)
    middleware = made(app)
    assert request(middleware, runner, key("k"))[0] == 503
    assert problem(request(middleware, runner, key("k"))) == (409, "not repeatable")
    again = made(App(503), guard={"on_unknown": "repeat"})
    assert [request(again, runner, key("k"))[0] for _ in range(2)] == [503, 503]


@both_loops
def test_application_that_raises_is_not_hidden(runner: Any) -> None:
    """The server answers as it always does; the outcome is open."""
    for error in (ValueError("bug"), StoreUnavailableError("its own database")):
        middleware = made(App(error=error))
        with pytest.raises(type(error)):
            request(middleware, runner, key("k"))
    middleware = made(App(error=ValueError("bug")))
    with pytest.raises(ValueError, match="bug"):
        request(middleware, runner, key("k"))
    assert problem(request(middleware, runner, key("k"))) == (409, "not repeatable")


@both_loops
@pytest.mark.parametrize("app", [App(parts=3), App(parts=0)], ids=["too large", "never ended"])
def test_response_that_is_not_kept_is_not_made_again(runner: Any, app: App) -> None:
    """It went out; a repetition is told that nothing is on record."""
    middleware = made(app, max_response=10)
    calls = len(app.bodies)
    assert request(middleware, runner, key("k"))[0] == 201
    assert problem(request(middleware, runner, key("k"))) == (409, "not repeatable")
    assert len(app.bodies) == calls + 1


@both_loops
def test_store_that_is_away_refuses_before_anything_is_done(runner: Any) -> None:
    """503, which a client may repeat."""

    class Away:
        async def claim(self, *_: Any, **__: Any) -> None:
            raise StoreUnavailableError("gone")

    app = App()
    middleware = IdempotencyMiddleware(app, AsyncIdempotencyGuard(Away()))  # type: ignore[arg-type]
    assert problem(request(middleware, runner, key("k"))) == (503, "unavailable")
    assert app.bodies == []


@both_loops
def test_error_of_the_configuration_comes_through(runner: Any) -> None:
    """It is the application's, not the client's."""

    def recover(_: str | None) -> object:
        raise ConfigurationError("recover")

    store = memory()
    store.confirm(stored("k"))
    middleware = made(App(), store, guard={"recover": recover})
    with pytest.raises(ConfigurationError, match="recover"):
        request(middleware, runner, key("k"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_body": -1}, "max_body is -1"),
        ({"max_response": "1M"}, "max_response is '1M'"),
        ({"methods": "POST"}, "methods is 'POST'; allowed is a list of methods"),
        ({"methods": []}, r"methods is \[\]"),
        ({"methods": 5}, "methods is 5"),
        ({"methods": [b"POST"]}, r"methods is \[b'POST'\]"),
        ({"namespace": "t"}, "namespace is 't'; allowed is a function"),
        ({"required": "yes"}, "required is 'yes'; allowed are True and False"),
    ],
)
def test_option_that_is_not_allowed_is_refused(options: Any, message: str) -> None:
    """When the middleware is made."""
    with pytest.raises(ConfigurationError, match=message):
        made(App(), **options)
    with pytest.raises(ConfigurationError, match="guard is None"):
        IdempotencyMiddleware(App(), None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="app is None; allowed is an ASGI application"):
        made(None)
