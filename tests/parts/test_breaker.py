"""The breaker in all its forms: decorator, call and block, in both colours."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import pickle
import traceback
from typing import Any

import pytest

from retrykit import CircuitBreaker, retry
from retrykit.breaker import BreakerState, failure_rate
from retrykit.errors import BreakerOpenError
from retrykit.testing import ManualClock
from tests.colours import Runner, both_loops
from tests.parts.breakers import attempt, breaker, down, trip


def fail() -> None:
    raise down()


async def fail_async() -> None:
    raise down()


def test_decorator_opens_and_refuses() -> None:
    """After its failures the function is no longer called."""
    calls = []

    @breaker()
    def send(text: str) -> str:
        calls.append(text)
        raise down()

    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            send("a")
    with pytest.raises(
        BreakerOpenError, match=r"the breaker 'ses' is open for another .* s; the last failure was connection_error"
    ):
        send("a")
    assert ["a", "a"] == calls


@both_loops
def test_decorator_of_a_coroutine_function_opens_and_refuses(runner: Runner) -> None:
    """The same under asyncio and trio."""
    send = breaker()(fail_async)
    assert inspect.iscoroutinefunction(send)

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                await send()
        with pytest.raises(BreakerOpenError):
            await send()

    runner(main)


@both_loops
def test_breaker_is_one_state_for_both_colours(runner: Runner) -> None:
    """A failure of a synchronous call and one of an asynchronous call are two of the same breaker."""
    guard = breaker()
    with pytest.raises(ConnectionRefusedError):
        guard(fail)()

    async def main() -> None:
        with pytest.raises(ConnectionRefusedError):
            await guard(fail_async)()

    runner(main)
    assert BreakerState.OPEN is guard.state
    with pytest.raises(BreakerOpenError):
        guard(fail)()


@both_loops
def test_call_guards_a_single_call_of_either_colour(runner: Runner) -> None:
    """`call` takes the function, which may have parameters of any name."""
    guard = breaker()

    async def answer_async(fn: int) -> int:
        return fn

    async def main() -> int:
        result: int = await guard.call(answer_async, fn=7)
        return result

    assert (7, 5, {"self": 1}) == (runner(main), guard.call(int, "5"), guard.call(dict, self=1))
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            guard.call(fail)
    with pytest.raises(BreakerOpenError):
        guard.call(fail)


def test_block_counts_its_end() -> None:
    """A block that raises is a failure, one that does not a success; the error comes through."""
    guard = breaker()
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError), guard:
            raise down()
        with guard as entered:
            assert entered is guard
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError), guard:
            raise down()
    with pytest.raises(BreakerOpenError), guard:
        pytest.fail("not reached")


def test_block_may_stand_in_another_one_of_the_same_breaker() -> None:
    """Each end belongs to its own beginning."""
    guard, other = breaker(failure_threshold=5), breaker()
    with pytest.raises(ConnectionRefusedError), guard, other, guard:
        raise down()
    assert ((2, 2), (1, 1)) == (guard.counted, other.counted)


@both_loops
def test_block_in_tasks_belongs_to_each_of_them(runner: Runner) -> None:
    """Blocks of coroutines that run at the same time do not mix."""
    guard = breaker(failure_threshold=100)

    async def main() -> None:
        async def one(number: int) -> None:
            with guard:
                if number:
                    raise down()

        for number in range(2):
            if number:
                with pytest.raises(ConnectionRefusedError):
                    await one(number)
            else:
                await one(number)

    runner(main)
    assert (1, 1) == guard.counted


def test_block_that_ends_in_another_context_is_an_error() -> None:
    """It cannot be told which call it was; the error says what to do."""
    guard = breaker()
    contextvars.copy_context().run(guard.__enter__)
    with pytest.raises(RuntimeError, match="the block of the breaker 'ses' ends in another context than it began"):
        guard.__exit__(None, None, None)


def test_block_that_ends_before_one_inside_it_is_an_error() -> None:
    """Blocks end in the opposite order of their beginning."""
    guard, other = breaker(), breaker()
    guard.__enter__()
    other.__enter__()
    with pytest.raises(RuntimeError, match="before one inside it"):
        guard.__exit__(None, None, None)
    other.__exit__(None, None, None)
    guard.__exit__(None, None, None)


class Mailer:
    """Methods of every kind, guarded."""

    guard = breaker()

    @guard
    def send(self, text: str) -> tuple[Any, str]:
        return self, text

    @staticmethod
    @guard
    def stamp(text: str) -> str:
        return text

    @classmethod
    @guard
    def make(cls, text: str) -> tuple[type, str]:
        return cls, text

    @guard
    async def send_async(self, text: str) -> tuple[Any, str]:
        return self, text


def test_decorator_guards_methods_of_every_kind() -> None:
    """`self` and `cls` arrive as they do without it."""
    mailer = Mailer()
    assert (mailer, "a") == mailer.send("a")
    assert ("a", "b") == (Mailer.stamp("a"), mailer.stamp("b"))
    assert (Mailer, "a") == Mailer.make("a") == mailer.make("a")
    assert (mailer, "a") == asyncio.run(mailer.send_async("a"))


def test_decorator_takes_partials_and_callable_objects() -> None:
    """Whatever can be called."""

    class Answer:
        def __call__(self, text: str) -> str:
            return text

    class AnswerAsync:
        async def __call__(self, text: str) -> str:
            return text

    guard = breaker()
    assert ("a", "a") == (guard(functools.partial(str, "a"))(), guard(Answer())("a"))
    assert "a" == asyncio.run(guard(AnswerAsync())("a"))
    assert "a" == asyncio.run(guard(functools.partial(AnswerAsync().__call__, "a"))())


def test_decorator_of_a_callable_object_opens_and_refuses() -> None:
    """What has no code of its own is guarded all the same, and its successes count."""

    class Flaky:
        def __call__(self, fails: bool) -> None:
            if fails:
                raise down()

    class FlakyAsync:
        async def __call__(self, fails: bool) -> None:
            if fails:
                raise down()

    guard, guard_async = (breaker(trip=failure_rate(0.5, window=10, minimum_calls=4)) for _ in range(2))
    send, send_async = guard(Flaky()), guard_async(FlakyAsync())
    for fails in (False, False, True, True):
        with pytest.raises(ConnectionRefusedError) if fails else contextlib.nullcontext():
            send(fails)
        with pytest.raises(ConnectionRefusedError) if fails else contextlib.nullcontext():
            asyncio.run(send_async(fails))
    with pytest.raises(BreakerOpenError):
        send(False)
    with pytest.raises(BreakerOpenError):
        asyncio.run(send_async(False))


def test_block_success_counts_in_a_window() -> None:
    """As a call's does."""
    guard = breaker(trip=failure_rate(0.5, window=10, minimum_calls=4))
    for _ in range(3):
        with guard:
            pass
    assert (3, 0) == guard.counted


