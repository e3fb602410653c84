"""Many clients of a redrive store at once."""

from __future__ import annotations

import attrs

from ...codec import JSON
from ...errors import RedriveConflictError
from ...stores.redrives import RedriveJob, RedriveState, RedriveStore
from .child import in_processes
from .races import PROCESSES, THREADS, in_threads
from .redrives_samples import entry, is_sound, job, pausing, resuming, stopping
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["RedriveRaces"]

_TURNS = 8
_GROUPS = [f"group {number:02}" for number in range(8)]


def _stands(store: RedriveStore, new: RedriveJob) -> str:
    """Start a redrive and return the id of the one that stands."""
    try:
        return store.start(new).id
    except RedriveConflictError as error:
        return error.redrive_id


class RedriveRaces(StoreSuite[RedriveStore]):
    """Of redrives that conflict one is active, one runner holds it, and no change is lost."""

    def test_many_threads_starting_redrives_of_a_group_one_is_active(self, store: RedriveStore) -> None:
        """All are told which; nothing is kept of the others, not even in the audit log."""
        for group in _GROUPS:

            def work(number: int, group: str = group) -> str:
                return _stands(store, job(f"{group} {number}", group))

            (winner,) = set(in_threads(work))
            assert winner == next(each.id for each in store.jobs(active=True) if each.group == group)
        assert len(_GROUPS) == len(store.jobs(limit=1000)) == len(store.audit(limit=1000))
        assert is_sound(store)

    def test_many_threads_starting_redrives_of_one_and_of_several_groups_none_conflict(
        self, store: RedriveStore
    ) -> None:
        """Either one of several groups is active, or those of one group each."""
        for turn in range(_TURNS):

            def work(number: int, turn: int = turn) -> str:
                group = None if (number + turn) % 3 == 0 else f"{number % 4}"
                return _stands(store, job(f"{turn} {number}", group))

            stands = set(in_threads(work))
            active = store.jobs(active=True)
            assert stands == {each.id for each in active}
            assert not [(one, other) for one in active for other in active if one.conflicts_with(other)]
            for each in active:
                store.change(each.id, stopping())

    def test_many_threads_starting_the_same_redrive_it_is_one(self, store: RedriveStore) -> None:
        """Its id is what makes it the same."""
        for turn in range(_TURNS):

            def work(number: int, turn: int = turn) -> str:
                return store.start(job(f"{turn}", f"{turn}", by=f"{number}")).by

            assert len(set(in_threads(work))) == 1
        assert _TURNS == len(store.jobs(limit=1000)) == len(store.audit(limit=1000))

    def test_many_threads_resuming_redrives_of_a_group_one_is_active(self, store: RedriveStore) -> None:
        """They had been stopped; a new one may come between."""
        for number in range(THREADS - 1):
            store.start(job(f"r-{number}", state=RedriveState.STOPPED))
        for turn in range(_TURNS):

            def work(number: int, turn: int = turn) -> str:
                if number == THREADS - 1:
                    return _stands(store, job(f"new {turn}", None))
                try:
                    resumed = store.change(f"r-{number}", resuming(by=f"{turn}"))
                    assert resumed is not None
                    return resumed.id
                except RedriveConflictError as error:
                    return error.redrive_id

            (winner,) = set(in_threads(work))
            (active,) = store.jobs(active=True)
            assert winner == active.id
            store.change(winner, stopping(by=f"{turn}"))
        assert is_sound(store)

    def test_many_threads_holding_one_redrive_one_holds_it(self, store: RedriveStore, clock: SuiteClock) -> None:
        """Also where the holder before lapsed; each holder has a token of its own."""
        store.start(job())
        for turn in range(1, _TURNS):

            def work(number: int, turn: int = turn) -> tuple[str, int]:
                known = store.hold("r-1", owner=f"{turn} {number}", lease=30)
                assert known is not None
                assert known.lease is not None
                return known.lease.owner, known.lease.token

            (holder,) = set(in_threads(work))
            assert turn == holder[1]
            clock.advance("30s")

    def test_many_threads_changing_one_redrive_no_change_is_lost(self, store: RedriveStore) -> None:
        """Each sees what the ones before have done."""
        store.start(job())

        def work(number: int) -> None:
            for turn in range(_TURNS):
                store.change("r-1", lambda known, _: attrs.evolve(known, put_back=known.put_back + 1))
                said = entry("redrive x", why=f"{number} {turn}")
                store.change("r-1", lambda known, _: attrs.evolve(known, history=(*known.history, said)))  # noqa: B023 - called at once

        in_threads(work)
        known = store.get("r-1")
        assert known is not None
        assert (THREADS * _TURNS, 1 + THREADS * _TURNS) == (known.put_back, len(known.history))
        assert is_sound(store)

    def test_pause_racing_with_a_hold_nobody_holds_what_is_paused(self, store: RedriveStore) -> None:
        """Whichever comes first."""
        for turn in range(_TURNS):
            store.start(job(f"{turn}", f"{turn}"))

            def work(number: int, turn: int = turn) -> None:
                if (number + turn) % 2:
                    store.change(f"{turn}", pausing())
                else:
                    store.hold(f"{turn}", owner=f"{number}", lease=30)

            in_threads(work, 4)
            known = store.get(f"{turn}")
            assert known is not None
            assert (RedriveState.PAUSED, None) == (known.state, known.lease)

    def test_many_threads_noting_each_entry_is_kept_once(self, store: RedriveStore) -> None:
        """Half of them note the same."""

        def work(number: int) -> None:
            for turn in range(_TURNS):
                store.note(entry(f"{number // 2} {turn}"))

        in_threads(work)
        noted = [each.action for each in store.audit(limit=1000)]
        assert sorted(f"{number} {turn}" for number in range(THREADS // 2) for turn in range(_TURNS)) == sorted(noted)

    @needs("processes")
    def test_many_processes_starting_and_holding_redrives_one_is_active_of_each_group_and_one_holds_it(
        self, store: RedriveStore, place: Place, colour: str
    ) -> None:
        """Whoever started it."""
        work: list[dict[str, JSON]] = [{"groups": [*_GROUPS], "by": f"process {number}"} for number in range(PROCESSES)]
        answers = in_processes(self, place, "start_and_hold_many", colour, work)
        for said in ("started", "held"):
            assert _GROUPS == sorted(group for answer in answers for group in answer[said])
        jobs = {each.group: each for each in store.jobs(active=True)}
        for each, answer in zip(work, answers, strict=True):
            assert [each["by"]] * len(answer["started"]) == [jobs[group].by for group in answer["started"]]
            leases = [jobs[group].lease for group in answer["held"]]
            assert {(each["by"], 1)} >= {(lease.owner, lease.token) for lease in leases if lease is not None}
        assert is_sound(store)
