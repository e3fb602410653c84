"""Spans around attempts for OpenTelemetry, each retry's with a link to the first attempt's. Needs `retrykit[opentelemetry]`.

Tracing is a wrapper of its own, so that calls without it cost what they cost. Names follow the semantic conventions: `error.type`,
and for sends those of messaging (as of version 1.44, where they are still in development). Spans carry no exception texts and no
payloads: providers like to repeat the recipient's address.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from .._steps import is_async
from ..checks import instance_with
from ..errors import ConfigurationError, MissingExtraError
from ..message import Message

if TYPE_CHECKING:
    from opentelemetry.trace import Link, SpanContext, SpanKind, Tracer, TracerProvider

__all__ = ["traced", "traced_send"]

P = ParamSpec("P")
T = TypeVar("T")
Send = TypeVar("Send", bound=Callable[..., Any])

_REMEMBERED: Final = 10_000
"""Messages whose first attempt is remembered; of older ones a retry has no link."""


class _Attempts:
    """The attempts of one call, or of one message: how many there were, and which span was the first."""

    __slots__ = ("first", "number")

    def __init__(self) -> None:
        self.number = 0
        self.first: SpanContext | None = None


_call: ContextVar[_Attempts | None] = ContextVar("retrykit.tracing", default=None)


def traced(
    retries: Callable[[Callable[P, T]], Callable[P, T]],
    *,
    name: str | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that retries as `retries` does, and puts a span around each attempt.

    A span has `retrykit.attempt`, counted from 1; from the second on it links to the first one's. A failed one has `error.type`.

    Args:
        retries: `retry(...)`, `resilient(...)`, or any other decorator that calls its function again.
        name: of the spans; None: that of the function.
        tracer_provider: who makes the spans; None: the global one.

    Returns:
        The decorator, for functions and coroutine functions.

    Raises:
        MissingExtraError: the OpenTelemetry API is not installed.
        ConfigurationError: `retries` is no decorator, or another value is not allowed; when decorating: it is no function, or a
            generator function.

    Example:
        >>> from retrykit import retry
        >>> @traced(retry(on=ConnectionError, attempts=3))
        ... def fetch() -> str:
        ...     return "answer"
        >>> fetch()
        'answer'
    """
    if not callable(retries):
        raise ConfigurationError(f"retries is {retries!r}; allowed is a decorator, for example retry(attempts=3)")
    _check_text(name, "name", "None: that of the function")
    tracer = _tracer(tracer_provider)

    def decorate(fn: Callable[P, T]) -> Callable[P, T]:
        if not callable(fn):
            raise ConfigurationError(f"{fn!r} cannot be called; traced takes functions and coroutine functions")
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise ConfigurationError(f"{fn!r} is a generator function; traced takes functions and coroutine functions")
        title = str(name or getattr(fn, "__qualname__", repr(fn)))

        def span() -> Any:
            call = _call.get() or _Attempts()
            call.number += 1
            return _span(tracer, title, call, {"retrykit.attempt": call.number})

        if is_async(fn):

            @functools.wraps(fn)
            async def attempt_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                with span():
                    return await cast("Any", fn(*args, **kwargs))

            retried_async: Any = retries(cast("Any", attempt_async))

            @functools.wraps(fn)
            async def call_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                token = _call.set(_Attempts())
                try:
                    return await retried_async(*args, **kwargs)
                finally:
                    _call.reset(token)

            return cast("Callable[P, T]", call_async)

        @functools.wraps(fn)
        def attempt(*args: P.args, **kwargs: P.kwargs) -> T:
            with span():
                return fn(*args, **kwargs)

        retried = retries(attempt)

        @functools.wraps(fn)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            token = _call.set(_Attempts())
            try:
                return retried(*args, **kwargs)
            finally:
                _call.reset(token)

        return call

    return decorate


