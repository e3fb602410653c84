"""The circuit breaker as a machine: two tables, and the numbers that decide which event has happened.

Closed lets every call through and counts. Open lets none through until its recovery is over. Half-open lets a few probes
through, each for a limited time, to find out whether the other side works again. Isolated is open until a person says
otherwise; disabled lets everything through and counts nothing.

A result belongs to the generation in which its call was let through: one that comes after the state has changed is dropped.
So a slow call from before the trip neither closes a half-open breaker nor opens a closed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import attrs

from ..codec import JSON
from ..errors import ConfigurationError
from ..policy.backoff import MAX_DELAY, Backoff, Rng
from .windows import Trip, Window

__all__ = ["REFUSING", "TRANSITIONS", "BreakerEvent", "BreakerState", "Machine", "Pass", "Permit", "Settings"]


class BreakerState(StrEnum):
    """Whether calls are let through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    ISOLATED = "isolated"
    DISABLED = "disabled"


class BreakerEvent(StrEnum):
    """What changes a state."""

    TRIPPED = "tripped"
    """Too many failures."""
    RECOVERED = "recovered"
    """The recovery time is over."""
    PROVED = "proved"
    """Enough probes succeeded."""
    REFUTED = "refuted"
    """A probe failed."""
    ISOLATE = "isolate"
    DISABLE = "disable"
    RESET = "reset"


_S, _E = BreakerState, BreakerEvent

_DAY: Final = 86400.0
"""Seconds; nobody may ask for a longer pause."""

_BY_HAND: Final = {_E.ISOLATE: _S.ISOLATED, _E.DISABLE: _S.DISABLED, _E.RESET: _S.CLOSED}

TRANSITIONS: Final[Mapping[BreakerState, Mapping[BreakerEvent, BreakerState]]] = {
    _S.CLOSED: {**_BY_HAND, _E.TRIPPED: _S.OPEN},
    _S.OPEN: {**_BY_HAND, _E.RECOVERED: _S.HALF_OPEN},
    _S.HALF_OPEN: {**_BY_HAND, _E.PROVED: _S.CLOSED, _E.REFUTED: _S.OPEN},
    _S.ISOLATED: _BY_HAND,
    _S.DISABLED: _BY_HAND,
}
"""Which event leads from a state to which other."""

REFUSING: Final = frozenset({_S.OPEN, _S.ISOLATED})
"""No call is let through."""


@attrs.frozen(kw_only=True)
class Settings:
    """What a breaker was told."""

    trip: Trip
    recovery: Backoff
    """How long it stays open, by the number of times it opened since it was last closed."""
    probes: int
    close_after: int
    probe_timeout: float


@attrs.frozen
class Permit:
    """A call was let through."""

    generation: int
    probe: int | None = None
    """The number of the probe that it is; None when it is none."""


class Pass:
    """Calls are let through: what a wrapper reads before a call, and what it calls after a success.

    One stands for all calls of a closed breaker; a probe has one of its own.
    """

    __slots__ = ("note", "permit")

    def __init__(self, permit: Permit, note: Callable[[], object] | None = None) -> None:
        self.permit = permit
        self.note = note


