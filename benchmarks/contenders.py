"""What `resilience.py` measures: retrykit, its peers, and what can be written by hand. A peer that is absent is left out.

Each entry makes a pair of decorators: for functions and for coroutine functions; None where the peer has none.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from typing import Any

from retrykit import CircuitBreaker, RetryBudget, resilient, retry
from retrykit.breaker import failure_rate

logging.disable(logging.CRITICAL)  # nobody is to write while it is measured

_KEPT: list[object] = []

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Pair = tuple[Decorator | None, Decorator | None]

BARE = "by hand: *args, **kwargs and try"
PLAIN = "the function itself"
OURS = "retrykit"


def bare(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function in the least that a general wrapper can be."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except ConnectionError:  # noqa: TRY203 - what is measured
            raise

    return call


def bare_async(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a coroutine function, as `bare`."""

    @functools.wraps(fn)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await fn(*args, **kwargs)
        except ConnectionError:  # noqa: TRY203 - what is measured
            raise

    return call


def _both(decorator: Decorator) -> Pair:
    return decorator, decorator


def _tenacity() -> Pair:
    import tenacity

    return _both(
        tenacity.retry(
            stop=tenacity.stop_after_attempt(5),
            wait=tenacity.wait_none(),
            retry=tenacity.retry_if_exception_type(ConnectionError),
            reraise=True,
        )
    )


def _stamina() -> Pair:
    import stamina

    stamina.instrumentation.set_on_retry_hooks([])
    return _both(stamina.retry(on=ConnectionError, attempts=5, timeout=None, wait_initial=0, wait_max=0, wait_jitter=0))


def _backoff() -> Pair:
    import backoff

    return _both(
        backoff.on_exception(backoff.constant, ConnectionError, max_tries=5, jitter=None, interval=0, logger=None)
    )


def _backon() -> Pair:
    import backon

    return _both(
        backon.on_exception(backon.constant, ConnectionError, max_tries=5, jitter=None, interval=0, logger=None)
    )


def _opnieuw() -> Pair:
    from opnieuw import retry as opnieuw_retry
    from opnieuw.retries import replace_backoff_calculator
    from opnieuw.test_util import WaitLessBackoff

    waitless = replace_backoff_calculator(WaitLessBackoff)  # it has no option for waits of zero
    waitless.__enter__()
    _KEPT.append(waitless)  # a collected context manager would undo itself
    return _both(
        opnieuw_retry(
            retry_on_exceptions=ConnectionError, max_calls_total=5, retry_window_after_first_call_in_seconds=60
        )
    )


def _redress() -> Pair:
    import redress

    return _both(redress.retry(strategy=lambda context: 0.0, max_attempts=5))


def _resilient_circuit_retry() -> Pair:
    from resilient_circuit import RetryWithBackoffPolicy

    return _both(RetryWithBackoffPolicy(max_retries=4))


def _pyresilience_retry() -> Pair:
    from pyresilience import RetryConfig
    from pyresilience import resilient as pyresilient

    return _both(pyresilient(retry=RetryConfig(max_attempts=5, delay=0.0, jitter=False, retry_on=(ConnectionError,))))


RETRY: dict[str, Callable[[], Pair]] = {
    OURS: lambda: _both(retry(on=ConnectionError, attempts=5, backoff=[0, 0, 0, 0])),
    BARE: lambda: (bare, bare_async),
    "resilient-circuit": _resilient_circuit_retry,
    "opnieuw": _opnieuw,
    "pyresilience": _pyresilience_retry,
    "backoff": _backoff,
    "redress": _redress,
    "backon": _backon,
    "stamina": _stamina,
    "tenacity": _tenacity,
}


def _circuitbreaker() -> Pair:
    import circuitbreaker

    return _both(circuitbreaker.CircuitBreaker(failure_threshold=5, name="bench"))


def _purgatory() -> Pair:
    from purgatory import AsyncCircuitBreakerFactory, SyncCircuitBreakerFactory

    return SyncCircuitBreakerFactory()("bench"), AsyncCircuitBreakerFactory()("bench")