def traced_send(
    send: Send,
    *,
    system: str | None = None,
    destination: str | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Send:
    """Return a dispatcher's `send` with a span around each try of a message.

    A span has `messaging.message.id` and `retrykit.attempt`, counted from 1 by this process. A retry links to the first attempt, as long as this
    process made it and remembers it (10,000 messages whose send failed). If the application has put a `traceparent` into the
    message's attributes, every try links to that as well: it goes through the retry queue to whichever process comes next.

    Args:
        send: takes the message and its key, and what `render` gave if there is one.
        system: `messaging.system`: what takes the message, for example "ses".
        destination: `messaging.destination.name`, of few values; it is part of the span's name.
        tracer_provider: who makes the spans; None: the global one.

    Returns:
        The send, of the same colour.

    Raises:
        MissingExtraError: the OpenTelemetry API is not installed.
        ConfigurationError: a value is not allowed.

    Example:
        >>> from retrykit import Dispatcher, open_backend
        >>> send = traced_send(lambda message, key: "provider-id-1", system="ses")
        >>> Dispatcher(send, backend=open_backend("memory://")).handle({"id": "welcome-17"}).provider_id
        'provider-id-1'
    """
    if not callable(send) or inspect.isgeneratorfunction(send) or inspect.isasyncgenfunction(send):
        raise ConfigurationError(
            f"send is {send!r}; allowed is a function of a message and its key, or a coroutine function"
        )
    _check_text(system, "system", "None: nothing is said of it")
    _check_text(destination, "destination", "None: nothing is said of it")
    tracer = _tracer(tracer_provider)
    title = "send" if destination is None else f"send {destination}"
    attributes = {"messaging.operation.name": "send", "messaging.operation.type": "send"}
    attributes |= {} if system is None else {"messaging.system": system}
    attributes |= {} if destination is None else {"messaging.destination.name": destination}
    remembered = _Remembered()

    @contextmanager
    def span(message: Message) -> Generator[None]:
        from opentelemetry.trace import SpanKind

        attempts = remembered.take(message.id)
        attempts.number += 1
        created = _created(message)
        own: dict[str, str | int] = {
            **attributes,
            "messaging.message.id": message.id,
            "retrykit.attempt": attempts.number,
        }
        kind = SpanKind.CLIENT if created else SpanKind.PRODUCER  # as the conventions tell them apart
        try:
            with _span(tracer, title, attempts, own, kind=kind, links=created):
                yield
        except BaseException:
            remembered.keep(message.id, attempts)
            raise

    if is_async(send):

        @functools.wraps(send)
        async def send_async(message: Message, key: str, *content: object) -> Any:
            with span(message):
                return await send(message, key, *content)

        return cast("Send", send_async)

    @functools.wraps(send)
    def send_sync(message: Message, key: str, *content: object) -> Any:
        with span(message):
            return send(message, key, *content)

    return cast("Send", send_sync)


class _Remembered:
    """The attempts of messages whose last one failed, up to a bound; the longest unused are forgotten."""

    def __init__(self) -> None:
        self._attempts: OrderedDict[str, _Attempts] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, message_id: str) -> _Attempts:
        with self._lock:
            return self._attempts.pop(message_id, None) or _Attempts()

    def keep(self, message_id: str, attempts: _Attempts) -> None:
        with self._lock:
            self._attempts[message_id] = attempts
            if len(self._attempts) > _REMEMBERED:
                self._attempts.popitem(last=False)


@contextmanager
def _span(
    tracer: Tracer,
    name: str,
    attempts: _Attempts,
    attributes: Mapping[str, str | int],
    *,
    kind: SpanKind | None = None,
    links: Sequence[Link] = (),
) -> Generator[None]:
    from opentelemetry.trace import Link, SpanKind, StatusCode

    if attempts.first is not None:
        links = [Link(attempts.first, {"retrykit.link": "first_attempt"}), *links]
    with tracer.start_as_current_span(
        name,
        kind=kind or SpanKind.INTERNAL,
        attributes=attributes,
        links=links,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        if attempts.first is None:
            attempts.first = span.get_span_context()
        try:
            yield
        except Exception as error:
            span.set_attribute("error.type", _type_name(error))
            span.set_status(StatusCode.ERROR)
            raise


def _created(message: Message) -> Sequence[Link]:
    """Return a link to where the message was made, if it carries that."""
    from opentelemetry.trace import Link, get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract(message.attributes)
    created = get_current_span(context).get_span_context()
    return [Link(created, {"retrykit.link": "creation"})] if created.is_valid else []


def _type_name(error: Exception) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _check_text(value: str | None, name: str, none: str) -> None:
    if value is not None and (not isinstance(value, str) or not value):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{name} is {value!r}; allowed is text that is not empty, or {none}")


def _tracer(tracer_provider: TracerProvider | None) -> Tracer:
    try:
        from opentelemetry.trace import get_tracer
    except ModuleNotFoundError:
        raise MissingExtraError("opentelemetry", "opentelemetry-api") from None
    if tracer_provider is not None:
        instance_with(
            tracer_provider, "tracer_provider", "get_tracer", "one of OpenTelemetry, such as TracerProvider()"
        )
    return get_tracer("retrykit", tracer_provider=tracer_provider)