def test_decorator_keeps_name_doc_and_signature() -> None:
    """The guarded function looks as the plain one does, and is called as it is."""

    def send(breaker: str, /, self: int = 1, *rest: int, entered: bool = False, **more: int) -> str:
        """Send."""
        return f"{breaker} {self} {rest} {entered} {more}"

    guarded = breaker()(send)
    assert ("send", "Send.", send) == (guarded.__name__, guarded.__doc__, guarded.__wrapped__)
    assert inspect.signature(send) == inspect.signature(guarded)
    assert "a 2 (3,) True {'x': 4}" == guarded("a", 2, 3, entered=True, x=4)
    with pytest.raises(TypeError):
        guarded()


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (staticmethod(fail), "a breaker stands above @staticmethod; put @staticmethod above it"),
        (classmethod(fail), "a breaker stands above @classmethod"),
        (Mailer, "a breaker decorates functions, not"),
        (5, "a breaker decorates functions, not 5"),
        (lambda: (yield), "is a generator function"),
    ],
)
def test_decorator_refuses_what_it_cannot_guard(fn: Any, message: str) -> None:
    """At decoration, and not at the first call."""
    with pytest.raises(TypeError, match=message):
        breaker()(fn)


def test_rejection_has_a_flat_traceback() -> None:
    """Only the caller's frame and the wrapper's, and no other error behind it."""
    guard = breaker()
    trip(guard)
    send = guard(fail)
    with pytest.raises(BreakerOpenError) as caught:
        send()
    assert [test_rejection_has_a_flat_traceback.__name__, "fail"] == [
        frame.name for frame in traceback.extract_tb(caught.value.__traceback__)
    ]
    assert (None, None) == (caught.value.__context__, caught.value.__cause__)

    async def main() -> None:
        await guard(fail_async)()

    with pytest.raises(BreakerOpenError) as caught:
        asyncio.run(main())
    assert ["main", "fail_async"] == [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][-2:]
    with pytest.raises(BreakerOpenError) as caught, guard:
        pytest.fail("not reached")
    assert 2 == len(traceback.extract_tb(caught.value.__traceback__))


