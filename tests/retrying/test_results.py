"""`on_result`: a result that is not the one that was wanted is a reason to try again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from retrykit import RetryBudget, retry
from retrykit.errors import ConfigurationError
from retrykit.events import Event
from retrykit.policy import delays
from retrykit.retrying.combined import resilient
from retrykit.testing import ManualClock
from tests.retrying.flaky import Do, every_form_of_a_function


class Answers:
    """Gives one answer after the other; an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def is_none(result: object) -> bool:
    return result is None


@every_form_of_a_function
def test_result_that_is_unwanted_is_tried_again(do: Do, clock: ManualClock) -> None:
    """After the policy's waits, until it is the one that was wanted."""
    answers = Answers(None, None, "there", "never")
    policy = retry(on=OSError, on_result=is_none, backoff=delays(2, jitter="none"))
    assert do(policy, answers) == "there"
    assert (answers.calls, clock.sleeps) == (3, [2.0, 2.0])


@every_form_of_a_function
def test_result_is_looked_at_once(do: Do) -> None:
    """A predicate that counts, or that asks somebody, is asked once for each result."""
    seen: list[object] = []

    def predicate(result: object) -> bool:
        seen.append(result)
        return result != 3

    assert do(retry(on=OSError, on_result=predicate, backoff=[0]), Answers(1, 2, 3)) == 3
    assert seen == [1, 2, 3]


@every_form_of_a_function
def test_result_when_all_attempts_are_used_is_the_last_one(do: Do) -> None:
    """There is no error to raise."""
    answers = Answers("a", "b", "c")
    assert do(retry(on=OSError, on_result=lambda _: True, attempts=3, backoff=[0]), answers) == "c"
    assert answers.calls == 3


@every_form_of_a_function
def test_results_and_errors_share_the_attempts(do: Do) -> None:
    """An error after an unwanted result is the second attempt."""
    answers = Answers(None, OSError("down"), None, "never")
    assert do(retry(on=OSError, on_result=is_none, attempts=3, backoff=[0]), answers) is None
    assert answers.calls == 3
    with pytest.raises(OSError, match="down"):
        do(retry(on=OSError, on_result=is_none, attempts=2, backoff=[0]), Answers(None, OSError("down")))


@every_form_of_a_function
def test_result_events_tell_of_an_unknown_failure(do: Do) -> None:
    """Listeners hear of it as of a failed attempt, without the result itself."""
    heard: list[Event] = []
    policy = retry(on=OSError, on_result=is_none, attempts=2, backoff=[0], on_event=[heard.append])
    do(policy, Answers(None, None))
    told: list[Any] = heard
    assert [(event.attempt, event.failure.rule, event.failure.error_code) for event in told] == [
        (1, "retry.on_result", "NoneType"),
        (2, "retry.on_result", "NoneType"),
    ]
    assert [event.decision.action for event in told] == ["retry", "dead_letter"]


@every_form_of_a_function
def test_result_retries_are_paid_for(do: Do) -> None:
    """A budget that is used up ends them, and the result that is there is returned."""
    budget = RetryBudget(capacity=1, floor=0)
    answers = Answers("a", "b", "c")
    assert do(retry(on=OSError, on_result=lambda _: True, attempts=3, backoff=[0], budget=budget), answers) == "b"
    assert (answers.calls, budget.denied, budget.tokens) == (2, 1, 0.0)


@every_form_of_a_function
def test_result_predicate_that_fails_leaves_at_once(do: Do) -> None:
    """Its error is the caller's, at the first result and at a later one, and nothing of the call is left."""

    def predicate(result: object) -> bool:
        if result == "odd":
            raise LookupError("a bug in the predicate")
        return True

    for answers in (Answers("odd"), Answers("even", "odd")):
        policy = retry(on=OSError, on_result=predicate, backoff=[0])
        with pytest.raises(LookupError):
            do(policy, answers)
        assert (answers.answers, policy.current.number) == ([], 1)


@every_form_of_a_function
def test_result_under_a_time_limit_is_returned(do: Do, clock: ManualClock) -> None:
    """No wait begins that would end after the limit."""
    policy = retry(on=OSError, on_result=is_none, attempts=9, backoff=delays(4, jitter="none"), max_elapsed=10)
    assert do(policy, Answers(*[None] * 9)) is None
    assert clock.sleeps == [4.0, 4.0]


def test_result_of_a_resilient_function_is_tried_again() -> None:
    """The fused parts do the same, and a fallback is for errors only."""
    answers = Answers(None, "there")
    assert resilient(retry=retry(on=OSError, on_result=is_none, backoff=[0]), fallback="no").call(answers) == "there"
    answers = Answers(None, None, None)
    assert resilient(retry=retry(on=OSError, on_result=is_none, backoff=[0]), fallback="no").call(answers) is None


def test_on_result_that_is_no_function_is_refused() -> None:
    """At construction."""
    with pytest.raises(ConfigurationError, match="on_result is 5"):
        retry(on=OSError, on_result=5)  # type: ignore[call-overload]


def test_on_result_of_a_generator_function_is_refused() -> None:
    """Items are no result."""

    def items() -> Any:
        yield 1

    policy: Callable[..., Any] = retry(on=OSError, on_result=is_none, generators="restart")
    with pytest.raises(ConfigurationError, match="looks at the result of a function"):
        policy(items)
