"""The adaptive throttle as an object: calls wait for their turn."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from retrykit import ErrorClass, ErrorClassifier, RetryLater, TaggedError, retry
from retrykit.classification import Rule
from retrykit.errors import BreakerOpenError, ConfigurationError, ThrottledError
from retrykit.policy import EMAIL_MATRIX
from retrykit.testing import ManualClock
from retrykit.throttle import AdaptiveThrottle
from tests.colours import Runner, both_loops, run_asyncio


class SlowDownError(TaggedError):
    error_class = ErrorClass.PROVIDER_THROTTLED

    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__("slow down")
        self.retry_after = retry_after


def send(error: Exception | None = None) -> str:
    if error is not None:
        raise error
    return "sent"


async def asend(error: Exception | None = None) -> str:
    return send(error)


def throttled(throttle: AdaptiveThrottle, retry_after: float | None = None) -> None:
    """Let a call be throttled."""
    with pytest.raises(SlowDownError):
        throttle(send)(SlowDownError(retry_after))


def test_throttle_lets_everything_through_until_a_call_is_throttled(clock: ManualClock) -> None:
    """And knows no rate."""
    throttle = AdaptiveThrottle("ses")
    assert [throttle(send)() for _ in range(100)] == ["sent"] * 100
    assert (clock.sleeps, throttle.rate, throttle.delay(), throttle.turn()) == ([], None, 0.0, 0.0)


def test_throttle_waits_once_it_knows_a_rate(clock: ManualClock) -> None:
    """Half a call a second at the least."""
    throttle = AdaptiveThrottle("ses")
    throttled(throttle)
    assert throttle.rate == 0.5
    assert throttle(send)() == "sent"
    assert clock.sleeps == [2.0]


@both_loops
def test_throttle_waits_asynchronously(runner: Runner, clock: ManualClock) -> None:
    """The same object, the same state, in the other colour."""
    throttle = AdaptiveThrottle("ses")
    throttled(throttle)
    assert runner(throttle(asend)) == "sent"
    assert clock.sleeps == [2.0]
    with pytest.raises(SlowDownError):
        runner(lambda: throttle(asend)(SlowDownError()))


def test_throttle_obeys_a_wait_that_was_asked_for(clock: ManualClock) -> None:
    """No call is made before it is over, and never earlier."""
    throttle = AdaptiveThrottle("ses")
    throttled(throttle, 30.0)
    assert throttle.turn() == 30.0
    began = clock.monotonic()
    assert throttle(send)() == "sent"
    assert clock.monotonic() - began >= 30.0


def test_throttle_recovers_while_calls_succeed(clock: ManualClock) -> None:
    """The rate comes back to where it was refused, and goes beyond."""
    throttle = AdaptiveThrottle("ses")
    call = throttle(send)
    for _ in range(100):
        clock.advance(0.1)
        call()
    throttled(throttle)
    cut = throttle.rate
    assert cut is not None
    assert 5 < cut < 9
    for _ in range(200):
        clock.advance(0.1)
        call()
    assert throttle.rate is not None
    assert throttle.rate > cut * 1.4


def test_throttle_call_that_fails_otherwise_does_not_lower_the_rate(clock: ManualClock) -> None:
    """Whatever else went wrong."""
    throttle = AdaptiveThrottle("ses")
    for error in (ConnectionResetError("down"), ValueError("bug"), TimeoutError("late")):
        with pytest.raises(type(error)):
            throttle(send)(error)
    assert throttle.rate is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, BreakerOpenError("ses", 5.0)])
def test_throttle_call_that_was_none_is_neutral(clock: ManualClock, error: Any) -> None:
    """Interrupted or refused further inside: neither a success nor throttled."""
    throttle = AdaptiveThrottle("ses")
    throttled(throttle)
    rate = throttle.rate
    with pytest.raises(BaseException):  # noqa: B017 - several
        throttle(send)(error)
    assert throttle.rate == rate


def test_throttle_hears_of_throttling_that_a_retry_inside_hands_over() -> None:
    """`RetryLater` carries the failure."""
    throttle = AdaptiveThrottle("ses")
    with pytest.raises(RetryLater):
        throttle(retry(EMAIL_MATRIX, max_inline_delay=0)(send))(SlowDownError())
    assert throttle.rate == 0.5


def test_throttle_wait_over_its_limit_is_refused(clock: ManualClock) -> None:
    """At once, with the seconds, and the function is not called."""
    throttle = AdaptiveThrottle("ses", max_wait="10s")
    throttled(throttle, 30.0)
    with pytest.raises(ThrottledError) as caught:
        throttle(lambda: pytest.fail("called"))()
    assert (caught.value.name, caught.value.retry_after, clock.sleeps) == ("ses", 30.0, [])
    assert str(caught.value) == "the throttle 'ses' lets nothing through for another 30 s"
    with pytest.raises(ThrottledError):
        run_asyncio(throttle(asend))
    clock.advance(30)
    assert throttle(send)() == "sent"


def test_throttle_wait_of_exactly_its_limit_is_waited(clock: ManualClock) -> None:
    """And no wait at all may be allowed."""
    throttle = AdaptiveThrottle("ses", max_wait=2)
    throttled(throttle)
    assert throttle(send)() == "sent"
    strict = AdaptiveThrottle("ses", max_wait=0)
    assert strict(send)() == "sent"
    throttled(strict)
    with pytest.raises(ThrottledError):
        strict(send)()


class Crowded(ManualClock):
    """A clock under which another caller takes every turn that comes up while one waits."""

    throttle: AdaptiveThrottle

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.throttle.turn()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_throttle_turn_that_others_take_is_not_waited_for_for_ever(colour: str) -> None:
    """All waits of a call together are within the limit."""
    clock = Crowded()
    clock.throttle = throttle = AdaptiveThrottle("ses", max_wait=9, clock=clock)
    throttled(throttle)
    with pytest.raises(ThrottledError) as caught:
        throttle(send)() if colour == "sync" else run_asyncio(throttle(asend))
    assert (clock.sleeps, caught.value.retry_after) == ([2.0] * 4, 2.0)


def test_throttle_goes_by_its_own_classifier() -> None:
    """An application's rules say what throttling is."""
    classifier = ErrorClassifier([Rule("mine", ErrorClass.PROVIDER_THROTTLED, exceptions=[LookupError])])
    throttle = AdaptiveThrottle("ses", classifier=classifier)
    with pytest.raises(LookupError):
        throttle(send)(LookupError("too fast"))
    assert throttle.rate == 0.5


def test_throttled_error_pickles() -> None:
    """With its attributes."""
    error = pickle.loads(pickle.dumps(ThrottledError("ses", 2.5)))
    assert (str(error), error.name, error.retry_after) == (str(ThrottledError("ses", 2.5)), "ses", 2.5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": ""}, "the name of a throttle is empty"),
        ({"name": 5}, "the name of a throttle is 5"),
        ({"name": "x" * 256}, "name of a throttle"),
        ({"max_wait": -1}, "max_wait is -1"),
        ({"max_wait": float("nan")}, "max_wait is nan"),
        ({"max_wait": "soon"}, "max_wait is 'soon'"),
        ({"classifier": print}, "classifier is <built-in function print>, which has no classify"),
        ({"clock": 5}, "clock is 5, which has no now"),
    ],
)
def test_throttle_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    """At construction."""
    with pytest.raises(ConfigurationError, match=message):
        AdaptiveThrottle(**settings)
