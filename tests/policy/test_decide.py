"""What holds for every decision of every matrix: properties, not examples."""

from __future__ import annotations

import math
import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.decision import Action, DeadLetterReason
from retrykit.failure import ErrorClass, ErrorGroup, Failure, Outcome
from retrykit.policy import EMAIL_MATRIX, HTTP_API_MATRIX, PolicyMatrix, RetryPolicy, decorrelated, delays
from retrykit.policy.backoff import MAX_DELAY, Delays
from retrykit.testing.strategies import attempts, failures, instants
from retrykit.times import later
from tests.policy.examples import failed, history
from tests.policy.strategies import Fixed, backoffs, chains, matrices, named_backoffs, policies

E, G = ErrorClass, ErrorGroup

any_float = st.floats()
any_matrix = st.sampled_from([EMAIL_MATRIX, HTTP_API_MATRIX]) | matrices()
wild_failures = st.builds(
    lambda failure, retry_after: attrs.evolve(failure, retry_after=retry_after), failures, st.none() | any_float
)
tries = st.integers(1, 10**6) | st.lists(attempts, max_size=4)
seeds = st.integers()


@pytest.mark.unmeasured
@given(any_matrix, wild_failures, tries, any_float, seeds, st.booleans())
def test_decide_is_total_and_deterministic(matrix, failure, tries, age, seed, idempotent):
    """Any failure, history and age gives one finite decision, the same for the same randomness."""
    first, again = (
        matrix.decide(failure, tries, age=age, rng=random.Random(seed), idempotent=idempotent) for _ in range(2)
    )
    assert first == again
    assert 0 <= first.delay <= max(MAX_DELAY, matrix.max_retry_after)
    assert first.is_final is (first.dead_letter_reason is not None)
    assert not first.is_final or first.delay == 0
    assert first.reason.startswith(f"{failure.error_class}, ")


@given(any_matrix, wild_failures, tries, seeds)
def test_decide_is_never_early_against_a_retry_after(matrix, failure, tries, seed):
    """A retry waits for what the other side asked, up to `max_retry_after`."""
    decision = matrix.decide(failure, tries, rng=random.Random(seed))
    if decision.action is Action.RETRY and failure.retry_after is not None and not math.isnan(failure.retry_after):
        assert decision.delay >= min(failure.retry_after, matrix.max_retry_after)


@pytest.mark.unmeasured
@given(any_matrix, wild_failures, tries, any_float, seeds, st.booleans())
def test_decide_never_retries_past_a_limit(matrix, failure, tries, age, seed, idempotent):
    """Neither past `max_attempts`, nor `max_age`, nor the retries of the policy."""
    decision = matrix.decide(failure, tries, age=age, rng=random.Random(seed), idempotent=idempotent)
    if decision.action is Action.RETRY:
        number = tries if isinstance(tries, int) else len(tries) + 1
        assert number < matrix.max_attempts
        assert matrix.max_age is None or math.isnan(age) or age + decision.delay <= matrix.max_age
        assert not isinstance(tries, int) or tries <= matrix.policy(failure.error_class).max_retries


@pytest.mark.unmeasured
@given(any_matrix, wild_failures, tries, seeds)
def test_decide_never_repeats_what_may_have_happened(matrix, failure, tries, seed):
    """An unknown outcome is retried only for an idempotent call, or where the matrix says so."""
    unknown = attrs.evolve(failure, outcome=Outcome.UNKNOWN)
    decision = matrix.decide(unknown, tries, rng=random.Random(seed))
    assert decision.action is not Action.RETRY or matrix.on_unknown is Action.RETRY


@pytest.mark.unmeasured
@given(any_matrix, wild_failures, tries, any_float, seeds)
def test_decide_takes_an_idempotent_call_for_one_that_did_not_happen(matrix, failure, tries, age, seed):
    """With `idempotent=True` an unknown outcome is decided as a known one."""
    decided = [
        matrix.decide(
            attrs.evolve(failure, outcome=outcome), tries, age=age, rng=random.Random(seed), idempotent=idempotent
        )
        for outcome, idempotent in [(Outcome.UNKNOWN, True), (Outcome.NOT_SENT, True), (Outcome.NOT_SENT, False)]
    ]
    assert decided[0] == decided[1] == decided[2]


@given(any_matrix, wild_failures, tries)
def test_decide_about_a_known_outcome_is_never_to_verify(matrix, failure, tries):
    """There is nothing to find out about what certainly did not happen."""
    known = attrs.evolve(failure, outcome=Outcome.NOT_SENT)
    assert matrix.decide(known, tries).action is not Action.VERIFY


def growing(backoff):
    """Return the backoff, with the rungs of a ladder sorted."""
    return attrs.evolve(backoff, rungs=tuple(sorted(backoff.rungs))) if isinstance(backoff, Delays) else backoff


@given(
    matrices(policies(backoffs.map(growing))),
    wild_failures,
    st.integers(1, 30),
    st.integers(0, 30),
    st.floats(0, 1e7),
    st.floats(0, 1e7),
)
def test_decide_is_monotone(matrix, failure, number, more, age, older):
    """More tries or a higher age never make a decision less final, with waits that do not shrink."""
    if matrix.decide(failure, number, age=age).is_final:
        assert matrix.decide(failure, number + more, age=age + older).is_final


