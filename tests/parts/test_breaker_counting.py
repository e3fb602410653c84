"""What counts as a failure, what as a success, and what as nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retrykit import CircuitBreaker, ErrorClass, ErrorClassifier, ErrorGroup, TaggedError
from retrykit.breaker import BreakerState, failure_rate
from retrykit.classification import Rule
from retrykit.testing import ManualClock
from tests.capabilities import require
from tests.parts.breakers import attempt, breaker, down, ours, refused, throttled, trip

require("trio")


WINDOW = failure_rate(0.5, window=10, minimum_calls=4)
TIMED = failure_rate(0.5, window="60s", minimum_calls=4)
NEUTRAL = [KeyboardInterrupt(), SystemExit(), GeneratorExit(), asyncio.CancelledError()]


def tagged(error_class: ErrorClass, **more: Any) -> Exception:
    kind = type("Tagged", (TaggedError,), {"error_class": error_class, **more})
    return kind("tagged")


def of(group: ErrorGroup) -> Exception:
    return tagged(ErrorClass(f"a_{group.value}", group=group))


@pytest.mark.parametrize("group", ErrorGroup)
def test_groups_that_are_the_other_side_count(group: ErrorGroup) -> None:
    """What is wrong with the provider, and with our standing there; nothing else."""
    guard = breaker(ManualClock(), failure_threshold=3)
    attempt(guard, down())
    attempt(guard, of(group))
    assert (group in (ErrorGroup.TRANSIENT_INFRASTRUCTURE, ErrorGroup.SENDER)) is (guard.counted[1] == 2)


@pytest.mark.parametrize("rule", [{"failure_threshold": 2}, {"trip": WINDOW}, {"trip": TIMED}])
def test_rejected_answer_is_a_success_of_the_other_side(rule: dict[str, Any]) -> None:
    """A provider that refuses a recipient works: it ends a streak, counts in a window, and closes a half-open breaker."""
    clock = ManualClock()
    guard = breaker(clock, **rule)
    attempt(guard, down())
    attempt(guard, refused())
    assert ((0, 0) if "failure_threshold" in rule else (2, 1)) == guard.counted
    guard.open(0)
    assert BreakerState.HALF_OPEN is guard.state
    assert attempt(guard, refused())
    assert BreakerState.CLOSED is guard.state


@pytest.mark.parametrize("error", [*NEUTRAL, ours()], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("rule", [{"failure_threshold": 2}, {"trip": WINDOW}, {"trip": TIMED}])
def test_neutral_end_neither_counts_nor_ends_a_streak(error: BaseException, rule: dict[str, Any]) -> None:
    """Cancelled, interrupted, or failed on our own side: nothing is known of the other side."""
    guard = breaker(ManualClock(), **rule)
    attempt(guard, down())
    for _ in range(5):
        assert attempt(guard, error)
    assert (1, 1) == guard.counted
    guard.open(0)
    for _ in range(5):
        assert attempt(guard, error)
    assert BreakerState.HALF_OPEN is guard.state


def test_neutral_are_interruptions_also_where_everything_counts() -> None:
    """No predicate widens failures to what is none."""
    guard = breaker(ManualClock(), counts=lambda _error: True)
    for error in NEUTRAL:
        attempt(guard, error)
    assert (0, 0) == guard.counted


def test_neutral_is_a_cancelled_task_under_asyncio() -> None:
    """A probe that times out from outside gives its place back."""
    guard = breaker()
    guard.open(0)

    @guard
    async def hang() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(hang())
        await asyncio.sleep(0)
        assert not attempt(guard)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert attempt(guard)
    assert BreakerState.CLOSED is guard.state


def test_neutral_is_a_cancelled_scope_under_trio() -> None:
    """The same under trio."""
    guard = breaker()
    guard.open(0)

    @guard
    async def hang() -> None:
        await trio.sleep_forever()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang)
            await trio.testing.wait_all_tasks_blocked()
            assert not attempt(guard)
            nursery.cancel_scope.cancel()

    import trio.testing

    trio.run(main)
    assert attempt(guard)
    assert BreakerState.CLOSED is guard.state


@pytest.mark.parametrize(
    "counts",
    [
        LookupError,
        ErrorGroup.UNMAPPED,
        ErrorClass.UNKNOWN,
        lambda error: "bug" in str(error),
        (OSError, LookupError),
    ],
)
def test_counts_takes_types_groups_classes_and_predicates(counts: Any) -> None:
    """What counts can be said in every way in which retries say what they retry."""
    guard = breaker(ManualClock(), counts=counts)
    trip_with = ours()
    attempt(guard, trip_with)
    attempt(guard, trip_with)
    assert BreakerState.OPEN is guard.state


def test_counts_of_another_group_leaves_the_others_out() -> None:
    """Who names what counts has named all of it."""
    guard = breaker(ManualClock(), counts=ErrorGroup.SENDER)
    for _ in range(5):
        attempt(guard, down())
    assert (0, 0) == guard.counted


def test_classifier_of_its_own_recognises_failures() -> None:
    """An application's errors count by what its classifier says of them."""

    class GoneError(Exception):
        pass

    plain, taught = (
        breaker(ManualClock()),
        breaker(
            ManualClock(),
            classifier=ErrorClassifier([Rule("gone", ErrorClass.PROVIDER_UNAVAILABLE, exceptions={GoneError})]),
        ),
    )
    attempt(plain, GoneError())
    attempt(taught, GoneError())
    assert ((0, 0), (1, 1)) == (plain.counted, taught.counted)


