"""The retry budget as an object: what it costs, brings and grants."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit import ErrorClass, ErrorGroup, Failure, Outcome, RetryBudget
from retrykit.errors import ConfigurationError
from retrykit.testing import ManualClock


def failure(error_class: ErrorClass) -> Failure:
    return Failure(error_class=error_class, outcome=Outcome.NOT_SENT)


def test_budget_begins_full_and_hands_out_what_it_holds() -> None:
    """A hundred retries at once, and then one a second."""
    budget = RetryBudget()
    assert budget.tokens == 100.0
    assert [budget.take() for _ in range(102)] == [True] * 101 + [False]
    assert (budget.tokens, budget.denied) == (0.0, 1)


def test_budget_default_lets_a_tenth_be_retries(clock: ManualClock) -> None:
    """Once the burst is used up, a thousand successes pay for a hundred retries."""
    budget = RetryBudget(floor=0)
    while budget.take():
        pass
    for _ in range(1000):
        assert budget.note is not None
        budget.note()
    assert [budget.take() for _ in range(101)] == [True] * 100 + [False]


def test_budget_full_one_wants_to_hear_of_no_success() -> None:
    """That is what makes a success cost nothing."""
    budget = RetryBudget(capacity=1, per_success=0.5, floor=0)
    assert budget.note is None
    assert budget.take()
    for _ in range(2):
        assert budget.note is not None
        budget.note()
    assert budget.tokens == 1.0
    assert budget.note is None


def test_budget_cost_goes_by_class_then_group_then_one() -> None:
    """Without a failure it is one."""
    budget = RetryBudget(cost={ErrorGroup.THROTTLING: 0.5, ErrorClass.NETWORK_TIMEOUT: 3})
    assert [
        budget.cost_of(each)
        for each in (
            failure(ErrorClass.PROVIDER_THROTTLED),
            failure(ErrorClass.NETWORK_TIMEOUT),
            failure(ErrorClass.CONNECTION_ERROR),
            None,
        )
    ] == [500, 3000, 1000, 1000]
    assert RetryBudget(cost=2).cost_of(failure(ErrorClass.NETWORK_TIMEOUT)) == 2000


def test_budget_fractions_are_exact() -> None:
    """Ten times a tenth is one: no sum of floats decides."""
    budget = RetryBudget(capacity=1, per_success=0.1, floor=0)
    assert budget.take()
    for number in range(10):
        assert not budget.take(), number
        assert budget.note is not None
        budget.note()
    assert budget.take()


def test_budget_cut_off_holds_back_its_share() -> None:
    """Half of ten is never handed out."""
    budget = RetryBudget(capacity=10, cut_off=0.5, floor=0)
    assert [budget.take() for _ in range(6)] == [True] * 5 + [False]


def test_budget_floor_is_fed_by_time(clock: ManualClock) -> None:
    """Two a second whatever it holds; what is saved up is at most those of a second."""
    budget = RetryBudget(capacity=0.001, floor=2)
    assert [budget.take() for _ in range(3)] == [True, True, False]
    clock.advance(0.5)
    assert [budget.take() for _ in range(2)] == [True, False]
    clock.advance("1h")
    assert [budget.take() for _ in range(3)] == [True, True, False]


def test_budget_own_clock_goes_before_the_one_in_force(clock: ManualClock) -> None:
    """Its floor is fed by that."""
    own = ManualClock()
    budget = RetryBudget(capacity=0.001, floor=1, clock=own)
    assert [budget.take(), budget.take()] == [True, False]
    clock.advance("1h")
    assert not budget.take()
    own.advance(1)
    assert budget.take()


@given(
    st.lists(st.sampled_from(["take", "note", "failed", "retried"]), max_size=80),
    st.sampled_from([0.1, 0.5, 2.0]),
    st.booleans(),
)
def test_budget_never_grants_more_than_was_earned(steps: list[str], per_success: float, refunds: bool) -> None:
    """Retries granted without a floor are at most the capacity and what came in."""
    budget = RetryBudget(capacity=5, per_success=per_success, refunds=refunds, floor=0, clock=ManualClock())
    granted, earned = 0, 0.0
    for step in steps:
        if step == "take":
            granted += budget.take()
        elif step == "note":
            if budget.note is not None:
                budget.note()
                earned += per_success
        elif step == "retried":
            budget.retried()
            earned += 1.0 if refunds else per_success
        else:
            budget.failed()
        assert granted <= 5 + earned + 1e-9
        assert 0 <= budget.tokens <= 5


def test_budget_under_threads_counts_every_success() -> None:
    """A tally without a lock loses nothing, and a fold in the middle counts nothing twice."""
    budget = RetryBudget(capacity=1_000_000, per_success=1, floor=0)
    while budget.tokens > 900_000:
        for _ in range(100_000):
            budget.take()
    before = budget.tokens
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait(30)
        for number in range(5_000):
            note = budget.note
            assert note is not None
            note()
            if number % 500 == 0:
                assert budget.tokens >= before

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.tokens == before + 8 * 5_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *itertools.product(["capacity", "cost"], [0, -1, 0.0001, float("nan"), float("inf"), "5", None, True]),
        *itertools.product(["per_success", "floor", "cut_off"], [-0.1, float("nan"), float("inf"), "5", None, True]),
        ("capacity", 1e10),
        ("cut_off", 1),
        ("cut_off", 1.5),
    ],
)
def test_budget_numbers_out_of_range_are_refused(name: str, value: Any) -> None:
    """Zero, negative, not a number, infinite, text and nothing."""
    settings: dict[str, Any] = {name: value}
    with pytest.raises(ConfigurationError, match=f"{name} is "):
        RetryBudget(**settings)


@pytest.mark.parametrize("value", [0, -1, float("nan"), "1"])
def test_budget_cost_of_a_class_out_of_range_is_refused(value: Any) -> None:
    """With the class."""
    with pytest.raises(ConfigurationError, match="the cost of network_timeout is"):
        RetryBudget(cost={ErrorClass.NETWORK_TIMEOUT: value})


def test_budget_cost_of_something_else_is_refused() -> None:
    """A cost that could never apply is a typing error."""
    with pytest.raises(ConfigurationError, match="a cost is given for 'network_timeot'"):
        RetryBudget(cost={"network_timeot": 1})  # type: ignore[dict-item]