@pytest.mark.unmeasured
@given(matrices(), failures, st.lists(attempts, max_size=6), attempts, st.floats(0, 1e6))
def test_decide_after_one_more_try_counts_no_fewer(matrix, failure, tries, another, age):
    """What has used up its tries or retries has used them up, whatever else failed since."""
    spent = ("retries used", "attempts used")
    if any(words in matrix.decide(failure, tries, age=age).reason for words in spent):
        reason = matrix.decide(failure, [*tries, another], age=age).reason
        assert any(words in reason for words in spent)


@given(any_matrix, wild_failures, instants, seeds)
def test_decided_wait_always_gives_an_instant(matrix, failure, now, seed):
    """No wait is too long for a date: the retry comes later than now, and never drops out of the calendar."""
    decision = matrix.decide(failure, 1, rng=random.Random(seed))
    assert later(now, decision.delay) >= now


@pytest.mark.unmeasured
@given(named_backoffs(), st.lists(attempts, max_size=4), seeds)
def test_decide_by_count_and_by_history_agree(backoff, tries, seed):
    """Where all tries failed alike, their number says as much as their history."""
    matrix = PolicyMatrix({G.UNMAPPED: RetryPolicy(max_retries=3, backoff=backoff)})
    alike = [attrs.evolve(attempt, failure=failed(E.UNKNOWN)) for attempt in tries]
    failure = failed(E.UNKNOWN)
    assert matrix.decide(failure, len(alike) + 1, rng=random.Random(seed)) == matrix.decide(
        failure, alike, rng=random.Random(seed)
    )


@given(chains, st.lists(attempts, max_size=4), seeds)
def test_decide_by_a_decorrelated_backoff_stays_within_its_bounds(backoff, tries, seed):
    """Whatever the waits on record, also those of other policies and those that a Retry-After lengthened."""
    matrix = PolicyMatrix({}, default=RetryPolicy(max_retries=10, backoff=backoff), max_age=None)
    decision = matrix.decide(failed(E.UNKNOWN), tries, rng=random.Random(seed))
    low, high = backoff.bounds(len(tries) + 1)
    assert low <= decision.delay <= high


def test_decide_draws_a_decorrelated_wait_from_the_last_one_of_the_same_policy():
    """A throttle's wait in between does not count."""
    matrix = PolicyMatrix(
        {
            G.TRANSIENT_INFRASTRUCTURE: RetryPolicy(max_retries=9, backoff=decorrelated(1, cap=100)),
            G.THROTTLING: RetryPolicy(max_retries=9, backoff=delays(60)),
        }
    )

    first, second = history(E.DNS_FAILURE, E.PROVIDER_THROTTLED)
    earlier = [attrs.evolve(first, delay=2.0), attrs.evolve(second, delay=60.0)]
    assert 6.0 == matrix.decide(failed(E.CONNECTION_ERROR), earlier, rng=Fixed(1.0)).delay
    assert 3.0 == matrix.decide(failed(E.CONNECTION_ERROR), earlier[1:], rng=Fixed(1.0)).delay


def test_default_and_unmapped_group_are_counted_apart():
    """They are two policies, so the tries of one do not use up the retries of the other."""
    matrix = PolicyMatrix(
        {G.UNMAPPED: RetryPolicy(max_retries=1, backoff=[1])}, default=RetryPolicy(max_retries=1, backoff=[2])
    )
    assert "retry 1 of 1, waits 2 s" in matrix.decide(failed(E.GREYLISTED), history(E.UNKNOWN)).reason
    assert "all 1 retries used" in matrix.decide(failed(E.GREYLISTED), history(E.MAILBOX_FULL)).reason


@pytest.mark.parametrize(
    ("wait", "asked", "expected"),
    [(2, None, 2), (2, 10, 10), (20, 10, 20), (2, 0, 2), (2, 300, 300), (2, 301, 300)],
)
def test_decide_waits_for_the_longer_of_backoff_and_retry_after(wait, asked, expected):
    """Up to a limit of five minutes, here; see `@retry` for handing over what is longer."""
    policy = RetryPolicy(max_retries=1, backoff=delays(wait, jitter="none"))
    matrix = PolicyMatrix({G.THROTTLING: policy}, max_retry_after="5m")
    assert expected == matrix.decide(failed(E.PROVIDER_THROTTLED, retry_after=asked), 1).delay


@pytest.mark.parametrize(
    ("idempotent", "number", "action", "reason"),
    [
        (False, 1, Action.VERIFY, None),
        (True, 1, Action.RETRY, None),
        (True, 3, Action.RETRY, None),
        (True, 4, Action.DEAD_LETTER, DeadLetterReason.RETRIES_EXHAUSTED),
        (False, 4, Action.VERIFY, None),
    ],
)
def test_decide_about_an_unknown_outcome_of_an_http_call(idempotent, number, action, reason):
    """It is verified, unless the call may be repeated; then it is retried like any other."""
    failure = Failure(error_class=E.NETWORK_TIMEOUT, outcome=Outcome.UNKNOWN)
    decision = HTTP_API_MATRIX.decide(failure, number, idempotent=idempotent)
    assert (action, reason) == (decision.action, decision.dead_letter_reason)
