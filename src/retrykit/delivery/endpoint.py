"""An address for providers' webhooks: a plain ASGI application, for any server and to be mounted in any framework.

A request is answered only once its events were applied, so what we fail to apply is sent again by the provider, whole: `apply` must
bear the same event twice. What is forged or broken is refused before anything is applied. Works under asyncio and trio.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from .._steps import is_async
from .._threads import in_thread
from ..classification.provider_event import ProviderEvent
from ..errors import ConfigurationError, InvalidPayloadError, WebhookRefusedError
from .webhook_signatures import by_name
from .webhooks import Webhook

__all__ = ["WebhookEndpoint"]

T = TypeVar("T")
Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_logger: Final = logging.getLogger("retrykit.delivery")
_STATUS: Final = {
    "missing": 401,
    "too_large": 413,
    "replay": 406,  # Mailgun sends no more after 406; after any other it would go on for hours with what is already applied
}
"""Statuses by the reason of a refusal; 403 for all others."""


class _Answer(NamedTuple):
    status: int
    headers: tuple[tuple[bytes, bytes], ...] = ()


class _AnsweredError(Exception):
    """A request that is answered before its body was read."""

    def __init__(self, status: int) -> None:
        self.status = status


class _GoneError(Exception):
    """The client has left before its request was complete."""


class WebhookEndpoint:
    """Takes webhooks at `/<name>`, verifies them, and applies their events in their order, one after the other.

    The last segment of the path selects the webhook, whatever prefix the application is mounted under. The answers: 200 when every
    event was applied, 401 and 403 for what is not shown to be genuine, 406 for a token that was seen before, 400 for no JSON, 404,
    405, 413, 415 as usual, and 500 when `apply` raises or a certificate cannot be fetched, upon which providers send again.

    Args:
        webhooks: mapping of the last segment of the path to its webhook.
        apply: called with each event: a coroutine function, or a function, which runs in a thread of its own. The same event may come
            again, also after later ones; do with it what may be done twice.

    Raises:
        ConfigurationError: there is no webhook, or a name cannot be a segment of a path.

    Example:
        >>> from retrykit.delivery.webhooks import PostmarkWebhook
        >>> app = WebhookEndpoint({"postmark": PostmarkWebhook(header="X-Secret", secret="s3")}, print)
        >>> app
        WebhookEndpoint('postmark')

    Source:
        The ASGI specification, version 3; RFC 9110 for the statuses.
    """

    def __init__(self, webhooks: Mapping[str, Webhook], apply: Callable[[ProviderEvent], object]) -> None:
        if not isinstance(webhooks, Mapping) or not webhooks:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"webhooks is {webhooks!r}; allowed is a mapping of names to webhooks, at least one"
            )
        for name, webhook in webhooks.items():
            if not isinstance(name, str) or not name or "/" in name:  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
                raise ConfigurationError(
                    f"webhooks has the name {name!r}; allowed is text without a slash, at least one character"
                )
            if not isinstance(webhook, Webhook):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(
                    f"the webhook {name!r} is a {type(webhook).__name__}; allowed are Webhook objects"
                )
        if not callable(apply):
            raise ConfigurationError(f"apply is a {type(apply).__name__}; allowed is a function of one event")
        self._webhooks: Final = dict(webhooks)
        self._apply: Final = apply
        self._is_async: Final = is_async(apply)

    def __repr__(self) -> str:
        return f"WebhookEndpoint({', '.join(map(repr, self._webhooks))})"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI calls it; no error comes out."""
        try:
            if scope["type"] == "http":
                await _send(send, await self._answer(scope, receive))
            elif scope["type"] == "lifespan":
                await _live(receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000, "reason": ""})
        except (_GoneError, OSError):  # servers raise OSError from send when nobody is there any more
            _logger.debug("the client of a webhook has left before it was answered")
        except Exception:
            _logger.exception("a webhook could not be answered")

    async def _answer(self, scope: Scope, receive: Receive) -> _Answer:
        name = str(scope["path"]).rpartition("/")[2]
        webhook = self._webhooks.get(name)
        if webhook is None:
            return _Answer(404)
        if scope["method"] != "POST":
            return _Answer(405, ((b"allow", b"POST"),))
        headers = cast("Iterable[tuple[bytes, bytes]]", scope["headers"])
        pairs = [(bytes(key), bytes(value)) for key, value in headers]
        try:
            _check(by_name(pairs), webhook)
            body = await _read(receive, webhook.max_body)
        except _AnsweredError as answered:
            return _Answer(answered.status)
        try:
            events = await in_thread(webhook.events, pairs, body)
        except WebhookRefusedError as error:
            _logger.warning("%s", error)
            return _refusal(error, webhook)
        except InvalidPayloadError as error:
            _logger.warning("%s", error)
            return _Answer(400)
        except Exception:
            _logger.exception("the webhook %r could not be verified; the provider sends it again", name)
            return _Answer(500)
        return await self._applied(name, webhook, body, events)

    async def _applied(self, name: str, webhook: Webhook, body: bytes, events: list[ProviderEvent]) -> _Answer:
        """Apply all events; where one fails, the request may come again."""
        number = 0
        try:
            for number, event in enumerate(events, 1):  # noqa: B007 - for the message
                await self._apply_one(event)
        except Exception:
            _logger.exception(
                "apply= failed on event %d of %d of the webhook %r; the provider sends all of them again",
                number,
                len(events),
                name,
            )
            await in_thread(_forget, webhook, body)
            return _Answer(500)
        except BaseException:  # cancelled: nothing can be awaited any more
            _forget(webhook, body)
            raise
        return _Answer(200)

    async def _apply_one(self, event: ProviderEvent) -> None:
        result = self._apply(event) if self._is_async else await in_thread(self._apply, event)
        if inspect.isawaitable(result):
            await result


def _forget(webhook: Webhook, body: bytes) -> None:
    try:
        webhook.forget(body)
    except Exception:
        _logger.exception("the webhook of %r could not be forgotten; it may be refused as seen", webhook.provider)


def _refusal(error: WebhookRefusedError, webhook: Webhook) -> _Answer:
    status = _STATUS.get(error.reason, 403)
    challenge = f'{webhook.scheme} realm="webhooks"'.encode()
    return _Answer(status, ((b"www-authenticate", challenge),) if status == 401 else ())


def _check(headers: Mapping[str, str], webhook: Webhook) -> None:
    """See by its headers that a body can be ours."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type and media_type not in webhook.media_types:
        raise _AnsweredError(415)
    if headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
        raise _AnsweredError(415)
    length = headers.get("content-length", "").strip()
    if length.isdecimal() and (len(length) > 15 or int(length) > webhook.max_body):
        raise _AnsweredError(413)


async def _read(receive: Receive, limit: int) -> bytes:
    """Read a body; stop as soon as it is larger than the limit."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _GoneError
        part = cast("bytes", message.get("body") or b"")
        if len(body) + len(part) > limit:
            raise _AnsweredError(413)
        body += part
        if not message.get("more_body", False):
            return bytes(body)


async def _send(send: Send, answer: _Answer) -> None:
    headers = [*answer.headers, (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _live(receive: Receive, send: Send) -> None:
    """Say that there is nothing to start and nothing to stop."""
    while True:
        event = str((await receive())["type"])
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return
