"""`resilient`: all parts around one function, in one order."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable
from typing import Any

import pytest

from retrykit import EMAIL_MATRIX, CircuitBreaker, ErrorClass, RetryBudget, RetryLater, TaggedError, retry
from retrykit.errors import BreakerOpenError, ConfigurationError, ThrottledError
from retrykit.events import BreakerChanged, Event
from retrykit.policy import delays
from retrykit.retrying.combined import resilient
from retrykit.testing import ManualClock
from retrykit.throttle import AdaptiveThrottle
from tests.colours import Runner, both_loops, cancel, hang, run_asyncio
from tests.retrying.flaky import RUNNERS, AsyncFlaky, Flaky, refused

quick = retry(on=OSError, backoff=[0])


class SlowDownError(TaggedError):
    """A provider that throttles."""

    error_class = ErrorClass.PROVIDER_THROTTLED

    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__("slow down")
        self.retry_after = retry_after


Do = Callable[[resilient, Callable[[], Any]], Any]


def plainly(parts: resilient, fn: Callable[[], Any]) -> Any:
    return parts(lambda: fn())()


def at_once(parts: resilient, fn: Callable[[], Any]) -> Any:
    return parts.call(fn)


def awaited(runner: Runner, parts: resilient, fn: Callable[[], Any]) -> Any:
    async def call() -> Any:
        return fn()

    return runner(parts(call))


COLOURS: dict[str, Do] = {
    "sync": plainly,
    "call": at_once,
    **{name: functools.partial(awaited, runner) for name, runner in RUNNERS.items()},
}

every_colour = pytest.mark.parametrize("do", COLOURS.values(), ids=COLOURS.keys())


def opened(**settings: Any) -> CircuitBreaker:
    """Return a breaker that is open."""
    breaker = CircuitBreaker("ses", failure_threshold=1, recovery_timeout=delays(60, jitter="none"), **settings)
    breaker.open()
    return breaker


@every_colour
def test_resilient_success_is_one_call(do: Do, clock: ManualClock) -> None:
    """With all parts at once."""
    flaky, breaker, budget = Flaky(), CircuitBreaker("ses"), RetryBudget()
    parts = resilient(
        retry=quick, breaker=breaker, budget=budget, throttle=AdaptiveThrottle("ses"), max_elapsed=30, fallback="no"
    )
    assert do(parts, flaky) == "answer"
    assert (flaky.calls, clock.sleeps, breaker.state, budget.tokens) == (1, [], "closed", 100.0)


@every_colour
def test_resilient_without_parts_calls_the_function(do: Do) -> None:
    """Nothing is retried, and the error is itself."""
    assert do(resilient(), Flaky()) == "answer"
    error = ConnectionResetError("down")
    with pytest.raises(ConnectionResetError) as caught:
        do(resilient(), Flaky(error))
    assert caught.value is error


@every_colour
def test_breaker_sees_every_attempt(do: Do) -> None:
    """Three attempts of one call are three failures, and the success after them ends the streak."""
    breaker = CircuitBreaker("ses", failure_threshold=3)
    do(resilient(retry=quick, breaker=breaker), Flaky(*refused(2)))
    assert (breaker.state, breaker.counted[1]) == ("closed", 0)
    with pytest.raises(ConnectionRefusedError):
        do(resilient(retry=quick, breaker=breaker), Flaky(*refused(3)))
    assert breaker.state == "open"


@every_colour
def test_breaker_that_opens_meanwhile_ends_the_attempts(do: Do, clock: ManualClock) -> None:
    """A rejection is no attempt: it leaves at once, says when to come again, and what had failed."""
    heard: list[Event] = []
    breaker = CircuitBreaker("ses", failure_threshold=2, recovery_timeout=delays(60, jitter="none"))
    flaky = Flaky(*refused(9))
    with pytest.raises(BreakerOpenError) as caught:
        do(resilient(retry=quick.but(attempts=9, on_event=[heard.append]), breaker=breaker), flaky)
    assert (flaky.calls, len(heard), clock.sleeps) == (2, 2, [])
    assert (caught.value.retry_after, breaker.rejected) == (60.0, 1)
    assert caught.value.last_failure is not None
    assert (caught.value.last_failure.error_class, getattr(caught.value, "__notes__", [])) == ("connection_error", [])
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@every_colour
def test_breaker_that_is_open_lets_nothing_through(do: Do, clock: ManualClock) -> None:
    """The function is not called, nothing is paid or waited for, and listeners of the retry hear nothing."""
    heard: list[Event] = []
    budget = RetryBudget(capacity=5, floor=0)
    flaky = Flaky()
    parts = resilient(retry=retry(on=Exception, on_event=[heard.append]), breaker=opened(), budget=budget)
    with pytest.raises(BreakerOpenError):
        do(parts, flaky)
    assert (flaky.calls, heard, budget.tokens, clock.sleeps) == (0, [], 5.0, [])
    clock.advance(60)
    assert do(parts, flaky) == "answer"


@every_colour
def test_breaker_listener_hears_of_the_attempt_that_opened_it(do: Do) -> None:
    """With its failure."""
    heard: list[Any] = []
    breaker = CircuitBreaker("ses", failure_threshold=2, on_event=[heard.append])
    with pytest.raises(BreakerOpenError):
        do(resilient(retry=quick, breaker=breaker), Flaky(*refused(3)))
    assert [(type(event), event.after, event.failure.error_message) for event in heard] == [
        (BreakerChanged, "open", "refused 2")
    ]


@every_colour
def test_throttle_stands_inside_of_retry_and_breaker(do: Do, clock: ManualClock) -> None:
    """Every attempt waits for its turn, and its throttling is no failure of the provider."""
    throttle, breaker = AdaptiveThrottle("ses"), CircuitBreaker("ses", failure_threshold=1)
    flaky = Flaky(SlowDownError(), SlowDownError())
    assert (
        do(resilient(retry=retry(on=SlowDownError, backoff=[0]), breaker=breaker, throttle=throttle), flaky) == "answer"
    )
    assert (clock.sleeps, breaker.state, throttle.rate is None) == ([2.0, 2.0], "closed", False)


@every_colour
def test_throttle_that_would_wait_too_long_is_no_attempt(do: Do, clock: ManualClock) -> None:
    """It leaves at once, neither retried nor counted, and a probe is given back."""
    breaker = opened(probes=1)
    clock.advance(60)
    throttle = AdaptiveThrottle("ses", max_wait=10)
    parts = resilient(retry=retry(on=Exception, backoff=[0]), breaker=breaker, throttle=throttle)
    flaky = Flaky(SlowDownError(100.0))
    with pytest.raises(RetryLater):
        do(parts, flaky)
    for _ in range(2):
        with pytest.raises(ThrottledError) as caught:
            do(parts, flaky)
        assert (caught.value.retry_after, getattr(caught.value, "__notes__", [])) == (100.0, [])
    assert (flaky.calls, breaker.state, breaker.retry_after) == (1, "half_open", 0.0)


@every_colour
def test_budget_is_asked_before_a_wait_and_not_after_the_last_attempt(do: Do, clock: ManualClock) -> None:
    """The purse of `resilient` is that of its retry."""
    budget = RetryBudget(capacity=1, floor=0)
    flaky = Flaky(*refused(9))
    with pytest.raises(ConnectionRefusedError, match="refused 2") as caught:
        do(resilient(retry=retry(on=OSError, attempts=9, backoff=[5]), budget=budget), flaky)
    assert (len(clock.sleeps), budget.denied) == (1, 1)
    assert "the retry budget is used up" in caught.value.__notes__[0]


@every_colour
def test_max_elapsed_bounds_the_whole_call(do: Do, clock: ManualClock) -> None:
    """The time that the function and the throttle take counts as well."""

    def slow() -> None:
        clock.advance(4)
        raise ConnectionRefusedError("down")

    with pytest.raises(ConnectionRefusedError) as caught:
        do(resilient(retry=retry(on=OSError, attempts=9, backoff=delays(2, jitter="none")), max_elapsed=15), slow)
    assert clock.sleeps == [2.0, 2.0]
    assert "would pass the limit of 15 s" in caught.value.__notes__[0]


@every_colour
@pytest.mark.parametrize("value", ["queued", None, 0, ["a list"]])
def test_fallback_value_is_returned_when_all_else_has_failed(do: Do, value: Any) -> None:
    """The value itself, also when it is nothing, after all attempts."""
    flaky = Flaky(*refused(3))
    assert do(resilient(retry=quick, fallback=value), flaky) is value
    assert flaky.calls == 3


@every_colour
def test_fallback_function_gets_the_last_error(do: Do) -> None:
    """With its notes; what it returns is the answer."""
    given: list[Exception] = []

    def answer(error: Exception) -> str:
        given.append(error)
        return "from the cache"

    assert do(resilient(retry=quick, fallback=answer), Flaky(*refused(3))) == "from the cache"
    (error,) = given
    assert (str(error), len(error.__notes__)) == ("refused 3", 1)


@every_colour
def test_fallback_answers_for_what_is_not_retried_and_for_refusals(do: Do) -> None:
    """It stands outside of all other parts."""
    for parts, errors in (
        (resilient(retry=quick, fallback=type), [LookupError("no")]),
        (resilient(breaker=opened(), fallback=type), []),
        (resilient(fallback=type), refused(1)),
    ):
        assert issubclass(do(parts, Flaky(*errors)), (LookupError, BreakerOpenError, ConnectionRefusedError))


@every_colour
def test_fallback_that_raises_has_its_error_leave(do: Do) -> None:
    """With the one it was called for behind it."""

    def answer(error: Exception) -> str:
        raise LookupError("not in the cache")

    with pytest.raises(LookupError, match="not in the cache") as caught:
        do(resilient(retry=quick, fallback=answer), Flaky(*refused(3)))
    assert str(caught.value.__context__) == "refused 3"


@every_colour
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_fallback_never_answers_for_an_interruption(do: Do, error: type[BaseException]) -> None:
    """That would swallow it."""
    breaker = CircuitBreaker("ses", failure_threshold=1)
    with pytest.raises(BaseException) as caught:
        do(resilient(retry=quick, breaker=breaker, fallback="no"), Flaky(error()))
    assert isinstance(caught.value, error)
    assert breaker.state == "closed"


@every_colour
def test_fallback_does_not_answer_for_work_that_is_put_off(do: Do) -> None:
    """`RetryLater` says that it is not over: the work goes to a retry queue."""
    with pytest.raises(RetryLater):
        do(resilient(retry=retry(EMAIL_MATRIX, max_inline_delay=0), fallback="no"), Flaky(*refused(1)))


@both_loops
def test_fallback_coroutine_function_is_awaited(runner: Runner) -> None:
    """In an asynchronous function; it may raise there too."""

    async def answer(error: Exception) -> str:
        if "1" in str(error):
            raise LookupError("not in the cache")
        return f"instead of {error}"

    call = resilient(fallback=answer)(AsyncFlaky(ConnectionResetError("2"), ConnectionResetError("1")))
    assert runner(call) == "instead of 2"
    with pytest.raises(LookupError):
        runner(call)


def test_fallback_coroutine_function_of_a_sync_function_is_refused() -> None:
    """Nobody could await it."""

    async def answer(error: Exception) -> str:
        return "no"

    with pytest.raises(ConfigurationError, match=r"the fallback of .* is a coroutine function"):
        resilient(fallback=answer)(Flaky())


def test_parts_shared_between_colours_are_one_state(clock: ManualClock) -> None:
    """What the synchronous function learns the asynchronous one knows, and they spend from one purse."""
    breaker = CircuitBreaker("ses", failure_threshold=4, recovery_timeout=delays(60, jitter="none"))
    budget, throttle = RetryBudget(capacity=10, floor=0), AdaptiveThrottle("ses")
    parts = resilient(retry=quick.but(attempts=2), breaker=breaker, budget=budget, throttle=throttle)
    flaky, async_flaky = Flaky(*refused(2)), AsyncFlaky(*refused(2))
    fetch, afetch = parts(flaky), parts(async_flaky)
    with pytest.raises(ConnectionRefusedError):
        fetch()
    assert (breaker.state, budget.tokens) == ("closed", 9.0)
    with pytest.raises(ConnectionRefusedError):
        run_asyncio(afetch)
    assert (breaker.state, budget.tokens) == ("open", 8.0)
    for call in (fetch, lambda: run_asyncio(afetch)):
        with pytest.raises(BreakerOpenError):
            call()
    clock.advance(60)
    assert (run_asyncio(afetch), fetch(), breaker.state) == ("answer", "answer", "closed")


def test_parts_may_also_be_used_alone() -> None:
    """A breaker that guards one function by itself and another in `resilient` is one breaker."""
    breaker = CircuitBreaker("ses", failure_threshold=2)
    with pytest.raises(ConnectionRefusedError):
        breaker(Flaky(*refused(1)))()
    with pytest.raises(ConnectionRefusedError):
        resilient(breaker=breaker)(Flaky(*refused(1)))()
    assert breaker.state == "open"


@both_loops
def test_cancelled_call_is_neutral(runner: Runner, clock: ManualClock) -> None:
    """A probe that is cancelled is given back, and the next call is one."""
    breaker = opened()
    clock.advance(60)

    @resilient(retry=quick, breaker=breaker, fallback="no")
    async def call() -> None:
        await hang(runner)

    cancel(runner, call)
    assert (breaker.state, breaker.retry_after) == ("half_open", 0.0)
    assert resilient(breaker=breaker)(Flaky())() == "answer"
    assert breaker.state == "closed"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"retry": EMAIL_MATRIX}, "retry is .*; allowed is retry(...)"),
        ({"retry": retry}, "retry is <class .*; allowed is retry(...)"),
        ({"retry": 3}, "retry is 3; allowed is retry(...), for example retry(on=OSError)"),
        ({"breaker": "ses"}, "breaker is 'ses'; allowed is a CircuitBreaker"),
        ({"throttle": 5}, "throttle is 5; allowed is a AdaptiveThrottle"),
        ({"budget": 0.2}, "budget is 0.2, which has no take and retried"),
        ({"retry": quick, "max_elapsed": -1}, "max_elapsed is -1"),
        ({"max_elapsed": 5}, "max_elapsed= bounds the waits between retries; it needs retry= as well"),
        (
            {"retry": quick.but(budget=RetryBudget()), "budget": RetryBudget()},
            "budget= is given to resilient() and to its retry; give it to one of them",
        ),
        (
            {"retry": quick.but(max_elapsed=5), "max_elapsed": 5},
            "max_elapsed= is given to resilient() and to its retry",
        ),
    ],
)
def test_resilient_settings_that_are_wrong_are_refused(settings: dict[str, Any], message: str) -> None:
    """At construction, with what is allowed."""
    with pytest.raises(ConfigurationError, match=re.escape(message).replace(r"\.\*", ".*")):
        resilient(**settings)


def test_budget_without_retries_is_fed() -> None:
    """A function that is not retried may still earn for those that are."""
    budget = RetryBudget(capacity=2, per_success=1, floor=0)
    assert budget.take()
    assert resilient(budget=budget)(Flaky())() == "answer"
    assert budget.tokens == 2.0
