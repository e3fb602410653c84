"""A flow is driven to its end under synchronous callers, asyncio and trio, with the same results and the same errors."""

from __future__ import annotations

import asyncio
import gc
import traceback
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit._steps import Step, arun, do, run
from tests.capabilities import require

require("trio")

import trio


def _run(make_flow):
    return run(make_flow())


def _arun_asyncio(make_flow):
    return asyncio.run(_await(make_flow))


def _arun_trio(make_flow):
    return trio.run(_await, make_flow)


async def _await(make_flow):
    return await arun(make_flow())


drivers = pytest.mark.parametrize("drive", [_run, _arun_asyncio, _arun_trio], ids=["run", "asyncio", "trio"])


class BoomError(Exception):
    """An error of a step's function."""


class Stop(StopIteration):
    """A StopIteration that can be referred to weakly."""


def add(first, second=0):
    return first + second


def boom(*notes):
    error = BoomError("boom")
    for note in notes:
        error.add_note(note)
    raise error


@drivers
def test_flow_result_is_what_it_returns(drive):
    """Each step's result comes back at its yield; the last word is the flow's own return value."""

    def flow():
        first = yield from do(add, 1, 2)
        second = yield from do(add, first, second=10)
        return [first, second]

    assert [3, 13] == drive(flow)


@drivers
def test_flow_without_steps_returns_at_once(drive):
    """A flow may need no call at all."""

    def flow():
        return "early"
        yield

    assert drive(flow) == "early"


@drivers
@pytest.mark.parametrize("value", [None, 0, "", False, ()])
def test_step_result_that_is_falsy_comes_back_as_it_is(drive, value):
    """No result is taken for another or for "none yet"."""

    def flow():
        return (yield from do(lambda: value))

    assert drive(flow) is value


@drivers
def test_step_exception_is_raised_in_the_flow_at_the_yield(drive):
    """A flow catches a step's error where the step stands, and goes on."""

    def flow():
        try:
            yield from do(boom)
        except BoomError as error:
            return ["caught", str(error), (yield from do(add, 1))]

    assert ["caught", "boom", 1] == drive(flow)


@drivers
def test_step_exception_that_is_not_caught_is_raised_as_the_same_object(drive):
    """The caller gets the user's own exception, notes, cause and context untouched, and its frames in the traceback."""
    cause, raised = KeyError("cause"), BoomError("boom")
    raised.add_note("a note of the user")

    def user_function():
        try:
            raise KeyError("context")
        except KeyError:
            raise raised from cause

    def flow():
        yield from do(user_function)

    with pytest.raises(BoomError) as caught:
        drive(flow)
    assert caught.value is raised
    assert caught.value.__notes__ == ["a note of the user"]
    assert caught.value.__cause__ is cause
    assert str(KeyError("context")) == str(caught.value.__context__)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-1] == "user_function"
    assert frames.count("user_function") == 1


@drivers
def test_flow_exception_is_raised_as_it_is(drive):
    """What the flow raises itself comes out."""

    def flow():
        yield from do(add, 1)
        raise BoomError("of the flow")

    with pytest.raises(BoomError, match="of the flow"):
        drive(flow)


@drivers
def test_flow_that_wraps_a_steps_exception_in_a_runtime_error_raises_the_runtime_error(drive):
    """A RuntimeError raised from a step's error is not mistaken for an escaped StopIteration."""

    def flow():
        try:
            yield from do(boom)
        except BoomError as error:
            raise RuntimeError("wrapped") from error

    with pytest.raises(RuntimeError, match="wrapped") as caught:
        drive(flow)
    assert type(caught.value.__cause__) is BoomError


@drivers
def test_flow_that_raises_a_runtime_error_of_its_own_lets_it_out(drive):
    """A RuntimeError without a cause passes."""

    def flow():
        yield from do(add, 1)
        raise RuntimeError("plain")

    with pytest.raises(RuntimeError, match="plain"):
        drive(flow)


def test_run_step_stop_iteration_comes_out_as_itself():
    """A user's StopIteration is not turned into a RuntimeError, and keeps its value, cause and missing context."""
    stop = Stop("of the user")
    stop.__cause__ = KeyError("cause")

    def user_function():
        raise stop

    def flow():
        yield from do(user_function)

    with pytest.raises(StopIteration) as caught:
        run(flow())
    assert caught.value is stop
    assert (stop.value, repr(stop.__cause__), stop.__context__) == ("of the user", "KeyError('cause')", None)
    assert traceback.extract_tb(stop.__traceback__)[-1].name == "user_function"


