"""Retried generator functions, in both modes and both colours."""

from __future__ import annotations

import contextvars
import functools
import inspect
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal

import pytest

from retrykit import RetryBudget, retry
from retrykit.errors import ConfigurationError
from retrykit.events import Event
from retrykit.policy import delays
from retrykit.testing import ManualClock
from tests.colours import Runner, both_loops
from tests.retrying.flaky import OwnError, no_collector, refused


class Source:
    """Gives items, and fails as told: each run is a list of items and errors."""

    def __init__(self, *runs: list[Any]) -> None:
        self.runs = list(runs)
        self.closed = 0
        self.received: list[Any] = []

    def items(self) -> Iterator[Any]:
        """Give the items of the next run; it returns "done"."""
        try:
            for item in self.runs.pop(0):
                if isinstance(item, BaseException):
                    raise item
                self.received.append((yield item))
        finally:
            self.closed += 1
        return "done"

    async def async_items(self) -> AsyncIterator[Any]:
        """Give the items of the next run."""
        try:
            for item in self.runs.pop(0):
                if isinstance(item, BaseException):
                    raise item
                self.received.append((yield item))
        finally:
            self.closed += 1


def collect(source: Source, policy: retry, into: list[Any]) -> None:
    for item in policy(source.items)():
        into.append(item)  # noqa: PERF402 - what came before an error has to be kept


def collect_async(runner: Runner) -> Callable[[Source, retry, list[Any]], None]:
    def run(source: Source, policy: retry, into: list[Any]) -> None:
        async def main() -> None:
            async for item in policy(source.async_items)():
                into.append(item)  # noqa: PERF401 - as above

        runner(main)

    return run


def _asyncio(main: Any) -> Any:
    import asyncio

    return asyncio.run(main())


def _trio(main: Any) -> Any:
    import trio

    return trio.run(main)


Collect = Callable[[Source, retry, list[Any]], None]

every_colour = pytest.mark.parametrize(
    "collector", [collect, collect_async(_asyncio), collect_async(_trio)], ids=["sync", "asyncio", "trio"]
)


def policy_of(mode: Literal["restart", "before_first_item"], **settings: Any) -> retry:
    return retry(on=OSError, backoff=delays(2, jitter="none"), generators=mode, **settings)


@every_colour
@pytest.mark.parametrize("mode", ["restart", "before_first_item"])
def test_generator_that_fails_before_its_first_item_begins_anew(collector: Collect, mode: Any, clock: Any) -> None:
    """In both modes, after the policy's waits, each failed run being closed."""
    source, given = Source([refused(1)[0]], [refused(1)[0]], [1, 2]), list[Any]()
    collector(source, policy_of(mode), given)
    assert (given, source.closed, clock.sleeps) == ([1, 2], 3, [2.0, 2.0])


@every_colour
def test_generator_that_fails_later_restarts_with_all_items(collector: Collect) -> None:
    """Who asks for that bears repeated items."""
    source, given = Source([1, 2, refused(1)[0]], [1, 2, 3]), list[Any]()
    collector(source, policy_of("restart"), given)
    assert given == [1, 2, 1, 2, 3]


@every_colour
def test_generator_that_fails_after_its_first_item_fails_in_the_other_mode(collector: Collect) -> None:
    """The error itself leaves, says why, and listeners hear of it."""
    heard: list[Event] = []
    source, given = Source([1, refused(1)[0]], [1, 2]), list[Any]()
    with pytest.raises(ConnectionRefusedError) as caught:
        collector(source, policy_of("before_first_item", on_event=[heard.append]), given)
    assert (given, source.closed, len(source.runs), len(heard)) == ([1], 1, 1, 1)
    assert caught.value.__notes__[0].endswith("connection_error, some items were given already")


@every_colour
def test_generator_of_attempts_used_up_raises_the_last_error(collector: Collect) -> None:
    """As a function does: with a note, and without the errors before."""
    errors = refused(2)
    source, given = Source([1, errors[0]], [1, errors[1]]), list[Any]()
    with pytest.raises(ConnectionRefusedError) as caught:
        collector(source, policy_of("restart", attempts=2), given)
    assert caught.value is errors[1]
    assert (given, errors[1].__context__, len(errors[1].__notes__)) == ([1, 1], None, 1)


