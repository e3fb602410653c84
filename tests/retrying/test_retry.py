"""`@retry`: calls repeated in the process that makes them."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import pickle
import random
import smtplib
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import attrs
import pytest

from retrykit import EMAIL_MATRIX, ErrorClass, ErrorClassifier, ErrorGroup, RetryLater, retry
from retrykit.classification import Rule
from retrykit.clock import use_clock
from retrykit.errors import ConfigurationError
from retrykit.events import AttemptFailed, Event
from retrykit.policy import PolicyMatrix, RetryPolicy
from retrykit.testing import ManualClock, manual_clock
from tests.colours import Runner, both_loops


class Flaky:
    """A function that fails as told, then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, answer: str = "answer") -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return answer


@pytest.fixture(autouse=True)
def clock() -> Iterator[ManualClock]:
    with manual_clock() as clock:
        yield clock


def test_retry_success_is_one_call() -> None:
    """A call that succeeds is made once, with its arguments."""
    flaky = Flaky()
    assert retry(on=OSError)(flaky)("hello") == "hello"
    assert flaky.calls == 1


def test_retry_named_error_is_retried_with_its_delays(clock: ManualClock) -> None:
    """What `on` names is retried after the backoff's delays."""
    flaky = Flaky(ConnectionResetError("1"), ConnectionResetError("2"))
    assert retry(on=OSError, attempts=3, backoff=["1s", "5s"], rng=random.Random(7))(flaky)() == "answer"
    first, second = clock.sleeps
    assert (flaky.calls, 1 <= first <= 1.1, 5 <= second <= 5.5) == (3, True, True)


def test_retry_exhausted_raises_the_last_error_itself_with_a_note() -> None:
    """The caller gets the last error, unchanged but for a note that says why it was not retried."""
    last = ConnectionResetError("second")
    with pytest.raises(ConnectionResetError) as caught:
        retry(on=OSError, attempts=2, backoff=[0])(Flaky(ConnectionResetError("first"), last))()
    assert caught.value is last
    assert (last.__cause__, last.__context__) == (None, None)
    (note,) = last.__notes__
    assert note.startswith("retrykit: attempt 2 of ")
    assert note.endswith("was the last: connection_error, all 2 attempts used")