class Machine:
    """A breaker's state. Whoever shares it holds a lock around each method.

    Args:
        settings: what it was told.
        rng: the source of the jitter of its recovery; None: no jitter.
    """

    __slots__ = (
        "_granted",
        "_numbers",
        "_probes",
        "_proofs",
        "generation",
        "led_until",
        "open_until",
        "opens",
        "recovery",
        "rng",
        "settings",
        "state",
        "verdicts",
        "window",
    )

    def __init__(self, settings: Settings, rng: Rng | None = None) -> None:
        self.settings = settings
        self.rng = rng
        self.state = BreakerState.CLOSED
        self.generation = 0
        self.window: Window = settings.trip.window()
        self.opens = 0
        self.recovery = 0.0
        self.open_until = 0.0
        self._probes: dict[int, float] = {}
        self._numbers = 0
        self._proofs = 0
        self._granted: dict[int, float] = {}
        self.led_until = -math.inf
        """Until then somebody else decides when it recovers: it lets through only the probes that it was granted."""
        self.verdicts: list[tuple[int, bool | None]] = []
        """What the granted probes found: the token of each, and whether it succeeded; None where that tells nothing."""

    def admit(self, now: float) -> Permit | None:
        """Let a call through, or not."""
        self.at(now)
        if self.state in REFUSING:
            return None
        if self.state is not BreakerState.HALF_OPEN:
            return Permit(self.generation)
        if self._granted:
            token, deadline = self._granted.popitem()
            self._probes[token] = deadline
            return Permit(self.generation, token)
        if self.is_led(now) or len(self._probes) >= self.settings.probes:
            return None
        self._numbers -= 1  # below zero: never one of the tokens that are granted
        self._probes[self._numbers] = now + self.settings.probe_timeout
        return Permit(self.generation, self._numbers)

    def is_led(self, now: float) -> bool:
        """Tell whether somebody else decides when it recovers."""
        return now < self.led_until

    def grant(self, token: int, length: float, now: float) -> None:
        """Let one more probe through while somebody else leads.

        Args:
            token: what its verdict is told under, >= 1.
            length: for how many seconds it is good.
            now: monotonic seconds.
        """
        if self.state is BreakerState.OPEN:
            self._move(BreakerEvent.RECOVERED)
        if self.state is BreakerState.HALF_OPEN:
            self._granted[token] = now + length

    def at(self, now: float) -> None:
        """See what the time has changed: a recovery is over, a probe never came back. A clock that went back lengthens neither."""
        if self.state is BreakerState.OPEN:
            self.open_until = min(self.open_until, now + self.recovery)
            if now >= self.open_until and not self.is_led(now):
                self._move(BreakerEvent.RECOVERED)
        elif self.state is BreakerState.HALF_OPEN:
            latest = now + self.settings.probe_timeout
            self._probes = {number: min(until, latest) for number, until in self._probes.items() if until > now}
            self._granted = {token: deadline for token, deadline in self._granted.items() if deadline > now}
        elif self.state is BreakerState.CLOSED:
            self.window.at(now)

    def succeeded(self, permit: Permit, now: float) -> None:
        """Take in the success of a call that was let through."""
        if not self._is_current(permit, now):
            return
        if self.state is BreakerState.CLOSED:
            self.window.succeeded(1, now)
            return
        if self._judge(permit, succeeded=True):
            return
        self._proofs += 1
        if self._proofs >= self.settings.close_after:
            self._move(BreakerEvent.PROVED)

    def failed(self, permit: Permit, now: float, retry_after: float | None = None) -> bool:
        """Take in the failure of a call that was let through.

        Args:
            permit: as `admit` gave it.
            now: monotonic seconds.
            retry_after: what the other side asked for; it stays open for that long at least.

        Returns:
            Whether it counts; a late one does not.
        """
        if not self._is_current(permit, now):
            return False
        if self.state is BreakerState.CLOSED:
            self.window.failed(now)
            if self.settings.trip.is_met(self.window):
                self._open(BreakerEvent.TRIPPED, now, retry_after)
        else:
            self._judge(permit, succeeded=False)
            self._open(BreakerEvent.REFUTED, now, retry_after)
        return True

    def released(self, permit: Permit) -> None:
        """Take back the permit of a call that tells nothing: it was cancelled, or failed for reasons of its own."""
        if permit.generation == self.generation and self._probes.pop(permit.probe or 0, None) is not None:
            self._judge(permit, succeeded=None)

    def _judge(self, permit: Permit, *, succeeded: bool | None) -> bool:
        """Note what a granted probe found; False where it was one of its own, or none."""
        if permit.probe is None or permit.probe < 0:
            return False
        self.verdicts.append((permit.probe, succeeded))
        return True

    def hand_over(self) -> list[tuple[int, bool | None]]:
        """Give away the verdicts, and the grants that no call has used: those tell nothing."""
        found = [*self.verdicts, *((token, None) for token in self._granted)]
        self.verdicts, self._granted = [], {}
        return found

    def by_hand(self, event: BreakerEvent) -> None:
        """Isolate, disable or reset it."""
        self._move(event)

    def open(self, now: float, recovery: float | None = None, opens: int | None = None) -> None:
        """Open it, as another process has; for so many seconds, or for its own recovery time.

        Args:
            now: monotonic seconds.
            recovery: in seconds; None: its own.
            opens: how often it has opened since it was last closed, by the other's count; None: by its own.
        """
        if self.state is BreakerState.CLOSED:
            self._open(BreakerEvent.TRIPPED, now, None)
        elif self.state is BreakerState.HALF_OPEN:
            self._open(BreakerEvent.REFUTED, now, None)
        if self.state is BreakerState.OPEN and recovery is not None:
            self.recovery, self.open_until = recovery, now + recovery
        if self.state is BreakerState.OPEN and opens is not None:
            self.opens = opens

    def retry_after(self, now: float) -> float | None:
        """Return the seconds until a call may be let through: 0 when one may be now, None when nobody knows."""
        if self.state is BreakerState.OPEN:
            return min(self.recovery, max(0.0, self.open_until - now))
        if self.state is BreakerState.HALF_OPEN and len(self._probes) >= self.settings.probes:
            return min(self.settings.probe_timeout, max(0.0, min(self._probes.values()) - now))
        return None if self.state is BreakerState.ISOLATED else 0.0

    def free_probes(self) -> int:
        """Return how many more probes may be let through at once."""
        return self.settings.probes - len(self._probes) if self.state is BreakerState.HALF_OPEN else 0

    def snapshot(self, now: float) -> dict[str, JSON]:
        """Return what has to survive a restart, as JSON; half-open and probes do not: it will be open, its recovery over."""
        self.at(now)
        state = BreakerState.OPEN if self.state is BreakerState.HALF_OPEN else self.state
        return {
            "state": state.value,
            "opens": self.opens,
            "recovery": self.recovery,
            "retry_after": self.retry_after(now) if self.state is BreakerState.OPEN else 0.0,
            "calls": self.window.calls,
            "failures": self.window.failures,
        }

    def restore(self, snapshot: Mapping[str, JSON], now: float) -> None:
        """Take over what `snapshot` gave.

        Raises:
            ConfigurationError: it is none.
        """
        try:
            state = BreakerState(str(snapshot["state"]))
            opens, calls, failures = (int(str(snapshot[name])) for name in ("opens", "calls", "failures"))
            recovery, left = (float(str(snapshot[name])) for name in ("recovery", "retry_after"))
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(f"the snapshot {snapshot!r} is none of a breaker: {error!r}") from None
        if not (0 <= failures <= calls and opens >= 0 and 0 <= left <= recovery <= MAX_DELAY):
            raise ConfigurationError(f"the snapshot {snapshot!r} contradicts itself")
        self._enter(state)
        self.opens, self.recovery, self.open_until = opens, recovery, now + left
        self.window.succeeded(calls - failures, now)
        for _ in range(min(failures, 10_000)):
            self.window.failed(now)

    def _is_current(self, permit: Permit, now: float) -> bool:
        """Tell whether a result counts, and take its probe back."""
        if permit.generation != self.generation or self.state is BreakerState.DISABLED:
            return False
        return permit.probe is None or self._probes.pop(permit.probe, now) > now

    def _open(self, event: BreakerEvent, now: float, retry_after: float | None) -> None:
        own = self.settings.recovery.delay(
            self.opens + 1, self.rng
        )  # may be a user's function: first, before any change
        self._move(event)
        self.opens += 1
        self.recovery = max(own, min(retry_after or 0.0, _DAY))
        self.open_until = now + self.recovery

    def _move(self, event: BreakerEvent) -> None:
        following = TRANSITIONS[self.state].get(event)
        if following is None:
            raise ConfigurationError(f"a breaker that is {self.state} cannot be {event}")
        if event in (BreakerEvent.PROVED, BreakerEvent.RESET):
            self.opens = 0
        self._enter(following)

    def _enter(self, state: BreakerState) -> None:
        self.state = state
        self.generation += 1
        self.window = self.settings.trip.window()
        self._probes = {}
        self._granted = {}
        self._proofs = 0
