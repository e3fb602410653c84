"""The suite of the redrive store's contract."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import attrs
import pytest

from ...errors import ConfigurationError, InvalidMessageError, RedriveConflictError
from ...lease import Lease
from ...machines import redrive as machine
from ...stores.redrives import RedriveJob, RedriveState, RedriveStore
from .forks import RedriveForks
from .hostile import NO_COUNTS, NO_DURATIONS, NO_KEYS
from .models import compare
from .redrives_audit import RedriveAudit
from .redrives_crashes import RedriveCrashes
from .redrives_model import RedriveModel
from .redrives_races import RedriveRaces
from .redrives_samples import BEGUN, CHANGES, full_job, job, pausing, resuming, stopping
from .redrives_values import RedriveValues
from .suite import Fresh, Place, SuiteClock, needs

__all__ = ["RedriveStoreSuite"]

Open = Callable[[Place], RedriveStore]


def _conflict(call: Callable[[], object]) -> str:
    """Return the id of the redrive that stands in the way of a call."""
    with pytest.raises(RedriveConflictError) as caught:
        call()
    return caught.value.redrive_id


class RedriveStoreSuite(RedriveAudit, RedriveCrashes, RedriveRaces, RedriveForks, RedriveValues):
    """Proves a `RedriveStore` or an `AsyncRedriveStore`."""

    contract = "redrives"

    def test_redrive_comes_back_as_it_was_started(self, store: RedriveStore) -> None:
        """In every field."""
        for expected in (full_job(), job("r-2", None, state=RedriveState.DONE)):
            assert expected == store.start(expected) == store.get(expected.id)
        assert [full_job(), job("r-2", None, state=RedriveState.DONE)] == list(store.jobs())

    def test_get_of_an_unknown_id_is_none(self, store: RedriveStore) -> None:
        """A missing redrive is no error."""
        store.start(job())
        assert [None] * 3 == [store.get(job_id) for job_id in ("r-2", "R-1", "r-1 ")]

    def test_start_twice_is_one_redrive_and_the_first_one_stays(self, store: RedriveStore) -> None:
        """Its answer may be lost; what has happened to it since stands."""
        first = job()
        assert [first, first] == [store.start(each) for each in (first, job(by="bob", group=None))]
        for change, state in ((pausing(), RedriveState.PAUSED), (stopping(), RedriveState.STOPPED)):
            changed = store.change("r-1", change)
            assert changed == store.start(first) == store.get("r-1")
            assert changed is not None
            assert state is changed.state
            assert [changed] == list(store.jobs())

    @pytest.mark.parametrize("state", [RedriveState.RUNNING, RedriveState.PAUSED])
    @pytest.mark.parametrize(("one", "other"), [("a", "a"), ("a", None), (None, "a"), (None, None)])
    def test_start_beside_an_active_redrive_of_the_same_letters_is_refused(
        self, store: RedriveStore, one: str | None, other: str | None, state: RedriveState
    ) -> None:
        """It is named, and nothing is kept of the new one; when it has ended, there is room."""
        first = store.start(job("r-1", one, state=state, by="bob"))
        audit = store.audit()
        for _ in range(2):
            with pytest.raises(RedriveConflictError, match="'r-1' of 'bob' is active"):
                store.start(job("r-2", other))
        assert (None, [first], audit) == (store.get("r-2"), list(store.jobs()), store.audit())
        store.change("r-1", stopping())
        assert job("r-2", other) == store.start(job("r-2", other)) == store.get("r-2")

    def test_start_beside_active_redrives_of_other_groups_is_kept(self, store: RedriveStore) -> None:
        """Groups are told apart to the letter; one of several groups waits for all of them."""
        groups = ["a", "A", "a ", "", "ä"]
        for group in groups:
            store.start(job(f"r-{group}", group))
        assert len(groups) == len(store.jobs(active=True))
        for group in groups:
            assert _conflict(lambda: store.start(job("r-all", None))) in {f"r-{each}" for each in groups}
            store.change(f"r-{group}", stopping())
        assert store.start(job("r-all", None)) == store.get("r-all")

    @pytest.mark.parametrize("state", [RedriveState.STOPPED, RedriveState.DONE])
    def test_start_beside_one_that_has_ended_is_kept(self, store: RedriveStore, state: RedriveState) -> None:
        """Also one that has ended itself beside one that is active."""
        store.start(job("r-1", state=state))
        store.start(job("r-2"))
        assert store.start(job("r-3", None, state=state)) == store.get("r-3")
        assert ["r-2"] == [each.id for each in store.jobs(active=True)]

    @pytest.mark.parametrize(("one", "other"), [("a", "a"), ("a", None), (None, "a"), (None, None)])
    def test_resume_beside_an_active_redrive_of_the_same_letters_is_refused(
        self, store: RedriveStore, one: str | None, other: str | None
    ) -> None:
        """It stays stopped, and its history as it was; when the other one has ended, it goes on."""
        store.start(job("r-1", one))
        stopped = store.change("r-1", stopping())
        store.start(job("r-2", other))
        audit = store.audit()
        for _ in range(2):
            assert _conflict(lambda: store.change("r-1", resuming())) == "r-2"
        assert (stopped, audit) == (store.get("r-1"), store.audit())
        store.change("r-2", pausing())
        assert _conflict(lambda: store.change("r-1", resuming())) == "r-2"
        store.change("r-2", stopping())
        resumed = store.change("r-1", resuming())
        assert resumed is not None
        assert (RedriveState.RUNNING, ["r-1"]) == (resumed.state, [each.id for each in store.jobs(active=True)])

    def test_resume_beside_an_active_redrive_of_another_group_goes_on(self, store: RedriveStore) -> None:
        """They are not at the same letters."""
        store.start(job("r-1", "a"))
        store.change("r-1", stopping())
        store.start(job("r-2", "b"))
        resumed = store.change("r-1", resuming())
        assert resumed == store.get("r-1")
        assert ["r-1", "r-2"] == [each.id for each in store.jobs(active=True)]

    def test_change_of_an_active_redrive_needs_no_room(self, store: RedriveStore) -> None:
        """It has it already: it is paused, resumed and changed beside those of other groups."""
        store.start(job("r-1", "a"))
        store.start(job("r-2", "b"))
        for change in (pausing(), resuming(), CHANGES["a new note"]):
            assert store.change("r-1", change) == store.get("r-1")
        assert store.get("r-2") == job("r-2", "b")

    def test_change_is_made_to_what_stands_at_the_stores_time(self, store: RedriveStore, clock: SuiteClock) -> None:
        """The function gets both, and its result is kept and returned."""
        store.start(job())
        seen: list[tuple[RedriveJob, datetime]] = []

        def change(known: RedriveJob, now: datetime) -> RedriveJob:
            seen.append((known, now))
            return attrs.evolve(known, note=f"{known.note}+", slice_at=now)

        for note in ("+", "++"):
            before = store.get("r-1")
            clock.advance("1.5s")
            changed = store.change("r-1", change)
            assert changed == store.get("r-1")
            assert changed is not None
            assert (note, clock.now()) == (changed.note, changed.slice_at)
            assert (before, clock.now()) == seen[-1]

    def test_change_of_an_unknown_redrive_is_none(self, store: RedriveStore) -> None:
        """Nothing is made up."""
        assert store.change("r-1", stopping()) is None
        assert store.hold("r-1", owner="me", lease=30) is None
        assert ([], []) == (list(store.jobs()), list(store.audit()))

    def test_change_that_fails_changes_nothing(self, store: RedriveStore) -> None:
        """Its error reaches the caller, and the store goes on."""
        before = store.start(job())

        def fail(known: RedriveJob, now: datetime) -> RedriveJob:
            raise ZeroDivisionError(f"{known.id} {now}")

        with pytest.raises(ZeroDivisionError):
            store.change("r-1", fail)
        assert (before, before.history) == (store.get("r-1"), tuple(store.audit()))
        assert store.change("r-1", stopping()) == store.get("r-1")

    def test_change_of_one_redrive_leaves_the_others(self, store: RedriveStore) -> None:
        """Also those whose ids are close to its own."""
        others = [store.start(job(job_id, job_id)) for job_id in ("r", "r-11", "R-1")]
        store.start(job("r-1", "r-1"))
        store.change("r-1", stopping())
        store.hold("r", owner="me", lease=30)
        assert others[1:] == [store.get(each.id) for each in others[1:]]

    def test_hold_is_granted_to_one_until_its_lease_ends(self, store: RedriveStore, clock: SuiteClock) -> None:
        """To the millisecond by the store's clock; the next one gets a new token."""
        store.start(job())
        held = store.hold("r-1", owner="one", lease="30s")
        assert held == attrs.evolve(job(), seq=1, lease=Lease("one", 1, clock.now() + timedelta(seconds=30)))
        clock.advance("29999ms")
        assert held == store.hold("r-1", owner="two", lease="30s") == store.get("r-1")
        clock.advance("1ms")
        taken = store.hold("r-1", owner="two", lease="1m")
        assert taken == attrs.evolve(job(), seq=2, lease=Lease("two", 2, clock.now() + timedelta(minutes=1)))
        assert taken == store.hold("r-1", owner="one", lease="30s")

    def test_hold_again_by_its_holder_moves_the_end(self, store: RedriveStore, clock: SuiteClock) -> None:
        """The token stays, so an answer that was lost does no harm."""
        store.start(job())
        for _ in range(3):
            held = store.hold("r-1", owner="me", lease=30)
            assert held is not None
            assert Lease("me", 1, clock.now() + timedelta(seconds=30)) == held.lease
            clock.advance("20s")

    def test_late_holder_changes_nothing(self, store: RedriveStore, clock: SuiteClock) -> None:
        """Its token has been replaced by that of whoever took over, or by a person's decision."""
        store.start(job())

        def reserving(token: int) -> Callable[[RedriveJob, datetime], RedriveJob]:
            return lambda known, now: machine.reserve(known, token, ["m#1"], "c", now)

        store.hold("r-1", owner="one", lease=30)
        clock.advance("30s")
        taken = store.hold("r-1", owner="two", lease=30)
        assert taken == store.change("r-1", reserving(1)) == store.get("r-1")
        reserved = store.change("r-1", reserving(2))
        assert reserved is not None
        assert ("m#1",) == reserved.taken
        paused = store.change("r-1", pausing())
        assert paused == store.change("r-1", reserving(2)) == store.hold("r-1", owner="two", lease=30)
        resumed = store.change("r-1", resuming())
        assert resumed == store.change("r-1", reserving(2))
        again = store.hold("r-1", owner="two", lease=30)
        assert again is not None
        assert again.lease is not None
        assert again.lease.token > 2

    def test_jobs_come_latest_first_then_by_id(self, store: RedriveStore) -> None:
        """Page by page, also while others are started."""
        for number, seconds in enumerate((5, 1, 5, 9, 5, 0.001)):
            created = BEGUN + timedelta(seconds=seconds)
            store.start(job(f"r-{9 - number}", f"{number}", created_at=created))
        ids = ["r-6", "r-5", "r-7", "r-9", "r-8", "r-4"]
        jobs = list(store.jobs())
        assert ids == [each.id for each in jobs]
        assert jobs == [store.get(each) for each in ids]
        for limit in range(1, 8):
            seen, last = list[str](), None
            while page := store.jobs(limit=limit, after=last):
                assert len(page) <= limit
                assert len(seen) < 100, "the pages have no end"
                seen += [each.id for each in page]
                last = page[-1]
                store.start(
                    job(f"later {limit} {len(seen)}", f"{limit} {len(seen)}", created_at=BEGUN.replace(year=2027))
                )
            assert ids == [each for each in seen if not each.startswith("later")]
            assert len(seen) == len(set(seen))
        assert ["r-8", "r-4"] == [each.id for each in store.jobs(after=store.get("r-9"))]
        assert [] == list(store.jobs(after=store.get("r-4")))

    def test_jobs_gives_twenty_unless_asked_for_more(self, store: RedriveStore) -> None:
        """A page for people."""
        for number in range(25):
            store.start(job(f"{number:02}", f"{number}"))
        assert [20, 5, 25] == [
            len(store.jobs()),
            len(store.jobs(after=store.jobs()[-1])),
            len(store.jobs(limit=10**12)),
        ]

    def test_active_jobs_are_those_that_run_or_are_paused(self, store: RedriveStore) -> None:
        """Page by page, as they stand now."""
        states = [RedriveState.DONE, RedriveState.RUNNING, RedriveState.STOPPED, RedriveState.PAUSED]
        for number, state in enumerate([*states, *states]):
            store.start(job(f"r-{number}", f"{number}", state=state))
        active = store.jobs(active=True, limit=3)
        assert ["r-1", "r-3", "r-5"] == [each.id for each in active]
        assert ["r-7"] == [each.id for each in store.jobs(active=True, limit=3, after=active[-1])]
        store.change("r-3", stopping())
        store.change("r-2", resuming())
        assert ["r-1", "r-2", "r-5", "r-7"] == [each.id for each in store.jobs(active=True)]
        assert len(store.jobs()) == 8

    def test_instant_in_another_zone_is_in_utc(self, store: RedriveStore) -> None:
        """The instant is the same, cut to the millisecond."""
        created = (BEGUN + timedelta(microseconds=1999)).astimezone(timezone(timedelta(hours=2)))
        for known in (store.start(job(created_at=created)), store.get("r-1"), *store.jobs()):
            assert known is not None
            assert BEGUN + timedelta(milliseconds=1) == known.created_at

    @pytest.mark.parametrize("job_id", NO_KEYS)
    def test_id_that_is_not_allowed_is_refused(self, store: RedriveStore, job_id: str) -> None:
        """Before anything is touched."""
        calls: list[Callable[[], object]] = [
            lambda: store.start(job(job_id)),
            lambda: store.get(job_id),
            lambda: store.change(job_id, stopping()),
            lambda: store.hold(job_id, owner="me", lease=30),
        ]
        for call in calls:
            with pytest.raises(InvalidMessageError):
                call()
        assert ([], []) == (list(store.jobs()), list(store.audit()))

    def test_value_that_is_not_allowed_is_refused(self, store: RedriveStore) -> None:
        """A lease that is no duration, and a limit that is no count."""
        before = store.start(job())
        for lease in (*NO_DURATIONS, 0):
            with pytest.raises(ConfigurationError, match=r"^lease "):
                store.hold("r-1", owner="me", lease=lease)
        for limit in NO_COUNTS:
            for call in (store.jobs, store.audit):
                with pytest.raises(ConfigurationError, match=r"^limit "):
                    call(limit=limit)
        assert before == store.get("r-1")

    @needs("reopen")
    def test_store_opened_again_finds_its_redrives(
        self, store: RedriveStore, opened: Open, place: Place, clock: SuiteClock
    ) -> None:
        """With their holders, their order, and what stands in the audit log."""
        store.start(job("r-1", "a"))
        store.start(full_job())
        store.start(job("r-2", "b"))
        store.change("r-2", stopping())
        held = store.hold("r-1", owner="me", lease=30)
        other = opened(place)
        assert (store.jobs(), store.audit()) == (other.jobs(), other.audit())
        assert held == other.hold("r-1", owner="other", lease=30)
        assert _conflict(lambda: other.start(job("r-3", "a"))) == "r-1"
        clock.advance("30s")
        taken = other.hold("r-1", owner="other", lease=30)
        assert taken == store.hold("r-1", owner="me", lease=30)
        assert taken != held

    def test_any_sequence_of_operations_gives_what_the_model_gives(self, fresh: Fresh[RedriveStore]) -> None:
        """The memory store is the model."""
        compare(lambda: RedriveModel(fresh()), is_async=self.is_async, at_most=20)
