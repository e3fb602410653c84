"""Wrappers with the exact parameters of what they wrap: nobody can tell them from the function, but by their speed."""

from __future__ import annotations

import asyncio
import functools
import inspect
import linecache
import pickle
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit import CircuitBreaker, RetryBudget, retry
from retrykit.classification.frames import own_frame
from retrykit.retrying import signatures
from retrykit.retrying.combined import resilient
from retrykit.retrying.signatures import exact

policy = retry(on=OSError, attempts=2, backoff=[0])

WRAPPERS: dict[str, Callable[[], Callable[..., Any]]] = {
    "retry": lambda: policy,
    "fused": lambda: policy.but(budget=RetryBudget()),
    "resilient": lambda: resilient(retry=policy, breaker=CircuitBreaker("ses"), budget=RetryBudget()),
    "breaker": lambda: CircuitBreaker("ses"),
}

every_wrapper = pytest.mark.parametrize("make", WRAPPERS.values(), ids=WRAPPERS.keys())

HERE = sys.modules[__name__]


def is_exact(wrapper: Any) -> bool:
    """Tell whether a wrapper was made with the parameters of its function."""
    return wrapper.__code__.co_filename.startswith("<retrykit wrapper ")


DEFAULT = object()


def plain(a: int, b: Any = DEFAULT) -> Any:
    """Return both."""
    return a, b


def nothing() -> Any:
    return "nothing"


def positional(a: Any, b: Any = 2, /, c: Any = 3) -> Any:
    return a, b, c


def only_positional(a: Any, /) -> Any:
    return a


def named(*, a: Any, b: Any = 2, c: Any) -> Any:
    return a, b, c


def rest(a: Any, *others: Any, b: Any = 2, **more: Any) -> Any:
    return a, others, b, more


def everything(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def kwargs_as_a_name(args: Any, kwargs: Any = 1) -> Any:
    return args, kwargs


def clash(policy: Any, error: Any = 1, result: Any = 2, *, fn: Any = 3, attempts: Any = 4, breaker: Any = 5) -> Any:
    return policy, error, result, fn, attempts, breaker


def builtin_names(cast: Any, isawaitable: Any = 1, begin: Any = 2, BaseException: Any = 3) -> Any:  # noqa: A002, N803
    return cast, isawaitable, begin, BaseException


def mutable(into: list[int] = []) -> Any:  # noqa: B006 - the same list each time
    into.append(1)
    return list(into)


def unicode_names(größe: Any, *, 名: Any = 1) -> Any:  # noqa: N803, PLC2401
    return größe, 名


CALLS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (plain, (1,), {}),
    (plain, (1, 2), {}),
    (plain, (), {"b": 1, "a": 2}),
    (nothing, (), {}),
    (positional, (1,), {}),
    (positional, (1, 5), {"c": 6}),
    (only_positional, (1,), {}),
    (named, (), {"c": 1, "a": 2}),
    (rest, (1, 2, 3), {"b": 4, "x": 5, "self": 6}),
    (rest, (), {"a": 1}),
    (everything, (1,), {"fn": 2, "args": 3}),
    (kwargs_as_a_name, (1,), {"kwargs": 2}),
    (clash, (1,), {"fn": 2}),
    (builtin_names, (1,), {}),
    (unicode_names, (1,), {"名": 2}),
]


@every_wrapper
@pytest.mark.parametrize(("fn", "args", "kwargs"), CALLS)
def test_wrapper_hands_on_every_kind_of_parameter(
    make: Any, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """By position, by name, by default, and whatever their names are."""
    assert make()(fn)(*args, **kwargs) == fn(*args, **kwargs)


@every_wrapper
def test_wrapper_keeps_the_defaults_themselves(make: Any) -> None:
    """Not copies and not their texts."""
    wrapped = make()(plain)
    assert wrapped(1)[1] is DEFAULT
    assert wrapped.__defaults__ is plain.__defaults__
    before = mutable()
    assert make()(mutable)() == [*before, 1]


@pytest.mark.parametrize("fn", [plain, nothing, positional, named, rest, everything, kwargs_as_a_name, unicode_names])
def test_wrapper_is_exact_where_it_can_be(fn: Any) -> None:
    """All of the library's own, that is."""
    for make in WRAPPERS.values():
        assert is_exact(make()(fn))


@pytest.mark.parametrize(
    "fn", [clash, builtin_names, functools.partial(plain, 1), Ellipsis, len, functools.wraps(plain)(lambda: 1)]
)
def test_wrapper_is_the_general_one_where_it_cannot(fn: Any) -> None:
    """A clash of names, a partial, an object, a builtin, a wrapper."""

    class Object:
        def __call__(self) -> None: ...

    for make in WRAPPERS.values():
        assert not is_exact(make()(Object() if fn is Ellipsis else fn))


WRONG: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (plain, (), {}),
    (plain, (1, 2, 3), {}),
    (plain, (1,), {"z": 2}),
    (plain, (1,), {"a": 2}),
    (nothing, (1,), {}),
    (positional, (), {"a": 1}),
    (only_positional, (), {"a": 1}),
    (named, (1,), {"c": 1}),
    (named, (), {"b": 1}),
    (rest, (), {"b": 1}),
]


