"""The wrapper of all parts at once.

The breaker is asked before each attempt and told of each outcome, and the budget before each retry, so a rejected call is no
attempt and a denied retry does not wait. A call that succeeds passes one frame, as in `wrappers`.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from types import CoroutineType
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar, cast

import attrs

from ..machines.breaker import Pass, Permit
from .functions import refuse_awaitable
from .signatures import exact
from .wrappers import begin

if TYPE_CHECKING:
    from ..breaker import CircuitBreaker
    from ..budget import RetryBudget
    from .attempts import Attempts
    from .decorator import retry

__all__ = ["Fallback", "Parts", "fused", "fused_async"]

P = ParamSpec("P")
R = TypeVar("R")

Fallback = Callable[[Exception], object]
"""What makes the answer of a call that failed for good, or raises."""


class _NoBreaker:
    """Stands where there is no breaker: lets everything through."""

    gate = Pass(Permit(0))

    def failed(self, entered: Pass, error: BaseException) -> None:
        """Do nothing."""


class _NoBudget:
    """Stands where there is no budget: nothing is to be told."""

    note: Callable[[], object] | None = None


_NO_BREAKER: Final = cast("CircuitBreaker", _NoBreaker())
_NO_BUDGET: Final = cast("RetryBudget", _NoBudget())


@attrs.frozen(kw_only=True)
class Parts:
    """What is fused into one wrapper."""

    policy: retry
    breaker: CircuitBreaker = _NO_BREAKER
    budget: RetryBudget = _NO_BUDGET
    fallback: Fallback | None = None


def fused(parts: Parts, fn: Callable[P, R]) -> Callable[P, R]:
    """Return `fn` with all parts around it."""
    policy, breaker, budget, fallback = parts.policy, parts.breaker, parts.budget, parts.fallback
    timed, unwanted = policy.max_elapsed is not None, policy.on_result

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        attempts: Attempts | None = None
        began = policy.time().monotonic() if timed else None
        while True:
            entered = breaker.gate or breaker.admit()
            try:
                if entered is None:
                    raise breaker.refusal()
                result = fn(*args, **kwargs)
            except BaseException as error:
                if entered is not None:
                    breaker.failed(entered, error)
                if attempts is None:
                    attempts = begin(policy, fn, began)
                if attempts.again_after(error):
                    continue
                if fallback is None or not isinstance(error, Exception):
                    raise
                answer = fallback(error)
            else:
                if entered.note is not None:
                    entered.note()
                if result.__class__ is CoroutineType:
                    refuse_awaitable(fn, result)
                if attempts is None:
                    if budget.note is not None:
                        budget.note()
                    if unwanted is None or not unwanted(result):
                        return result
                    attempts = begin(policy, fn, began)
                else:
                    attempts.leave()
                    if unwanted is None or not unwanted(result):
                        attempts.succeeded()
                        return result
                if not attempts.again_with(result):
                    return result
                continue
            return cast("R", answer)

    return exact(call, fn)


def fused_async(parts: Parts, fn: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Return the coroutine function `fn` with all parts around it."""
    policy, breaker, budget, fallback = parts.policy, parts.breaker, parts.budget, parts.fallback
    timed, unwanted = policy.max_elapsed is not None, policy.on_result

    @functools.wraps(fn)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        attempts: Attempts | None = None
        began = policy.time().monotonic() if timed else None
        while True:
            entered = breaker.gate or breaker.admit()
            try:
                if entered is None:
                    raise breaker.refusal()
                result = await fn(*args, **kwargs)
            except BaseException as error:
                if entered is not None:
                    breaker.failed(entered, error)
                if attempts is None:
                    attempts = begin(policy, fn, began)
                if await attempts.again_after_async(error):
                    continue
                if fallback is None or not isinstance(error, Exception):
                    raise
                answer = fallback(error)
            else:
                if entered.note is not None:
                    entered.note()
                if attempts is None:
                    if budget.note is not None:
                        budget.note()
                    if unwanted is None or not unwanted(result):
                        return result
                    attempts = begin(policy, fn, began)
                else:
                    attempts.leave()
                    if unwanted is None or not unwanted(result):
                        attempts.succeeded()
                        return result
                if not await attempts.again_with_async(result):
                    return result
                continue
            return cast("R", (await answer) if isawaitable(answer) else answer)

    return exact(call, fn)
