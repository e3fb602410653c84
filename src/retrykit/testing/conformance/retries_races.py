"""Races: many threads and processes at once, and each entry is in one hand, and handed on once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...message import Message
from ...stores.retries import RetryStats, RetryStore
from .child import in_processes
from .races import PROCESSES, THREADS, in_threads
from .retries_states import at, due
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["RetryRacesTests"]

_NAMES = [f"m-{number:02}" for number in range(60)]
_NOTHING = RetryStats(waiting=0, leased=0, due=0, next_due_at=None)


def _fill(store: RetryStore) -> None:
    for number, name in enumerate(_NAMES):
        store.schedule(Message(name, number), at(0))


class RetryRacesTests(StoreSuite[RetryStore]):
    """What races come to."""

    def test_many_threads_taking_due_messages_each_is_handed_out_once(self, store: RetryStore) -> None:
        """Nothing twice, nothing forgotten."""
        _fill(store)

        def work(number: int) -> list[str]:
            taken: list[str] = []
            while batch := due(store, 4, owner=f"thread-{number}", lease=3600):
                assert len(batch) <= 4
                taken += [entry.message.id for entry in batch if store.ack(entry)]
            return taken

        assert _NAMES == sorted(name for taken in in_threads(work) for name in taken)
        assert _NOTHING == store.stats()

    def test_many_threads_taking_over_lapsed_messages_each_is_handed_out_once(
        self, store: RetryStore, clock: SuiteClock
    ) -> None:
        """And no holder of before has a say any more."""
        _fill(store)
        late = due(store, lease=30)
        clock.advance("30s")
        taken = [entry for batch in in_threads(lambda _: due(store, 9)) for entry in batch]
        assert _NAMES == sorted(entry.message.id for entry in taken)
        assert not any(store.ack(entry) for entry in late)
        assert all(store.ack(entry) for entry in taken)

    def test_holder_racing_with_those_who_take_over_one_has_the_entry(
        self, store: RetryStore, clock: SuiteClock
    ) -> None:
        """Either it acked, released or extended in time, or somebody else holds the entry and it is told so."""
        for number, name in enumerate(_NAMES):
            store.schedule(Message(name, number), clock.now())
            (late,) = due(store, lease=30)
            clock.advance("30s")
            own: list[Callable[[], object]] = [
                partial(store.ack, late),
                partial(store.release, late, delay=5),
                partial(store.extend, late, lease=5),
            ]

            def work(thread: int, holder: int = number % 4, operate: Callable[[], object] = own[number % 3]) -> bool:
                return bool(operate() if thread == holder else due(store))

            assert in_threads(work, 4).count(True) == 1
            store.cancel(name)

    def test_many_threads_acking_one_hold_one_is_told_that_it_did(self, store: RetryStore) -> None:
        """The entry was removed once."""
        _fill(store)
        entries = due(store)[:10]
        answers = in_threads(lambda _: [store.ack(entry) for entry in entries])
        assert [1] * len(entries) == [sum(answer[number] for answer in answers) for number in range(len(entries))]

    def test_many_threads_scheduling_the_newest_version_stays(self, store: RetryStore) -> None:
        """Whatever comes last; and there is one entry of each message."""

        def work(number: int) -> None:
            for index, name in enumerate(_NAMES):
                version = (number + index) % THREADS
                store.schedule(Message(name, version), at(version), version=version)

        in_threads(work)
        assert RetryStats(waiting=len(_NAMES), leased=0, due=0, next_due_at=at(THREADS - 1)) == store.stats()

    def test_many_threads_scheduling_and_taking_nothing_is_lost(self, store: RetryStore) -> None:
        """What was put in comes out once, while it is still being filled."""

        def work(number: int) -> list[str]:
            if number % 2:
                for name in _NAMES[number // 2 :: THREADS // 2]:
                    store.schedule(Message(name, number), at(0))
                return []
            return [entry.message.id for _ in range(20) for entry in due(store, 3) if store.ack(entry)]

        taken = [name for names in in_threads(work) for name in names]
        taken += [entry.message.id for entry in due(store)]
        assert _NAMES == sorted(taken)

    @needs("processes")
    def test_many_processes_taking_due_messages_each_is_handed_out_once(
        self, store: RetryStore, place: Place, colour: str
    ) -> None:
        """No entry twice, none forgotten."""
        _fill(store)
        work = [{"owner": f"process {number}"} for number in range(PROCESSES)]
        taken = in_processes(self, place, "take_all_due", colour, work)
        assert _NAMES == sorted(name for names in taken for name in names)
        assert _NOTHING == store.stats()
