# pyright: reportUnnecessaryTypeIgnoreComment=true
"""The decorators of in-process resilience, as a checker sees them: signature, overloads, `self` and colour stay."""

from collections.abc import AsyncIterator, Awaitable, Iterator
from threading import Event
from typing import Any, assert_type, overload

from retrykit.breaker import BreakerRegistry, CircuitBreaker, failure_rate
from retrykit.budget import RetryBudget
from retrykit.decision import Attempt
from retrykit.delivery import Sent
from retrykit.errors import BreakerOpenError, NoProviderAvailableError
from retrykit.events import AttemptFailed
from retrykit.failover import AsyncFailover, Failover, Provider
from retrykit.failure import ErrorClass, ErrorGroup, Failure
from retrykit.policy import EMAIL_MATRIX
from retrykit.retrying import retry
from retrykit.retrying.combined import resilient
from retrykit.throttle import AdaptiveThrottle

policy = retry(on=OSError, attempts=3)
breaker = CircuitBreaker("ses", failure_threshold=5)
throttle = AdaptiveThrottle("ses", max_wait="10s")
budget = RetryBudget(cost={ErrorGroup.THROTTLING: 0.5, ErrorClass.NETWORK_TIMEOUT: 2})
parts = resilient(retry=policy, breaker=breaker, budget=budget, throttle=throttle, max_elapsed="30s", fallback=None)


# Each decorator keeps the signature and the colour.
@policy
def by_retry(url: str, *, timeout: float = 1.0) -> bytes:
    return url.encode() * int(timeout)


@breaker
def by_breaker(url: str, *, timeout: float = 1.0) -> bytes:
    return url.encode() * int(timeout)


@throttle
def by_throttle(url: str, *, timeout: float = 1.0) -> bytes:
    return url.encode() * int(timeout)


@parts
def by_all(url: str, *, timeout: float = 1.0) -> bytes:
    return url.encode() * int(timeout)


assert_type(by_retry("u", timeout=2.0), bytes)
assert_type(by_breaker("u", timeout=2.0), bytes)
assert_type(by_throttle("u", timeout=2.0), bytes)
assert_type(by_all("u", timeout=2.0), bytes)
by_retry(3)  # type: ignore[arg-type]
by_breaker(3)  # type: ignore[arg-type]
by_throttle(3)  # type: ignore[arg-type]
by_all(3)  # type: ignore[arg-type]
by_retry("u", wait=2.0)  # type: ignore[call-arg]
by_breaker("u", wait=2.0)  # type: ignore[call-arg]
by_throttle("u", wait=2.0)  # type: ignore[call-arg]
by_all("u", wait=2.0)  # type: ignore[call-arg]
by_all()  # type: ignore[call-arg]


@policy
async def async_by_retry(url: str) -> bytes:
    return url.encode()


@breaker
async def async_by_breaker(url: str) -> bytes:
    return url.encode()


@throttle
async def async_by_throttle(url: str) -> bytes:
    return url.encode()


@parts
async def async_by_all(url: str) -> bytes:
    return url.encode()


async def awaited() -> None:
    assert_type(await async_by_retry("u"), bytes)
    assert_type(await async_by_breaker("u"), bytes)
    assert_type(await async_by_throttle("u"), bytes)
    assert_type(await async_by_all("u"), bytes)
    await async_by_all(3)  # type: ignore[arg-type]
    async_by_retry("u").decode()  # type: ignore[attr-defined]  # not awaited
    async_by_breaker("u").decode()  # type: ignore[attr-defined]
    async_by_throttle("u").decode()  # type: ignore[attr-defined]
    async_by_all("u").decode()  # type: ignore[attr-defined]
    assert_type(await policy.call(async_by_retry, "u"), bytes)
    assert_type(await breaker.call(async_by_retry, "u"), bytes)
    assert_type(await parts.call(async_by_retry, "u"), bytes)
    await policy.call(async_by_retry, 3)  # type: ignore[arg-type]


# Methods keep `self`, on the class and on an instance.
class Client:
    @policy
    def by_retry(self, url: str) -> bytes:
        return url.encode()

    @breaker
    def by_breaker(self, url: str) -> bytes:
        return url.encode()

    @throttle
    def by_throttle(self, url: str) -> bytes:
        return url.encode()

    @parts
    def by_all(self, url: str) -> bytes:
        return self.by_retry(url)

    @parts
    async def async_by_all(self, url: str) -> bytes:
        return self.by_all(url)

    @classmethod
    @policy
    def of_class(cls, url: str) -> bytes:
        return cls().by_retry(url)

    @staticmethod
    @parts
    def static(url: str) -> bytes:
        return url.encode()

    @property
    @breaker
    def size(self) -> int:
        return 3


