"""Retries inside retries: `suppress_nested` keeps the layers from multiplying."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from retrykit import EMAIL_MATRIX, retry
from retrykit.events import Event
from retrykit.retrying.combined import resilient
from tests.colours import Runner, both_loops
from tests.retrying.flaky import AsyncFlaky, Do, Flaky, every_form, refused

inner = retry(on=OSError, attempts=3, backoff=[0])
outer = retry(on=OSError, attempts=3, backoff=[0], suppress_nested=True)


@every_form
def test_nested_retries_multiply_unless_they_are_suppressed(do: Do) -> None:
    """Three layers of three tries are twenty-seven calls, or three."""
    for policy, calls in ((outer.but(suppress_nested=False), 27), (outer, 3)):
        flaky = Flaky(*refused(99))
        with pytest.raises(ConnectionRefusedError):
            do(policy, inner(inner(flaky)))
        assert flaky.calls == calls


@every_form
def test_nested_retry_that_is_suppressed_says_so(do: Do) -> None:
    """In the error and to its listeners."""
    heard: list[Event] = []
    with pytest.raises(ConnectionRefusedError) as caught:
        do(outer.but(attempts=1), inner.but(on_event=[heard.append])(Flaky(*refused(9))))
    assert caught.value.__notes__[0].endswith("connection_error, left to the retry around it")
    told: Any = heard
    assert [event.decision.action for event in told] == ["dead_letter"]


@every_form
def test_nested_retry_after_the_outer_call_retries_again(do: Do) -> None:
    """Only what happens inside is suppressed, however the outer call ended."""
    for errors in ([], refused(9), [KeyboardInterrupt()]):
        with suppress(ConnectionRefusedError, KeyboardInterrupt):
            do(outer, Flaky(*errors))
        assert inner.call(Flaky(*refused(2))) == "answer"


@pytest.mark.parametrize("form", ["block", "matrix", "resilient", "on_result"])
def test_nested_retry_of_every_kind_is_suppressed(form: str) -> None:
    """Whatever retries inside."""
    flaky = Flaky(*refused(99))

    def in_block() -> Any:
        for attempt in inner:
            with attempt:
                flaky()

    inside: Any = {
        "block": in_block,
        "matrix": retry(EMAIL_MATRIX)(flaky),
        "resilient": resilient(retry=inner)(flaky),
        "on_result": inner.but(on_result=bool)(flaky),
    }[form]
    with pytest.raises(ConnectionRefusedError):
        outer.call(inside)
    assert flaky.calls == 3


def test_nested_retry_inside_resilient_is_suppressed() -> None:
    """The setting of its retry holds."""
    flaky = Flaky(*refused(99))
    with pytest.raises(ConnectionRefusedError):
        resilient(retry=outer).call(inner(flaky))
    assert flaky.calls == 3


def test_reentrant_call_is_suppressed_too() -> None:
    """A function that calls itself does not multiply either."""
    flaky = Flaky(*refused(99))

    @outer
    def fetch(depth: int) -> Any:
        return fetch(depth - 1) if depth else flaky()

    with pytest.raises(ConnectionRefusedError):
        fetch(3)
    assert flaky.calls == 3


@both_loops
def test_nested_retry_beside_a_suppressing_one_retries(runner: Runner) -> None:
    """A task that was begun inside belongs to it; one beside it does not."""
    inside, beside = AsyncFlaky(*refused(9)), AsyncFlaky(*refused(2))

    @outer
    async def work() -> None:
        await inner(inside)()

    async def main() -> Any:
        with pytest.raises(ConnectionRefusedError):
            await work()
        return await inner(beside)()

    assert runner(main) == "answer"
    assert (inside.calls, beside.calls) == (3, 3)


def test_nested_retry_in_parallel_tasks_and_threads_is_suppressed_apart() -> None:
    """One task's suppression is not another's."""
    free = AsyncFlaky(*refused(2))
    seen: list[int] = []

    @outer
    async def work(entered: asyncio.Event, done: asyncio.Event) -> None:
        entered.set()
        await done.wait()
        thread = threading.Thread(target=lambda: seen.append(len(inner.call(Flaky(*refused(2))))))
        thread.start()
        thread.join()

    async def main() -> None:
        entered, done = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(work(entered, done))
        await entered.wait()
        assert await inner(free)() == "answer"
        done.set()
        await task

    asyncio.run(main())
    assert (free.calls, seen) == (3, [6])
