"""The error that leaves: itself, with a note, and nothing of the call stays in memory."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import pytest

from retrykit import (
    EMAIL_MATRIX,
    CircuitBreaker,
    ErrorClass,
    ErrorClassifier,
    Outcome,
    RetryBudget,
    RetryLater,
    RetryPolicy,
    TaggedError,
    retry,
)
from retrykit.errors import BreakerOpenError
from retrykit.events import Event
from retrykit.failover import Failover
from retrykit.policy import PolicyMatrix
from retrykit.retrying.combined import resilient
from retrykit.testing import ManualClock
from retrykit.throttle import AdaptiveThrottle
from tests.colours import Runner, both_loops
from tests.retrying.flaky import (
    Do,
    Flaky,
    OwnError,
    called,
    decorated,
    every_form,
    every_form_of_a_function,
    in_block,
    no_collector,
    refused,
)


class Argument:
    """Something that a weak reference may point to."""


POLICIES: dict[str, Any] = {
    "plain": lambda: retry(on=OSError, attempts=2, backoff=[0]),
    "with listener": lambda: retry(on=OSError, attempts=2, backoff=[0], on_event=[lambda _: None]),
    "with budget": lambda: retry(on=OSError, attempts=2, backoff=[0], budget=RetryBudget()),
    "with time limit": lambda: retry(on=OSError, attempts=2, backoff=[0], max_elapsed=5),
    "matrix": lambda: retry(EMAIL_MATRIX),
    "handed over": lambda: retry(EMAIL_MATRIX, max_inline_delay=0),
    "suppressing": lambda: retry(on=OSError, attempts=2, backoff=[0], suppress_nested=True),
}

every_policy = pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES.keys())


def failing(kept: list[weakref.ref[Any]]) -> Any:
    """Return a function that fails, and notes what it was called with and what it raised."""

    def fail(argument: Argument) -> None:
        kept.append(weakref.ref(argument))
        error = OwnError("down")
        kept.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    return lambda: fail(Argument())


@pytest.mark.parametrize("do", [decorated, called, in_block])
@every_policy
def test_error_and_arguments_are_freed_without_the_collector(do: Do, make: Any) -> None:
    """Errors that were retried, the one that left, and what the function was called with are in no cycle."""
    kept: list[weakref.ref[Any]] = []
    with no_collector():
        try:
            do(make(), failing(kept))
        except (OwnError, RetryLater) as error:
            kept.append(weakref.ref(error))
        assert [reference() for reference in kept] == [None] * len(kept)
    assert len(kept) >= 3


@both_loops
@pytest.mark.parametrize("form", ["decorated", "block"])
@every_policy
def test_async_error_and_arguments_are_freed_without_the_collector(runner: Runner, form: str, make: Any) -> None:
    """The same within one task; what a loop makes of an error that leaves it is the loop's."""
    kept: list[weakref.ref[Any]] = []
    fail, policy = failing(kept), make()

    async def awaited() -> None:
        fail()

    async def block() -> None:
        async for attempt in policy:
            with attempt:
                await awaited()

    async def main() -> None:
        try:
            await (policy(awaited)() if form == "decorated" else block())
        except (OwnError, RetryLater) as error:
            kept.append(weakref.ref(error))
        assert [reference() for reference in kept] == [None] * len(kept)

    with no_collector():
        runner(main)
    assert len(kept) >= 3


def guards() -> dict[str, Any]:
    return {
        "breaker": CircuitBreaker("ses"),
        "throttle": AdaptiveThrottle("ses"),
        "resilient": resilient(
            retry=retry(on=OSError, attempts=2, backoff=[0]),
            breaker=CircuitBreaker("ses"),
            throttle=AdaptiveThrottle("ses"),
            budget=RetryBudget(),
        ),
        "failover": lambda fn: Failover({"ses": fn, "backup": fn}),
    }


