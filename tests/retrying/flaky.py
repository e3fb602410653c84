"""Functions that fail as told, the four forms of retry in each colour, and a look at what stays in memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest

from retrykit import retry
from tests.colours import Runner, run_asyncio, trio

Do: TypeAlias = Callable[[retry, Callable[[], Any]], Any]
"""Makes one call under a policy."""


class Flaky:
    """A function that fails as told, then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, answer: Any = "answer") -> Any:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return answer


class AsyncFlaky(Flaky):
    """A callable object whose calls are awaited."""

    async def __call__(self, answer: Any = "answer") -> Any:
        return super().__call__(answer)


def refused(times: int) -> list[BaseException]:
    """Return so many errors of the kind that the tests retry."""
    return [ConnectionRefusedError(f"refused {number}") for number in range(1, times + 1)]


def decorated(policy: retry, fn: Callable[[], Any]) -> Any:
    """Decorate and call."""
    return policy(fn)()


def called(policy: retry, fn: Callable[[], Any]) -> Any:
    """Use `.call`."""
    return policy.call(fn)


def in_block(policy: retry, fn: Callable[[], Any]) -> Any:
    """Use the loop of blocks."""
    for attempt in policy:
        with attempt:
            return fn()
    raise AssertionError("the loop ended without a result or an error")


def _in_colour(runner: Runner, form: str) -> Do:
    def do(policy: retry, fn: Callable[[], Any]) -> Any:
        async def awaited() -> Any:
            return fn()

        class Awaited:  # an object gets the general wrapper, the function the exact one
            async def __call__(self) -> Any:
                return fn()

            def __repr__(self) -> str:
                return "<awaited>"

        async def main() -> Any:
            if form == "decorated":
                return await policy(awaited)()
            if form == "called":
                return await policy.call(Awaited())
            async for attempt in policy:
                with attempt:
                    return await awaited()
            raise AssertionError("the loop ended without a result or an error")

        return runner(main)

    return do


RUNNERS = {"asyncio": run_asyncio, "trio": trio.run}

FORMS: dict[str, Do] = {
    "decorated": decorated,
    "called": called,
    "block": in_block,
    **{
        f"{form}-{loop}": _in_colour(runner, form)
        for loop, runner in RUNNERS.items()
        for form in ("decorated", "called", "block")
    },
}

every_form = pytest.mark.parametrize("do", FORMS.values(), ids=FORMS.keys())

OF_A_FUNCTION = {name: do for name, do in FORMS.items() if "block" not in name}

every_form_of_a_function = pytest.mark.parametrize("do", OF_A_FUNCTION.values(), ids=OF_A_FUNCTION.keys())


class OwnError(OSError):
    """An error that a weak reference may point to."""


@contextmanager
def no_collector() -> Iterator[None]:
    """Switch the cycle collector off: what is freed meanwhile was in no cycle."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
