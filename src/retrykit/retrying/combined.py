"""`resilient`: retry, breaker, budget, throttle, time limit and fallback around one function, in one order.

From the caller inwards: the fallback, the retry with its time limit and its budget, the breaker, the throttle, the function.
So the breaker sees every attempt and a rejection by it is no attempt; the budget is asked before a wait and not after; and the
fallback speaks only when everything else has given up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar, cast

from .._steps import is_async
from ..errors import ConfigurationError
from ..times import Duration
from .decorator import retry
from .functions import check_function
from .fused import Fallback, Parts, fused, fused_async
from .nested import marked

if TYPE_CHECKING:
    from ..breaker import CircuitBreaker
    from ..budget import RetryBudget
    from ..throttle import AdaptiveThrottle

__all__ = ["resilient"]

P = ParamSpec("P")
R = TypeVar("R")


class _Unset:
    def __repr__(self) -> str:
        return "..."


_UNSET: Final = _Unset()


class resilient:  # noqa: N801 - used as a decorator
    """Put several parts around a function, as one wrapper.

    Each part is optional, and one object may be given to many functions of both colours: they share its state.

    Args:
        retry: which failures are tried again; without it none is.
        breaker: stops calling what does not work. A call that it rejects raises `BreakerOpenError` at once, and is no attempt.
        budget: pays for the retries.
        throttle: lowers the rate of the calls while the other side throttles them.
        max_elapsed: no wait begins that would end later than this after the call began.
        fallback: what is returned instead of the last error: a value, or a function of the error, whose answer is returned
            (awaited, in an asynchronous function) and which may raise.

    Raises:
        ConfigurationError: a part is of another kind, is given twice, or does nothing without another.

    Example:
        >>> from retrykit.breaker import CircuitBreaker
        >>> @resilient(retry=retry(on=OSError, backoff=[0]), breaker=CircuitBreaker("ses"), fallback="queued")
        ... def send() -> str:
        ...     raise ConnectionRefusedError("no answer")
        >>> send()
        'queued'
    """

    def __init__(
        self,
        *,
        retry: retry | None = None,
        breaker: CircuitBreaker | None = None,
        budget: RetryBudget | None = None,
        throttle: AdaptiveThrottle | None = None,
        max_elapsed: Duration | None = None,
        fallback: object = _UNSET,
    ) -> None:
        policy = _policy(retry, budget, max_elapsed)
        for part, name, method in ((breaker, "breaker", "admit"), (throttle, "throttle", "delay")):
            if part is not None and not hasattr(part, method):
                raise ConfigurationError(f"{name} is {part!r}; allowed is a {_KINDS[name]}")
        answer: Fallback | None = None
        if fallback is not _UNSET:
            answer = cast("Fallback", fallback) if callable(fallback) else lambda _: fallback
        given = {"breaker": breaker, "budget": policy.budget}
        parts = {name: part for name, part in given.items() if part is not None}
        self._parts = Parts(policy=policy, fallback=answer, **parts)  # type: ignore[arg-type]
        self._throttle = throttle

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Return `fn` with the parts around it.

        Raises:
            TypeError: `fn` is a generator function, a class, or not callable.
        """
        check_function(fn, "resilient()")
        if is_async(self._parts.fallback) and not is_async(fn):
            raise ConfigurationError(
                f"the fallback of {fn!r} is a coroutine function, which only one of its kind can await"
            )
        inner = marked(fn) if self._parts.policy.suppress_nested else fn
        if self._throttle is not None:
            inner = self._throttle(inner)
        if is_async(fn):
            return cast("Callable[P, R]", fused_async(self._parts, cast("Callable[P, Awaitable[object]]", inner)))
        return fused(self._parts, inner)

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function or a coroutine function, with the parts around it."""
        return self(fn)(*args, **kwargs)


_KINDS: Final = {"breaker": "CircuitBreaker", "throttle": "AdaptiveThrottle"}


def _policy(given: retry | None, budget: RetryBudget | None, max_elapsed: Duration | None) -> retry:
    """Return the retry with the budget and the limit of the whole."""
    if given is not None and not isinstance(given, retry):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"retry is {given!r}; allowed is retry(...), for example retry(on=OSError)")
    if given is None:
        if max_elapsed is not None:
            raise ConfigurationError("max_elapsed= bounds the waits between retries; it needs retry= as well")
        given = retry(on=_nothing, attempts=1)
    changes: dict[str, object] = {}
    for name, value in (("budget", budget), ("max_elapsed", max_elapsed)):
        if value is None:
            continue
        if getattr(given, name) is not None:
            raise ConfigurationError(f"{name}= is given to resilient() and to its retry; give it to one of them")
        changes[name] = value
    return given.but(**changes) if changes else given


def _nothing(_: Exception) -> bool:
    return False
