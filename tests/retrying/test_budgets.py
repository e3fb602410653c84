"""A retry budget at work: who pays, who earns, and what a denied retry leaves."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from retrykit import EMAIL_MATRIX, ErrorClass, ErrorGroup, RetryBudget, TaggedError, retry
from retrykit.errors import ConfigurationError
from retrykit.events import Event
from retrykit.testing import ManualClock
from tests.colours import run_asyncio
from tests.retrying.flaky import AsyncFlaky, Do, Flaky, every_form, refused


def empty(**settings: Any) -> RetryBudget:
    """Return a budget that grants one retry and is then used up."""
    return RetryBudget(capacity=1, floor=0, **settings)


@every_form
def test_budget_that_is_used_up_denies_the_retry(do: Do, clock: ManualClock) -> None:
    """At once, without a wait: the error says so, listeners hear of it, and it is counted."""
    heard: list[Any] = []
    budget = empty()
    policy = retry(on=OSError, attempts=5, backoff=[3], budget=budget, on_event=[heard.append])
    flaky = Flaky(*refused(5))
    with pytest.raises(ConnectionRefusedError, match="refused 2") as caught:
        do(policy, flaky)
    assert (flaky.calls, len(clock.sleeps), budget.denied, budget.tokens) == (2, 1, 1, 0.0)
    assert caught.value.__notes__[0].endswith("was the last: connection_error, the retry budget is used up")
    assert [event.decision.action for event in heard] == ["retry", "dead_letter"]


@every_form
def test_budget_is_fed_by_successes(do: Do) -> None:
    """First ones and those after a retry bring the same; while it is full they bring nothing."""
    budget = RetryBudget(capacity=10, per_success=0.5, floor=0)
    policy = retry(on=OSError, backoff=[0], budget=budget)
    do(policy, Flaky())
    assert budget.tokens == 10.0
    do(policy, Flaky(*refused(2)))
    assert budget.tokens == 8.5
    do(policy, Flaky())
    assert budget.tokens == 9.0


@every_form
def test_budget_that_refunds_gives_the_last_retry_back(do: Do) -> None:
    """Two retries cost two, and the one that succeeded comes back."""
    budget = RetryBudget(capacity=10, per_success=0.5, refunds=True, floor=0)
    policy = retry(on=OSError, backoff=[0], budget=budget)
    do(policy, Flaky(*refused(2)))
    assert budget.tokens == 9.0
    with pytest.raises(ConnectionRefusedError):
        do(policy, Flaky(*refused(3)))
    assert budget.tokens == 7.0


@every_form
def test_budget_that_charges_every_failure_counts_those_that_are_not_retried(do: Do) -> None:
    """As gRPC's retry throttling: a failure costs a token, whatever follows."""
    budget = RetryBudget(capacity=10, cut_off=0.5, per_success=0.1, floor=0, charges_every_failure=True)
    policy = retry(on=OSError, attempts=3, backoff=[0], budget=budget)
    with pytest.raises(ConnectionRefusedError):
        do(policy, Flaky(*refused(3)))
    with pytest.raises(ValueError, match="no"):
        do(policy, Flaky(ValueError("no")))
    assert budget.tokens == 6.0


class ThrottledByProviderError(TaggedError):
    error_class = ErrorClass.PROVIDER_THROTTLED


@every_form
def test_budget_costs_go_by_class_before_group(do: Do) -> None:
    """What is not named costs one."""
    cost = {ErrorGroup.THROTTLING: 0.25, ErrorClass.NETWORK_TIMEOUT: 4, ErrorGroup.TRANSIENT_INFRASTRUCTURE: 2}
    budget = RetryBudget(capacity=10, per_success=0, cost=cost, floor=0)
    policy = retry(on=Exception, backoff=[0], budget=budget)
    for error, left in (
        (ThrottledByProviderError("x"), 9.75),
        (TimeoutError("x"), 5.75),
        (ConnectionRefusedError("x"), 3.75),
        (ValueError("x"), 2.75),
    ):
        do(policy, Flaky(error))
        assert budget.tokens == left


