"""Jitters: what is drawn for which number, and the moments of many draws; the chain of the decorrelated backoff."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.policy import constant, decorrelated, delays, exponential, linear, plus_minus, upward
from retrykit.policy.backoff import Jitter, as_jitter
from tests.policy.strategies import HIGHEST, Fixed, jitters

DRAWS = 20_000


@pytest.mark.parametrize(
    ("jitter", "low", "middle", "high"),
    [
        ("none", 8, 8, 8),
        ("full", 0, 4, 8),
        ("equal", 4, 6, 8),
        ("quarter", 8, 9, 10),
        (plus_minus(0.25), 6, 8, 10),
        (plus_minus(0), 8, 8, 8),
        (plus_minus(1), 0, 8, 16),
        (upward(0.5), 8, 10, 12),
        (upward(1), 8, 12, 16),
    ],
)
def test_draw_goes_evenly_from_the_smallest_to_the_largest_wait(jitter, low, middle, high):
    """The lowest, the middle and the highest number of the source, for a wait of eight seconds."""
    backoff = constant(8, jitter=jitter)
    assert (low, high) == backoff.bounds(1)
    assert [low, middle, pytest.approx(high)] == [backoff.delay(1, Fixed(number)) for number in (0.0, 0.5, HIGHEST)]


@pytest.mark.parametrize(
    ("jitter", "mean", "variance"),
    [
        ("full", 1 / 2, 1 / 12),
        ("equal", 3 / 4, 1 / 48),
        (plus_minus(0.2), 1, 0.2**2 / 3),
        (plus_minus(0.5), 1, 0.5**2 / 3),
        (upward(0.1), 1 + 0.1 / 2, 0.1**2 / 12),
        (upward(0.5), 1 + 0.5 / 2, 0.5**2 / 12),
    ],
)
def test_draws_have_the_moments_of_their_distribution(jitter, mean, variance):
    """Mean within 1 % and variance within 3 % of the even distribution's, over 20,000 draws of a wait of 100 s."""
    backoff, rng = constant(100, jitter=jitter), random.Random(2026)
    draws = [backoff.delay(1, rng) for _ in range(DRAWS)]
    assert pytest.approx(100 * mean, rel=0.01) == statistics.fmean(draws)
    assert pytest.approx(100**2 * variance, rel=0.03) == statistics.variance(draws)


def test_quarter_draws_each_whole_second_equally_often():
    """A quarter of 40 s: 0 to 10 whole seconds, each in a share of 1/11 of the draws."""
    backoff, rng = constant(40, jitter="quarter"), random.Random(2026)
    draws = [backoff.delay(1, rng) - 40 for _ in range(11 * 2000)]
    assert {float(step) for step in range(11)} == set(draws)
    assert pytest.approx(2000, rel=0.1) == min(map(draws.count, set(draws)))
    assert pytest.approx(2000, rel=0.1) == max(map(draws.count, set(draws)))


@pytest.mark.parametrize(
    ("retry", "mean"),
    list(enumerate([0.200, 0.350, 0.575, 0.911, 1.410, 2.02, 2.62, 3.15], 1)),
)
def test_decorrelated_chain_has_the_published_means(retry, mean):
    """Base 0.1 s, cap 10 s; each wait drawn from the one before, within 2 % over 20,000 chains."""
    backoff, rng = decorrelated(0.1, cap=10), random.Random(2026)
    total = 0.0
    for _ in range(DRAWS):
        previous = None
        for number in range(1, retry + 1):
            previous = backoff.delay(number, rng, previous=previous)
        total += previous
    assert pytest.approx(mean, rel=0.02) == total / DRAWS


def test_decorrelated_without_the_wait_before_has_the_mean_of_the_chain():
    """Drawn on its own, retry four has the mean that the chain would have, within 2 %, where no cap cuts it."""
    backoff, rng = decorrelated(0.1, cap=1000), random.Random(2026)
    assert pytest.approx(0.9125) == backoff.rung(4)
    assert pytest.approx(0.9125, rel=0.02) == statistics.fmean(backoff.delay(4, rng) for _ in range(DRAWS))


@pytest.mark.parametrize(
    ("retry", "previous", "low", "high"),
    [
        (1, None, 1, 3),
        (1, 3600, 1, 3),
        (2, None, 1, 6),
        (2, 3, 1, 9),
        (2, 1.5, 1, 4.5),
        (2, 0, 1, 3),
        (2, 3600, 1, 9),
        (3, 7, 1, 20),
        (9, 20, 1, 20),
    ],
)
def test_decorrelated_draws_from_the_base_to_three_times_the_wait_before(retry, previous, low, high):
    """Up to the cap; a wait that a Retry-After lengthened, or one of another policy, does not lead out of the chain."""
    backoff = decorrelated(1, cap=20)
    assert low == backoff.delay(retry, Fixed(0.0), previous=previous)
    assert pytest.approx(high) == backoff.delay(retry, Fixed(HIGHEST), previous=previous)
    assert high <= backoff.bounds(retry)[1]


@pytest.mark.parametrize(
    ("expected", "backoff"),
    [
        ([0.6, 5.03, 10.24, 34.4, 8.21, 35.73], exponential(5, cap="1h", jitter="full")),
        ([2.8, 7.51, 15.12, 37.2, 44.11, 97.86], exponential(5, cap="1h", jitter="equal")),
        ([4.62, 10.01, 20.05, 42.88, 73.64, 151.15], exponential(5, cap="1h", jitter=plus_minus(0.1))),
        ([1.19, 7.54, 10.24, 21.5, 3.08, 7.81], linear(10, step=5, jitter="full")),
        ([1.24, 2.36, 4.12, 10.77, 4.21, 3.6], decorrelated(1, cap=60)),
    ],
)
def test_delay_drawn_with_a_seed_is_a_fixed_number(expected, backoff):
    """The same seed gives the same story on every Python: only `random()` is asked, whose sequence is guaranteed."""
    rng, drawn = random.Random(2026), []
    for retry in range(1, 7):
        drawn.append(backoff.delay(retry, rng, previous=drawn[-1] if drawn else None))
    assert expected == [round(delay, 2) for delay in drawn]


@given(jitters, st.floats(0, 1e9), st.floats(0, HIGHEST))
def test_every_draw_lies_within_the_bounds(jitter, wait, number):
    """Whatever the jitter, the wait and the number drawn."""
    jitter = as_jitter(jitter)
    low, high = jitter.bounds(wait)
    assert low <= jitter.draw(wait, Fixed(number)) <= high
    assert wait == jitter.draw(wait, None)


@pytest.mark.parametrize(
    ("only_adds", "jitter"),
    [
        (True, "none"),
        (True, "quarter"),
        (True, upward(0.5)),
        (True, plus_minus(0)),
        (False, "full"),
        (False, "equal"),
        (False, plus_minus(0.1)),
    ],
)
def test_only_adds_tells_which_jitters_suit_a_queue(only_adds, jitter):
    """A queue must not be early; a caller in its own process may be."""
    assert only_adds is as_jitter(jitter).only_adds


@pytest.mark.parametrize("name", ["none", "full", "equal", "quarter"])
def test_named_jitter_is_one_value(name):
    """Equal by value, and taken as it is."""
    jitter = as_jitter(name)
    assert as_jitter(jitter) is jitter
    assert delays(1, jitter=name) == delays(1, jitter=jitter)
    assert (name, True) == (jitter.name, isinstance(jitter, Jitter))
