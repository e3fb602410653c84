"""The purse of the retry budget: exact sums, bounds, the cut-off and the floor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.machines.budget import Tokens, thousandths

STEPS = st.lists(st.tuples(st.sampled_from(["succeeded", "give", "take", "failed"]), st.integers(0, 5000)))


@pytest.mark.parametrize(
    ("value", "expected"), [(1, 1000), (0.1, 100), (0.0005, 0), (0.001, 1), (0.29, 290), (1.0019, 1001), (4.35, 4350)]
)
def test_thousandths_are_cut_to_three_decimals(value: float, expected: int) -> None:
    """What a float falls short by is not cut off; what is smaller than a thousandth is."""
    assert expected == thousandths(value)


def test_tokens_begin_full_and_stay_below_the_capacity() -> None:
    """Successes bring tokens up to the capacity and no further."""
    tokens = Tokens(2000, 100)
    tokens.succeeded(5)
    assert 2000 == tokens.held
    assert tokens.take(1000, 0.0)
    tokens.succeeded(9)
    assert 1900 == tokens.held
    tokens.give(5000)
    assert 2000 == tokens.held


def test_tokens_too_few_deny_and_cost_nothing() -> None:
    """A denied retry is not paid for."""
    tokens = Tokens(1500, 100)
    assert [True, False, False] == [tokens.take(1000, 0.0) for _ in range(3)]
    assert 500 == tokens.held


def test_tokens_of_a_cut_off_are_never_handed_out() -> None:
    """What is left after a retry is at least the cut-off."""
    tokens = Tokens(3000, 100, cut_off=1000)
    assert [True, True, False] == [tokens.take(1000, 0.0) for _ in range(3)]
    assert 1000 == tokens.held


def test_tokens_failure_without_a_retry_costs_nothing_unless_told() -> None:
    """Only a budget that charges every failure takes note of one that is not retried."""
    plain, strict = Tokens(3000, 100), Tokens(3000, 100, charges_every_failure=True)
    plain.failed(1000)
    strict.failed(1000)
    assert (3000, 2000) == (plain.held, strict.held)
    strict.failed(9000)
    assert 0 == strict.held


def test_tokens_charging_every_failure_pay_also_for_denied_retries() -> None:
    """As gRPC counts: first the failure is charged, then the rest is compared with the cut-off."""
    tokens = Tokens(4000, 800, cut_off=2000, charges_every_failure=True)
    assert [(True, 3000), (False, 2000), (False, 1000), (False, 0), (False, 0)] == [
        (tokens.take(1000, 0.0), tokens.held) for _ in range(5)
    ]


@given(st.integers(0, 10_000), st.integers(0, 500), st.integers(0, 9_000), st.booleans(), STEPS)
def test_tokens_never_leave_their_bounds(
    capacity: int, per_success: int, cut_off: int, charges: bool, steps: list[tuple[str, int]]
) -> None:
    """Whatever happens, it holds whole tokens between none and its capacity, and a granted retry never cuts below the cut-off."""
    tokens = Tokens(capacity, per_success, cut_off=cut_off, charges_every_failure=charges)
    for step, number in steps:
        before = tokens.held
        if step == "take":
            granted = tokens.take(number, 0.0)
            assert granted is (max(0, before - number) > cut_off if charges else before - number >= cut_off)
        else:
            getattr(tokens, step)(number)
        assert 0 <= tokens.held <= capacity
        assert type(tokens.held) is int


def test_tokens_floor_grants_one_retry_a_second_while_empty() -> None:
    """A service with little traffic is never left without retries."""
    tokens = Tokens(1000, 0, floor=1.0)
    seconds = [0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.0]
    assert [True, True, False, True, False, True, False] == [tokens.take(1000, now) for now in seconds]


def test_tokens_floor_saves_up_one_second_at_the_most() -> None:
    """A quiet hour brings no burst."""
    tokens = Tokens(1, 0, floor=3.0)
    assert [True] * 3 + [False] == [tokens.take(1000, 0.0) for _ in range(4)]
    assert [True] * 3 + [False] == [tokens.take(1000, 3600.0) for _ in range(4)]


def test_tokens_floor_below_one_a_second_saves_up_a_whole_retry() -> None:
    """A tenth of a retry a second is one each ten seconds, the first at once."""
    tokens = Tokens(1, 0, floor=0.1)
    assert [0.0, 10.0, 20.0, 30.0] == [now / 10 for now in range(400) if tokens.take(1000, now / 10)]


def test_tokens_floor_is_not_fed_by_a_clock_that_goes_back() -> None:
    """Time that is lived twice brings nothing the first time it comes back."""
    tokens = Tokens(1, 0, floor=1.0)
    assert tokens.take(1000, 100.0)
    assert not tokens.take(1000, 50.0)
    assert tokens.take(1000, 51.0)


@given(st.lists(st.integers(0, 3000), max_size=200), st.floats(0.05, 20.0))
def test_tokens_floor_is_never_exceeded(gaps: list[int], floor: float) -> None:
    """Over any time there are at most the saved-up ones and `floor` a second."""
    tokens = Tokens(1, 0, floor=floor)
    now = granted = 0.0
    for gap in gaps:
        now += gap / 1000
        granted += tokens.take(1000, now)
        assert granted <= max(1.0, floor) + now * floor + 1e-6