def test_budget_is_one_for_all_functions_and_colours() -> None:
    """Five functions, two of them asynchronous and one under a matrix, spend from one purse."""
    budget = RetryBudget(capacity=3, floor=0)
    policy = retry(on=OSError, backoff=[0], budget=budget)
    calls = 0
    for number in range(3):
        flaky = Flaky(*refused(9))
        with pytest.raises(ConnectionRefusedError):
            (policy if number else retry(EMAIL_MATRIX, budget=budget))(flaky)()
        calls += flaky.calls
    for _ in range(2):
        awaited = AsyncFlaky(*refused(9))
        call = policy(awaited)
        with pytest.raises(ConnectionRefusedError):
            run_asyncio(call)  # type: ignore[arg-type]
        calls += awaited.calls
    assert (calls, budget.tokens) == (5 + 3, 0.0)


def test_budget_floor_grants_so_many_a_second(clock: ManualClock) -> None:
    """An empty budget still lets a service with little traffic retry."""
    budget = RetryBudget(capacity=1, floor=2)
    policy = retry(on=OSError, attempts=99, backoff=[0], budget=budget)
    flaky = Flaky(*refused(99))
    with pytest.raises(ConnectionRefusedError):
        policy(flaky)()
    assert flaky.calls == 1 + 1 + 2
    clock.advance(0.5)
    flaky = Flaky(*refused(99))
    with pytest.raises(ConnectionRefusedError):
        policy(flaky)()
    assert flaky.calls == 2


@every_form
def test_budget_is_asked_within_the_other_limits(do: Do) -> None:
    """The last attempt, an error that is not retried and a wait past the time limit ask for nothing."""
    budget = RetryBudget(capacity=10, floor=0)
    for policy, errors in (
        (retry(on=OSError, attempts=1, budget=budget), refused(1)),
        (retry(on=LookupError, budget=budget), refused(1)),
        (retry(on=OSError, backoff=[60], max_elapsed=5, budget=budget), refused(1)),
    ):
        with pytest.raises(ConnectionRefusedError):
            do(policy, Flaky(*errors))
    assert (budget.tokens, budget.denied) == (10.0, 0)


def test_budget_under_threads_loses_nothing() -> None:
    """Eight threads of successes and failures: what was spent and earned adds up."""
    budget = RetryBudget(capacity=100_000, per_success=1, floor=0, clock=ManualClock())
    for _ in range(8 * 500):
        budget.take()
    before = budget.tokens
    policy = retry(on=OSError, backoff=[0], budget=budget, clock=ManualClock())
    barrier = threading.Barrier(8)

    def work() -> None:
        call = policy(lambda flaky: flaky())
        barrier.wait(30)
        for number in range(500):
            call(Flaky(*refused(number % 2)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.tokens == before + 8 * (500 - 250)


def test_budget_of_another_kind_is_refused() -> None:
    """At construction, not at the first failure."""
    with pytest.raises(ConfigurationError, match=r"budget is 0\.2, which has no take and retried"):
        retry(on=OSError, budget=0.2)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"idempotent": True}, "idempotent= is for the matrix form"),
        ({"classifier": print}, "classifier is <built-in function print>, which has no classify"),
        ({"clock": 5}, "clock is 5, which has no now"),
        ({"rng": 5}, "rng is 5, which has no random"),
    ],
)
def test_parts_of_another_kind_are_refused(settings: dict[str, Any], message: str) -> None:
    """The same for all others that only a failure would use."""
    with pytest.raises(ConfigurationError, match=message):
        retry(on=OSError, **settings)


def test_events_of_an_unlistened_budget_are_none() -> None:
    """A denied retry without a listener is only noted and counted."""
    heard: list[Event] = []
    budget = empty()
    with pytest.raises(ConnectionRefusedError):
        retry(on=OSError, backoff=[0], budget=budget)(Flaky(*refused(3)))()
    assert (heard, budget.denied) == ([], 1)
