"""Turns: the order in which they begin, and what becomes of those that wait."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.worker import AsyncIsolation, Isolation
from tests.colours import Runner, both_loops, cancel, trio

LONG = 60.0
"""Seconds that a test waits for what comes at once."""
SHORT = 0.01
"""Seconds that a test waits for what does not come."""


@given(st.lists(st.booleans(), max_size=8), st.randoms(use_true_random=False))
def test_turns_of_any_kind_begin_in_their_order(kinds, random):
    """Nobody is beside one that is alone, nobody who came later is before one that waits, and at any time somebody has begun."""
    isolation = Isolation()
    turns = [isolation.turn(alone=alone) for alone in kinds]
    while turns:
        begun = [turn for turn in turns if turn.wait(0)]
        assert begun
        assert turns[: len(begun)] == begun
        assert len(begun) == 1 or not any(turn.alone for turn in begun)
        leaving = random.choice(turns)
        leaving.leave()
        turns.remove(leaving)


def test_turn_that_has_left_does_not_begin():
    """Leaving is for good, and may be repeated."""
    isolation = Isolation()
    turn = isolation.turn(alone=True)
    assert turn.wait(0)
    turn.leave()
    turn.leave()
    assert not turn.wait(0)
    assert isolation.turn(alone=True).wait(0)


def test_turn_of_a_thread_begins_when_the_others_have_left():
    """A thread that waits is told."""
    isolation = Isolation()
    first, alone, later = (isolation.turn(alone=alone) for alone in (False, True, False))
    answers = []
    threads = [threading.Thread(target=lambda turn=turn: answers.append(turn.wait(LONG))) for turn in (alone, later)]
    for thread in threads:
        thread.start()
    first.leave()
    threads[0].join(LONG)
    assert [True] == answers
    alone.leave()
    threads[1].join(LONG)
    assert [True, True] == answers


def test_turn_that_waits_too_long_keeps_its_place_until_it_leaves():
    """Those behind it go on once it has given its place up."""
    isolation = Isolation()
    first, alone, later = (isolation.turn(alone=alone) for alone in (False, True, False))
    assert first.wait(0)
    assert not alone.wait(SHORT)
    assert not later.wait(0)
    alone.leave()
    assert later.wait(0)


def test_turns_of_a_forked_child_begin_anew():
    """Those who worked when it was forked are in the parent, and one of them may have held the lock."""
    isolation = Isolation()
    assert isolation.turn(alone=True).wait(0)
    with isolation._changed:
        child = os.fork()
        if child == 0:
            os._exit(0 if isolation.turn(alone=True).wait(0) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not isolation.turn(alone=True).wait(0)


def test_async_turns_of_a_forked_child_begin_anew():
    """As those of threads."""
    isolation = AsyncIsolation()
    isolation.turn(alone=True)
    child = os.fork()
    if child == 0:
        os._exit(0 if isolation.turn(alone=True)._has_begun() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


async def _together(runner: Runner, *tasks) -> None:
    if runner is trio.run:
        async with trio.open_nursery() as nursery:
            for task in tasks:
                nursery.start_soon(task)
        return
    import asyncio

    await asyncio.gather(*(task() for task in tasks))


@both_loops
def test_async_turns_begin_in_their_order(runner: Runner):
    """A task that is alone has nobody beside it, and those that came later begin after it."""
    isolation = AsyncIsolation()
    turns = [isolation.turn(alone=alone) for alone in (False, False, True, False, True, False)]
    seen = []

    def task(number):
        async def work():
            turn = turns[number]
            seen.append((number, await turn.wait(LONG), sum(each._has_begun() for each in turns)))
            turn.leave()

        return work

    async def main():
        await _together(runner, *(task(number) for number in (5, 4, 3, 2, 1, 0)))

    runner(main)
    assert {(0, True), (1, True)} == {entry[:2] for entry in seen[:2]}
    assert [(2, True, 1), (3, True, 1), (4, True, 1), (5, True, 1)] == seen[2:]


@both_loops
def test_async_turn_that_waits_too_long_keeps_its_place_until_it_leaves(runner: Runner):
    """As with threads."""
    isolation = AsyncIsolation()

    async def main():
        first, alone, later = (isolation.turn(alone=alone) for alone in (False, True, False))
        answers = [await first.wait(SHORT), await alone.wait(SHORT), await later.wait(0)]
        alone.leave()
        alone.leave()
        return [*answers, await later.wait(0), await alone.wait(0)]

    assert [True, False, False, True, False] == runner(main)


@both_loops
def test_async_turn_of_a_cancelled_task_is_given_up(runner: Runner):
    """The cancellation reaches the caller, and whoever is behind goes on."""
    isolation = AsyncIsolation()
    first = isolation.turn(alone=False)

    async def main():
        turn = isolation.turn(alone=True)
        try:
            await turn.wait(LONG)
        finally:
            turn.leave()

    cancel(runner, main)
    assert first._has_begun()
    assert isolation.turn(alone=False)._has_begun()


@pytest.mark.parametrize("kind", [Isolation, AsyncIsolation])
def test_isolation_without_turns_holds_nothing(kind):
    """What has left leaves nothing behind."""
    isolation = kind()
    for alone in (True, False) * 3:
        isolation.turn(alone=alone).leave()
    assert [] == isolation._turns
