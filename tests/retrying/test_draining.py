"""Waits of a process that was told to stop: what would outlive it goes to the retry queue."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from retrykit import EMAIL_MATRIX, RetryLater, retry
from retrykit.backends import MemoryBackend
from retrykit.clock import SystemClock, use_clock
from retrykit.draining import Drain, install, remove, sleep
from retrykit.errors import AlreadyInProgressError, ThrottledError
from retrykit.failure import ErrorClass, ErrorGroup, Failure, Outcome
from retrykit.guard import IdempotencyGuard
from retrykit.policy import delays
from retrykit.testing import ManualClock
from retrykit.throttle import AdaptiveThrottle
from tests.retrying.flaky import Do, Flaky, every_form, every_form_of_a_function, refused

HOUR = delays(3600, jitter="none")


@pytest.fixture
def drain(clock: ManualClock) -> Iterator[Drain]:
    drain = Drain(25.0, clock)
    install(drain)
    yield drain
    remove(drain)


@every_form
def test_retry_whose_wait_would_outlive_the_drain_says_when_it_is_due(do: Do, drain: Drain, clock: ManualClock) -> None:
    """Nothing is slept; the signal carries the failure and the wait, and the error is its cause."""
    drain.request("x")
    flaky = Flaky(*refused(2))
    with pytest.raises(RetryLater) as caught:
        do(retry(on=OSError, backoff=HOUR), flaky)
    assert (1, [], 3600.0) == (flaky.calls, clock.sleeps, caught.value.decision.delay)
    assert ErrorClass.CONNECTION_ERROR == caught.value.failure.error_class
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


@every_form
def test_retry_of_a_matrix_hands_over_during_the_drain(do: Do, drain: Drain, clock: ManualClock) -> None:
    """A wait that the matrix would sleep through as a rule does not outlive the process."""
    drain.request("x")
    clock.advance(24)
    flaky = Flaky(*refused(2))
    with pytest.raises(RetryLater):
        do(retry(EMAIL_MATRIX), flaky)
    assert (1, []) == (flaky.calls, clock.sleeps)


@every_form
def test_retry_goes_on_where_the_wait_ends_within_the_drain(do: Do, drain: Drain, clock: ManualClock) -> None:
    """What runs may be finished, its short waits too, and those of nothing."""
    drain.request("x")
    flaky = Flaky(*refused(3))
    do(retry(on=OSError, attempts=4, backoff=[2, 0, 3], rng=None), flaky)
    assert (4, True) == (flaky.calls, 4.9 < sum(clock.sleeps) < 6)


@every_form_of_a_function
def test_retry_of_a_result_does_not_outlive_the_drain(do: Do, drain: Drain, clock: ManualClock) -> None:
    """The last result is returned, as when all attempts are used."""
    drain.request("x")
    flaky = Flaky()
    policy = retry(on=OSError, on_result=lambda _result: True, backoff=HOUR)
    do(policy, flaky)
    assert (1, []) == (flaky.calls, clock.sleeps)


def waiting(policy: retry, drain: Drain) -> RetryLater:
    """Let a call wait in a thread, tell the process to stop, and return what the call raised."""
    raised: list[RetryLater] = []
    begins = threading.Event()

    def run() -> None:
        with use_clock(SystemClock()), pytest.raises(RetryLater) as caught:
            policy.call(begun)
        raised.append(caught.value)

    def begun() -> None:
        begins.set()
        raise TimeoutError("timed out")

    thread = threading.Thread(target=run)
    thread.start()
    begins.wait()
    drain.request("x")
    drain.quiet.set()
    thread.join()
    return raised[0]


@pytest.mark.parametrize("stop", [None, threading.Event()], ids=["alone", "with a stop"])
def test_retry_that_waits_already_is_cut_short(stop: threading.Event | None, drain: Drain) -> None:
    """The rest of the wait goes to the retry queue, with what is known of the side effect."""
    later = waiting(retry(on=OSError, backoff=HOUR, stop=stop), drain)
    assert (True, Outcome.UNKNOWN) == (3500 < later.decision.delay <= 3600, later.failure.outcome)
    assert isinstance(later.__cause__, TimeoutError)


@pytest.mark.parametrize("stop", [None, threading.Event()], ids=["alone", "with a stop"])
def test_retry_that_waits_already_is_cut_short_in_a_task(stop: threading.Event | None, drain: Drain) -> None:
    """The same in an event loop."""

    async def fails() -> None:
        asyncio.get_running_loop().call_later(0.001, drain.request, "x")
        raise ConnectionRefusedError("refused")

    with use_clock(SystemClock()), pytest.raises(RetryLater, match="would outlive the shutdown"):
        asyncio.run(retry(on=OSError, backoff=HOUR, stop=stop)(fails)())


def test_retry_with_a_stop_of_its_own_keeps_it(drain: Drain, clock: ManualClock) -> None:
    """What would outlive the drain is not begun there either."""
    drain.request("x")
    with pytest.raises(RetryLater):
        retry(on=OSError, backoff=HOUR, stop=threading.Event()).call(Flaky(*refused(2)))
    assert clock.sleeps == []


@pytest.mark.parametrize("is_async", [False, True])
def test_stop_that_is_set_ends_a_wait_beside_a_drain(is_async: bool, drain: Drain) -> None:
    """Whoever set it wants the error, and no retry elsewhere."""
    stop = threading.Event()

    def fails() -> None:
        threading.Timer(0.001, stop.set).start()
        raise ConnectionRefusedError("refused")

    async def fails_async() -> None:
        fails()

    policy = retry(on=OSError, backoff=HOUR, stop=stop)
    with use_clock(SystemClock()), pytest.raises(ConnectionRefusedError):
        asyncio.run(policy(fails_async)()) if is_async else policy(fails)()
    assert drain.quiet.is_set() is drain.is_requested is False


@pytest.mark.parametrize("stop", [None, threading.Event()], ids=["alone", "with a stop"])
def test_wait_that_ends_within_the_drain_goes_on(stop: threading.Event | None) -> None:
    """It is not cut short, whether it has begun or not."""
    drain = Drain(25.0, SystemClock())
    install(drain)
    try:
        threading.Timer(0.005, lambda: (drain.request("x"), drain.quiet.set())).start()
        began = time.monotonic()
        assert (0.0, True) == (sleep(SystemClock(), 0.2, stop), time.monotonic() - began >= 0.2)
        assert drain.is_requested
        assert 0.0 == sleep(SystemClock(), 0.001, stop)
    finally:
        remove(drain)


@pytest.mark.parametrize("is_async", [False, True])
def test_throttle_does_not_wait_beyond_the_drain(is_async: bool, drain: Drain, clock: ManualClock) -> None:
    """The call is refused, which is no attempt, and comes back when its turn is."""
    throttle = AdaptiveThrottle("ses", max_wait=3600)
    throttled = Failure(
        error_class=ErrorClass.PROVIDER_THROTTLED, outcome=Outcome.REJECTED, rule="x", retry_after=600.0
    )
    assert ErrorGroup.THROTTLING == throttled.group
    throttle.failed(throttled)
    drain.request("x")

    async def call() -> None:
        raise AssertionError

    with pytest.raises(ThrottledError) as caught:
        asyncio.run(throttle(call)()) if is_async else throttle(lambda: None)()
    assert (True, []) == ((caught.value.retry_after or 0) > 25, clock.sleeps)


def test_guard_does_not_wait_for_others_when_the_drain_is_over(drain: Drain, clock: ManualClock) -> None:
    """Who is at work elsewhere is not waited for any more."""
    guard = IdempotencyGuard(MemoryBackend(clock=clock).claims, wait=500, lease=600, clock=clock)

    def again() -> None:
        drain.request("x", at_once=True)
        with pytest.raises(AlreadyInProgressError):
            guard.call("k", again)

    guard.call("k", again)
    assert clock.sleeps == []