def test_retry_other_error_passes_at_once() -> None:
    """What `on` does not name is not retried."""
    flaky = Flaky(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        retry(on=OSError)(flaky)()
    assert flaky.calls == 1


@pytest.mark.parametrize(
    "on",
    [
        OSError,
        (ValueError, OSError),
        ErrorGroup.TRANSIENT_INFRASTRUCTURE,
        ErrorClass.CONNECTION_ERROR,
        lambda error: "reset" in str(error),
        (ValueError, (KeyError, ErrorClass.CONNECTION_ERROR)),
    ],
    ids=["type", "tuple", "group", "class", "predicate", "nested"],
)
def test_retry_on_takes_types_groups_classes_and_predicates(on: Any) -> None:
    """`on` may be a type, a group, a class, a predicate, or a tuple of them."""
    flaky = Flaky(ConnectionResetError("reset by peer"))
    assert retry(on=on, backoff=[0])(flaky)() == "answer"
    other = Flaky(LookupError("elsewhere"))
    with pytest.raises(LookupError):
        retry(on=on, backoff=[0])(other)()


def test_retry_matrix_decides_by_class(clock: ManualClock) -> None:
    """The matrix form takes attempts and delays from the error's class."""
    flaky = Flaky(TimeoutError("timed out"), TimeoutError("timed out"))
    matrix = attrs.evolve(EMAIL_MATRIX, on_unknown=__import__("retrykit").Action.RETRY)
    assert retry(matrix, rng=random.Random(1))(flaky)() == "answer"
    assert [5 <= clock.sleeps[0] <= 5.5, 15 <= clock.sleeps[1] <= 16.5] == [True, True]


def test_retry_matrix_never_repeats_an_unknown_outcome() -> None:
    """A timeout may have had its effect: without the application's word the call is not repeated."""
    flaky = Flaky(TimeoutError("timed out"))
    with pytest.raises(TimeoutError) as caught:
        retry(EMAIL_MATRIX)(flaky)()
    assert flaky.calls == 1
    assert caught.value.__notes__[0].endswith("was the last: network_timeout, may have been done: not repeated")


def test_retry_matrix_permanent_error_passes_at_once() -> None:
    """A permanent failure is not retried."""
    flaky = Flaky(smtplib.SMTPResponseException(550, b"5.1.1 The account does not exist"))
    with pytest.raises(smtplib.SMTPResponseException):
        retry(EMAIL_MATRIX)(flaky)()
    assert flaky.calls == 1


def test_retry_wait_too_long_for_a_caller_raises_retry_later() -> None:
    """A wait over max_inline_delay is handed to the caller as a signal that carries failure and decision."""
    cause = smtplib.SMTPResponseException(451, b"4.7.1 Greylisted, please come back later")
    with pytest.raises(RetryLater) as caught:
        retry(EMAIL_MATRIX, rng=random.Random(1))(Flaky(cause))()
    assert caught.value.__cause__ is cause
    assert (caught.value.failure.error_class, 900 <= caught.value.decision.delay <= 990) == ("greylisted", True)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_retry_max_elapsed_stops_before_the_wait_that_would_pass_it(clock: ManualClock) -> None:
    """No wait begins that would end after the limit, and the clock starts at the call, not at the decoration."""
    flaky = Flaky(*[ConnectionResetError("x")] * 9)
    call = retry(on=OSError, attempts=9, backoff=[4], max_elapsed=10, rng=random.Random(1))(flaky)
    clock.advance("1h")
    began = clock.now()
    with pytest.raises(ConnectionResetError) as caught:
        call()
    assert (clock.now() - began).total_seconds() <= 10
    assert flaky.calls == 3
    assert "would pass the limit of 10 s" in caught.value.__notes__[0]


def test_retry_server_asked_wait_is_a_floor(clock: ManualClock) -> None:
    """A wait that the other side asked for is never undercut."""
    error = smtplib.SMTPResponseException(451, b"4.7.1 Greylisted, try again in 40 seconds")
    retry(on=ErrorGroup.TEMPORARY_MAILBOX, backoff=[1])(Flaky(error))()
    assert clock.sleeps == [40.0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_retry_interruptions_pass_untouched(error: type[BaseException]) -> None:
    """What is no failure is never retried, noted or counted, also by a predicate that says yes to all."""
    flaky = Flaky(error())
    with pytest.raises(error) as caught:
        retry(on=lambda _error: True, backoff=[0])(flaky)()
    assert (flaky.calls, getattr(caught.value, "__notes__", [])) == (1, [])


def test_retry_events_tell_every_failed_attempt(clock: ManualClock) -> None:
    """A listener hears each failed attempt with its number and decision."""
    heard: list[Event] = []

    @retry(on=OSError, attempts=2, backoff=[0], on_event=[heard.append])
    def fetch() -> None:
        raise ConnectionResetError("x")

    with pytest.raises(ConnectionResetError):
        fetch()
    numbers = [
        (e.subject.rpartition(".")[2], e.attempt, e.decision.action) for e in heard if isinstance(e, AttemptFailed)
    ]
    assert numbers == [("fetch", 1, "retry"), ("fetch", 2, "dead_letter")]


def test_retry_zero_delay_does_not_sleep(clock: ManualClock) -> None:
    """A wait of nothing is no call of sleep."""
    retry(on=OSError, backoff=[0])(Flaky(ConnectionResetError("x")))()
    assert clock.sleeps == []


def test_retry_own_clock_goes_before_the_one_in_force(clock: ManualClock) -> None:
    """A clock given to retry is the one it waits by."""
    own = ManualClock()
    retry(on=OSError, backoff=[3], clock=own)(Flaky(ConnectionResetError("x")))()
    assert (len(own.sleeps), clock.sleeps) == (1, [])


def test_retry_second_block_has_no_context_of_the_first() -> None:
    """The error of a later call does not drag along one that was settled before."""
    first, second = Flaky(ConnectionResetError("first")), Flaky(ConnectionResetError("second"))
    retry(on=OSError, backoff=[0])(first)()
    with pytest.raises(ConnectionResetError, match="second") as caught:
        retry(on=OSError, attempts=1)(second)()
    assert caught.value.__context__ is None


def test_retry_failed_call_leaves_nothing_behind() -> None:
    """An error that was raised is freed with the caller's last reference, without the cycle collector."""

    class OwnError(OSError):
        pass

    def fail() -> None:
        raise OwnError("x")

    gc.disable()
    try:
        try:
            retry(on=OSError, attempts=2, backoff=[0])(fail)()
        except OwnError as error:
            kept = weakref.ref(error)
        assert kept() is None
    finally:
        gc.enable()


def test_retry_keeps_name_doc_and_signature() -> None:
    """The decorated function looks as the plain one does."""

    @retry(on=OSError)
    def fetch(url: str, *, timeout: float = 1.0) -> str:
        """Fetch."""
        return url

    assert (fetch.__name__, fetch.__doc__) == ("fetch", "Fetch.")
    assert list(inspect.signature(fetch).parameters) == ["url", "timeout"]


def test_retry_on_a_group_goes_by_its_own_classifier() -> None:
    """An application's rules decide what belongs to a group."""
    classifier = ErrorClassifier([Rule("mine", ErrorClass.PROVIDER_UNAVAILABLE, exceptions=[LookupError])])
    flaky = Flaky(LookupError("gone"))
    assert retry(on=ErrorGroup.TRANSIENT_INFRASTRUCTURE, classifier=classifier, backoff=[0])(flaky)() == "answer"


class Client:
    """A class with every kind of method."""

    def __init__(self) -> None:
        self.calls = 0

    @retry(on=OSError, backoff=[0])
    def method(self) -> str:
        self.calls += 1
        if self.calls == 1:
            raise ConnectionResetError("x")
        return "method"

    @staticmethod
    @retry(on=OSError, backoff=[0])
    def static() -> str:
        return "static"

    @classmethod
    @retry(on=OSError, backoff=[0])
    def of_class(cls) -> str:
        return cls.__name__


def test_retry_decorates_methods() -> None:
    """Methods, static methods and class methods are retried, called on the class and on an instance."""
    client = Client()
    assert (client.method(), client.calls) == ("method", 2)
    assert (client.static(), Client.static(), client.of_class(), Client.of_class()) == (
        "static",
        "static",
        "Client",
        "Client",
    )


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_retry_above_a_static_or_class_method_is_refused(kind: Callable[[Any], Any]) -> None:
    """The wrong order of decorators is an error at decoration, with the right order named."""
    with pytest.raises(TypeError, match=f"put @{kind.__name__} above it"):
        retry(on=OSError)(kind(lambda: None))


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("fn", [generator, async_generator, functools.partial(generator)])
def test_retry_generator_function_is_refused(fn: Any) -> None:
    """A generator's items cannot be taken back, so decorating it is an error instead of a decorator that does nothing."""
    with pytest.raises(TypeError, match="generator function"):
        retry(on=OSError)(fn)


@pytest.mark.parametrize("thing", [Client, 7, "text"])
def test_retry_what_is_no_function_is_refused(thing: Any) -> None:
    """Classes and things that cannot be called are refused at decoration."""
    with pytest.raises(TypeError, match="decorates functions"):
        retry(on=OSError)(thing)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "either a matrix"),
        ({"matrix": EMAIL_MATRIX, "attempts": 5}, "either a matrix"),
        ({"matrix": EMAIL_MATRIX, "backoff": [1]}, "either a matrix"),
        ({"matrix": print}, r"write @retry\(on=...\) with parentheses"),
        ({"on": ()}, "allowed are exception types"),
        ({"on": OSError, "on_event": print}, "on_event is <built-in function print>"),
        ({"on": OSError, "on_event": ["log"]}, "a listener of on_event is 'log'"),
        ({"on": OSError, "matrix": EMAIL_MATRIX}, "either a matrix"),
        ({"matrix": OSError}, "allowed is a PolicyMatrix"),
        ({"matrix": 7}, "the matrix of retry.. is 7; allowed is a PolicyMatrix$"),
        ({"on": OSError, "attempts": 0}, "attempts is 0"),
        ({"on": OSError, "attempts": True}, "attempts is True"),
        ({"on": OSError, "backoff": "5s"}, "the backoff is '5s'"),
        ({"on": OSError, "max_elapsed": -1}, "max_elapsed is -1"),
        ({"on": BaseException}, "others are not failures"),
        ({"on": "timeout"}, "allowed are exception types"),
        ({"matrix": EMAIL_MATRIX, "max_inline_delay": float("nan")}, "max_inline_delay is nan"),
    ],
)
def test_retry_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    """Contradictory and impossible settings are errors when the decorator is made."""
    with pytest.raises(ConfigurationError, match=message):
        retry(**settings)