@pytest.mark.parametrize("drive", [_arun_asyncio, _arun_trio], ids=["asyncio", "trio"])
def test_arun_step_stop_iteration_is_the_cause_of_a_runtime_error(drive):
    """No coroutine can raise StopIteration; Python's own RuntimeError carries it."""

    def user_function():
        raise Stop

    def flow():
        yield from do(user_function)

    with pytest.raises(RuntimeError) as caught:
        drive(flow)
    assert type(caught.value.__cause__) is Stop


@drivers
def test_step_stop_iteration_reaches_the_flow_as_the_cause_of_a_runtime_error(drive):
    """No generator can pass StopIteration on (PEP 479): the flow sees what Python makes of it, and may go on."""

    def flow():
        try:
            yield from do(next, iter(()))
        except RuntimeError as error:
            return [type(error.__cause__), (yield from do(add, 1))]

    assert [StopIteration, 1] == drive(flow)


@drivers
@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_step_interruption_passes_through_the_flow_and_no_further_step_is_taken(drive, signal):
    """`except Exception` in a flow does not see interruptions, `finally` does."""
    log = []

    def interrupted():
        raise signal("now")

    def flow():
        try:
            yield from do(interrupted)
        except Exception:  # noqa: BLE001 - this is the point
            log.append("except")
        finally:
            log.append("finally")
        yield from do(log.append, "next step")

    with pytest.raises(signal, match="now"):
        drive(flow)
    assert log == ["finally"]


@pytest.mark.parametrize("drive", [_arun_asyncio, _arun_trio], ids=["asyncio", "trio"])
def test_arun_awaits_what_is_awaitable_and_takes_the_rest_as_it_is(drive):
    """Coroutines, objects with `__await__` and plain results may be mixed in one flow."""

    class Awaitable:
        def __await__(self):
            yield from coroutine(5).__await__()
            return 6

    async def coroutine(value):
        return value

    def flow():
        return [(yield from do(coroutine, 1)), (yield from do(Awaitable)), (yield from do(add, 2))]

    assert [1, 6, 2] == drive(flow)


@pytest.mark.parametrize("drive", [_arun_asyncio, _arun_trio], ids=["asyncio", "trio"])
def test_arun_exception_of_a_coroutine_is_raised_in_the_flow(drive):
    """An error that comes while a step is awaited is the step's error."""

    async def fail():
        boom("late")

    def flow():
        try:
            yield from do(fail)
        except BoomError as error:
            return error.__notes__

    assert ["late"] == drive(flow)


def test_do_passes_a_keyword_argument_called_fn():
    """The function is positional only, so no keyword of the user's collides with it."""

    def flow():
        return (yield from do(dict, fn=1, self=2))

    assert {"fn": 1, "self": 2} == run(flow())


def test_step_is_seen_before_it_is_made():
    """Whoever drives a flow gets each call as data, and may leave it unmade."""

    def flow():
        yield from do(add, 1, second=2)

    pending = flow()
    step = next(pending)
    assert Step(add, (1,), {"second": 2}) == step
    assert step() == 3
    pending.close()


def _arun_without_a_loop(make_flow):
    arun(make_flow()).send(None)


@pytest.mark.parametrize("drive", [_run, _arun_without_a_loop], ids=["run", "arun"])
@pytest.mark.parametrize("error_type", [BoomError, Stop])
def test_raised_exception_leaves_no_reference_cycle(drive, error_type):
    """The exception and its frames go away with the last reference, without the garbage collector."""

    def fail():
        raise error_type("x")

    def flow():
        yield from do(fail)

    gc.collect()
    gc.disable()
    try:
        try:
            drive(flow)
        except (BoomError, StopIteration, RuntimeError) as error:
            reference = weakref.ref(error if isinstance(error, error_type) else error.__cause__)
        assert reference() is None
    finally:
        gc.enable()


@given(st.lists(st.integers() | st.just(BoomError) | st.just(Stop), max_size=8))
def test_run_and_arun_give_the_same_results(program):
    """One flow, three drivers, one result, whatever its steps return or raise."""

    def step(item):
        if isinstance(item, type):
            raise item
        return item

    def flow():
        seen = []
        for item in program:
            try:
                seen.append((yield from do(step, item)))
            except (BoomError, RuntimeError) as error:
                seen.append(type(error.__cause__ or error).__name__)
        return seen

    expected = [item.__name__ if isinstance(item, type) else item for item in program]
    assert [expected] * 3 == [_run(flow), _arun_asyncio(flow), _arun_trio(flow)]