client = Client()
assert_type(client.by_retry("u"), bytes)
assert_type(client.by_breaker("u"), bytes)
assert_type(client.by_throttle("u"), bytes)
assert_type(client.by_all("u"), bytes)
assert_type(Client.by_all(client, "u"), bytes)
assert_type(Client.of_class("u"), bytes)
assert_type(Client.static("u"), bytes)
assert_type(client.size, int)
client.by_retry(3)  # type: ignore[arg-type]
client.by_all(client, "u")  # type: ignore[call-arg, arg-type]
Client.static(3)  # type: ignore[arg-type]


async def methods() -> None:
    assert_type(await client.async_by_all("u"), bytes)


# Overloads above a decorated implementation.
@overload
def load(key: str) -> str: ...


@overload
def load(key: int) -> int: ...


@policy
def load(key: str | int) -> str | int:
    return key


assert_type(load("k"), str)
assert_type(load(3), int)
load(3.5)  # type: ignore[call-overload]


# The other forms.
assert_type(policy.call(by_retry, "u", timeout=2.0), bytes)
assert_type(breaker.call(by_retry, "u"), bytes)
assert_type(parts.call(by_retry, "u"), bytes)
policy.call(by_retry, 3)  # type: ignore[arg-type]
breaker.call(by_retry)  # type: ignore[call-arg]
parts.call(by_retry, "u", wait=3)  # type: ignore[call-arg]
for attempt in policy:
    assert_type(attempt.number, int)
    with attempt as entered:
        assert_type(entered.number, int)


async def blocks() -> None:
    async for attempt in policy:
        with attempt:
            assert_type(attempt.number, int)


with breaker as guarded:
    assert_type(guarded.name, str)

assert_type(policy.current.history, tuple[Attempt, ...])
assert_type(policy.but(attempts=5), retry)


# Generator functions keep their items.
restarting = retry(on=OSError, generators="restart")


@restarting
def items(last: int) -> Iterator[int]:
    yield from range(last)


@restarting
async def async_items(last: int) -> AsyncIterator[int]:
    for number in range(last):
        yield number


assert_type(items(3), Iterator[int])
assert_type(async_items(3), AsyncIterator[int])
items("3")  # type: ignore[arg-type]


# Settings.
def hook(event: AttemptFailed) -> None:
    print(event.attempt)


def is_empty(result: bytes) -> bool:
    return not result


retry(EMAIL_MATRIX, idempotent=True, budget=budget, stop=Event(), hooks=[hook], on_result=is_empty)
retry(on=OSError, idempotent=True)  # type: ignore[call-overload]
retry(on=OSError, budget=0.2)  # type: ignore[call-overload]
retry(on=OSError, stop=True)  # type: ignore[call-overload]
retry(on=OSError, generators="always")  # type: ignore[call-overload]
retry(on=OSError, hooks=hook)  # type: ignore[call-overload]
resilient(retry=EMAIL_MATRIX)  # type: ignore[arg-type]
resilient(breaker="ses")  # type: ignore[arg-type]
resilient(budget=0.2)  # type: ignore[arg-type]
CircuitBreaker("ses", trip=failure_rate(0.5, window="60s", minimum_calls=20), counts=(OSError, ErrorGroup.SENDER))
CircuitBreaker("ses", trip=0.5)  # type: ignore[arg-type]
CircuitBreaker(5)  # type: ignore[arg-type]
RetryBudget(cost={"network_timeout": 1})  # type: ignore[dict-item]
assert_type(BreakerRegistry(failure_threshold=5).get("mx.example.org"), CircuitBreaker)


def errors(open_error: BreakerOpenError, none: NoProviderAvailableError) -> None:
    assert_type(open_error.retry_after, float | None)
    assert_type(open_error.last_failure, Failure | None)
    assert_type(none.reasons, dict[str, str])


# Failover.
def send(message: str, key: str) -> Sent:
    return Sent(f"{message}/{key}")


async def asend(message: str, key: str) -> Sent:
    return Sent(f"{message}/{key}")


failover = Failover({"ses": send, "backup": Provider(send, weight=2, breaker=breaker, throttle=throttle)})
failover.pause_providers({"ses": None, "backup": 5.0})
assert_type(failover.breakers["ses"], CircuitBreaker)
Failover({"ses": 5})  # type: ignore[dict-item]
Failover({"ses": send}, strategy="random")  # type: ignore[arg-type]
AsyncFailover({"ses": asend, "backup": Provider(asend)})
AsyncFailover({"ses": send})  # type: ignore[dict-item]
Provider(send, weight="2")  # type: ignore[arg-type]


async def through_failover() -> Any:
    pending: Awaitable[Any] = AsyncFailover({"ses": asend})("message", "key")
    return await pending
