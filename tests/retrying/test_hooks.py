"""Hooks: called before each wait, and what they give is held for as long as it lasts."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from retrykit import retry
from retrykit.clock import SystemClock
from retrykit.errors import ConfigurationError
from retrykit.events import AttemptFailed
from retrykit.policy import delays
from tests.colours import Runner, both_loops, cancel
from tests.retrying.flaky import AsyncFlaky, Do, Flaky, every_form, no_collector, refused


class Log:
    """Notes what happens, by hooks of every kind."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def method(self, event: AttemptFailed) -> None:
        self.lines.append(("method", event.attempt))

    def __call__(self, event: AttemptFailed) -> None:
        self.lines.append(("object", event.attempt))

    def named(self, name: str, event: AttemptFailed) -> None:
        self.lines.append((name, event.attempt))

    @contextmanager
    def held(self, event: AttemptFailed) -> Iterator[None]:
        self.lines.append(("enter", event.attempt))
        try:
            yield
        finally:
            self.lines.append(("leave", event.attempt))


@every_form
def test_hook_of_every_kind_is_called_with_the_event(do: Do) -> None:
    """Bound methods, objects and partials, in their order, before each wait and not after the last attempt."""
    log = Log()
    policy = retry(
        on=OSError, attempts=3, backoff=[0], hooks=[log.method, log, functools.partial(log.named, "partial")]
    )
    with pytest.raises(ConnectionRefusedError):
        do(policy, Flaky(*refused(3)))
    assert log.lines == [(kind, number) for number in (1, 2) for kind in ("method", "object", "partial")]


@every_form
def test_hook_that_gives_a_context_manager_has_it_held_for_the_wait(do: Do) -> None:
    """Each is entered once and left once, the last first, and three calls do not multiply that."""
    log = Log()
    inner, outer = functools.partial(Log.held, log), log.held
    policy = retry(on=OSError, backoff=delays(1, jitter="none"), hooks=[outer, inner])
    for _ in range(3):
        assert do(policy, Flaky(*refused(1))) == "answer"
    assert log.lines == [("enter", 1), ("enter", 1), ("leave", 1), ("leave", 1)] * 3


@every_form
def test_hook_that_fails_breaks_nothing(do: Do, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, the others are held and left, and the call goes on."""

    def broken(_: AttemptFailed) -> None:
        raise LookupError("a bug in the hook")

    @contextmanager
    def broken_later(_: AttemptFailed) -> Iterator[None]:
        yield
        raise LookupError("a bug in its end")

    log = Log()
    policy = retry(on=OSError, backoff=[0], hooks=[log.held, broken, broken_later, log.held])
    with caplog.at_level(logging.ERROR, "retrykit.events"):
        assert do(policy, Flaky(*refused(1))) == "answer"
    assert log.lines == [("enter", 1), ("enter", 1), ("leave", 1), ("leave", 1)]
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert "test_hook_that_fails_breaks_nothing" in caplog.records[0].getMessage()


@every_form
def test_hook_that_is_interrupted_leaves_what_was_entered(do: Do) -> None:
    """An interruption passes, past context managers that would swallow it."""

    def interrupted(_: AttemptFailed) -> None:
        raise KeyboardInterrupt

    class Greedy:
        def __enter__(self) -> None:
            log.lines.append("greedy")

        def __exit__(self, *_: object) -> bool:
            log.lines.append("swallows")
            return True

    log = Log()
    with pytest.raises(KeyboardInterrupt):
        do(retry(on=OSError, backoff=[0], hooks=[lambda _: Greedy(), log.held, interrupted]), Flaky(*refused(1)))
    assert log.lines == ["greedy", ("enter", 1), ("leave", 1), "swallows"]


@both_loops
def test_hook_of_a_cancelled_wait_is_left(runner: Runner) -> None:
    """Before the cancellation reaches the caller."""
    log = Log()
    call = retry(on=OSError, backoff=[3600], hooks=[log.held], clock=SystemClock())(AsyncFlaky(*refused(2)))

    cancel(runner, call)
    assert log.lines == [("enter", 1), ("leave", 1)]


@every_form
def test_hook_leaves_nothing_in_memory(do: Do) -> None:
    """Neither what it gave nor what it was told is kept by the policy."""
    kept: list[weakref.ref[Any]] = []

    class Held:
        def __enter__(self) -> None:
            kept.append(weakref.ref(self))

        def __exit__(self, *_: object) -> None: ...

    policy = retry(on=OSError, backoff=[0], hooks=[lambda _: Held()])
    with no_collector():
        for _ in range(3):
            do(policy, Flaky(*refused(2)))
        alive = [reference() for reference in kept]
    assert alive == [None] * 6


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        (print, "hooks is <built-in function print>; allowed is a list"),
        (["log"], "a listener of hooks is 'log'"),
        ([AsyncFlaky()], "a listener of hooks is the coroutine function .*; listeners are called, never awaited"),
    ],
)
def test_hooks_of_another_kind_are_refused(hooks: Any, message: str) -> None:
    """A hook that would have to be awaited would do nothing."""
    with pytest.raises(ConfigurationError, match=message):
        retry(on=OSError, hooks=hooks)
