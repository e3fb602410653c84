"""Any sequence of operations on a redrive store, beside the memory store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ...backends.memory import MemoryBackend
from ...errors import RedriveConflictError
from ...stores.redrives import RedriveJob, RedriveState, RedriveStore
from .redrives_samples import CHANGES, entry, job
from .suite import SuiteClock

__all__ = ["RedriveModel"]

_ids = st.sampled_from(["r-1", "r-2", "r-3", "\U0001f600"])
_CONFLICT: Final = "another one is active"


class RedriveModel(RuleBasedStateMachine):
    """The store under test and the memory store, on the same clock.

    Args:
        opening: gives an empty store and its clock.
    """

    def __init__(self, opening: AbstractContextManager[tuple[RedriveStore, SuiteClock]]) -> None:
        super().__init__()
        self._opening = opening
        self._store, self._clock = opening.__enter__()
        self._model = MemoryBackend(clock=self._clock).redrives

    def both(self, job_id: str, call: Callable[[RedriveStore], RedriveJob | None]) -> None:
        """Make a call on both stores, which have to answer the same; of several that stand in the way they may name any."""

        def answer(store: RedriveStore) -> RedriveJob | str | None:
            before = store.get(job_id)
            try:
                return call(store)
            except RedriveConflictError as error:
                other = store.get(error.redrive_id)
                assert other is not None
                assert other.is_active
                assert other.id != job_id
                assert before == store.get(job_id)
                return _CONFLICT

        assert answer(self._model) == answer(self._store)

    @rule(
        job_id=_ids,
        group=st.sampled_from([None, "a", "b"]),
        state=st.sampled_from([RedriveState.RUNNING, RedriveState.RUNNING, RedriveState.STOPPED]),
    )
    def start(self, job_id: str, group: str | None, state: RedriveState) -> None:
        """One that is new, is there, or conflicts."""
        new = job(job_id, group, state=state, created_at=self._clock.now())
        self.both(job_id, lambda store: store.start(new))

    @rule(job_id=_ids, name=st.sampled_from(sorted(CHANGES)))
    def change(self, job_id: str, name: str) -> None:
        """By a person or by whoever holds it."""
        self.both(job_id, lambda store: store.change(job_id, CHANGES[name]))

    @rule(job_id=_ids, owner=st.sampled_from(["me", "you"]), lease=st.sampled_from([1, 10]))
    def hold(self, job_id: str, owner: str, lease: int) -> None:
        """What is held by nobody, by the same or by another."""
        self.both(job_id, lambda store: store.hold(job_id, owner=owner, lease=lease))

    @rule(action=st.sampled_from(["edited", "discarded"]), seconds=st.integers(-2, 2))
    def note(self, action: str, seconds: int) -> None:
        """An entry that is there already, or is not."""
        noted = entry(action, at=self._clock.now() + timedelta(seconds=seconds))
        for store in (self._store, self._model):
            store.note(noted)

    @rule(active=st.booleans(), limit=st.integers(1, 3), number=st.integers(0, 3))
    def page(self, active: bool, limit: int, number: int) -> None:
        """From the beginning, or after one of them."""
        jobs, entries = self._model.jobs(), self._model.audit()
        after = jobs[number] if number < len(jobs) else None
        pages = [store.jobs(active=active, limit=limit, after=after) for store in (self._store, self._model)]
        assert list(pages[0]) == list(pages[1])
        last = entries[number] if number < len(entries) else None
        logs = [store.audit(limit=limit, after=last) for store in (self._store, self._model)]
        assert list(logs[0]) == list(logs[1])

    @rule(seconds=st.sampled_from([0.001, 1, 10]))
    def time_passes(self, seconds: float) -> None:
        """Leases end."""
        self._clock.advance(seconds)

    @invariant()
    def redrives_and_audit_log_are_those_of_the_model(self) -> None:
        """All in their order, and none that is active conflicts with another."""
        jobs = list(self._store.jobs())
        assert list(self._model.jobs()) == jobs
        active = [each for each in jobs if each.is_active]
        assert not [(one, other) for one in active for other in active if one.conflicts_with(other)]
        assert list(self._model.audit(limit=1000)) == list(self._store.audit(limit=1000))

    def teardown(self) -> None:
        """Close the store."""
        self._opening.__exit__(None, None, None)
