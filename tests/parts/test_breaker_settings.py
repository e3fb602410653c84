"""Settings that make no sense, and the registry of breakers by name."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest

from retrykit import CircuitBreaker
from retrykit.breaker import BreakerOptions, BreakerRegistry, BreakerState, failure_count, failure_rate
from retrykit.errors import ConfigurationError
from retrykit.events import Event
from retrykit.testing import ManualClock
from tests.parts.breakers import attempt, down, trip

WHOLE = "allowed are whole numbers >= 1"
BAD: list[tuple[dict[str, Any], str]] = [
    *[
        ({name: value}, f"{name} is .*; {WHOLE}")
        for name in ("failure_threshold", "probes", "close_after")
        for value in (0, -1, 1.0, math.nan, True, "2")
    ],
    *[
        ({"recovery_timeout": value}, "recovery_timeout is")
        for value in (0, -1, math.nan, math.inf, "soon", True, None)
    ],
    *[({"probe_timeout": value}, "probe_timeout is") for value in (0, -1, math.nan, math.inf, "soon", True, None)],
    *[({"max_recovery": value}, "max_recovery is") for value in (0, -1, math.nan, math.inf, "soon", True, 59)],
    ({"recovery_timeout": []}, "needs at least one duration"),
    ({"recovery_timeout": [-1]}, "a rung"),
    ({"recovery_timeout": [1, 2], "max_recovery": 5}, "max_recovery is 5, but recovery_timeout is a backoff"),
    (
        {"failure_threshold": 3, "trip": failure_rate(0.5)},
        "the breaker 'ses' has failure_threshold= and trip=; give one of them",
    ),
    ({"trip": 5}, r"trip is 5; allowed are failure_rate\(...\) and failure_count\(...\)"),
    ({"trip": failure_rate}, "trip is"),
    ({"counts": ()}, r"counts is \(\)"),
    ({"counts": 5}, "counts is 5"),
    ({"counts": KeyboardInterrupt}, "counts is .*; allowed are subclasses of Exception"),
    ({"on_event": print}, "on_event is"),
    ({"on_event": [5]}, "a listener of on_event is 5"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_setting_that_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    """At construction, of a breaker as of a registry, with the name of the setting and what is allowed."""
    with pytest.raises(ConfigurationError, match=message):
        CircuitBreaker("ses", **settings)
    with pytest.raises(ConfigurationError, match=message.replace("'ses'", "'checked'")):
        BreakerRegistry(**settings)
    with pytest.raises(ConfigurationError, match=message):
        BreakerRegistry().get("ses", **settings)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0b", None, 5])
def test_name_that_is_none_is_refused(name: Any) -> None:
    """A name is text that every store can keep."""
    with pytest.raises(ConfigurationError, match="the name of a breaker"):
        CircuitBreaker(name)


def test_options_are_those_of_the_breaker() -> None:
    """The settings that a registry passes on have the names and the types of the breaker's own."""
    parameters = inspect.signature(CircuitBreaker).parameters.values()
    own = {each.name: each.annotation for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    assert own == {name: hint.__forward_arg__ for name, hint in BreakerOptions.__annotations__.items()}


def test_registry_setting_that_there_is_not_is_refused() -> None:
    """Of the registry at its construction, of a breaker when it is asked for."""
    message = "a breaker has no setting limit; allowed are failure_threshold, recovery_timeout, "
    with pytest.raises(ConfigurationError, match=message):
        BreakerRegistry(limit=5)  # type: ignore[call-arg]
    registry = BreakerRegistry()
    with pytest.raises(ConfigurationError, match=message):
        registry.get("a", limit=5)  # type: ignore[call-arg]
    assert {} == registry.all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"max_breakers": value}, "max_breakers is") for value in (0, -1, 1.5, True)]
    + [({"idle": value}, "idle is") for value in (0, -1, math.nan, "soon")],
)
def test_registry_bound_that_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    """A bound is a whole number, and idleness a time."""
    with pytest.raises(ConfigurationError, match=message):
        BreakerRegistry(**settings)


