"""Clients of a redrive store that die before, during and after an operation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ...stores.redrives import RedriveState, RedriveStore
from .breaking import TICKS, broken_at_each_step, call_cancelled, said_before_kill
from .redrives_samples import entry, is_sound, job, pausing, resuming, stopping
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["RedriveCrashes"]

_WRITES: dict[str, Callable[[RedriveStore], object]] = {
    "start": lambda store: store.start(job("new", "b")),
    "pause": lambda store: store.change("r-1", pausing()),
    "stop": lambda store: store.change("r-1", stopping()),
    "resume": lambda store: store.change("r-2", resuming()),
    "hold": lambda store: store.hold("r-1", owner="me", lease=30),
    "note": lambda store: store.note(entry()),
}
"""Each changes something, where "r-1" runs and "r-2" was stopped."""


def _prepared(store: RedriveStore) -> None:
    store.start(job("r-1", "a"))
    store.start(job("r-2", "c", state=RedriveState.STOPPED))


class RedriveCrashes(StoreSuite[RedriveStore]):
    """A redrive and its audit log change together or not at all, and the store goes on."""

    @pytest.mark.parametrize("write", _WRITES)
    def test_write_interrupted_in_the_middle_is_done_or_not(
        self, store: RedriveStore, clock: SuiteClock, write: str
    ) -> None:
        """Never half: the redrives and the log are as before, or as afterwards; repeated, it changes no more."""
        _prepared(store)
        seen = [(list(store.jobs()), list(store.audit()))]
        for _ in broken_at_each_step(clock, lambda: _WRITES[write](store)):
            now = (list(store.jobs()), list(store.audit()))
            assert is_sound(store)
            if now != seen[-1]:
                seen.append(now)
        assert len(seen) == 2
        _WRITES[write](store)
        assert seen[-1] == (list(store.jobs()), list(store.audit()))

    def test_reading_interrupted_in_the_middle_changes_nothing(self, store: RedriveStore, clock: SuiteClock) -> None:
        """The next reader gets the whole answer."""
        _prepared(store)
        expected = (store.jobs(), store.audit())
        for call in (store.jobs, store.audit, lambda: store.get("r-1")):
            for _ in broken_at_each_step(clock, call):
                assert expected == (store.jobs(), store.audit())

    @needs("async")
    def test_operation_cancelled_is_done_or_not_and_the_next_gets_its_own_answer(self, store: RedriveStore) -> None:
        """An answer that nobody waits for any more is not taken for that of the next operation."""
        before = store.start(job("before", "before"))
        for ticks in range(TICKS):
            own = job(f"r-{ticks}", f"{ticks}")
            answer = call_cancelled(store, ticks, "start", own)
            assert before == store.get("before")
            assert store.get(own.id) in ([own] if answer else [None, own])
            assert own == store.start(own)
            stopped = call_cancelled(store, ticks, "change", own.id, stopping())
            assert store.hold("nobody", owner="me", lease=30) is None
            again = store.change(own.id, stopping())
            assert again == store.get(own.id)
            assert stopped in (None, again)
            held = call_cancelled(store, ticks, "hold", "before", owner="me", lease=30)
            before = store.hold("before", owner="me", lease=30) or before
            assert held in (None, before)
            noted = entry(f"{ticks}")
            call_cancelled(store, ticks, "note", noted)
            store.note(noted)
            page = call_cancelled(store, ticks, "jobs", active=True)
            assert [before] == list(store.jobs(active=True)) == list(page or [before])
            log = call_cancelled(store, ticks, "audit")
            assert log in (None, store.audit())
            assert is_sound(store)

    @needs("reopen", "processes")
    def test_redrives_of_killed_processes_are_there(self, store: RedriveStore, place: Place, colour: str) -> None:
        """Everything that was acknowledged, and the audit log holds no more and no less than their histories."""
        said = said_before_kill(self, place, "start_without_end", colour)
        for job_id in said:
            known = store.get(job_id)
            assert known is not None
            assert (RedriveState.STOPPED, 2) == (known.state, len(known.history))
        assert is_sound(store)
        assert job("after", "after") == store.start(job("after", "after"))