@pytest.mark.parametrize("name", guards())
def test_error_of_other_parts_is_freed_without_the_collector(name: str) -> None:
    """Breaker, throttle, failover and all of them together keep no error alive."""

    def fail() -> None:
        raise OwnError("down")

    call = guards()[name](fail)
    with no_collector():
        try:
            call()
        except OwnError as error:
            kept = weakref.ref(error)
        assert kept() is None


def test_error_of_a_stopped_block_is_freed_without_the_collector() -> None:
    """It is raised by the loop, not by the block."""
    stop = threading.Event()
    stop.set()

    def run() -> None:
        for attempt in retry(on=OSError, backoff=[5], stop=stop):
            with attempt:
                raise OwnError("down")

    with no_collector():
        try:
            run()
        except OwnError as error:
            kept = weakref.ref(error)
        assert kept() is None


@every_form
def test_error_that_was_retried_is_freed_before_the_next_attempt(do: Do) -> None:
    """A long series of attempts does not pile up the errors of all of them."""
    kept: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def fetch() -> str:
        alive.append(sum(reference() is not None for reference in kept))
        if len(kept) == 4:
            return "answer"
        error = OwnError("down")
        kept.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    with no_collector():
        assert do(retry(on=OSError, attempts=9, backoff=[0]), fetch) == "answer"
    assert alive == [0] * 5


@every_form
def test_error_keeps_its_own_cause_and_context(do: Do) -> None:
    """What the function said about the cause is not overwritten."""

    def fail() -> None:
        try:
            raise LookupError("why")
        except LookupError as reason:
            raise ConnectionResetError("down") from reason

    with pytest.raises(ConnectionResetError) as caught:
        do(retry(on=OSError, attempts=3, backoff=[0]), fail)
    assert isinstance(caught.value.__cause__, LookupError)
    assert caught.value.__context__ is caught.value.__cause__
    assert caught.value.__cause__.__context__ is None


@every_form
def test_error_raised_again_and_again_stays_as_it_is(do: Do) -> None:
    """One object, raised by every attempt of many calls: no cause of its own, and each note once."""
    error = ConnectionResetError("down")

    def fail() -> None:
        raise error

    for _ in range(3):
        with pytest.raises(ConnectionResetError):
            do(retry(on=OSError, attempts=2, backoff=[0]), fail)
    assert (error.__cause__, error.__context__, len(error.__notes__)) == (None, None, 1)


@every_form_of_a_function
def test_error_within_a_handler_has_the_callers_context(do: Do) -> None:
    """What was being handled outside of the call is still the context of what fails inside."""
    outside = LookupError("outside")
    try:
        raise outside
    except LookupError:
        with pytest.raises(ConnectionRefusedError) as caught:
            do(retry(on=OSError, attempts=2, backoff=[0]), Flaky(*refused(2)))
    assert caught.value.__context__ in (outside, None)


def test_error_of_an_interrupted_wait_is_the_interruption() -> None:
    """Ctrl-C while it waits leaves as such, and is not noted."""

    class Interrupted(ManualClock):
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    policy = retry(on=OSError, backoff=[5], clock=Interrupted())
    with pytest.raises(KeyboardInterrupt) as caught:
        policy(Flaky(*refused(1)))()
    assert getattr(caught.value, "__notes__", []) == []
    assert policy.current.number == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_interruption_in_a_later_attempt_of_all_parts_costs_nothing(error: BaseException) -> None:
    """Neither breaker nor budget nor listener hears of it, and no fallback answers for it."""
    heard: list[Event] = []
    budget, breaker = RetryBudget(capacity=5, floor=0), CircuitBreaker("ses", failure_threshold=2)
    call = resilient(
        retry=retry(on=OSError, backoff=[0], on_event=[heard.append]), budget=budget, breaker=breaker, fallback="no"
    )(Flaky(*refused(1), error))
    with pytest.raises(type(error)) as caught:
        call()
    assert caught.value is error
    assert (len(heard), budget.tokens, breaker.counted[1], breaker.state) == (1, 4.0, 1, "closed")