def test_registry_gives_one_breaker_for_each_name() -> None:
    """With its settings, and the clock it was given."""
    clock = ManualClock()
    registry = BreakerRegistry(failure_threshold=1, recovery_timeout=[60], clock=clock)
    guard = registry.get("mx.example.org")
    assert (True, "mx.example.org", False) == (
        guard is registry.get("mx.example.org"),
        guard.name,
        guard is registry.get("other"),
    )
    trip(guard, 1)
    clock.advance(66)
    assert (BreakerState.HALF_OPEN, {"mx.example.org", "other"}) == (guard.state, set(registry.all()))


def test_registry_settings_of_one_breaker_go_before_its_own() -> None:
    """Where they differ; the first call says them, later ones may leave them out."""
    registry = BreakerRegistry(failure_threshold=5, probes=2)
    guard = registry.get("a", probes=3)
    assert (3, 5) == (guard.settings.probes, guard.settings.trip.threshold)  # type: ignore[attr-defined]
    assert guard is registry.get("a") is registry.get("a", probes=3)
    rule = failure_count(3)
    assert rule is registry.get("b", failure_threshold=None, trip=rule).settings.trip


def test_registry_name_with_two_settings_is_refused() -> None:
    """Whoever asks for it with others is told of both; the breaker stays."""
    registry = BreakerRegistry()
    guard = registry.get("a", probes=3)
    with pytest.raises(
        ConfigurationError, match=r"there is a breaker 'a' with the settings \{'probes': 3\}, not \{'probes': 4\}"
    ):
        registry.get("a", probes=4)
    assert guard is registry.get("a")
    registry.get("b")
    with pytest.raises(ConfigurationError, match=r"there is a breaker 'b' with the settings \{\}, not \{'probes': 4\}"):
        registry.get("b", probes=4)


def test_registry_is_bounded_by_letting_go_of_the_longest_unused() -> None:
    """To ask for one is to use it."""
    clock = ManualClock()
    registry = BreakerRegistry(max_breakers=3, clock=clock)
    for name in "abc":
        registry.get(name)
        clock.advance(1)
    registry.get("a")
    registry.get("d")
    assert {"a", "c", "d"} == set(registry.all())
    for number in range(1000):
        registry.get(f"host-{number}")
    assert 3 == len(registry.all())


def test_registry_lets_go_of_the_idle_when_a_new_name_comes() -> None:
    """After the time without being asked for, although there is room."""
    clock = ManualClock()
    registry = BreakerRegistry(idle="10m", clock=clock)
    for name in "abc":
        registry.get(name)
        clock.advance("4m")
    registry.get("d")
    assert {"b", "c", "d"} == set(registry.all())


def test_registry_never_lets_go_of_the_isolated() -> None:
    """What a person has switched off stays off, and takes no other's place."""
    clock = ManualClock()
    registry = BreakerRegistry(max_breakers=2, idle="1m", clock=clock)
    registry.get("off").isolate()
    for number in range(10):
        clock.advance("5m")
        registry.get(f"host-{number}")
        registry.get(f"other-{number}")
    assert {"off", "host-9", "other-9"} == set(registry.all())
    assert registry.get("off").is_isolated


def test_registry_may_be_used_by_listeners_of_its_breakers() -> None:
    """No lock of the registry is held while a listener is told, and making room tells none."""
    heard: list[str] = []

    def listen(event: Event) -> None:
        heard.append(registry.get("log").name)

    clock = ManualClock()
    registry = BreakerRegistry(
        max_breakers=2, failure_threshold=1, recovery_timeout=[60], on_event=[listen], clock=clock
    )
    attempt(registry.get("a"), down())
    clock.advance("2m")
    registry.get("b")
    assert ["log"] == heard


def test_registry_refused_breaker_leaves_the_name_free() -> None:
    """A bad setting makes no breaker."""
    registry = BreakerRegistry()
    with pytest.raises(ConfigurationError):
        registry.get("a", probes=0)
    assert 2 == registry.get("a", probes=2).settings.probes