def test_throttling_counts_only_when_it_persists() -> None:
    """Too fast is for the throttle to deal with; who says it for as long as a recovery takes is as good as down."""
    clock = ManualClock()
    guard = breaker(clock)
    for _ in range(59):
        attempt(guard, throttled())
        clock.advance(1)
    assert (0, 0) == guard.counted
    clock.advance(1)
    attempt(guard, throttled())
    attempt(guard, throttled())
    assert BreakerState.OPEN is guard.state


@pytest.mark.parametrize("rule", [{"failure_threshold": 2}, {"trip": WINDOW}, {"trip": TIMED}])
@pytest.mark.parametrize("between", [None, refused(), down()], ids=["success", "rejected", "failure"])
def test_throttling_persists_only_while_nothing_else_comes(rule: dict[str, Any], between: Exception | None) -> None:
    """Any other answer in between begins the time anew."""
    clock = ManualClock()
    guard = breaker(clock, **rule)
    attempt(guard, throttled())
    clock.advance(30)
    attempt(guard, between)
    attempt(guard, throttled())
    before = guard.counted[1]
    clock.advance(31)
    attempt(guard, throttled())
    assert (before, BreakerState.CLOSED) == (guard.counted[1], guard.state)


def test_throttling_keeps_a_streak() -> None:
    """It ends none and adds nothing to one."""
    guard = breaker(ManualClock())
    attempt(guard, down())
    attempt(guard, throttled())
    assert (1, 1) == guard.counted
    attempt(guard, down())
    assert BreakerState.OPEN is guard.state


def test_throttling_late_does_not_begin_its_time() -> None:
    """A throttled call from before the trip says nothing of after it."""
    clock = ManualClock()
    guard = breaker(clock)
    old = guard.gate
    assert old is not None
    trip(guard)
    guard.reset()
    guard.failed(old, throttled())
    clock.advance(61)
    attempt(guard, throttled())
    assert (0, 0) == guard.counted


def test_throttling_goes_on_after_a_late_success() -> None:
    """Nor does a success from before the trip end its time."""
    clock = ManualClock()
    guard = breaker(clock)
    attempt(guard, down())
    old = guard.gate
    assert old is not None
    note = old.note
    assert note is not None
    guard.reset()
    attempt(guard, throttled())
    clock.advance(60)
    note()
    attempt(guard, throttled())
    assert (1, 1) == guard.counted


def test_successes_between_failures_count_in_a_window() -> None:
    """Successes are counted without the lock, and come to the window with the next failure or look."""
    guard = breaker(ManualClock(), trip=WINDOW)
    for _ in range(4):
        attempt(guard)
    assert (4, 0) == guard.counted
    attempt(guard, down())
    attempt(guard)
    assert (6, 1) == guard.counted


def test_successes_leave_a_window_of_time_with_their_bucket() -> None:
    """Each counts where it happened, although it is folded in later."""
    clock = ManualClock()
    guard = breaker(clock, trip=TIMED)
    for _ in range(3):
        attempt(guard)
        clock.advance(6)
    assert (3, 0) == guard.counted
    clock.advance(42)
    assert (2, 0) == guard.counted
    clock.advance(6)
    assert (1, 0) == guard.counted


def test_last_failure_is_the_latest_that_counted() -> None:
    """Not one that was neutral, late, or seen while nothing is counted."""
    clock = ManualClock()
    guard = breaker(clock)
    attempt(guard, ours())
    assert None is guard.last_failure
    old = guard.gate
    assert old is not None
    guard.disable()
    attempt(guard, down())
    guard.failed(old, down())
    assert None is guard.last_failure
    guard.reset()
    attempt(guard, down())
    assert guard.last_failure is not None


def test_retry_after_of_a_failure_sets_the_recovery() -> None:
    """What the other side asked for is waited for, when it is longer."""
    clock = ManualClock()
    error = tagged(ErrorClass.PROVIDER_UNAVAILABLE, retry_after=600.0)
    guard = breaker(clock)
    attempt(guard, down())
    attempt(guard, error)
    assert (BreakerState.OPEN, 600.0) == (guard.state, guard.retry_after)


def test_predicate_that_fails_counts_nothing_and_gives_the_probe_back(caplog):
    """The call's own error leaves, and the next probe is let through."""

    def confused(_error):
        raise LookupError("who knows")

    clock = ManualClock()
    guarded = CircuitBreaker("ses", counts=confused, clock=clock)
    guarded.open(1)
    clock.advance(1)
    for _ in range(2):
        with pytest.raises(ConnectionResetError), guarded:
            raise ConnectionResetError("gone")
    assert (BreakerState.HALF_OPEN, 2) == (guarded.state, len(caplog.records))
