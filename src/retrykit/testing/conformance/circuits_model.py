"""Any sequence of operations on a circuit store, beside the memory store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ...backends.memory import MemoryBackend
from ...stores.circuits import CircuitStore
from .suite import SuiteClock

__all__ = ["CircuitModel"]

_keys = st.sampled_from(["campaign:a", "campaign:b", "provider:a", "tenant:😀"])
_names = st.sampled_from(["ses", "ses2", "😀"])


class CircuitModel(RuleBasedStateMachine):
    """The store under test and the memory store, on the same clock.

    Args:
        opening: gives an empty store and its clock.
    """

    def __init__(self, opening: AbstractContextManager[tuple[CircuitStore, SuiteClock]]) -> None:
        super().__init__()
        self._opening = opening
        self._store, self._clock = opening.__enter__()
        self._model = MemoryBackend(clock=self._clock).circuits

    @rule(key=_keys, reason=st.sampled_from(["", "r"]), by=st.sampled_from(["ada", "bob"]), seconds=st.integers(-1, 9))
    def pause(self, key: str, reason: str, by: str, seconds: int) -> None:
        """A pause that ends soon, or ended, or does not end."""
        until = None if seconds == 0 else self._clock.now() + timedelta(seconds=seconds)
        answers = [store.pause(key, reason=reason, by=by, until=until) for store in (self._store, self._model)]
        assert answers[0] == answers[1]

    @rule(key=_keys)
    def resume(self, key: str) -> None:
        """Of what is paused, was, or never has been."""
        assert self._store.resume(key) is self._model.resume(key)

    @rule(name=_names, by=st.sampled_from(["a", "b"]), recovery=st.integers(1, 9))
    def trip(self, name: str, by: str, recovery: int) -> None:
        """One opens, or has opened."""
        answers = [store.trip(name, by=by, recovery=recovery) for store in (self._store, self._model)]
        assert answers[0] == answers[1]

    @rule(name=_names, owner=st.sampled_from(["p", "q", "r"]), limit=st.integers(1, 2), length=st.integers(1, 9))
    def lease_probe(self, name: str, owner: str, limit: int, length: int) -> None:
        """Of a circuit in any state."""
        answers = [
            store.lease_probe(name, owner=owner, limit=limit, lease=length) for store in (self._store, self._model)
        ]
        assert answers[0] == answers[1]

    @rule(
        name=_names,
        back=st.integers(-1, 3),
        succeeded=st.sampled_from([True, True, False, None]),
        close_after=st.integers(1, 2),
        recovery=st.integers(1, 9),
    )
    def record_probe(self, name: str, back: int, succeeded: bool | None, close_after: int, recovery: int) -> None:
        """Under one of the latest tokens, or one that is still to come."""
        token = next((each.last_token for each in self._model.circuits() if each.name == name), 0) - back
        answers = [
            store.record_probe(name, token, succeeded=succeeded, close_after=close_after, recovery=recovery)
            for store in (self._store, self._model)
        ]
        assert answers[0] == answers[1]

    @rule(name=_names)
    def reset(self, name: str) -> None:
        """Open or not."""
        assert self._store.reset(name) is self._model.reset(name)

    @rule(name=_names, instance=st.sampled_from(["i", "j"]), failures=st.integers(0, 2), length=st.integers(1, 9))
    def report(self, name: str, instance: str, failures: int, length: int) -> None:
        """Of a circuit in any state."""
        answers = [
            store.report(name, instance=instance, calls=2, failures=failures, length=length)
            for store in (self._store, self._model)
        ]
        assert answers[0] == answers[1]

    @rule(millis=st.sampled_from([1, 999, 1000, 5000, 60_000, 86_400_000]))
    def time_passes(self, millis: int) -> None:
        """Ends come."""
        self._clock.advance(f"{millis}ms")

    @invariant()
    def pauses_are_those_of_the_model(self) -> None:
        """In their order."""
        assert list(self._store.pauses()) == list(self._model.pauses())

    @invariant()
    def circuits_are_those_of_the_model(self) -> None:
        """In their order, with all that belongs to them."""
        assert list(self._store.circuits()) == list(self._model.circuits())

    def teardown(self) -> None:
        """Close the store."""
        self._opening.__exit__(None, None, None)
