"""`@retry` at its limits: time, long waits, and calls that may have had their effect."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest

from retrykit import EMAIL_MATRIX, ErrorClass, ErrorGroup, RetryLater, TaggedError, retry
from retrykit.policy import HTTP_API_MATRIX, PolicyMatrix, RetryPolicy, decorrelated, delays
from retrykit.policy.backoff import MAX_DELAY
from retrykit.testing import ManualClock, manual_clock
from tests.colours import Runner, both_loops


class ThrottledError(TaggedError):
    """A provider that says how long to wait."""

    error_class = ErrorClass.PROVIDER_THROTTLED

    def __init__(self, retry_after: float) -> None:
        super().__init__("slow down")
        self.retry_after = retry_after


class Flaky:
    """A function that fails as told, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


@pytest.fixture(autouse=True)
def clock() -> Iterator[ManualClock]:
    with manual_clock() as clock:
        yield clock


def test_retry_idempotent_call_is_repeated_after_an_unknown_outcome(clock: ManualClock) -> None:
    """Who declares the call idempotent has it repeated, by the policy of its class."""
    flaky = Flaky(TimeoutError("x"), TimeoutError("x"))
    assert retry(HTTP_API_MATRIX, idempotent=True, rng=random.Random(1))(flaky)() == "answer"
    assert (flaky.calls, len(clock.sleeps)) == (3, 2)


def test_retry_idempotent_call_ends_with_its_retries() -> None:
    """It is retried like any other, no more."""
    flaky = Flaky(*[TimeoutError("x")] * 9)
    with pytest.raises(TimeoutError) as caught:
        retry(HTTP_API_MATRIX, idempotent=True)(flaky)()
    assert flaky.calls == 4
    assert "network_timeout, all 3 retries used: dead letter" in caught.value.__notes__[0]


def test_retry_call_that_is_not_declared_idempotent_is_not_repeated() -> None:
    """The same matrix and the same error without the word."""
    flaky = Flaky(TimeoutError("x"))
    with pytest.raises(TimeoutError):
        retry(HTTP_API_MATRIX)(flaky)()
    assert flaky.calls == 1


def test_retry_idempotent_leaves_final_errors_alone() -> None:
    """A bug is not retried because it could be."""
    flaky = Flaky(KeyError("x"))
    with pytest.raises(KeyError):
        retry(HTTP_API_MATRIX, idempotent=True)(flaky)()
    assert flaky.calls == 1


@both_loops
def test_retry_async_idempotent_call_is_repeated(runner: Runner) -> None:
    """In the other colour too."""
    flaky = Flaky(TimeoutError("x"))

    @retry(EMAIL_MATRIX, idempotent=True)
    async def fetch() -> str:
        return flaky()

    assert (runner(fetch), flaky.calls) == ("answer", 2)


def test_retry_wait_that_would_pass_the_time_limit_is_not_slept(clock: ManualClock) -> None:
    """Five seconds in all and a next wait of four at second four: the real error leaves at once."""
    flaky = Flaky(*[ConnectionResetError("x")] * 3)
    with pytest.raises(ConnectionResetError) as caught:
        retry(on=OSError, backoff=delays(4, jitter="none"), max_elapsed=5)(flaky)()
    assert (clock.sleeps, flaky.calls) == ([4.0], 2)
    assert "a wait of 4 s would pass the limit of 5 s" in caught.value.__notes__[0]


def test_retry_time_limit_starts_at_the_call(clock: ManualClock) -> None:
    """A decorator that was made an hour ago, and a call that was made before, use nothing up."""
    flaky = Flaky(ConnectionResetError("x"))
    call = retry(on=OSError, backoff=delays(4, jitter="none"), max_elapsed=5)(flaky)
    clock.advance("1h")
    assert call() == "answer"
    flaky.errors.append(ConnectionResetError("x"))
    assert call() == "answer"
    assert clock.sleeps == [4.0, 4.0]


