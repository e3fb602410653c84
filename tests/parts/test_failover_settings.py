"""Failover: the weights, the colours and what is refused when one is made."""

from __future__ import annotations

import functools
import random
from collections import Counter
from typing import Any

import pytest

from retrykit import CircuitBreaker, Failover, Provider
from retrykit.delivery import Sent
from retrykit.errors import ConfigurationError
from retrykit.failover import AsyncFailover
from retrykit.testing import ManualClock
from tests.colours import run_asyncio
from tests.parts.test_failover import Post, refused


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (70, 20, 10), (0.5, 0.25, 0.25), (1000, 1)])
def test_failover_weighted_first_provider_is_drawn_by_its_share(weights: tuple[float, ...]) -> None:
    """Over 4,000 draws within four standard deviations."""
    posts = {f"p{place}": Provider(Post(), weight=weight) for place, weight in enumerate(weights)}
    send = Failover(posts, strategy="weighted", rng=random.Random(7))
    draws = 4000
    counts = Counter(send().provider for _ in range(draws))
    for place, weight in enumerate(weights):
        share = weight / sum(weights)
        deviation = (draws * share * (1 - share)) ** 0.5
        assert abs(counts[f"p{place}"] - draws * share) <= 4 * deviation + 1


def test_failover_weighted_second_provider_is_drawn_by_the_shares_of_the_others() -> None:
    """When the first is closed off, its calls are divided as their weights are."""
    broken = CircuitBreaker("a")
    broken.isolate()
    posts = {
        "a": Provider(Post(), weight=50, breaker=broken),
        "b": Provider(Post(), weight=30),
        "c": Provider(Post(), weight=10),
    }
    send = Failover(posts, strategy="weighted", rng=random.Random(3))
    counts = Counter(send().provider for _ in range(4000))
    assert counts["a"] == 0
    assert abs(counts["b"] - 3000) <= 4 * (4000 * 0.75 * 0.25) ** 0.5


def test_failover_weighted_draws_anew_for_each_call_and_alike_from_one_seed() -> None:
    """The order is the generator's, and nobody else's."""

    def order(seed: int) -> list[Any]:
        posts = {name: Post() for name in "abc"}
        send = Failover(posts, strategy="weighted", rng=random.Random(seed))
        return [send().provider for _ in range(30)]

    assert order(5) == order(5) != order(6)
    assert len(set(order(5))) == 3
    assert Failover({"a": Post()}, strategy="weighted")().provider == "a"
    assert Failover({"a": Post(), "b": Post()}, strategy="weighted")().provider in "ab"


async def asend() -> None: ...


class AsyncSend:
    async def __call__(self) -> None: ...


@pytest.mark.parametrize("send", [asend, AsyncSend(), functools.partial(asend), Provider(asend)])
def test_failover_of_the_wrong_colour_is_refused(send: Any) -> None:
    """A coroutine function needs the asynchronous twin."""
    with pytest.raises(ConfigurationError, match=r"'ses' is the coroutine function .*; use AsyncFailover for it"):
        Failover({"backup": Post(), "ses": send})


def test_failover_function_that_gives_a_coroutine_is_an_error_at_the_call() -> None:
    """A lambda around one is no coroutine function; nothing is counted, and nobody else is asked."""
    backup = Post()
    send = Failover({"ses": lambda: asend(), "backup": backup})
    with pytest.raises(ConfigurationError, match="has to be awaited"):
        send()
    assert (backup.calls, send.breakers["ses"].counted[1]) == (0, 0)


def test_async_failover_takes_functions_that_give_awaitables() -> None:
    """Whatever they are."""

    async def send() -> str:
        return "p-1"

    assert run_asyncio(lambda: AsyncFailover({"ses": lambda: send()})()) == Sent("p-1", "ses")


@pytest.mark.parametrize("make", [Failover, AsyncFailover])
@pytest.mark.parametrize(
    ("providers", "settings", "message"),
    [
        ({}, {}, "the providers are {}; allowed is a mapping"),
        ([Post()], {}, "allowed is a mapping of name to function"),
        ({"ses": "smtp://"}, {}, "the provider 'ses' is 'smtp://'; allowed is a function or a Provider"),
        ({"ses": Provider(5)}, {}, "the provider 'ses' is 5"),  # type: ignore[arg-type]
        ({"": Post()}, {}, "the name of a provider is empty"),
        ({5: Post()}, {}, "the name of a provider is 5"),
        ({"ses": Provider(Post(), breaker=5)}, {}, "'ses' was given 5; allowed is a CircuitBreaker"),  # type: ignore[arg-type]
        ({"ses": Provider(Post(), throttle="x")}, {}, "'ses' was given 'x'; allowed is a AdaptiveThrottle"),  # type: ignore[arg-type]
        ({"ses": Post()}, {"strategy": "random"}, "strategy is 'random'; allowed are 'priority' and 'weighted'"),
        ({"ses": Post()}, {"classifier": print}, "classifier is <built-in function print>, which has no classify"),
        ({"ses": Post()}, {"clock": 5}, "clock is 5, which has no now"),
        ({"ses": Post()}, {"rng": 5}, "rng is 5, which has no random"),
    ],
)
def test_failover_settings_that_are_wrong_are_refused(
    make: Any, providers: Any, settings: dict[str, Any], message: str
) -> None:
    """At construction."""
    with pytest.raises(ConfigurationError, match=message):
        make(providers, **settings)


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), "2", True, None])
def test_provider_weight_out_of_range_is_refused(weight: Any) -> None:
    """Who should get nothing is left out."""
    with pytest.raises(ConfigurationError, match=r"the weight of a provider is .*; allowed are finite numbers > 0"):
        Provider(Post(), weight=weight)


def test_failover_own_clock_is_that_of_its_breakers() -> None:
    """Where they are its own."""
    own = ManualClock()
    send = Failover({"ses": Post(*[refused() for _ in range(10)]), "backup": Post()}, clock=own)
    for _ in range(10):
        send()
    assert send.breakers["ses"].state == "open"
    own.advance("2m")
    assert send().provider == "ses"
