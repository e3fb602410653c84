"""One breaker for each key: a host, a provider, a tenant."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypedDict, Unpack

import attrs

from ..checks import whole
from ..clock import Clock, current_clock
from ..errors import ConfigurationError
from ..events import Listener
from ..machines.windows import Trip
from ..policy.backoff import BackoffLike, Rng
from ..retrying.matching import OnError
from ..times import Duration, seconds
from .circuit_breaker import CircuitBreaker

if TYPE_CHECKING:
    from ..classification import ErrorClassifier

__all__ = ["BreakerOptions", "BreakerRegistry"]


class BreakerOptions(TypedDict, total=False):
    """The settings of a `CircuitBreaker`, by name."""

    failure_threshold: int | None
    recovery_timeout: Duration | BackoffLike
    max_recovery: Duration | None
    trip: Trip | None
    probes: int
    close_after: int
    probe_timeout: Duration
    counts: OnError
    classifier: ErrorClassifier | None
    on_event: Iterable[Listener]
    clock: Clock | None
    rng: Rng | None


@attrs.define
class _Kept:
    breaker: CircuitBreaker
    given: BreakerOptions
    used_at: float


class BreakerRegistry:
    """One breaker for each key: a host, a provider, a tenant. Bounded: idle ones are let go of, isolated ones never.

    Args:
        max_breakers: how many are kept at the most, isolated ones apart.
        idle: after this without being asked for, a breaker may be let go of.
        settings: of every breaker, as for `CircuitBreaker`.

    Raises:
        ConfigurationError: a value is not allowed.

    Example:
        >>> breakers = BreakerRegistry(failure_threshold=5)
        >>> breakers.get("mx.example.org") is breakers.get("mx.example.org")
        True
    """

    def __init__(self, *, max_breakers: int = 1000, idle: Duration = "1h", **settings: Unpack[BreakerOptions]) -> None:
        self._most = whole(max_breakers, "max_breakers")
        self._idle = seconds(idle, "idle", positive=True)
        self._clock = settings.get("clock")
        self._settings = settings
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()
        self._make("checked", {})

    def _make(self, name: str, settings: BreakerOptions) -> CircuitBreaker:
        merged: BreakerOptions = {**self._settings, **settings}
        if unknown := merged.keys() - BreakerOptions.__annotations__.keys():
            allowed = ", ".join(BreakerOptions.__annotations__)
            raise ConfigurationError(f"a breaker has no setting {', '.join(sorted(unknown))}; allowed are {allowed}")
        return CircuitBreaker(name, **merged)

    def get(self, name: str, **settings: Unpack[BreakerOptions]) -> CircuitBreaker:
        """Return the breaker of a name; the first call makes it.

        Args:
            name: of the breaker.
            settings: of this one, where they differ from the registry's.

        Raises:
            ConfigurationError: there is one of that name with other settings, or a value is not allowed.
        """
        with self._lock:
            now = (self._clock or current_clock()).monotonic()
            kept = self._kept.pop(name, None)
            if kept is None:
                self._make_room(now)
                kept = _Kept(self._make(name, settings), settings, now)
            elif settings and settings != kept.given:
                self._kept[name] = kept
                raise ConfigurationError(
                    f"there is a breaker {name!r} with the settings {kept.given!r}, not {settings!r}; give one name one setting"
                )
            kept.used_at = now
            self._kept[name] = kept  # to the end: the longest unused stand first
            return kept.breaker

    def _make_room(self, now: float) -> None:
        candidates = [name for name, kept in self._kept.items() if not kept.breaker.is_isolated]
        surplus = len(candidates) - self._most + 1
        for position, name in enumerate(candidates):
            if position >= surplus and now - self._kept[name].used_at < self._idle:
                break
            del self._kept[name]

    def all(self) -> Mapping[str, CircuitBreaker]:
        """Return the breakers there are, by name."""
        with self._lock:
            return {name: kept.breaker for name, kept in self._kept.items()}