def test_retry_time_limit_bounds_all_tries_together_and_none_by_itself(clock: ManualClock) -> None:
    """A try may last longer than the limit, and its answer counts: limits for one try are the function's own."""

    @retry(on=OSError, backoff=[0], max_elapsed=5)
    def slow() -> str:
        clock.advance(60)
        return "answer"

    assert slow() == "answer"


@pytest.mark.parametrize("asked", [9_999_999_999.0, 1e300])
def test_retry_huge_retry_after_is_handed_over_by_a_matrix(clock: ManualClock, asked: float) -> None:
    """The matrix caps it at a day, and a day is not slept in the caller."""
    with pytest.raises(RetryLater) as caught:
        retry(EMAIL_MATRIX)(Flaky(ThrottledError(asked)))()
    assert (caught.value.decision.delay, clock.sleeps) == (86_400.0, [])


@pytest.mark.parametrize("asked", [9_999_999_999.0, 1e300])
def test_retry_huge_retry_after_is_handed_over_by_the_short_form(clock: ManualClock, asked: float) -> None:
    """It never reaches `sleep`, and never as a number that overflows; with a time limit it fails at once."""
    with pytest.raises(RetryLater) as caught:
        retry(on=ThrottledError)(Flaky(ThrottledError(asked)))()
    assert caught.value.decision.delay == MAX_DELAY
    with pytest.raises(ThrottledError):
        retry(on=ThrottledError, max_elapsed="1h")(Flaky(ThrottledError(asked)))()
    assert clock.sleeps == []


def test_retry_own_long_backoff_of_the_short_form_is_slept(clock: ManualClock) -> None:
    """Whoever writes a ladder of minutes into the decorator means it; only what others ask for is handed over."""
    assert retry(on=ThrottledError, backoff=["10m"], rng=None)(Flaky(ThrottledError(5.0)))() == "answer"
    assert 600 <= clock.sleeps[0] <= 660


def test_retry_after_beyond_the_time_limit_is_not_slept_in_the_caller(clock: ManualClock) -> None:
    """An hour is asked for and half a minute is left: it fails at once, or is handed over where no limit is near."""
    for form in (retry(on=ThrottledError, max_elapsed=30), retry(EMAIL_MATRIX, max_elapsed=30)):
        with pytest.raises(ThrottledError):
            form(Flaky(ThrottledError(3600.0)))()
    with pytest.raises(RetryLater):
        retry(EMAIL_MATRIX)(Flaky(ThrottledError(3600.0)))()
    assert clock.sleeps == []


@pytest.mark.parametrize(("asked", "slept"), [(0.0, 2.0), (10.0, 10.0), (1.5, 2.0), (300.0, 300.0), (301.0, None)])
def test_retry_wait_is_the_longer_of_backoff_and_retry_after_or_handed_over(
    clock: ManualClock, asked: float, slept: float | None
) -> None:
    """Up to five minutes are waited for here; what is longer goes to a delayed queue."""
    policy = RetryPolicy(max_retries=1, backoff=delays(2, jitter="none"))
    call = retry(PolicyMatrix({ErrorGroup.THROTTLING: policy}), max_inline_delay="5m")(Flaky(ThrottledError(asked)))
    if slept is None:
        with pytest.raises(RetryLater) as caught:
            call()
        assert caught.value.decision.delay == 301.0
    else:
        assert call() == "answer"
    assert clock.sleeps == ([] if slept is None else [slept])


def test_retry_decorrelated_wait_follows_from_the_one_before(clock: ManualClock) -> None:
    """Each wait is at most three times the one before, from the first, which is drawn from the base."""

    class Highest:
        def random(self) -> float:
            return math.nextafter(1.0, 0.0)

    policy = RetryPolicy(max_retries=4, backoff=decorrelated(1, cap=50))
    matrix = PolicyMatrix({ErrorGroup.TRANSIENT_INFRASTRUCTURE: policy})
    for form in (
        retry(on=OSError, attempts=5, backoff=decorrelated(1, cap=50), rng=Highest()),
        retry(matrix, rng=Highest()),
    ):
        form(Flaky(*[ConnectionRefusedError("x")] * 4))()
    assert clock.sleeps == pytest.approx([3, 9, 27, 50] * 2)
