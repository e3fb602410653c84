"""`retry.current`: the number of the attempt and the failed ones before it, read from inside the call."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from retrykit import EMAIL_MATRIX, ErrorClass, retry
from retrykit.events import Event
from retrykit.policy import delays
from retrykit.testing import ManualClock
from tests.retrying.flaky import FORMS, Flaky, every_form, refused


@every_form
def test_current_counts_and_tells_the_failed_attempts(do: Any, clock: ManualClock) -> None:
    """Each attempt sees those before it, with their error, wait and time."""
    policy = retry(on=OSError, backoff=delays(2, jitter="none"))
    flaky, seen = Flaky(*refused(2)), []
    began = clock.now()

    def call() -> Any:
        seen.append((policy.current.number, policy.current.history))
        return flaky()

    assert do(policy, call) == "answer"
    assert [(number, len(history)) for number, history in seen] == [(1, 0), (2, 1), (3, 2)]
    first, second = seen[-1][1]
    assert (first.number, first.failure.error_class, first.failure.error_message) == (
        1,
        ErrorClass.CONNECTION_ERROR,
        "refused 1",
    )
    assert (first.action, first.delay, first.failed_at) == ("retry", 2.0, began)
    assert (second.number, second.failed_at) == (2, began + timedelta(seconds=2))


@every_form
def test_current_outside_a_call_is_the_first(do: Any) -> None:
    """After a call, however it ended, nothing of it is left."""
    policy = retry(on=OSError, attempts=2, backoff=[0])
    do(policy, Flaky(*refused(1)))
    assert (policy.current.number, policy.current.history, repr(policy.current)) == (1, (), "<attempt 1>")
    with pytest.raises(ConnectionRefusedError):
        do(policy, Flaky(*refused(2)))
    assert policy.current.number == 1
    with pytest.raises(KeyboardInterrupt):
        do(policy, Flaky(*refused(1), KeyboardInterrupt()))
    assert policy.current.number == 1


@pytest.mark.parametrize("do", [FORMS["decorated"], FORMS["called"], FORMS["block"]])
def test_current_after_an_unwanted_end_is_the_first(do: Any) -> None:
    """A predicate, a listener's policy or a classifier that raises leaves nothing behind either."""

    def predicate(error: Exception) -> bool:
        if "2" in str(error):
            raise LookupError("a bug in the predicate")
        return True

    policy = retry(on=predicate, backoff=[0])
    with pytest.raises(LookupError):
        do(policy, Flaky(*refused(3)))
    assert policy.current.number == 1


def test_current_history_is_the_same_at_a_glance_and_closely() -> None:
    """Errors that were only glanced at are told as those that were looked at, but for the place."""
    seen: dict[bool, Any] = {}
    for listens in (False, True):
        heard: list[Event] = []
        policy = retry(on=OSError, backoff=[1], on_event=[heard.append] if listens else [], clock=ManualClock())
        flaky = Flaky(ConnectionResetError(104, "reset by peer"), *refused(1))

        @policy
        def call(policy: retry = policy, flaky: Flaky = flaky, listens: bool = listens) -> None:
            seen[listens] = policy.current.history
            flaky()

        call()
    glanced, looked = seen[False], seen[True]
    assert [each.failure.error_message for each in glanced] == [each.failure.error_message for each in looked]
    assert [each.failure.error_class for each in glanced] == [each.failure.error_class for each in looked]
    assert [each.reason.partition(", waits")[0] for each in glanced] == [
        "connection_error, retry 1 of 2",
        "connection_error, retry 2 of 2",
    ]


def test_current_of_a_nested_call_under_another_policy_is_its_own() -> None:
    """Each policy knows its own call; the inner one's end leaves the outer one's attempt."""
    outer, inner = retry(on=OSError, backoff=[0]), retry(on=OSError, backoff=[0])
    outer_flaky, inner_flaky, seen = Flaky(*refused(1)), Flaky(*refused(1)), []

    @inner
    def fetch() -> None:
        seen.append(("inner", outer.current.number, inner.current.number))
        inner_flaky()

    @outer
    def work() -> None:
        seen.append(("outer", outer.current.number, inner.current.number))
        outer_flaky()
        fetch()
        seen.append(("outer", outer.current.number, inner.current.number))

    work()
    assert seen == [("outer", 1, 1), ("outer", 2, 1), ("inner", 2, 1), ("inner", 2, 2), ("outer", 2, 1)]


def test_current_of_a_reentrant_call_counts_its_own_failures() -> None:
    """The outer call still sees its second attempt when the inner one has gone through two of its own."""
    policy = retry(on=OSError, backoff=[0])
    flaky = {"outer": Flaky(*refused(1)), "inner": Flaky(*refused(2))}
    seen: list[tuple[str, int]] = []

    @policy
    def fetch(name: str) -> None:
        flaky[name]()
        if name == "outer":
            fetch("inner")
        seen.append((name, policy.current.number))

    fetch("outer")
    assert seen == [("inner", 3), ("outer", 2)]


def test_current_of_a_call_within_a_repeated_one_belongs_to_it_until_it_fails() -> None:
    """A call under the same object that has not failed yet is part of the attempt that made it."""
    policy = retry(on=OSError, backoff=[0])
    flaky, seen = Flaky(*refused(1)), []

    @policy
    def inner() -> None:
        seen.append(policy.current.number)

    @policy
    def outer() -> None:
        flaky()
        inner()

    outer()
    assert seen == [2]


def test_current_is_inherited_by_tasks_and_not_by_threads() -> None:
    """A task that an attempt starts is part of it; a thread has a context of its own."""
    policy = retry(on=OSError, backoff=[0])
    flaky, seen = Flaky(*refused(1)), []

    @policy
    async def work() -> None:
        flaky()

        async def part() -> None:
            seen.append(("task", policy.current.number))

        await asyncio.create_task(part())
        thread = threading.Thread(target=lambda: seen.append(("thread", policy.current.number)))
        thread.start()
        thread.join()

    asyncio.run(work())
    assert seen == [("task", 2), ("thread", 1)]


def test_current_history_under_a_matrix_is_what_decided() -> None:
    """The matrix form keeps the decisions, which a caller may read."""
    policy = retry(EMAIL_MATRIX)
    flaky, seen = Flaky(ConnectionRefusedError("x")), []

    @policy
    def fetch() -> None:
        seen.append(policy.current.history)
        flaky()

    fetch()
    assert [len(history) for history in seen] == [0, 1]
    assert seen[1][0].failure.outcome == "not_sent"
