# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What an application writes around its own functions, as a checker sees it."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import assert_type

from retrykit.backends import MemoryBackend
from retrykit.classification import ErrorClassifier, SmtpReply, TaggedError, stage, tag
from retrykit.decision import Disposition
from retrykit.delivery import EventFile, NotAccepted, ProviderEvent, Sent
from retrykit.dispatch import AsyncDispatcher, Dispatcher
from retrykit.failure import ErrorClass, ErrorGroup, Failure
from retrykit.message import Message
from retrykit.policy import EMAIL_MATRIX
from retrykit.reconcile import AsyncReconciler, Reconciler, ReconcileReport
from retrykit.retrying import retry
from retrykit.scheduler import AsyncRetryScheduler, RetryScheduler
from retrykit.stores import as_async

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
backend = MemoryBackend()
async_backend = as_async(backend)


# retry keeps the signature and the colour.
@retry(on=OSError, attempts=3)
def fetch(url: str, *, timeout: float = 1.0) -> bytes:
    return url.encode() * int(timeout)


@retry(EMAIL_MATRIX, max_elapsed="30s")
async def afetch(url: str) -> bytes:
    return url.encode()


assert_type(fetch("u", timeout=2.0), bytes)
fetch(3)  # type: ignore[arg-type]
fetch("u", timeout="2")  # type: ignore[arg-type]
retry(EMAIL_MATRIX, on=OSError)  # type: ignore[call-overload]
retry(on="timeout")  # type: ignore[call-overload]
retry(on=(OSError, ErrorGroup.THROTTLING, lambda error: bool(error.args)))
retry(OSError)  # type: ignore[call-overload]


async def use() -> None:
    assert_type(await afetch("u"), bytes)
    await afetch(3)  # type: ignore[arg-type]
    afetch("u").decode()  # type: ignore[attr-defined]  # not awaited


# Classification.
class CardDeclinedError(TaggedError):
    error_class = ErrorClass("card_declined", group=ErrorGroup.PERMANENT_RECIPIENT)


class UntypedError(TaggedError):
    error_class = "card_declined"  # type: ignore[assignment]


@tag(ErrorClass.PROVIDER_UNAVAILABLE, on=ConnectionResetError)
@stage("send")
def tagged(number: int) -> str:
    return str(number)


assert_type(tagged(3), str)
tagged("3")  # type: ignore[arg-type]
assert_type(ErrorClassifier().classify(SmtpReply(550, "5.1.1 user unknown"), stage="send"), Failure)
ErrorClassifier().classify("550 user unknown")  # type: ignore[arg-type]


# The dispatcher.
def send(message: Message, key: str) -> str:
    return f"{message.id}/{key}"


def send_content(message: Message, key: str, content: bytes) -> Sent:
    return Sent(provider_id=f"{message.id}/{key}/{len(content)}")


def render(message: Message) -> bytes:
    return message.body


async def asend(message: Message, key: str) -> None:
    print(message, key)


def lookup(key: str) -> Sent | NotAccepted | None:
    return Sent(key) if key else None


async def alookup(key: str) -> Sent | NotAccepted | None:
    return Sent(key) if key else None


dispatcher = Dispatcher(send, backend=backend, lookup=lookup)
assert_type(dispatcher.handle({"id": "m-1", "nested": [1, None]}), Disposition)
dispatcher.handle(3)  # type: ignore[arg-type]
Dispatcher(send_content, backend=backend, render=render)
Dispatcher(send_content, backend=backend)  # type: ignore[arg-type]  # nothing renders its content
Dispatcher(send, backend=async_backend)  # type: ignore[call-overload]
Dispatcher(send)  # type: ignore[call-overload]
AsyncDispatcher(asend, backend=async_backend, lookup=alookup)
AsyncDispatcher(send, backend=async_backend)  # type: ignore[arg-type]
AsyncDispatcher(asend, backend=backend)  # type: ignore[call-overload]


async def handle(dispatcher: AsyncDispatcher[None]) -> None:
    assert_type(await dispatcher.handle(b"{}", id="m-1"), Disposition)


# The scheduler and the reconciler.
def publish(message: Message) -> None:
    print(message)


async def apublish(message: Message) -> None:
    print(message)


assert_type(RetryScheduler(backend, publish).run_once(), int)
RetryScheduler(async_backend, publish)  # type: ignore[arg-type]
AsyncRetryScheduler(async_backend, apublish)
AsyncRetryScheduler(async_backend, publish)  # type: ignore[arg-type]
assert_type(Reconciler(backend, lookup=lookup).run_once(), ReconcileReport)
Reconciler(backend, lookup=alookup)  # type: ignore[arg-type]
AsyncReconciler(async_backend, lookup=alookup)


def told(start: datetime, end: datetime) -> Iterator[ProviderEvent]:
    yield from EventFile(f"{start}-{end}.jsonl", "ses")(start, end)


async def atold(start: datetime, end: datetime) -> AsyncIterator[ProviderEvent]:
    for event in told(start, end):
        yield event


async def alist(start: datetime, end: datetime) -> list[ProviderEvent]:
    return list(told(start, end))


Reconciler(backend, events=told, provider="ses", window="1h")
Reconciler(backend, events=EventFile("events.jsonl", "ses"))
Reconciler(backend, events=atold)  # type: ignore[arg-type]
Reconciler(backend, windows="1h")  # type: ignore[call-arg]
AsyncReconciler(async_backend, events=atold)
AsyncReconciler(async_backend, events=alist)
assert_type(Reconciler(backend, events=told).compare(NOON, NOON) + ReconcileReport(), ReconcileReport)
