"""Many clients of a dead letter store at once."""

from __future__ import annotations

from datetime import timedelta

from ...dead_letter import DeadLetterState
from ...stores.dead_letter_query import DeadLetterQuery
from ...stores.dead_letters import DeadLetterStore
from .child import in_processes
from .dead_letters_samples import DIED, letter
from .races import PROCESSES, THREADS, in_threads
from .suite import Place, StoreSuite, needs

__all__ = ["DeadLetterRaces"]

NAMES = [f"m-{number:02}" for number in range(24)]
RESOLVED = DeadLetterQuery(state=DeadLetterState.RESOLVED)


def _all(store: DeadLetterStore) -> list[str]:
    return [each.message_id for each in store.search(limit=1000).letters]


class DeadLetterRaces(StoreSuite[DeadLetterStore]):
    """No letter is lost, doubled or taken back into quarantine."""

    def test_many_threads_putting_a_letter_one_is_kept(self, store: DeadLetterStore) -> None:
        """All are told which."""

        def work(number: int) -> list[str]:
            return [store.put(letter(name, error_message=f"{number}")).error_message for name in NAMES]

        answers = in_threads(work)
        kept = [store.get(f"{name}#1") for name in NAMES]
        assert [[each.error_message if each else None for each in kept]] * THREADS == answers
        assert sorted(NAMES) == sorted(_all(store))
        assert (len(NAMES), [("quarantined", len(NAMES))]) == (
            store.count(),
            [tuple(row) for row in store.top("state")],
        )

    def test_many_threads_putting_letters_all_are_kept_and_counted(self, store: DeadLetterStore) -> None:
        """None overwrites another's."""
        in_threads(lambda number: [store.put(letter(f"{number} {name}", provider="ses")) for name in NAMES[::2]])
        assert sorted(f"{number} {name}" for number in range(THREADS) for name in NAMES[::2]) == sorted(_all(store))
        assert [("ses", THREADS * len(NAMES) // 2)] == [tuple(row) for row in store.top("provider")]

    def test_resolve_racing_with_its_letter_is_never_lost(self, store: DeadLetterStore) -> None:
        """Whichever comes first."""
        for turn, name in enumerate(NAMES):

            def work(number: int, turn: int = turn, name: str = name) -> None:
                if (number + turn) % 2:
                    store.put(letter(name))
                else:
                    store.resolve(f"{name}#1")

            in_threads(work, 2)
        assert {DeadLetterState.RESOLVED} == {each.state for each in store.search(limit=1000).letters}
        assert (len(NAMES), len(NAMES)) == (store.count(RESOLVED), store.count())

    def test_search_page_by_page_beside_writers_gives_every_letter_once(self, store: DeadLetterStore) -> None:
        """Of those that were there when it began."""
        for name in NAMES:
            store.put(letter(name))

        def work(number: int) -> list[str]:
            if number:
                for name in NAMES:
                    store.put(letter(f"{number} {name}"))
                return []
            seen, cursor = list[str](), None
            while True:
                page = store.search(limit=5, cursor=cursor)
                seen += [each.message_id for each in page.letters]
                cursor = page.cursor
                if cursor is None or len(seen) > 10 * len(NAMES):
                    return seen

        seen = in_threads(work, 4)[0]
        assert len(seen) == len(set(seen))
        assert NAMES[::-1] == [name for name in seen if name in NAMES]

    def test_many_threads_purging_each_letter_is_counted_once(self, store: DeadLetterStore) -> None:
        """The answers add up to what there was."""
        for name in NAMES:
            store.put(letter(name))

        def work(_: int) -> int:
            return sum(store.purge(DIED + timedelta(days=1), limit=2) for _ in range(len(NAMES)))

        assert sum(in_threads(work, 4)) == len(NAMES)
        assert (0, []) == (store.count(), list(store.top("state")))

    def test_threads_annotating_different_things_lose_nothing(self, store: DeadLetterStore) -> None:
        """What one does not name, another has noted meanwhile."""
        for name in NAMES:
            store.put(letter(name, fingerprint=name))

            def work(number: int, name: str = name) -> None:
                store.annotate(name, by="ada", owner="o" if number else None, note=None if number else "n")

            in_threads(work, 2)
        groups = store.groups(limit=1000).groups
        assert {("o", "n")} == {(group.owner, group.note) for group in groups}

    @needs("processes")
    def test_many_processes_putting_and_resolving_letters_one_is_kept_of_each(
        self, store: DeadLetterStore, place: Place, colour: str
    ) -> None:
        """All are told which, and all are resolved at the end."""
        work = [{"names": NAMES, "by": f"process {number}"} for number in range(PROCESSES)]
        answers = in_processes(self, place, "put_and_resolve_many", colour, work)
        kept = {each.message_id: each.error_message for each in store.search(limit=1000).letters}
        assert [[kept[name] for name in NAMES]] * PROCESSES == answers
        assert sorted(NAMES) == sorted(_all(store))
        assert (len(NAMES), len(NAMES)) == (store.count(RESOLVED), store.count())
