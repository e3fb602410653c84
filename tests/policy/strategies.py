"""Hypothesis strategies for backoffs, policies and matrices, and the sources of randomness of the tests beside them."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from retrykit.decision import Action
from retrykit.failure import ErrorGroup
from retrykit.policy import (
    PolicyMatrix,
    RetryPolicy,
    constant,
    decorrelated,
    delays,
    exponential,
    linear,
    plus_minus,
    upward,
)
from retrykit.testing.strategies import error_classes

HIGHEST = math.nextafter(1.0, 0.0)
"""The largest number that a source of randomness gives."""


class Fixed:
    """A source of randomness that says these numbers in turn, and the last one for ever."""

    def __init__(self, *numbers):
        self._numbers = list(numbers)

    def random(self):
        return self._numbers.pop(0) if len(self._numbers) > 1 else self._numbers[0]


durations = st.floats(0, 1e9) | st.integers(0, 10**9)
adding_jitters = st.sampled_from(["none", "quarter"]) | st.floats(0, 1).map(upward)
jitters = adding_jitters | st.sampled_from(["full", "equal"]) | st.floats(0, 1).map(plus_minus)


def named_backoffs(durations=durations, jitters=jitters):
    """Return a strategy for every backoff that has a name."""
    return st.one_of(
        st.builds(
            lambda rungs, jitter: delays(*rungs, jitter=jitter), st.lists(durations, min_size=1, max_size=6), jitters
        ),
        st.builds(lambda delay, jitter: constant(delay, jitter=jitter), durations, jitters),
        st.builds(
            lambda base, step, extra, jitter: linear(base, step=step, cap=base + extra, jitter=jitter),
            durations,
            st.none() | durations,
            durations,
            jitters,
        ),
        st.builds(
            lambda base, extra, factor, jitter: exponential(base, cap=base + extra, factor=factor, jitter=jitter),
            durations,
            durations,
            st.floats(1, 1e6),
            jitters,
        ),
    )


chains = st.builds(lambda base, extra: decorrelated(base, cap=base + extra), durations, durations)
backoffs = named_backoffs() | chains
adding_backoffs = named_backoffs(jitters=adding_jitters)

final_actions = st.sampled_from(sorted(set(Action) - {Action.RETRY, Action.VERIFY}))


def policies(backoffs=backoffs):
    """Return a strategy for policies with these backoffs."""
    return st.builds(
        RetryPolicy,
        max_retries=st.integers(0, 12),
        backoff=backoffs,
        on_exhausted=final_actions,
        throttle=st.booleans(),
        audit=st.booleans(),
    )


def matrices(policies=policies(), limits=st.floats(1, 1e6), verify_backoff=backoffs):  # noqa: B008 - immutable values
    """Return a strategy for matrices of these policies."""
    return st.builds(
        PolicyMatrix,
        st.dictionaries(st.sampled_from(ErrorGroup) | error_classes, policies, max_size=5),
        default=st.none() | policies,
        max_attempts=st.integers(1, 20),
        max_age=st.none() | limits,
        max_retry_after=limits,
        on_unknown=st.sampled_from(Action),
        verify_backoff=verify_backoff,
    )
