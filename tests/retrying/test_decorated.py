"""What may be decorated, and what is refused because decorating it would do nothing."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import pickle
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from retrykit import retry
from retrykit.breaker import CircuitBreaker
from retrykit.retrying.combined import resilient
from retrykit.throttle import AdaptiveThrottle
from tests.colours import Runner, both_loops
from tests.retrying.flaky import AsyncFlaky, Flaky, refused

policy = retry(on=OSError, backoff=[0])

DECORATORS: dict[str, Callable[[], Callable[..., Any]]] = {
    "retry": lambda: policy,
    "retry with on_result": lambda: policy.but(on_result=lambda result: False),
    "breaker": lambda: CircuitBreaker("ses"),
    "throttle": lambda: AdaptiveThrottle("ses"),
    "resilient": lambda: resilient(retry=policy, breaker=CircuitBreaker("ses"), throttle=AdaptiveThrottle("ses")),
}

every_decorator = pytest.mark.parametrize("make", DECORATORS.values(), ids=DECORATORS.keys())


class Client:
    """A class with every kind of method."""

    def __init__(self, flaky: Flaky | AsyncFlaky) -> None:
        self.flaky = flaky

    @policy
    def method(self, word: str) -> Any:
        """Call."""
        return self.flaky(word)

    @policy
    async def async_method(self, word: str) -> Any:
        return await self.flaky(word)

    @classmethod
    @policy
    def of_class(cls, flaky: Flaky) -> Any:
        return cls.__name__, flaky()

    @staticmethod
    @policy
    def static(flaky: Flaky) -> Any:
        return flaky()

    @classmethod
    @policy
    async def async_of_class(cls, flaky: AsyncFlaky) -> Any:
        return cls.__name__, await flaky()

    @staticmethod
    @policy
    async def async_static(flaky: AsyncFlaky) -> Any:
        return await flaky()

    @policy
    def __call__(self) -> Any:
        return self.flaky("called")


class Child(Client):
    """Calls the decorated method of its parent."""

    @policy
    def method(self, word: str) -> Any:
        return super().method(word.upper())


def test_methods_are_retried_on_the_class_and_on_instances() -> None:
    """With `self` and the class as they should be, also through `super` and as `__call__`."""
    assert Client(Flaky(*refused(1))).method("hello") == "hello"
    assert Client.method(Client(Flaky(*refused(1))), word="hello") == "hello"
    assert Child(Flaky(*refused(1))).method("hello") == "HELLO"
    assert Client(Flaky(*refused(1)))() == "called"
    assert Child.of_class(Flaky(*refused(1))) == ("Child", "answer")
    assert Client(Flaky()).of_class(Flaky(*refused(1))) == ("Client", "answer")
    assert Client.static(Flaky(*refused(1))) == "answer"
    assert Client(Flaky()).static(Flaky(*refused(1))) == "answer"


@both_loops
def test_async_methods_are_retried_on_the_class_and_on_instances(runner: Runner) -> None:
    """The same, awaited."""

    async def main() -> list[Any]:
        return [
            await Client(AsyncFlaky(*refused(1))).async_method("hello"),
            await Client.async_of_class(AsyncFlaky(*refused(1))),
            await Client.async_static(AsyncFlaky(*refused(1))),
        ]

    assert runner(main) == ["hello", ("Client", "answer"), "answer"]


async def fetch(flaky: AsyncFlaky) -> Any:
    return await flaky()


class Holder:
    """Has an asynchronous method that is bound, or made a partial of."""

    async def fetch(self, flaky: AsyncFlaky) -> Any:
        return await flaky()

    with_flaky = functools.partialmethod(fetch)


def _converted(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap as careful decorators do."""

    @functools.wraps(fn)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await fn(*args, **kwargs)

    return call


ASYNC_CALLABLES: dict[str, Callable[[AsyncFlaky], Callable[[], Any]]] = {
    "partial of a function": lambda flaky: functools.partial(fetch, flaky),
    "partial of a partial": lambda flaky: functools.partial(functools.partial(fetch), flaky=flaky),
    "object": lambda flaky: flaky,
    "partial of an object": functools.partial,
    "bound method": lambda flaky: functools.partial(Holder().fetch, flaky),
    "partial method": lambda flaky: functools.partial(Holder().with_flaky, flaky),
    "wrapped function": lambda flaky: functools.partial(_converted(fetch), flaky),
    "decorated function": lambda flaky: functools.partial(policy(fetch), flaky),
    "bound __call__": lambda flaky: flaky.__call__,
}


@both_loops
@pytest.mark.parametrize("make", ASYNC_CALLABLES.values(), ids=ASYNC_CALLABLES.keys())
def test_async_callables_of_every_kind_are_awaited_and_retried(
    runner: Runner, make: Callable[[AsyncFlaky], Callable[[], Any]]
) -> None:
    """Each is known as one whose calls have to be awaited, and gives a coroutine function."""
    flaky = AsyncFlaky(*refused(1))
    wrapped = policy(make(flaky))
    assert inspect.iscoroutinefunction(wrapped)
    assert (runner(wrapped), flaky.calls) == ("answer", 2)
    other = AsyncFlaky(*refused(1))
    assert (runner(lambda: policy.call(make(other))), other.calls) == ("answer", 2)


def test_sync_callables_are_retried() -> None:
    """Objects, partials, bound methods, builtins and lambdas."""
    for make in (
        lambda flaky: flaky,
        functools.partial,
        lambda flaky: flaky.__call__,
        lambda flaky: lambda: flaky(),
        lambda flaky: functools.partial(max, [flaky], key=lambda each: each()),
    ):
        flaky = Flaky(*refused(1))
        policy(make(flaky))()
        assert flaky.calls == 2