@every_wrapper
@pytest.mark.parametrize(("fn", "args", "kwargs"), WRONG)
def test_wrong_call_is_refused_as_by_the_function(
    make: Any, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """With the same words, in the function's own name, and before anything is tried."""
    with pytest.raises(TypeError) as bare:
        fn(*args, **kwargs)
    with pytest.raises(TypeError) as wrapped:
        make()(fn)(*args, **kwargs)
    assert str(wrapped.value) == str(bare.value)


def test_wrong_call_is_no_attempt() -> None:
    """A policy that retries everything does not retry what could not be called."""
    with pytest.raises(TypeError) as caught:
        retry(on=Exception, backoff=[5])(plain)()  # type: ignore[call-arg]
    assert not hasattr(caught.value, "__notes__")


@every_wrapper
def test_wrapper_looks_like_the_function(make: Any) -> None:
    """Name, qualified name, module, text, annotations, own attributes and signature."""

    def local(a: int, *, b: str = "x") -> bool:
        """Do it."""
        return bool(a) and bool(b)

    local.mark = "kept"  # type: ignore[attr-defined]
    wrapped = make()(local)
    assert wrapped.__wrapped__ is local
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "mark"):
        assert getattr(wrapped, name) == getattr(local, name)
    assert inspect.signature(wrapped) == inspect.signature(local)
    assert inspect.getsource(wrapped) == inspect.getsource(local)
    assert inspect.signature(wrapped, follow_wrapped=False).parameters.keys() == {"a", "b"}
    assert (wrapped.__code__.co_name, wrapped.__code__.co_qualname) == ("local", local.__qualname__)


@every_wrapper
def test_wrapper_keeps_the_colour(make: Any) -> None:
    """A coroutine function stays one."""

    async def fetch(a: int, *, b: int = 2) -> Any:
        return a, b

    wrapped = make()(fetch)
    assert inspect.iscoroutinefunction(wrapped)
    assert not inspect.iscoroutinefunction(make()(plain))
    assert asyncio.run(wrapped(1, b=3)) == (1, 3)
    assert is_exact(wrapped)


@every_wrapper
def test_lambda_nested_function_and_method_are_exact(make: Any) -> None:
    """Closures and `self` are the function's own affair."""
    outside = 5

    class Class:
        __private = 7

        @make()
        def method(self, __hidden: int = 1, *, other: int = 2) -> Any:  # noqa: PYI063 - its name is mangled
            return self.__private, __hidden, other, outside

    assert Class().method(3) == (7, 3, 2, 5)
    assert is_exact(Class.method)
    assert make()(lambda x, y=2: (x, y, outside))(1) == (1, 2, 5)
    assert is_exact(make()(lambda x: x))


def test_function_without_source_is_wrapped_exactly() -> None:
    """What was typed in, or made by `exec`: only the wrapper's own source is needed."""
    space: dict[str, Any] = {}
    exec("def made(a, /, b=2, *, c): return a, b, c", space)
    wrapped = policy(space["made"])
    assert (wrapped(1, c=3), is_exact(wrapped)) == ((1, 2, 3), True)


def test_wrapper_without_its_own_source_is_the_general_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program that was frozen: slower, and the same otherwise."""

    def no_source(_: object) -> str:
        raise OSError("could not get source code")

    monkeypatch.setattr(signatures.inspect, "getsource", no_source)
    signatures._source.cache_clear()
    signatures._code.cache_clear()
    try:
        wrapped = policy(plain)
        assert (wrapped(1, 2), is_exact(wrapped), str(inspect.signature(wrapped))) == (
            (1, 2),
            False,
            str(inspect.signature(plain)),
        )
    finally:
        signatures._source.cache_clear()
        signatures._code.cache_clear()


def test_wrapper_of_another_text_is_left_as_it_is() -> None:
    """Only a function whose parameters are exactly those is made anew."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    assert exact(call, plain) is call
    assert exact(len, plain) is len  # type: ignore[arg-type]


def test_functions_of_the_same_parameters_share_one_code() -> None:
    """A thousand handlers of one signature cost one compilation."""
    first, second = policy(lambda a, b=1: a), policy(lambda a, b=2: b)
    assert first.__code__.co_code is second.__code__.co_code or first.__code__.co_code == second.__code__.co_code
    assert first.__code__.co_filename == second.__code__.co_filename
    assert (first(7), second(7)) == (7, 2)