@every_colour
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_generator_with_another_error_passes_it(collector: Collect, error: BaseException) -> None:
    """What is not retried leaves at once, and the run is closed."""
    source = Source([error], [1])
    with pytest.raises(type(error)):
        collector(source, policy_of("restart"), [])
    assert (source.closed, len(source.runs)) == (1, 1)


@every_colour
def test_generator_pays_and_earns(collector: Collect) -> None:
    """A retry costs a token, a run that ends brings its share."""
    budget = RetryBudget(capacity=10, per_success=0.5, floor=0)
    collector(Source([refused(1)[0]], [1]), policy_of("restart", budget=budget), [])
    assert budget.tokens == 9.5
    collector(Source([1]), policy_of("restart", budget=budget), [])
    assert budget.tokens == 10.0


@every_colour
def test_generator_knows_its_attempt_and_its_consumer_does_not(collector: Collect) -> None:
    """Between two items nothing runs."""
    policy = policy_of("restart")
    inside: list[int] = []

    class Watched(list[Any]):
        def append(self, item: Any) -> None:
            super().append((item, policy.current.number))

    class Asking(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            for item in list.__iter__(self):
                inside.append(policy.current.number)
                yield item

    given = Watched()
    collector(Source(Asking([1, refused(1)[0]]), Asking([1, 2])), policy, given)
    assert (inside, given) == ([1, 1, 2, 2], [(1, 1), (1, 1), (2, 1)])


def test_generators_that_take_turns_count_apart() -> None:
    """Two iterations of one function, whichever ends first."""
    policy = policy_of("restart")
    seen: list[int] = []

    @policy
    def items(flaws: list[int]) -> Iterator[int]:
        if flaws:
            raise ConnectionRefusedError(flaws.pop())
        for number in range(2):
            seen.append(policy.current.number)
            yield number

    first, second = items([1, 1]), items([1])
    assert [next(first), next(second), next(first), next(second)] == [0, 0, 1, 1]
    assert (list(first), list(second), seen, policy.current.number) == ([], [], [3, 2, 3, 2], 1)


def test_generator_passes_on_what_is_sent_and_returns_its_value() -> None:
    """The wrapper is as transparent as `yield from`."""
    source = Source([1, 2])
    stream: Any = policy_of("restart")(source.items)()
    assert next(stream) == 1
    assert stream.send("hello") == 2
    with pytest.raises(StopIteration) as stopped:
        stream.send("again")
    assert (stopped.value.value, source.received) == ("done", ["hello", "again"])


def test_generator_passes_on_what_is_thrown_in() -> None:
    """The generator may handle it; when it comes out again it is the consumer's, and no reason to retry."""
    handled: list[str] = []

    @policy_of("restart")
    def items() -> Any:
        try:
            yield 1
        except LookupError as error:
            handled.append(str(error))
            yield "handled"
        yield 2

    stream: Any = items()
    next(stream)
    assert stream.throw(LookupError("hello")) == "handled"
    thrown = ConnectionRefusedError("from the consumer")
    with pytest.raises(ConnectionRefusedError) as caught:
        stream.throw(thrown)
    assert caught.value is thrown
    assert (handled, getattr(thrown, "__notes__", [])) == (["hello"], [])


def test_generator_that_fails_while_it_handles_what_was_thrown_in_begins_anew() -> None:
    """Its own error is a failure like any other."""
    runs: list[int] = []

    @policy_of("restart")
    def items() -> Any:
        runs.append(1)
        try:
            yield "first"
        except LookupError:
            raise ConnectionRefusedError("down") from None

    stream: Any = items()
    next(stream)
    assert stream.throw(LookupError()) == "first"
    assert len(runs) == 2


@both_loops
def test_async_generator_passes_on_what_is_sent_and_thrown_in(runner: Runner) -> None:
    """As its synchronous twin."""
    source = Source([1, 2, 3])

    async def main() -> None:
        stream: Any = policy_of("restart")(source.async_items)()
        assert await anext(stream) == 1
        assert await stream.asend("hello") == 2
        thrown = ConnectionRefusedError("from the consumer")
        with pytest.raises(ConnectionRefusedError) as caught:
            await stream.athrow(thrown)
        assert caught.value is thrown

    runner(main)
    assert (source.received, source.closed) == (["hello"], 1)


def test_generator_closed_in_the_middle_closes_its_run() -> None:
    """No other attempt begins, and nothing of it is left."""
    policy = policy_of("restart")
    source = Source([refused(1)[0]], [1, 2], [1])
    stream: Any = policy(source.items)()
    assert next(stream) == 1
    stream.close()
    assert (source.closed, len(source.runs), policy.current.number) == (2, 1, 1)


@both_loops
def test_async_generator_closed_in_the_middle_closes_its_run(runner: Runner) -> None:
    """By `aclose`, as the synchronous one by `close`."""
    policy = policy_of("restart")
    source = Source([refused(1)[0]], [1, 2], [1])

    async def main() -> int:
        stream: Any = policy(source.async_items)()
        assert await anext(stream) == 1
        await stream.aclose()
        return policy.current.number

    assert runner(main) == 1
    assert (source.closed, len(source.runs)) == (2, 1)


def test_generator_driven_from_several_contexts_goes_on() -> None:
    """As web frameworks do, which take each item in a thread of a pool."""
    source = Source([refused(1)[0]], [1, 2])
    stream = policy_of("restart")(source.items)()
    assert [contextvars.copy_context().run(next, stream) for _ in range(2)] == [1, 2]


def test_generator_failure_is_freed() -> None:
    """Neither the wrapper nor what was thrown in keeps an error alive."""
    kept: list[weakref.ref[Any]] = []

    @retry(on=OwnError, attempts=2, backoff=[0], generators="restart")
    def items() -> Any:
        yield 1
        raise OwnError("down")

    with no_collector():
        for throw in (False, True):
            stream: Any = items()
            try:
                next(stream)
                if throw:
                    stream.throw(OwnError("thrown"))
                list(stream)
            except OwnError as error:
                kept.append(weakref.ref(error))
            del stream
        assert [reference() for reference in kept] == [None, None]


def test_generator_with_suppress_nested_retries_alone() -> None:
    """Retries inside the generator do not, while it runs; the consumer's own do."""
    inner = retry(on=OSError, attempts=3, backoff=[0])
    calls: list[str] = []

    @inner
    def fetch(who: str) -> None:
        calls.append(who)
        raise ConnectionRefusedError("down")

    @policy_of("restart", suppress_nested=True, attempts=2)
    def items() -> Any:
        yield 1
        fetch("inside")

    def consume() -> None:
        for _ in items():
            with pytest.raises(ConnectionRefusedError):
                fetch("outside")

    with pytest.raises(ConnectionRefusedError):
        consume()
    assert (calls.count("inside"), calls.count("outside")) == (2, 6)


class Items:
    """Callable objects and methods that give items."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self) -> Any:
        self.runs += 1
        if self.runs % 2:
            raise ConnectionRefusedError("down")
        yield self.runs

    @retry(on=OSError, backoff=[0], generators="restart")
    def method(self) -> Any:
        yield from self()


@pytest.mark.parametrize("make", [lambda items: items, functools.partial, lambda items: items.__call__])
def test_generator_callables_of_every_kind_are_retried(make: Callable[[Items], Any]) -> None:
    """Objects, partials and bound methods."""
    assert list(policy_of("restart")(make(Items()))()) == [2]
    assert list(policy_of("restart").call(make(Items()))) == [2]
    assert list(Items().method()) == [2]


def test_generator_function_stays_one(clock: ManualClock) -> None:
    """Inspection sees the same kind, name and signature."""

    @policy_of("restart")
    def items(first: int, *, last: int = 5) -> Iterator[int]:
        """Give numbers."""
        yield from range(first, last)

    assert inspect.isgeneratorfunction(items)
    assert (items.__name__, items.__doc__, str(inspect.signature(items))) == (
        "items",
        "Give numbers.",
        "(first: 'int', *, last: 'int' = 5) -> 'Iterator[int]'",
    )
    assert list(items(3)) == [3, 4]


def test_generator_mode_leaves_other_functions_alone() -> None:
    """The setting says what to do with generator functions only."""
    assert policy_of("restart").call(lambda: 5) == 5


def test_unknown_mode_is_refused() -> None:
    """With the two that there are."""
    with pytest.raises(ConfigurationError, match="generators is 'always'; allowed are 'restart'"):
        policy_of("always")  # type: ignore[arg-type]