def test_group_with_an_interruption_is_no_failure() -> None:
    """A group that holds a cancellation is no `Exception`."""
    flaky = Flaky(BaseExceptionGroup("both", [KeyboardInterrupt(), OSError()]))
    with pytest.raises(BaseExceptionGroup):
        retry(on=Exception, backoff=[0])(flaky)()
    assert flaky.calls == 1


class AnswersError(TaggedError):
    """A provider that has certainly not done it."""

    error_class = ErrorClass.PROVIDER_UNAVAILABLE
    outcome = Outcome.REJECTED


@every_form
@pytest.mark.parametrize(
    ("errors", "outcome"),
    [
        ([TimeoutError("late"), ConnectionRefusedError("down")], Outcome.UNKNOWN),
        ([TimeoutError("late"), ConnectionRefusedError("down"), AnswersError("503")], Outcome.UNKNOWN),
        ([TimeoutError("late"), ValueError("a bug")], Outcome.UNKNOWN),
        ([ConnectionRefusedError("down"), ConnectionRefusedError("down")], Outcome.NOT_SENT),
        ([ConnectionRefusedError("down"), AnswersError("503")], Outcome.REJECTED),
        ([ConnectionRefusedError("down"), TimeoutError("late")], Outcome.UNKNOWN),
    ],
)
@pytest.mark.parametrize("listeners", [[], [lambda _: None]], ids=["glanced", "looked"])
def test_error_after_an_attempt_that_may_have_had_its_effect_is_unsure(
    do: Do, errors: list[Exception], outcome: Outcome, listeners: list[Any]
) -> None:
    """Whoever may repeat a call here has not said that another provider may: what the last attempt says is not all."""
    flaky = Flaky(*[fresh(error) for error in errors])
    policy = retry(on=(OSError, AnswersError), attempts=len(errors), backoff=[0], on_event=listeners)
    with pytest.raises(type(errors[-1])) as caught:
        do(policy, flaky)
    assert ErrorClassifier().classify(caught.value, stage="send").outcome is outcome
    before_the_send = ErrorClassifier().classify(caught.value, stage="render").outcome
    assert before_the_send is (Outcome.REJECTED if isinstance(caught.value, AnswersError) else Outcome.NOT_SENT)


def fresh(error: Exception) -> Exception:
    """Return an error of the same kind that was never raised."""
    return type(error)(*error.args)


@every_form
def test_signal_after_an_attempt_that_may_have_had_its_effect_is_unsure(do: Do) -> None:
    """A refusal of a later attempt, and work that is put off."""
    classify = ErrorClassifier().classify
    with pytest.raises(BreakerOpenError) as refusal:
        do(retry(on=OSError, backoff=[0]), Flaky(TimeoutError("late"), BreakerOpenError("ses", 5.0)))
    assert classify(refusal.value).outcome is Outcome.UNKNOWN
    matrix = PolicyMatrix(
        {
            ErrorClass.NETWORK_TIMEOUT: RetryPolicy(max_retries=2, backoff=[0]),
            ErrorClass.CONNECTION_ERROR: RetryPolicy(max_retries=2, backoff=["10m"]),
        }
    )
    with pytest.raises(RetryLater) as later:
        do(retry(matrix, idempotent=True), Flaky(TimeoutError("late"), ConnectionRefusedError("down")))
    assert (later.value.failure.outcome, classify(later.value).outcome) == (Outcome.UNKNOWN, Outcome.UNKNOWN)


def test_failover_does_not_go_on_after_an_attempt_that_may_have_had_its_effect() -> None:
    """Neither after a last attempt that was certainly not sent, nor after a refusal."""
    for last in (ConnectionRefusedError("down"), BreakerOpenError("inner", 5.0)):
        inner = retry(on=OSError, attempts=2, backoff=[0])(Flaky(TimeoutError("late"), last))
        backup = Flaky()
        with pytest.raises(type(last)):
            Failover({"ses": inner, "backup": backup})()
        assert backup.calls == 0