def _pybreaker() -> Pair:
    import pybreaker

    return pybreaker.CircuitBreaker(fail_max=5), None


def _pyresilience_breaker(**options: Any) -> Pair:
    from pyresilience import CircuitBreakerConfig
    from pyresilience import resilient as pyresilient

    return _both(pyresilient(circuit_breaker=CircuitBreakerConfig(failure_threshold=5, **options)))


def _resilient_circuit_breaker() -> Pair:
    from resilient_circuit import CircuitProtectorPolicy
    from resilient_circuit.storage import InMemoryStorage

    policy = CircuitProtectorPolicy(
        resource_key="bench",
        storage=InMemoryStorage(),
        cooldown=timedelta(seconds=1),
        failure_limit=Fraction(4, 5),
    )
    return policy, None  # its asynchronous form takes a quarter of a millisecond, in a thread


def _interlock() -> Pair:
    from interlock import CircuitBreaker as Interlock
    from interlock import Config

    return _both(Interlock(name="bench", config=Config()))


CONSECUTIVE: dict[str, Callable[[], Pair]] = {
    OURS: lambda: _both(CircuitBreaker("bench", failure_threshold=5)),
    BARE: lambda: (bare, bare_async),
    "circuitbreaker": _circuitbreaker,
    "purgatory": _purgatory,
    "pybreaker": _pybreaker,
    "pyresilience": _pyresilience_breaker,
    "resilient-circuit": _resilient_circuit_breaker,
}

WINDOW: dict[str, Callable[[], Pair]] = {
    OURS: lambda: _both(CircuitBreaker("bench", trip=failure_rate(0.5, window=100))),
    f"{OURS}, window of 60 s": lambda: _both(CircuitBreaker("bench", trip=failure_rate(0.5, window="60s"))),
    BARE: lambda: (bare, bare_async),
    "pyresilience": lambda: _pyresilience_breaker(sliding_window_size=100),
    "interlock-cb": _interlock,
}


def _ours_fused() -> Pair:
    return _both(
        resilient(
            retry=retry(on=ConnectionError, attempts=5, backoff=[0, 0, 0, 0]),
            breaker=CircuitBreaker("bench"),
            budget=RetryBudget(),
        )
    )


def _pyresilience_fused() -> Pair:
    from pyresilience import CircuitBreakerConfig, RetryBudgetConfig, RetryConfig
    from pyresilience import resilient as pyresilient

    return _both(
        pyresilient(
            retry=RetryConfig(max_attempts=5, delay=0.0, jitter=False),
            circuit_breaker=CircuitBreakerConfig(failure_threshold=5),
            retry_budget=RetryBudgetConfig(),
        )
    )


def _stacked(retries: Callable[[], Pair], breakers: Callable[[], Pair]) -> Pair:
    outer, inner = retries()[0], breakers()[0]
    assert outer is not None
    assert inner is not None
    return (lambda fn: outer(inner(fn))), None


FUSED: dict[str, Callable[[], Pair]] = {
    OURS: _ours_fused,
    BARE: lambda: (bare, bare_async),
    "pyresilience": _pyresilience_fused,
    "stamina + circuitbreaker": lambda: _stacked(_stamina, _circuitbreaker),
    "tenacity + pybreaker": lambda: _stacked(_tenacity, _pybreaker),
}

IMPORTS = {
    "retrykit": "import retrykit; retrykit.retry; retrykit.CircuitBreaker",
    "tenacity": "import tenacity",
    "stamina": "import stamina",
    "backoff": "import backoff",
    "backon": "import backon",
    "opnieuw": "import opnieuw",
    "redress": "import redress",
    "resilient-circuit": "import resilient_circuit",
    "pyresilience": "import pyresilience",
    "pybreaker": "import pybreaker",
    "circuitbreaker": "import circuitbreaker",
    "purgatory": "import purgatory",
    "interlock-cb": "import interlock",
}
"""What is imported to retry a call and to break a circuit."""