@every_wrapper
def test_traceback_shows_the_line_of_the_wrapper(make: Any) -> None:
    """One frame between caller and function, with the function's name and a line that reads."""

    def fail(a: int, *, b: int = 2) -> None:
        raise LookupError("no")

    wrapped = make()(fail)
    with pytest.raises(LookupError) as caught:
        wrapped(1)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames] == [sys._getframe().f_code.co_name, "fail", "fail"]
    assert "fn(a, b=b)" in (frames[1].line or "")
    assert frames[1].filename.startswith("<retrykit wrapper ")


@every_wrapper
def test_debugger_finds_the_text_of_the_wrapper(make: Any) -> None:
    """`linecache`, which pdb reads, has all of it, and keeps it when it checks its files."""
    code = make()(rest).__code__
    linecache.checkcache()
    lines = linecache.getlines(code.co_filename)
    assert lines[code.co_firstlineno - 1].startswith("def call(a, *others, b=None, **more):")
    last = max(line for _, _, line in code.co_lines() if line is not None)
    assert last <= len(lines)
    assert not any("*args" in line for line in lines)


def test_wrapper_is_no_place_of_the_applications_own() -> None:
    """A failure inside a library is not blamed on the wrapper around it."""
    wrapped = policy(inspect.getmodulename)
    assert is_exact(wrapped)
    with pytest.raises(TypeError) as caught:
        wrapped(5)  # type: ignore[arg-type]
    assert own_frame(caught.value) == f"{__name__}:{test_wrapper_is_no_place_of_the_applications_own.__name__}"


@policy
def module_level(a: int) -> int:
    return a


def test_exact_wrapper_pickles_by_name() -> None:
    """For process pools."""
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    assert HERE.module_level(3) == 3


NAMES = ["a", "b", "c", "self", "cls", "url", "args", "kwargs", "policy", "error", "fn", "P", "R", "attempts", "call"]


@st.composite
def functions(draw: st.DrawFn) -> tuple[str, Callable[..., Any], int, list[str], list[str]]:
    """Draw a function of any parameters; it returns all that it was given."""
    names = draw(st.permutations(NAMES))[: draw(st.integers(0, 7))]
    kinds = sorted(draw(st.lists(st.sampled_from([0, 1, 2]), min_size=len(names), max_size=len(names))))
    positional = [name for name, kind in zip(names, kinds, strict=True) if kind == 0]
    either = [name for name, kind in zip(names, kinds, strict=True) if kind == 1]
    keyword = [name for name, kind in zip(names, kinds, strict=True) if kind == 2]
    defaults = draw(st.integers(0, len(positional) + len(either)))
    in_order = positional + either
    texts = [f"{name}={place}" if place >= len(in_order) - defaults else name for place, name in enumerate(in_order)]
    if positional:
        texts.insert(len(positional), "/")
    if draw(st.booleans()):
        texts.append("*others")
        names = [*names, "others"]
    elif keyword:
        texts.append("*")
    texts += [f"{name}='x'" if draw(st.booleans()) else name for name in keyword]
    if draw(st.booleans()):
        texts.append("**more")
        names = [*names, "more"]
    source = f"def made({', '.join(texts)}): return ({''.join(f'{name}, ' for name in names)})"
    space: dict[str, Any] = {}
    exec(source, space)
    return source, space["made"], len(in_order), either + keyword, keyword


def outcome(call: Callable[..., Any], args: list[int], kwargs: dict[str, int]) -> Any:
    try:
        return call(*args, **kwargs)
    except TypeError as error:
        return str(error)


@given(
    made=functions(),
    args=st.lists(st.integers(), max_size=8),
    named=st.lists(st.sampled_from([*NAMES, "z"]), max_size=6, unique=True),
    helps=st.booleans(),
    name=st.sampled_from(list(WRAPPERS)),
)
def test_wrapped_call_is_as_the_bare_one(made: Any, args: list[int], named: list[str], helps: bool, name: str) -> None:
    """Any signature and any call: the same result, or the same complaint."""
    _, fn, positional, by_name, keyword = made
    kwargs = dict.fromkeys(named, 9)
    if helps:  # most random calls are wrong; this one is near to right
        args, kwargs = args[:positional], dict.fromkeys(keyword, 9) | dict.fromkeys(by_name[len(args) :], 8)
    wrapped = WRAPPERS[name]()(fn)
    told = outcome(wrapped, args, kwargs)
    assert told == outcome(fn, args, kwargs)
    assert inspect.signature(wrapped) == inspect.signature(fn)


@given(made=functions(), args=st.lists(st.integers(), max_size=8), named=st.lists(st.sampled_from(NAMES), max_size=4))
def test_general_wrapper_calls_as_the_exact_one(made: Any, args: list[int], named: list[str]) -> None:
    """A callable object of the same parameters gives the same answers."""
    fn = made[1]

    class Object:
        def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

    kwargs = dict.fromkeys(named, 9)
    for make in WRAPPERS.values():
        assert outcome(make()(Object()), args, kwargs) == outcome(make()(fn), args, kwargs)
