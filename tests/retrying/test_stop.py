"""`stop`: a shutdown ends the waits, and the last error leaves."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from retrykit import RetryBudget, retry
from retrykit.clock import SystemClock
from retrykit.errors import ConfigurationError
from retrykit.policy import delays
from retrykit.testing import ManualClock, no_waiting
from tests.retrying.flaky import AsyncFlaky, Do, Flaky, every_form, every_form_of_a_function, refused

HOUR = delays(3600, jitter="none")


class SetBySleep(ManualClock):
    """A clock whose sleep sets the event: everything is to stop while somebody waits."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self.stop = stop

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.stop.set()


@every_form
def test_stop_set_before_the_wait_ends_it_at_once(do: Do, clock: ManualClock) -> None:
    """The error leaves with a note, nothing is slept, and nothing of the call is left."""
    stop = threading.Event()
    stop.set()
    policy = retry(on=OSError, backoff=HOUR, stop=stop)
    flaky = Flaky(*refused(2))
    with pytest.raises(ConnectionRefusedError, match="refused 1") as caught:
        do(policy, flaky)
    assert (flaky.calls, clock.sleeps, policy.current.number) == (1, [], 1)
    assert caught.value.__notes__[0].endswith("was the last: everything is to stop")


@every_form
def test_stop_set_while_it_waits_ends_the_attempts(do: Do) -> None:
    """After the wait there is no other try."""
    stop = threading.Event()
    clock = SetBySleep(stop)
    flaky = Flaky(*refused(2))
    with pytest.raises(ConnectionRefusedError, match="refused 1"):
        do(retry(on=OSError, backoff=HOUR, stop=stop, clock=clock), flaky)
    assert (flaky.calls, clock.sleeps) == (1, [3600.0])


@every_form
def test_stop_with_nothing_to_wait_for_ends_the_attempts(do: Do) -> None:
    """Also a zero delay is a place to stop."""
    stop = threading.Event()
    stop.set()
    flaky = Flaky(*refused(2))
    policy = retry(on=OSError, backoff=[0], stop=stop)
    with pytest.raises(ConnectionRefusedError):
        do(policy, flaky)
    assert (flaky.calls, policy.current.number) == (1, 1)


@every_form
def test_stop_that_is_not_set_changes_nothing(do: Do, clock: ManualClock) -> None:
    """The waits are those of the policy, in one piece, also where nobody wants to wait."""
    policy = retry(on=OSError, backoff=HOUR, stop=threading.Event())
    assert do(policy, Flaky(*refused(2))) == "answer"
    assert clock.sleeps == [3600.0, 3600.0]
    with no_waiting() as impatient:
        assert do(policy, Flaky(*refused(2))) == "answer"
    assert impatient.sleeps == [3600.0, 3600.0]


def test_stop_wakes_a_thread_that_waits_in_real_time() -> None:
    """An hour's wait ends when the event is set, not when it is over."""
    stop, failed = threading.Event(), threading.Event()
    flaky = Flaky(*refused(2))
    errors: list[BaseException] = []

    def call() -> Any:
        try:
            return flaky()
        finally:
            failed.set()

    def work() -> None:
        try:
            retry(on=OSError, backoff=HOUR, stop=stop, clock=SystemClock()).call(call)
        except ConnectionRefusedError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    failed.wait(30)
    stop.set()
    thread.join(30)
    assert (thread.is_alive(), flaky.calls, len(errors)) == (False, 1, 1)


def test_stop_wakes_a_task_that_waits_in_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at the event again and again, so that a `threading.Event` serves asynchronous callers as well."""
    monkeypatch.setattr("retrykit.draining._GLANCE", 0.001)
    stop = threading.Event()
    flaky = AsyncFlaky(*refused(2))

    async def main() -> None:
        task = asyncio.ensure_future(retry(on=OSError, backoff=HOUR, stop=stop, clock=SystemClock())(flaky)())
        await asyncio.sleep(0)
        stop.set()
        with pytest.raises(ConnectionRefusedError, match="refused 1"):
            await task

    asyncio.run(main())
    assert flaky.calls == 1


@every_form_of_a_function
def test_stop_returns_the_result_that_is_there(do: Do) -> None:
    """A result that was not wanted is no error."""
    stop = threading.Event()
    stop.set()
    calls: list[int] = []

    def fetch() -> int:
        calls.append(1)
        return len(calls)

    assert do(retry(on=OSError, on_result=lambda _: True, backoff=HOUR, stop=stop), fetch) == 1


def test_stop_is_any_object_that_behaves_like_an_event() -> None:
    """A fallback and a budget go with it; other things are refused at construction."""

    class Always:
        def is_set(self) -> bool:
            return True

        def wait(self, timeout: float | None = None) -> bool:
            return True

    flaky = Flaky(*refused(2))
    with pytest.raises(ConnectionRefusedError):
        retry(on=OSError, backoff=HOUR, stop=Always(), budget=RetryBudget())(flaky)()
    assert flaky.calls == 1
    with pytest.raises(ConfigurationError, match="stop is True, which has no is_set and wait"):
        retry(on=OSError, stop=True)  # type: ignore[call-overload]
