"""The step harness: flows that are stopped, abandoned or continued before any of their steps."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from retrykit._steps import do
from retrykit.backends import MemoryBackend
from retrykit.stores import as_async
from retrykit.testing import Paused, StepLog, crash_before, run_until
from tests.capabilities import require

require("trio")

import trio


class World:
    """What the steps of a flow leave behind."""

    def __init__(self):
        self.done = []

    def step(self, name):
        self.done.append(name)
        return name.upper()

    def fail(self):
        self.done.append("fail")
        raise KeyError("lost")


def flow(world):
    """Three steps and a result."""
    seen = ""
    for name in "abc":
        seen += yield from do(world.step, name)
    return seen


@pytest.mark.parametrize("steps", range(5))
def test_crash_before_makes_so_many_steps_and_no_more(steps):
    """True when the flow was cut short, False when it had come to its end."""
    world, log = World(), StepLog()
    assert (steps < 3) is crash_before(flow(world), steps, log)
    assert list("abc")[:steps] == world.done
    assert ["step"] * min(steps, 3) == log.names


def test_crash_before_lets_the_flow_clean_up_but_take_no_step():
    """An abandoned generator is closed, which is all that a dead process does not do."""
    world = World()

    def careful():
        try:
            yield from do(world.step, "first")
            yield from do(world.step, "second")
        finally:
            world.done.append("finally")

    assert crash_before(careful(), 1) is True
    assert world.done == ["first", "finally"]


@pytest.mark.parametrize("steps", range(4))
def test_run_until_leaves_it_standing_and_finish_goes_on(steps):
    """Others may run while it stands still."""
    world = World()
    paused = run_until(flow(world), steps)
    assert list("abc")[:steps] == world.done
    if steps < 3:
        assert (paused.done, paused.result) == (False, None)
        assert (world.step, ("abc"[steps],), {}) == (paused.step.fn, paused.step.args, paused.step.kwargs)
    world.done.append("meanwhile")
    assert paused.finish() == "ABC"
    assert (True, None, "ABC") == (paused.done, paused.step, paused.result)
    assert [*"abc"[:steps], "meanwhile", *"abc"[steps:]] == world.done


def test_paused_makes_one_step_at_a_time():
    """Two stalled flows may be woven into each other."""
    world = World()
    first, second = Paused(flow(world)), Paused(flow(world))
    for paused in (first, second, second, first, second, first):
        paused.make_step()
    assert list("aabbcc") == world.done
    assert first.done is second.done is True


def test_paused_at_its_end_refuses_another_step():
    """A mistake of the test, said so."""
    paused = run_until(flow(World()), 9)
    with pytest.raises(AssertionError, match="the flow is at its end"):
        paused.make_step()
    assert paused.finish() == "ABC"


class FalseError(Exception):
    """An error that is falsy."""

    def __bool__(self):
        return False


@pytest.mark.parametrize("error", [KeyError("lost"), FalseError()])
def test_error_of_a_step_belongs_to_the_flow(error):
    """It is raised at the yield, and the flow may go on."""
    world = World()

    def fail():
        raise error

    def catching():
        try:
            yield from do(fail)
        except (KeyError, FalseError) as caught:
            return [caught, (yield from do(world.step, "after"))]

    assert [error, "AFTER"] == Paused(catching()).finish()


def test_error_that_the_flow_does_not_catch_comes_out():
    """At the step that raised it."""
    world = World()

    def failing():
        yield from do(world.step, "first")
        yield from do(world.fail)

    paused = run_until(failing(), 1)
    with pytest.raises(KeyError, match="lost"):
        paused.make_step()
    assert world.done == ["first", "fail"]


def test_interruption_of_a_step_is_not_given_to_the_flow():
    """A test that is stopped is stopped."""

    def interrupted():
        raise KeyboardInterrupt

    def catching():
        try:
            yield from do(interrupted)
        except BaseException:  # noqa: BLE001 - this is the point
            return "caught"

    with pytest.raises(KeyboardInterrupt):
        Paused(catching()).finish()


def test_log_names_functions_and_shows_what_has_no_name():
    """A trace of a failed test is readable."""
    log, nameless = StepLog(), partial(print, end="")

    def naming():
        yield from do(len, "abc")
        yield from do(nameless)

    Paused(naming(), log).finish()
    assert ["len", repr(nameless)] == log.names


def test_log_may_be_shared_by_several_flows():
    """The order over all of them is what counts."""
    log = StepLog()
    run_until(flow(World()), 1, log)
    crash_before(flow(World()), 2, log)
    assert ["step"] * 3 == log.names


async def later(name):
    """Give a name in its own time."""
    await asyncio.sleep(0)
    return name.upper()


async def fail_later():
    await asyncio.sleep(0)
    raise KeyError("lost")


def run_trio(coroutine):
    return trio.run(lambda: coroutine)


@pytest.fixture(params=["asyncio", "trio"])
def drive(request):
    """Each event loop, as a function that runs a coroutine to its end."""
    if request.param == "trio":
        yield run_trio
        return
    with asyncio.Runner() as runner:
        yield runner.run


def test_drive_runs_the_calls_of_an_asynchronous_flow(drive):
    """One call at a time, those that give nothing to wait for among them; the flow gets the results."""
    world, twin = World(), as_async(MemoryBackend())

    def mixed():
        answer = yield from do(twin.claims.claim, "a", owner="me")
        name = yield from do(world.step, "b")
        return answer.record.key + name + str((yield from do(twin.claims.get, "c")))

    log = StepLog()
    paused = run_until(mixed(), 2, log, drive=drive)
    assert (["claim", "step"], "get") == (log.names, paused.step.fn.__name__)
    assert paused.finish() == "aBNone"


@pytest.mark.parametrize("steps", range(3))
def test_crash_before_a_step_of_an_asynchronous_flow_makes_so_many(drive, steps):
    """As of a synchronous one."""
    twin = as_async(MemoryBackend())

    def claiming():
        yield from do(twin.claims.claim, "a", owner="me")
        yield from do(twin.claims.claim, "b", owner="me")

    assert (steps < 2) is crash_before(claiming(), steps, drive=drive)
    made = [drive(twin.claims.get(key)) is not None for key in "ab"]
    assert [steps > 0, steps > 1] == made


def test_error_of_an_asynchronous_step_belongs_to_the_flow():
    """It is raised at the yield, and the flow may go on."""

    def catching():
        try:
            yield from do(fail_later)
        except KeyError:
            return (yield from do(later, "after"))

    with asyncio.Runner() as runner:
        assert Paused(catching(), drive=runner.run).finish() == "AFTER"


def test_awaitable_that_is_no_coroutine_is_driven():
    """What has to be awaited may be any object that can be."""

    class Promise:
        def __await__(self):
            return later("kept").__await__()

    def waiting():
        return (yield from do(Promise))

    with asyncio.Runner() as runner:
        assert Paused(waiting(), drive=runner.run).finish() == "KEPT"


def test_asynchronous_flow_without_drive_is_refused():
    """A mistake of the test, said so; the coroutine is not left unawaited."""

    def waiting():
        yield from do(later, "a")

    with pytest.raises(AssertionError, match=r"later.* gave a coroutine: give `drive`"):
        Paused(waiting()).make_step()


class StopError(BaseException):
    """A signal's."""


def test_interrupt_lets_the_flow_make_its_last_calls():
    """The call it stood before is not made; those that it asks for on its way out are, and then the error comes out."""
    world = World()

    def careful():
        try:
            yield from do(world.step, "first")
            yield from do(world.step, "second")
        except StopError:
            yield from do(world.step, "last")
            raise

    paused = run_until(careful(), 1)
    paused.interrupt(StopError())
    assert (paused.done, paused.step.args) == (False, ("last",))
    with pytest.raises(StopError):
        paused.finish()
    assert world.done == ["first", "last"]


def test_interrupt_of_a_flow_that_asks_for_nothing_raises_at_once():
    """There is no call to make first."""
    paused = run_until(flow(World()), 1)
    with pytest.raises(StopError):
        paused.interrupt(StopError())


def test_interrupt_that_the_flow_survives_lets_it_go_on():
    """As a handler of a signal may decide."""
    world = World()

    def stubborn():
        try:
            yield from do(world.step, "first")
        except StopError:
            return (yield from do(world.step, "second"))

    paused = Paused(stubborn())
    paused.interrupt(StopError())
    assert paused.finish() == "SECOND"
