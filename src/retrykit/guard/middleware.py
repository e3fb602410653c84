"""Idempotent HTTP endpoints: a plain ASGI middleware with the rules of the Idempotency-Key field.

A request with a key is handed to the application once; a repetition gets the response of the first, with a field that says so. What
is compared beside the key is the method, the path, the query and the body. Works under asyncio and trio.

The body is read first; after it the application hears what the server says, as without the middleware. A request that breaks off in its
body is nobody's: the application is not called, and the key stays free. A client that goes away during the answer is not told to the
application by an error as long as the answer can still be kept for the repetition.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from ..errors import (
    AlreadyInProgressError,
    ConfigurationError,
    FingerprintMismatchError,
    OutcomeUnknownError,
    ResultLostError,
    RetrykitError,
    StoreError,
)
from . import AsyncIdempotencyGuard

__all__ = ["IdempotencyMiddleware"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_FIELD: Final = b"idempotency-key"
_REPLAYED: Final = (b"idempotency-replayed", b"true")
_OF_ONE_CONNECTION: Final = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"date"})
"""Fields of a response that are not part of it, and not replayed."""


_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
"""A string as in RFC 9651."""
_ESCAPED: Final = re.compile(r"\\(.)")
_BARE: Final = re.compile(r'[^",]*')
"""What many send instead; a comma joins two fields to one."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NO_NAME: Final = re.compile("[%/\x00-\x1f\x7f\ud800-\udfff]")
"""What is escaped in a namespace: what separates it from the key, and what a key may not hold."""


class _ClientGoneError(Exception):
    """The client broke off before its request was whole."""


class _FailedResponseError(Exception):
    """The application answered 5xx: whether it had its effect is not known."""


class _Response(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def packed(self) -> object:
        """Return what is stored."""
        return {
            "status": self.status,
            "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in self.headers],
            "body": self.body,
        }

    @classmethod
    def unpacked(cls, stored: object) -> _Response:
        """Make a response of what was stored."""
        fields = cast("Mapping[str, Any]", stored)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields["headers"]]
        return cls(int(fields["status"]), headers, bytes(fields["body"]))


