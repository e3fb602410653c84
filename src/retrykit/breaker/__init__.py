"""Circuit breakers: stop calling what does not work, find out when it works again."""

from ..machines.breaker import BreakerState
from ..machines.windows import Trip, failure_count, failure_rate
from .circuit_breaker import CircuitBreaker
from .registry import BreakerOptions, BreakerRegistry

__all__ = [
    "BreakerOptions",
    "BreakerRegistry",
    "BreakerState",
    "CircuitBreaker",
    "Trip",
    "failure_count",
    "failure_rate",
]
