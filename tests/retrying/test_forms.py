"""The four forms of `retry`, under no loop, asyncio and trio: they behave alike."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from retrykit import EMAIL_MATRIX, ErrorGroup, RetryLater, retry
from retrykit.clock import SystemClock
from retrykit.errors import BreakerOpenError, ConfigurationError
from retrykit.events import AttemptFailed, Event
from retrykit.policy import PolicyMatrix, RetryPolicy, delays
from retrykit.testing import ManualClock, no_waiting
from tests.colours import Runner, both_loops, cancel
from tests.retrying.flaky import FORMS, AsyncFlaky, Do, Flaky, every_form, in_block, refused

MATRIX = PolicyMatrix(
    {ErrorGroup.TRANSIENT_INFRASTRUCTURE: RetryPolicy(max_retries=2, backoff=delays(2, jitter="none"))}
)


@every_form
def test_form_success_is_one_call(do: Do, clock: ManualClock) -> None:
    """What succeeds is called once and waits for nothing."""
    flaky = Flaky()
    assert do(retry(on=OSError), flaky) == "answer"
    assert (flaky.calls, clock.sleeps) == (1, [])


@every_form
@pytest.mark.parametrize("policy", [retry(on=OSError, backoff=delays(2, jitter="none")), retry(MATRIX)])
def test_form_failures_are_retried_after_their_waits(do: Do, policy: retry, clock: ManualClock) -> None:
    """Two failures, two waits, an answer, by both forms of the policy."""
    flaky = Flaky(*refused(2))
    assert do(policy, flaky) == "answer"
    assert (flaky.calls, clock.sleeps) == (3, [2.0, 2.0])


@every_form
def test_form_exhausted_raises_the_last_error_itself(do: Do, clock: ManualClock) -> None:
    """It has one note, and neither cause nor context of the attempts before."""
    errors = refused(3)
    last = errors[-1]
    with pytest.raises(ConnectionRefusedError) as caught:
        do(retry(on=OSError, attempts=3, backoff=[1]), Flaky(*errors))
    assert caught.value is last
    assert (last.__cause__, last.__context__, len(last.__notes__)) == (None, None, 1)
    assert last.__notes__[0].endswith("was the last: connection_error, all 3 attempts used")
    assert len(clock.sleeps) == 2


@every_form
def test_form_zero_delay_calls_no_sleep(do: Do, clock: ManualClock) -> None:
    """A wait of nothing is none."""
    assert do(retry(on=OSError, backoff=[0]), Flaky(*refused(2))) == "answer"
    assert clock.sleeps == []


@every_form
def test_form_other_error_passes_with_a_note(do: Do) -> None:
    """What is not named leaves at once, and says why."""
    flaky = Flaky(ValueError("no"))
    with pytest.raises(ValueError, match="no") as caught:
        do(retry(on=OSError), flaky)
    assert flaky.calls == 1
    assert "attempt 1 of" in caught.value.__notes__[0]


@every_form
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
@pytest.mark.parametrize("before", [0, 1], ids=["first attempt", "second attempt"])
def test_form_interruption_is_no_attempt(do: Do, error: type[BaseException], before: int) -> None:
    """It passes at once, is told to nobody, costs nothing and carries no note."""
    heard: list[Event] = []
    interruption = error()
    flaky = Flaky(*refused(before), interruption)
    with pytest.raises(BaseException) as caught:
        do(retry(on=Exception, backoff=[0], on_event=[heard.append]), flaky)
    assert isinstance(caught.value, error)
    assert (flaky.calls, len(heard), getattr(interruption, "__notes__", [])) == (before + 1, before, [])


@every_form
def test_form_wait_too_long_for_a_caller_raises_retry_later(do: Do, clock: ManualClock) -> None:
    """It is raised from the original error and nothing is slept."""
    matrix = PolicyMatrix({ErrorGroup.TRANSIENT_INFRASTRUCTURE: RetryPolicy(max_retries=2, backoff=["10m"])})
    errors = refused(1)
    with pytest.raises(RetryLater) as caught:
        do(retry(matrix), Flaky(*errors))
    assert caught.value.__cause__ is errors[0]
    assert (caught.value.failure.error_class, clock.sleeps) == ("connection_error", [])


@every_form
def test_form_signals_of_others_pass_untouched(do: Do) -> None:
    """A refusal and a `RetryLater` from inside are no failures: nothing was tried, or it was decided already."""
    with pytest.raises(RetryLater) as later:
        do(retry(EMAIL_MATRIX, max_inline_delay=0), Flaky(*refused(1)))
    for signal in (later.value, BreakerOpenError("ses", 5.0)):
        heard: list[Event] = []
        flaky = Flaky(signal)
        with pytest.raises(type(signal)) as caught:
            do(retry(on=Exception, on_event=[heard.append]), flaky)
        assert caught.value is signal
        assert (flaky.calls, heard, getattr(signal, "__notes__", [])) == (1, [], [])


@every_form
def test_form_events_tell_each_failed_attempt(do: Do) -> None:
    """With number and decision."""
    heard: list[Any] = []
    with pytest.raises(ConnectionRefusedError):
        do(retry(on=OSError, attempts=2, backoff=[0], on_event=[heard.append]), Flaky(*refused(2)))
    assert all(isinstance(event, AttemptFailed) for event in heard)
    assert [(event.attempt, event.decision.action) for event in heard] == [(1, "retry"), (2, "dead_letter")]


@every_form
def test_form_time_limit_holds(do: Do, clock: ManualClock) -> None:
    """No wait begins that would end after the limit."""
    with pytest.raises(ConnectionRefusedError) as caught:
        do(retry(on=OSError, attempts=9, backoff=delays(4, jitter="none"), max_elapsed=10), Flaky(*refused(9)))
    assert clock.sleeps == [4.0, 4.0]
    assert "would pass the limit of 10 s" in caught.value.__notes__[0]


@every_form
def test_form_under_no_waiting_ends_at_once(do: Do) -> None:
    """A test of the user's waits for nothing, however long the waits are."""
    with no_waiting() as clock:
        assert do(retry(on=OSError, backoff=delays(3600, jitter="none")), Flaky(*refused(2))) == "answer"
    assert clock.sleeps == [3600.0, 3600.0]