class IdempotencyMiddleware:
    """Answers repeated requests with the first one's response.

    - A key that is missing where one is required, empty, too long, or two of them: 400.
    - A key under which a request is being answered: 409, with Retry-After.
    - A key that was used for another request: 422.
    - A key whose first request may have had its effect, or whose response was not kept: 409.
    - A store that cannot be reached: 503; the application was not called.

    Responses below 500 are kept. One of 5xx goes out as it is, and its outcome counts as not known: what becomes of a repetition is
    the guard's `on_unknown`.

    Args:
        app: the application.
        guard: where keys and responses are kept; its `encode` and `decode` have to take bytes, as the default ones do.
        namespace: the tenant of a request, by its scope: the same key of two tenants is two keys, and what a tenant is called makes no
            difference. Default: one for all.
        methods: the methods that may have a key, at least one; others pass.
        required: whether a request of these methods has to have one.
        max_body: bytes of a request that are compared; a larger one with a key is answered 413.
        max_response: bytes of a response that are kept; a larger one goes out and is not kept.

    Raises:
        ConfigurationError: a value is not allowed.

    Source:
        draft-ietf-httpapi-idempotency-key-header-07; RFC 9457 for the problem details.
    """

    def __init__(
        self,
        app: App,
        guard: AsyncIdempotencyGuard,
        *,
        namespace: Callable[[Scope], str] | None = None,
        methods: Collection[str] = ("POST", "PATCH"),
        required: bool = False,
        max_body: int = 1 << 20,
        max_response: int = 1 << 20,
    ) -> None:
        if not isinstance(guard, AsyncIdempotencyGuard):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a checker
            raise ConfigurationError(f"guard is {guard!r}; allowed is an AsyncIdempotencyGuard")
        if guard._flow.is_transactional:
            raise ConfigurationError(
                "the guard is transactional; allowed is one that is not: a response is known only after its transaction"
            )
        if not callable(app):
            raise ConfigurationError(f"app is {app!r}; allowed is an ASGI application")
        if namespace is not None and not callable(namespace):  # pyright: ignore[reportUnnecessaryComparison]
            raise ConfigurationError(f"namespace is {namespace!r}; allowed is a function of the scope of a request")
        if (
            isinstance(methods, str)
            or not isinstance(methods, Collection)
            or not methods
            or not all(map(_is_text, methods))
        ):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"methods is {methods!r}; allowed is a list of methods, such as ['POST']")
        if not isinstance(required, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"required is {required!r}; allowed are True and False")
        for name, value in (("max_body", max_body), ("max_response", max_response)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"{name} is {value!r}; allowed are whole numbers of bytes, >= 0")
        self._app: Final = app
        self._guard: Final = guard
        self._namespace: Final = namespace
        self._methods: Final = frozenset(method.upper() for method in methods)
        self._required: Final = required
        self._max_body: Final = max_body
        self._max_response: Final = max_response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI calls it."""
        if scope["type"] != "http" or scope["method"] not in self._methods:
            await self._app(scope, receive, send)
            return
        headers = cast("Iterable[tuple[bytes, bytes]]", scope["headers"])
        keys = [bytes(value) for name, value in headers if bytes(name).lower() == _FIELD]
        if not keys and not self._required:
            await self._app(scope, receive, send)
            return
        prefix = self._prefix(scope)
        key = _key(keys)
        wrong = _wrong(keys, key, self._guard._flow.room - len(prefix))
        if wrong is not None:
            await _problem(send, 400, "no usable key", f"{wrong}: a text that is new for each request")
            return
        try:
            body = await _read(receive, self._max_body)
        except _ClientGoneError:  # there is nobody to answer
            return
        if body is None:
            await _problem(send, 413, "too large", f"a request with a key may have {self._max_body:,} bytes")
            return
        await self._answer(scope, _replaying(body, receive), send, prefix, f"{prefix}{key}", body)

    def _prefix(self, scope: Scope) -> str:
        """Return what a request's namespace puts before its key; no two namespaces have a beginning in common.

        Raises:
            ConfigurationError: the namespace is not allowed.
        """
        if self._namespace is None:
            return ""
        name = self._namespace(scope)
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"namespace= gave {type(name).__name__}; allowed is text")
        prefix = _NO_NAME.sub(lambda found: f"%{ord(found[0]):02X}", name) + "/"
        if len(prefix) >= self._guard._flow.room:
            raise ConfigurationError(
                f"namespace= gave a text of {len(name)} characters; allowed are so many that {self._guard._flow.room - 1} are not "
                "exceeded, each /, % and control character counting for three"
            )
        return prefix

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, prefix: str, full_key: str, body: bytes
    ) -> None:
        """Call the application under the key, or answer from the record."""
        query = bytes(scope.get("query_string", b"")).decode("latin-1")
        payload = [prefix, scope["method"], scope["path"], query, hashlib.sha256(body).hexdigest()]
        with contextlib.suppress(_FailedResponseError):  # it went out; the guard knows of it
            async with contextlib.AsyncExitStack() as stack:
                try:
                    hold = await stack.enter_async_context(self._guard.hold(full_key, payload=payload))
                except RetrykitError as error:
                    await _refuse(send, error)
                    return
                if hold.is_new:
                    response = await self._called(scope, receive, send)
                    hold.result = None if response is None else response.packed()
                    return
            await self._replay(send, hold.result)

    async def _called(self, scope: Scope, receive: Receive, send: Send) -> _Response | None:
        """Let the application answer; return its response where it is kept."""
        seen = _Seen(self._max_response)

        async def watched(message: Message) -> None:
            seen.take(message)
            try:
                await send(message)
            except OSError:  # the client has gone; its repetition gets what it would have got
                if seen.is_too_large:
                    raise

        await self._app(scope, receive, watched)
        if seen.status >= 500:
            raise _FailedResponseError
        return seen.response()

    async def _replay(self, send: Send, stored: object) -> None:
        if stored is None:
            await _problem(send, 409, "not repeatable", "the first request was answered, and the response was not kept")
            return
        response = _Response.unpacked(stored)
        headers = [*response.headers, _REPLAYED]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body, "more_body": False})


async def _refuse(send: Send, error: Exception) -> None:
    """Answer a request that the guard does not let through; the application was not called."""
    match error:
        case AlreadyInProgressError():
            wait = (b"retry-after", str(max(1, round(error.retry_after or 0))).encode())
            await _problem(send, 409, "in progress", "a request with this key is being answered; ask again later", wait)
        case OutcomeUnknownError() | ResultLostError():
            await _problem(send, 409, "not repeatable", "the first request with this key has no response on record")
        case FingerprintMismatchError():
            await _problem(send, 422, "key used before", "this key belongs to another request; use a new one")
        case StoreError():
            await _problem(send, 503, "unavailable", "keys cannot be checked now; nothing was done")
        case _:
            raise error


class _Seen:
    """What an application has answered, as far as it is kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self._is_whole = False
        self.status = 500
        """500 until the application has begun to answer."""

    def take(self, message: Message) -> None:
        """Take in a message on its way out."""
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            pairs = cast("Iterable[tuple[bytes, bytes]]", message.get("headers", ()))
            self._headers = [(bytes(name), bytes(value)) for name, value in pairs]
        elif message["type"] == "http.response.body":
            if not self.is_too_large:
                self._body += message.get("body", b"")
            self._is_whole = not message.get("more_body", False)

    @property
    def is_too_large(self) -> bool:
        """Whether it cannot be kept."""
        return len(self._body) > self._limit

    def response(self) -> _Response | None:
        """Return the whole response; None where it is too large or was not ended."""
        if not self._is_whole or self.is_too_large:
            return None
        kept = [(name, value) for name, value in self._headers if name.lower() not in _OF_ONE_CONNECTION]
        return _Response(self.status, kept, bytes(self._body))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _key(fields: list[bytes]) -> str:
    """Return the key that a request names: a string in quotes, or bare as many send it; "" where there is none to use."""
    text = fields[0].decode("latin-1").strip() if len(fields) == 1 else ""
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted[1]).strip()
    return text if _BARE.fullmatch(text) else ""


def _wrong(fields: list[bytes], key: str, room: int) -> str | None:
    """Return what is wrong with a request's key, or None."""
    if len(fields) != 1:
        return "there has to be one Idempotency-Key field"
    if not key:
        return "the Idempotency-Key field is empty, or is neither one string in quotes nor a text without quotes and commas"
    if _CONTROL.search(key):
        return "the Idempotency-Key field holds control characters"
    if len(key) > room:
        return f"the Idempotency-Key field is too long, allowed are {room} characters"
    return None


async def _read(receive: Receive, limit: int) -> bytes | None:
    """Read a request's body; None where it is larger than the limit.

    Raises:
        _ClientGoneError: the client broke off.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _ClientGoneError
        body += message.get("body") or b""
        if len(body) > limit:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return a receive that gives a body that was read already, and after it what the server has to say."""
    given = False

    async def replaying() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replaying


async def _problem(send: Send, status: int, title: str, detail: str, *headers: tuple[bytes, bytes]) -> None:
    """Answer with problem details (RFC 9457)."""
    body = json.dumps({"type": "about:blank", "title": title, "status": status, "detail": detail}).encode()
    fields = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body, "more_body": False})