class AsyncFlaky(Flaky):
    """A callable object whose calls are awaited."""

    async def __call__(self, answer: str = "answer") -> str:  # type: ignore[override]
        return super().__call__(answer)


@both_loops
@pytest.mark.parametrize("partial", [False, True], ids=["object", "partial"])
def test_retry_async_callables_are_awaited_and_retried(clock: ManualClock, runner: Runner, partial: bool) -> None:
    """Coroutine functions, callable objects and partials are retried under asyncio and trio."""
    flaky = AsyncFlaky(ConnectionResetError("x"))

    async def fetch(answer: str) -> str:
        return await flaky(answer)

    call: Any = functools.partial(fetch, "hello") if partial else flaky
    decorated = retry(on=OSError, backoff=[2], rng=random.Random(1))(call)
    assert runner(lambda: decorated()) == ("hello" if partial else "answer")
    assert (flaky.calls, len(clock.sleeps)) == (2, 1)


@both_loops
def test_retry_async_exhausted_raises_the_last_error(runner: Runner) -> None:
    """The asynchronous form gives up as the synchronous one does, with the same note."""
    flaky = AsyncFlaky(*[ConnectionResetError("x")] * 3)
    with pytest.raises(ConnectionResetError) as caught:
        runner(lambda: retry(on=OSError, attempts=3, backoff=[0], max_elapsed=9)(flaky)())
    assert (flaky.calls, len(caught.value.__notes__)) == (3, 1)


