# pyright: reportUnnecessaryTypeIgnoreComment=true
"""Breakers, as a checker sees them. A line that must not type carries an ignore; an unused one is an error."""

from datetime import timedelta
from typing import assert_type

from retrykit import CircuitBreaker, ErrorClass, ErrorGroup
from retrykit.breaker import BreakerRegistry, BreakerState, failure_count, failure_rate
from retrykit.errors import BreakerOpenError
from retrykit.failure import Failure

guard = CircuitBreaker("ses", failure_threshold=5, recovery_timeout=[60, "2m"], counts=(OSError, ErrorGroup.SENDER))
CircuitBreaker("ses", trip=failure_rate(0.5, window="60s"), probe_timeout=timedelta(seconds=5), max_recovery=None)
CircuitBreaker("ses", trip=0.5)  # type: ignore[arg-type]
CircuitBreaker("ses", probes="2")  # type: ignore[arg-type]
CircuitBreaker("ses", limit=5)  # type: ignore[call-arg]
CircuitBreaker("ses", 5)  # type: ignore[call-arg]
failure_count("3")  # type: ignore[arg-type]


class Mailer:
    """A guarded method keeps its parameters and its answer."""

    @guard
    def send(self, to: str, *, retries: int = 0) -> bytes:
        return to.encode() * retries

    @guard
    async def send_async(self, to: str) -> bytes:
        return to.encode()


assert_type(Mailer().send("a", retries=2), bytes)
Mailer().send(5)  # type: ignore[arg-type]
Mailer().send("a", tries=2)  # type: ignore[call-arg]
assert_type(guard.call(int, "5"), int)
assert_type(guard.state, BreakerState)
assert_type(guard.retry_after, float | None)
assert_type(guard.counted, tuple[int, int])
assert_type(guard.last_failure, Failure | None)
guard.open("5m")
guard.open([])  # type: ignore[arg-type]


async def send() -> bytes:
    with guard as entered:
        assert_type(entered, CircuitBreaker)
    return await Mailer().send_async("a")


# A registry knows the settings of its breakers.
registry = BreakerRegistry(max_breakers=5, idle="1h", failure_threshold=5, counts=ErrorClass.DNS_FAILURE)
assert_type(registry.get("mx.example.org", probes=2, recovery_timeout="5m"), CircuitBreaker)
BreakerRegistry(limit=5)  # type: ignore[call-arg]
BreakerRegistry(probes="2")  # type: ignore[arg-type]
registry.get("mx.example.org", limit=5)  # type: ignore[call-arg]
registry.get("mx.example.org", probes="2")  # type: ignore[arg-type]
registry.get(5)  # type: ignore[arg-type]


def told(error: BreakerOpenError) -> float:
    assert_type(error.last_failure, Failure | None)
    assert_type(error.name, str)
    return error.retry_after or 0.0