def test_rejection_says_who_when_and_why_and_pickles() -> None:
    """It carries the breaker's name, the wait, and the last failure that counted, also to another process."""
    clock = ManualClock()
    guard = breaker(clock)
    trip(guard)
    clock.advance(20)
    with pytest.raises(BreakerOpenError) as caught:
        guard(fail)()
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert ("ses", 40.0, "open") == (error.name, error.retry_after, error.state)
        assert error.last_failure is not None
        assert ("connection_error", "no answer") == (error.last_failure.error_class, error.last_failure.error_message)
        assert "the breaker 'ses' is open for another 40 s; the last failure was connection_error" == str(error)


def test_rejection_of_an_isolated_breaker_knows_no_time() -> None:
    """Nobody knows when it ends."""
    guard = breaker()
    guard.isolate()
    with pytest.raises(
        BreakerOpenError, match="the breaker 'ses' is isolated until somebody resets or resumes it"
    ) as caught:
        guard(fail)()
    assert (None, None) == (caught.value.retry_after, caught.value.last_failure)


def test_rejection_is_not_retried_and_uses_no_attempt() -> None:
    """Retry around a breaker: the refusal passes at once, without a wait."""
    clock = ManualClock()
    guard = breaker(clock)

    @retry(on=Exception, attempts=9, backoff=[1], clock=clock)
    @guard
    def send() -> None:
        raise down()

    with pytest.raises(BreakerOpenError):
        send()
    assert (2, 1) == (len(clock.sleeps), guard.rejected)


def test_rejection_by_another_breaker_counts_for_none() -> None:
    """A breaker around a breaker: the outer one does not take a refusal of the inner one for a failure."""
    outer, inner = breaker(counts=Exception), breaker()
    trip(inner)
    for _ in range(5):
        with pytest.raises(BreakerOpenError):
            outer(inner(fail))()
    assert ((0, 0), 5) == (outer.counted, inner.rejected)


@breaker()
def greet(name: str) -> str:
    return f"hello {name}"


def test_decorated_functions_and_methods_pickle() -> None:
    """To a process pool they go by their name, as plain ones do."""
    assert greet is pickle.loads(pickle.dumps(greet))
    assert "hello Ada" == pickle.loads(pickle.dumps(greet))("Ada")
    sent = pickle.loads(pickle.dumps(Mailer().send))("a")
    assert (Mailer, "a") == (type(sent[0]), sent[1])


def test_calls_run_beside_each_other() -> None:
    """No lock is held across a call: inside one the breaker can be asked anything, also for another call."""
    guard = breaker()

    @guard
    def outer() -> str:
        guard.snapshot()
        return guard.call(str, guard.state)

    assert "closed" == outer()


def test_probe_that_never_ends_holds_nobody_up() -> None:
    """While one call hangs in a probe the others are refused at once, and get the next probe after its timeout."""
    clock = ManualClock()
    guard = breaker(clock, probe_timeout=30)
    trip(guard)
    clock.advance(60)

    @guard
    def hang() -> None:
        assert not attempt(guard)
        clock.advance(30)
        assert attempt(guard)
        assert BreakerState.CLOSED is guard.state
        raise down()

    with pytest.raises(ConnectionRefusedError):
        hang()
    assert (BreakerState.CLOSED, (0, 0)) == (guard.state, guard.counted)


def test_repr_says_name_state_and_rule() -> None:
    """For logs and debuggers."""
    assert "<CircuitBreaker 'a' closed, opens at 10 failures in a row>" == repr(CircuitBreaker("a"))