def says_awaitable() -> Awaitable[str]:
    return fetch(AsyncFlaky())


def says_coroutine() -> Coroutine[Any, Any, str]:
    return fetch(AsyncFlaky())


def says_task() -> asyncio.Task[str]:
    return asyncio.ensure_future(fetch(AsyncFlaky()))  # type: ignore[return-value]


def says_unknown() -> not_imported.Awaitable[str]:  # type: ignore[name-defined]  # noqa: F821
    return fetch(AsyncFlaky())


class Says:
    def __call__(self) -> Awaitable[str]:
        return fetch(AsyncFlaky())


def evaluated() -> Any:
    return fetch(AsyncFlaky())


evaluated.__annotations__["return"] = Awaitable[str]


@every_decorator
@pytest.mark.parametrize(
    "fn", [says_awaitable, says_coroutine, says_task, says_unknown, Says(), functools.partial(says_task), evaluated]
)
def test_function_that_says_it_returns_an_awaitable_is_refused(make: Callable[[], Any], fn: Any) -> None:
    """It would fail only after the decorator has seen its result, so that nothing would ever be retried."""
    with pytest.raises(TypeError, match=r"returns an awaitable, which fails only after .* async def"):
        make()(fn)


def says_future() -> concurrent.futures.Future[str]:
    return concurrent.futures.Future()


def says_text() -> str:
    return "answer"


def says_something() -> nowhere.Something:  # type: ignore[name-defined]  # noqa: F821
    return None


@pytest.mark.parametrize("fn", [says_future, says_text, says_something])
def test_function_that_says_something_else_is_taken(fn: Any) -> None:
    """A future of threads is no awaitable, and what is not known is no reason to refuse."""
    assert callable(policy(fn))


def test_call_of_a_function_that_returns_an_awaitable_is_refused() -> None:
    """A lambda around a coroutine function says nothing; its result does, and is not left over unawaited."""
    with pytest.raises(TypeError, match="no coroutine function and returned an awaitable"):
        policy.call(lambda: fetch(AsyncFlaky()))

    class Promise:
        def __await__(self) -> Any:
            yield

    with pytest.raises(TypeError, match="returned an awaitable"):
        policy.call(lambda: Promise())


def promising(made: list[Any], *errors: Exception) -> Callable[[], Any]:
    flaky = Flaky(*errors)

    def promise():  # type: ignore[no-untyped-def]
        flaky()
        made.append(fetch(AsyncFlaky()))
        return made[-1]

    return promise


def assert_refuses(call: Callable[[], Any], made: list[Any]) -> None:
    with pytest.raises(TypeError, match=r"promise.* is no coroutine function and returned an awaitable; .* async def"):
        call()
    assert [inspect.getcoroutinestate(each) for each in made] == [inspect.CORO_CLOSED]


@every_decorator
def test_function_that_returns_a_coroutine_without_saying_so_is_refused_when_called(make: Callable[[], Any]) -> None:
    """Nothing told so before. The coroutine is closed, and the call is not repeated."""
    made: list[Any] = []
    assert_refuses(make()(promising(made)), made)


@pytest.mark.parametrize("changes", [{}, {"max_elapsed": "1m"}])
def test_function_that_returns_a_coroutine_after_a_failure_is_refused_too(changes: dict[str, Any]) -> None:
    """A retry looks at what it got as the first call does."""
    made: list[Any] = []
    assert_refuses(policy.but(**changes)(promising(made, *refused(1))), made)


def items() -> Any:
    yield 1


async def async_items() -> Any:
    yield 1


class Items:
    def __call__(self) -> Any:
        yield 1


@every_decorator
@pytest.mark.parametrize("fn", [items, async_items, functools.partial(items), Items(), functools.partial(Items())])
def test_generator_function_in_any_form_is_refused(make: Callable[[], Any], fn: Any) -> None:
    """Decorating it would retry nothing: it fails only when it is iterated."""
    with pytest.raises(TypeError, match="is a generator function: items it has given cannot be taken back"):
        make()(fn)


def test_call_of_a_generator_function_is_refused() -> None:
    """`.call` makes no exception."""
    with pytest.raises(TypeError, match="is a generator function"):
        policy.call(items)


@every_decorator
@pytest.mark.parametrize("thing", [Client, int, 7, None, property(lambda self: 7)])
def test_what_is_no_function_is_refused(make: Callable[[], Any], thing: Any) -> None:
    """Classes, values and properties."""
    with pytest.raises(TypeError, match="decorates functions, not"):
        make()(thing)


@every_decorator
@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_static_or_class_method_the_wrong_way_round_is_refused(make: Callable[[], Any], kind: Any) -> None:
    """The error names the right order."""
    with pytest.raises(TypeError, match=f"stands above @{kind.__name__}; put @{kind.__name__} above it"):

        class Wrong:
            @make()
            @kind
            def method(self) -> None: ...


@policy
def module_level(word: str) -> str:
    return word


@policy
async def async_module_level(word: str) -> str:
    return word


def test_decorated_function_pickles_by_its_name() -> None:
    """A process pool gets the decorated function, of either colour, and a bound method with its object."""
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    assert pickle.loads(pickle.dumps(async_module_level)) is async_module_level
    bound = pickle.loads(pickle.dumps(Client(Flaky()).method))
    assert bound("hello") == "hello"


def test_decorated_function_may_be_decorated_again() -> None:
    """The attempts multiply, unless the outer one suppresses those inside."""
    flaky = Flaky(*refused(9))
    with pytest.raises(ConnectionRefusedError) as caught:
        policy(policy(flaky))()
    assert (flaky.calls, len(caught.value.__notes__)) == (9, 1)
