"""`fit`: a ladder that uses up a window."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.policy import fit, upward
from retrykit.policy.backoff import MAX_DELAY


def longest(ladder):
    """Return the sum of the waits with the largest jitter."""
    return sum(ladder.bounds(retry)[1] for retry in range(1, len(ladder.rungs) + 1))


@pytest.mark.parametrize(
    ("weights", "tries", "factor"),
    [
        ([1], 2, 2.0),
        ([1, 2, 4], 4, 2.0),
        ([1, 1, 1, 1], 5, 1),
        ([1, 3, 9], 4, 3),
        ([4, 2, 1], 4, 0.5),
    ],
)
def test_fit_divides_the_window_by_the_factor(weights, tries, factor):
    """Of an hour, eleven parts in ten are kept for the jitter."""
    ladder = fit(tries, "1h", factor=factor)
    expected = [weight * 3600 / 1.1 / sum(weights) for weight in weights]
    assert pytest.approx(expected) == list(ladder.rungs)
    assert upward(0.1) == ladder.jitter


@given(st.integers(2, 1000), st.floats(1e-3, 1e7), st.floats(1e-6, 1e6))
def test_fit_uses_up_the_window_and_never_passes_it(tries, window, factor):
    """The largest waits add up to the window, to nine digits, from below."""
    ladder = fit(tries, window, factor=factor)
    assert tries - 1 == len(ladder.rungs)
    assert window * (1 - 1e-9) <= longest(ladder) <= window
    assert math.fsum(ladder.rungs) <= window


@pytest.mark.parametrize("factor", [5e-324, 1e-300, 1e300, 1.7e308, pytest.param(10**400, id="huge")])
def test_fit_with_an_extreme_factor_overflows_nothing(factor):
    """One wait takes it all."""
    ladder = fit(1000, "1d", factor=factor)
    assert pytest.approx(86400 / 1.1) == max(ladder.rungs)
    assert longest(ladder) <= 86400


def test_fit_of_a_window_longer_than_any_wait_stays_below_it():
    """No wait is longer than the longest allowed, so one try does not use up a thousand years."""
    assert MAX_DELAY == longest(fit(2, "1000d"))
