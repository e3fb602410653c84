"""Spans around attempts, and their links, as OpenTelemetry's own exporter sees them."""

from __future__ import annotations

import asyncio
import inspect
import sys

import pytest

from tests.capabilities import require

require("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from retrykit import AsyncDispatcher, Dispatcher, PolicyMatrix, RetryPolicy, open_async_backend, open_backend, retry
from retrykit.backends import MemoryBackend
from retrykit.errors import ConfigurationError, MissingExtraError
from retrykit.exporters import tracing
from retrykit.exporters.tracing import traced, traced_send
from retrykit.failure import ErrorGroup
from retrykit.message import Message
from retrykit.policy.backoff import constant
from retrykit.testing import ManualClock
from tests.exporters.samples import ADDRESS

TRIES = {"on": ConnectionError, "attempts": 3, "backoff": [0]}
CREATED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans():
    return InMemorySpanExporter()


@pytest.fixture
def provider(spans):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider


def failing(times, error=ConnectionResetError):
    """Return a function that fails so many times, each with an address in its text, then succeeds."""
    left = iter(range(times))

    def call():
        if next(left, None) is not None:
            raise error(f"<{ADDRESS}> is gone")
        return "answer"

    return call


def links(span):
    """Return the kind of each link, and the span it leads to."""
    return [(link.attributes["retrykit.link"], link.context.span_id) for link in span.links]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_traced_function_that_is_retried_has_a_span_for_each_attempt(colour, spans, provider):
    """They are numbered, failed ones say with what, and each retry links to the first."""
    call = failing(2)
    decorate = traced(retry(**TRIES), name="fetch", tracer_provider=provider)
    if colour == "sync":
        assert "answer" == decorate(call)()
    else:

        async def call_async():
            return call()

        assert "answer" == asyncio.run(decorate(call_async)())
    first, second, third = spans.get_finished_spans()
    assert ["fetch"] * 3 == [span.name for span in (first, second, third)]
    assert [
        {"retrykit.attempt": 1, "error.type": "ConnectionResetError"},
        {"retrykit.attempt": 2, "error.type": "ConnectionResetError"},
        {"retrykit.attempt": 3},
    ] == [dict(span.attributes) for span in (first, second, third)]
    assert [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET] == [
        span.status.status_code for span in (first, second, third)
    ]
    to_first = [("first_attempt", first.context.span_id)]
    assert [[], to_first, to_first] == [links(span) for span in (first, second, third)]


def test_traced_spans_carry_no_texts_of_exceptions(spans, provider):
    """A provider's answer may hold an address."""
    with pytest.raises(BrokenPipeError, match="gone"):
        traced(retry(on=OSError, attempts=1), tracer_provider=provider)(failing(9, BrokenPipeError))()
    (span,) = spans.get_finished_spans()
    assert ADDRESS not in span.to_json()


def test_traced_functions_within_each_other_count_their_own_attempts(spans, provider):
    """An inner call's attempts begin at one each time, also of a function that calls itself."""
    decorate = traced(retry(**TRIES), name="visit", tracer_provider=provider)
    outer_fails = failing(1)

    @decorate
    def visit(depth):
        if depth:
            visit(depth - 1)
            outer_fails()
        return depth

    assert 1 == visit(1)
    found = [(span.attributes["retrykit.attempt"], links(span)) for span in spans.get_finished_spans()]
    _, outer_first, _, _ = spans.get_finished_spans()
    assert [(1, []), (1, []), (1, []), (2, [("first_attempt", outer_first.context.span_id)])] == found


def test_traced_keeps_name_and_signature_of_the_function(provider):
    """A decorated function is called and shown as before, in its colour."""

    def fetch(url: str, *, size: int = 1) -> str:
        """Fetch it."""
        return f"{url} {size}"

    async def fetch_async(url: str) -> str:
        return url

    wrapped = traced(retry(**TRIES), tracer_provider=provider)(fetch)
    assert ("fetch", "Fetch it.") == (wrapped.__name__, wrapped.__doc__)
    assert inspect.signature(fetch) == inspect.signature(wrapped)
    assert "x 2" == wrapped("x", size=2)
    assert inspect.iscoroutinefunction(traced(retry(**TRIES), tracer_provider=provider)(fetch_async))


def test_traced_retries_that_call_in_another_context_are_spans_all_the_same(spans, provider):
    """Where a decorator calls its function in another thread, each attempt is a first one."""
    from concurrent.futures import ThreadPoolExecutor

    def elsewhere(fn):
        def call():
            with ThreadPoolExecutor(1) as pool:
                pool.submit(fn).result()
                return pool.submit(fn).result()

        return call

    assert 1 == traced(elsewhere, tracer_provider=provider)(lambda: 1)()
    assert [1, 1] == [span.attributes["retrykit.attempt"] for span in spans.get_finished_spans()]


def test_traced_with_what_cannot_be_traced_is_refused(provider):
    """A value that is no decorator, and generator functions, are named."""
    with pytest.raises(ConfigurationError, match="5 cannot be called; traced takes functions"):
        traced(retry(**TRIES))(5)
    with pytest.raises(ConfigurationError, match="retries is 3; allowed is a decorator"):
        traced(3)

    def generate():
        yield 1

    with pytest.raises(ConfigurationError, match="is a generator function"):
        traced(retry(**TRIES), tracer_provider=provider)(generate)


def test_traced_without_its_extra_names_it(monkeypatch):
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'retrykit\[opentelemetry\]'"):
        traced(retry(**TRIES))


MATRIX = PolicyMatrix({group: RetryPolicy(max_retries=2, backoff=constant(60)) for group in ErrorGroup})


def sends(spans, provider, attributes, *, times=1):
    """Handle a message whose send fails so many times, until it is sent; return the spans."""
    clock = ManualClock()
    call = failing(times, ConnectionRefusedError)
    send = traced_send(lambda message, key: call(), system="ses", destination="outbox", tracer_provider=provider)
    dispatcher = Dispatcher(send, backend=MemoryBackend(clock=clock), matrix=MATRIX, clock=clock, on_event=[])
    for _ in range(times + 1):
        dispatcher.handle(Message(id="welcome-17", payload=None, attributes=attributes))
        clock.advance(60)
    return spans.get_finished_spans()


def test_traced_send_of_a_message_that_is_retried_links_to_its_first_attempt(spans, provider):
    """Each try is a span with the names of the conventions for messaging."""
    first, second = sends(spans, provider, {})
    assert ("send outbox", SpanKind.PRODUCER) == (first.name, first.kind)
    assert {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.system": "ses",
        "messaging.destination.name": "outbox",
        "messaging.message.id": "welcome-17",
        "retrykit.attempt": 2,
    } == dict(second.attributes)
    assert "ConnectionRefusedError" == first.attributes["error.type"]
    assert [[], [("first_attempt", first.context.span_id)]] == [links(first), links(second)]


def test_traced_send_of_a_message_with_a_traceparent_links_to_where_it_was_made(spans, provider):
    """That link needs no memory of this process."""
    first, second = sends(spans, provider, {"traceparent": CREATED})
    creation = ("creation", 0xB7AD6B7169203331)
    assert SpanKind.CLIENT is first.kind
    assert [[creation], [("first_attempt", first.context.span_id), creation]] == [links(first), links(second)]


def test_traced_send_forgets_what_was_sent_and_the_oldest_of_too_many(spans, provider, monkeypatch):
    """The memory of first attempts is bounded; a message sent again after its success begins anew."""
    monkeypatch.setattr(tracing, "_REMEMBERED", 2)
    send = traced_send(lambda message, key: failing(int(key))(), tracer_provider=provider)
    for number, fails in [(1, 1), (2, 1), (3, 1), (1, 0), (3, 0), (3, 0)]:
        message = Message(id=f"m-{number}", payload=None)
        if fails:
            with pytest.raises(ConnectionResetError):
                send(message, "1")
        else:
            assert "answer" == send(message, "0")
    counted = [
        (span.attributes["messaging.message.id"], span.attributes["retrykit.attempt"])
        for span in spans.get_finished_spans()
    ]
    assert [("m-1", 1), ("m-2", 1), ("m-3", 1), ("m-1", 1), ("m-3", 2), ("m-3", 1)] == counted
    assert "send" == spans.get_finished_spans()[0].name


def test_traced_send_of_an_asynchronous_dispatcher_is_a_span(spans, provider):
    """A coroutine function stays one."""

    async def send(message, key):
        return "p-1"

    async def main():
        backend = open_async_backend("memory://")
        dispatcher = AsyncDispatcher(traced_send(send, tracer_provider=provider), backend=backend, on_event=[])
        return await dispatcher.handle({"id": "welcome-17"})

    assert "p-1" == asyncio.run(main()).provider_id
    (span,) = spans.get_finished_spans()
    assert 1 == span.attributes["retrykit.attempt"]


def test_traced_send_gets_what_render_made(spans, provider):
    """The third argument of a send is passed on."""
    sent = []
    send = traced_send(lambda message, key, content: sent.append(content), tracer_provider=provider)
    Dispatcher(send, backend=open_backend("memory://"), render=lambda message: "content", on_event=[]).handle(
        {"id": "m"}
    )
    assert ["content"] == sent


def gives_messages(message, key):
    yield message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: traced(retry(**TRIES), name=5), "name is 5; allowed is text that is not empty, or None: that of the"),
        (lambda: traced(retry(**TRIES), name=""), "name is ''; allowed is text"),
        (
            lambda: traced(retry(**TRIES), tracer_provider="x"),
            "tracer_provider is 'x', which has no get_tracer; allowed is",
        ),
        (
            lambda: traced_send(print, tracer_provider=TracerProvider),
            "tracer_provider is the class TracerProvider; allowed",
        ),
        (lambda: traced_send(5), "send is 5; allowed is a function of a message and its key, or a coroutine function"),
        (lambda: traced_send(gives_messages), "send is <function gives_messages"),
        (lambda: traced_send(print, system=5), "system is 5; allowed is text that is not empty, or None: nothing is"),
        (lambda: traced_send(print, destination=""), "destination is ''; allowed is text"),
    ],
)
def test_tracing_of_what_is_not_allowed_is_refused(make, message):
    """When it is made, not at the first attempt."""
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert str(caught.value).startswith(message)