def test_block_numbers_its_attempts() -> None:
    """Each attempt knows its number, and the last one's result is the loop's."""
    flaky, numbers = Flaky(*refused(2)), []
    for attempt in retry(on=OSError, backoff=[0]):
        numbers.append(attempt.number)
        with attempt:
            flaky()
    assert numbers == [1, 2, 3]


@both_loops
def test_async_block_numbers_its_attempts_and_ends(runner: Runner) -> None:
    """As the synchronous one, without a result to return."""
    flaky, numbers = Flaky(*refused(2)), []

    async def main() -> None:
        async for attempt in aiter(aiter(retry(on=OSError, backoff=[0]))):
            numbers.append(attempt.number)
            with attempt:
                flaky()

    runner(main)
    assert numbers == [1, 2, 3]
    assert [attempt.number for attempt in iter(iter(retry(on=OSError)))] == [1]


def test_block_that_is_not_entered_is_a_success() -> None:
    """An attempt that nobody used has not failed."""
    assert [attempt.number for attempt in retry(on=OSError)] == [1]


def test_block_left_early_ends_the_loop() -> None:
    """A break inside the block is a success, and nothing of it is left."""
    policy = retry(on=OSError, backoff=[0])
    flaky = Flaky(*refused(1))
    for attempt in policy:
        with attempt:
            flaky()
            break
    assert (flaky.calls, policy.current.number) == (2, 1)


def test_block_with_on_result_is_refused() -> None:
    """A block has no result to look at; ignoring the setting would be silent."""
    with pytest.raises(ConfigurationError, match="a block has none"):
        in_block(retry(on=OSError, on_result=bool), Flaky())


def test_block_in_another_context_still_ends() -> None:
    """A generator of the user's may be driven from several contexts; what was remembered in one is gone in another."""
    import contextvars

    flaky = Flaky(*refused(1))

    def items() -> Any:
        for attempt in retry(on=OSError, backoff=[0]):
            with attempt:
                flaky()
                yield attempt.number

    stream = items()
    assert contextvars.copy_context().run(next, stream) == 2
    assert contextvars.copy_context().run(next, stream, "end") == "end"


def test_but_changes_one_call_and_leaves_the_original() -> None:
    """All other settings stay, and the original is as before."""
    policy = retry(on=OSError, attempts=2, backoff=[0])
    flaky = Flaky(*refused(3))
    assert policy.but(attempts=4).call(flaky) == "answer"
    with pytest.raises(ConnectionRefusedError):
        policy.call(Flaky(*refused(3)))
    assert (policy.attempts, flaky.calls) == (2, 4)


@pytest.mark.parametrize("change", [{"attempts": 0}, {"matrix": EMAIL_MATRIX}, {"budget": 5}])
def test_but_with_a_wrong_value_is_refused(change: dict[str, Any]) -> None:
    """The same checks hold as for the constructor."""
    with pytest.raises(ConfigurationError):
        retry(on=OSError).but(**change)


def test_but_with_an_unknown_name_is_refused() -> None:
    """A typing error is none that changes nothing."""
    with pytest.raises(TypeError, match="tries"):
        retry(on=OSError).but(tries=5)


@pytest.mark.parametrize("do", [FORMS["decorated"], FORMS["called"], FORMS["block"]])
def test_form_in_threads_counts_each_call_apart(do: Do, clock: ManualClock) -> None:
    """Eight threads share one policy; each makes its own three attempts."""
    policy = retry(on=OSError, backoff=[0], clock=clock)
    flaky = [Flaky(*refused(2)) for _ in range(8)]
    numbers: list[list[int]] = [[] for _ in range(8)]
    barrier = threading.Barrier(8)

    def work(place: int) -> None:
        def call() -> Any:
            numbers[place].append(policy.current.number)
            barrier.wait(30)
            return flaky[place]()

        do(policy, call)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers == [[1, 2, 3]] * 8


def test_form_in_tasks_counts_each_call_apart() -> None:
    """Tasks that take turns at one decorated function each see their own attempts."""
    policy = retry(on=OSError, backoff=[0])
    numbers: dict[str, list[int]] = {"a": [], "b": []}

    @policy
    async def fetch(name: str, flaky: AsyncFlaky) -> Any:
        await asyncio.sleep(0)
        numbers[name].append(policy.current.number)
        return await flaky()

    async def main() -> None:
        await asyncio.gather(fetch("a", AsyncFlaky(*refused(2))), fetch("b", AsyncFlaky(*refused(1))))

    asyncio.run(main())
    assert numbers == {"a": [1, 2, 3], "b": [1, 2]}


@both_loops
def test_form_cancelled_in_its_wait_leaves_at_once(runner: Runner) -> None:
    """The cancellation passes, and there is no other attempt."""
    flaky = AsyncFlaky(*refused(3))
    policy = retry(on=OSError, backoff=[3600], clock=SystemClock())

    cancel(runner, policy(flaky))
    assert flaky.calls == 1
    assert policy.current.number == 1