def test_retry_async_backoff_does_not_block_the_loop() -> None:
    """Other tasks go on while a call waits."""

    class YieldingClock(ManualClock):
        async def sleep_async(self, seconds: float) -> None:
            self.sleep(seconds)
            await asyncio.sleep(0)

    async def main() -> list[str]:
        order: list[str] = []
        flaky = AsyncFlaky(ConnectionResetError("x"))

        @retry(on=OSError, backoff=[60])
        async def fetch() -> None:
            order.append("try")
            await flaky()

        async def heartbeat() -> None:
            order.append("beat")

        with use_clock(YieldingClock()):
            await asyncio.gather(fetch(), heartbeat())
        return order

    assert asyncio.run(main()) == ["try", "beat", "try"]


def test_retry_cancelled_while_waiting_stops() -> None:
    """Cancellation during a wait leaves at once and the call is not made again."""

    async def main() -> int:
        flaky = AsyncFlaky(*[ConnectionResetError("x")] * 3)
        with use_clock(__import__("retrykit.clock", fromlist=["SystemClock"]).SystemClock()):
            task = asyncio.create_task(retry(on=OSError, backoff=[3600])(flaky)())  # type: ignore[arg-type]
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return flaky.calls

    assert asyncio.run(main()) == 1


def test_retry_own_matrix_with_shared_decorator_keeps_calls_apart() -> None:
    """Two functions and nested calls under one decorator count their failures apart."""
    policy = retry(PolicyMatrix({ErrorGroup.TRANSIENT_INFRASTRUCTURE: RetryPolicy(max_retries=1, backoff=[0])}))
    refused = [ConnectionRefusedError("x")]
    inner, outer = Flaky(*refused), Flaky(*refused)
    decorated = policy(inner)

    @policy
    def both() -> str:
        return decorated() + outer()

    assert both() == "answeranswer"
    assert (inner.calls, outer.calls) == (3, 2)
