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

    @rule(millis=st.sampled_from([1, 999, 1000, 5000, 60_000]))
    def time_passes(self, millis: int) -> None:
        """Ends come."""
        self._clock.advance(f"{millis}ms")

    @invariant()
    def pauses_are_those_of_the_model(self) -> None:
        """In their order."""
        assert list(self._store.pauses()) == list(self._model.pauses())

    def teardown(self) -> None:
        """Close the store."""
        self._opening.__exit__(None, None, None)
