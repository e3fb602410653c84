"""What people and runners do to dead letters: put back, supersede, discard, repair."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import attrs
import pytest

from ...dead_letter import DeadLetter, DeadLetterState, Edit
from ...errors import ConfigurationError
from ...machines.letter import ALLOWED
from ...stores.dead_letter_query import DeadLetterQuery
from ...stores.dead_letters import DeadLetterStore
from .breaking import TICKS, broken_at_each_step, call_cancelled
from .child import in_processes
from .dead_letters_samples import CHANGES, DIED, EDIT, full_letter, letter
from .hostile import TEXTS, escaped
from .races import PROCESSES, THREADS, in_threads
from .suite import Place, StoreSuite, SuiteClock, needs

__all__ = ["DeadLetterChanges"]

_NAMES: Final = [f"m-{number:02}" for number in range(12)]
_QUARANTINED: Final = DeadLetterState.QUARANTINED

Open = Callable[[Place], DeadLetterStore]


def _changed(before: DeadLetter, change: str) -> DeadLetter:
    """Return what a change has to make of a letter, by the table."""
    if change == "edit":
        waits = before.state is _QUARANTINED
        return attrs.evolve(before, edit=EDIT, note=EDIT.why) if waits else before
    state = {
        "put_back": DeadLetterState.REDRIVING,
        "supersede": DeadLetterState.SUPERSEDED,
        "discard": DeadLetterState.DISCARDED,
    }[change]
    said: dict[str, Any] = {
        "put_back": {"redrive_id": "r-1", "note": "fixed"},
        "supersede": {},
        "discard": {"note": "ada: obsolete"},
    }[change]
    return attrs.evolve(before, state=state, **said) if state in ALLOWED[before.state] else before


def _figures(store: DeadLetterStore) -> dict[str, list[int]]:
    """Return how many letters are in each state, as every way of counting tells it."""
    top = {str(value): total for value, total in store.top("state")}
    stats = store.stats()
    groups = store.groups().groups
    return {
        state.value: [
            store.count(DeadLetterQuery(state=state)),
            len(store.search(DeadLetterQuery(state=state), limit=1000).letters),
            top.get(state.value, 0),
            getattr(stats, state.value),
            sum(group.counts.get(state, 0) for group in groups),
        ]
        for state in DeadLetterState
    }


class DeadLetterChanges(StoreSuite[DeadLetterStore]):
    """A letter goes along the table, once, and its evidence stays."""

    @pytest.mark.parametrize("state", list(DeadLetterState))
    @pytest.mark.parametrize("change", CHANGES)
    def test_change_moves_a_letter_from_where_the_table_allows_it(
        self, store: DeadLetterStore, change: str, state: DeadLetterState
    ) -> None:
        """Everywhere else it stays as it is; repeated, nothing changes; other letters are left alone."""
        before, others = attrs.evolve(full_letter(), state=state), [letter("m"), letter("m", 2), letter("m#3")]
        for each in (before, *others):
            store.put(each)
        expected = _changed(before, change)
        for _ in range(2):
            assert expected == CHANGES[change](store, "m#3") == store.get("m#3")
        assert others == [store.get(each.id) for each in others]
        assert [*reversed(others), expected] == list(store.search().letters)

    @pytest.mark.parametrize("state", list(DeadLetterState))
    @pytest.mark.parametrize("change", CHANGES)
    def test_figures_follow_a_change(self, store: DeadLetterStore, change: str, state: DeadLetterState) -> None:
        """However they are asked for, also by the letter's other fields."""
        fields: dict[str, Any] = {"campaign_id": "spring", "provider": "ses", "fingerprint": "v1:abc"}
        store.put(letter("m", state=state, **fields))
        store.put(letter("other", **fields))
        after = CHANGES[change](store, "m#1")
        assert after is not None
        expected = {each.value: [0] * 5 for each in DeadLetterState}
        for known in (after.state, _QUARANTINED):
            expected[known.value] = [number + 1 for number in expected[known.value]]
        assert expected == _figures(store)
        assert store.count(DeadLetterQuery(state=after.state, campaign_id="spring", provider="ses")) == (
            2 if after.state is _QUARANTINED else 1
        )
        assert [("spring", 2)] == [tuple(row) for row in store.top("campaign_id")]

    @pytest.mark.parametrize("change", CHANGES)
    def test_change_of_an_unknown_letter_is_none(self, store: DeadLetterStore, change: str) -> None:
        """Nothing is made up, also where it is known that it is to be resolved when it comes."""
        store.put(letter("other"))
        store.resolve("early#1")
        for letter_id in ("m#1", "other#2", "other", "", "early#1"):
            assert CHANGES[change](store, letter_id) is None
        assert (1, [letter("other")]) == (store.count(), list(store.search().letters))
        assert store.put(letter("early")).state is DeadLetterState.RESOLVED

    @pytest.mark.parametrize("change", CHANGES)
    def test_change_is_not_taken_back_by_a_repeated_put(self, store: DeadLetterStore, change: str) -> None:
        """A projection may be repeated at any time."""
        store.put(letter())
        changed = CHANGES[change](store, "m#1")
        assert changed == store.put(letter()) == store.get("m#1")

    @pytest.mark.parametrize("change", CHANGES)
    def test_resolved_after_a_change_or_before_it_a_letter_is_resolved(
        self, store: DeadLetterStore, change: str
    ) -> None:
        """That its message was sent is a fact; what was said and repaired before it stays."""
        for name in ("before", "early", "after"):
            if name == "early":
                store.resolve("early#1")
            store.put(letter(name))
            if name == "before":
                store.resolve("before#1")
            CHANGES[change](store, f"{name}#1")
        store.resolve("after#1")
        resolved = DeadLetterState.RESOLVED
        assert [letter(name, state=resolved) for name in ("before", "early")] == [
            store.get(f"{name}#1") for name in ("before", "early")
        ]
        assert attrs.evolve(_changed(letter("after"), change), state=resolved) == store.get("after#1")
        assert store.count(DeadLetterQuery(state=resolved)) == 3

    def test_letter_that_was_put_back_is_superseded_and_then_resolved(self, store: DeadLetterStore) -> None:
        """Its message died again, and was sent in the end."""
        store.put(letter())
        put_back = store.put_back("m#1", redrive_id="r-1", note="fixed")
        assert put_back is not None
        assert (DeadLetterState.REDRIVING, "r-1", "fixed") == (put_back.state, put_back.redrive_id, put_back.note)
        assert put_back == store.put_back("m#1", redrive_id="r-2", note="again") == store.discard("m#1", note="late")
        superseded = store.supersede("m#1")
        assert attrs.evolve(put_back, state=DeadLetterState.SUPERSEDED) == superseded
        store.resolve("m#1")
        assert attrs.evolve(put_back, state=DeadLetterState.RESOLVED) == store.get("m#1") == store.supersede("m#1")

    def test_edit_keeps_the_original(self, store: DeadLetterStore) -> None:
        """A later one takes the place of the one before, until the letter is put back."""
        before = store.put(attrs.evolve(full_letter(), original_payload=b"\xff\0 what came in"))
        for payload in (b"{}", b"", b"\xfe\0\r\n"):
            edit = Edit(payload=payload, attributes={"tenant": "\u00fc"}, by="ada", why=f"{payload!r}", at=DIED)
            assert attrs.evolve(before, edit=edit, note=edit.why) == store.edit("m#3", edit) == store.get("m#3")
        expected = store.get("m#3")
        assert expected is not None
        put_back = store.put_back("m#3", redrive_id="r-1")
        assert attrs.evolve(expected, state=DeadLetterState.REDRIVING, redrive_id="r-1", note="") == put_back
        assert put_back == store.edit("m#3", EDIT) == store.get("m#3")

    def test_hostile_text_of_a_change_comes_back_or_is_escaped(self, store: DeadLetterStore) -> None:
        """What people type, and what they lay beside a payload."""
        for number, text in enumerate((*TEXTS, "why \ud800")):
            store.put(letter(f"{number}"))
            edit = Edit(payload=text.encode("utf-8", "replace"), attributes={text: text}, by=text, why=text, at=DIED)
            expected = letter(f"{number}", edit=edit, note=text)
            for kept in (store.edit(f"{number}#1", edit), store.get(f"{number}#1")):
                assert escaped(expected) == escaped(kept)
            expected = attrs.evolve(expected, state=DeadLetterState.REDRIVING, redrive_id=text)
            for kept in (store.put_back(f"{number}#1", redrive_id=text, note=text), store.get(f"{number}#1")):
                assert escaped(expected) == escaped(kept)
            store.put(letter(f"{number}", 2))
            expected = letter(f"{number}", 2, state=DeadLetterState.DISCARDED, note=f".{text}")
            for kept in (store.discard(f"{number}#2", note=f".{text}"), store.get(f"{number}#2")):
                assert escaped(expected) == escaped(kept)

    @needs("surrogates")
    def test_lone_surrogates_of_a_change_come_back_as_they_were(self, store: DeadLetterStore) -> None:
        """Not as escapes."""
        store.put(letter())
        edit = attrs.evolve(EDIT, by="\ud800", why=r"\ud800", attributes={"\udfff": "a\udfff"})
        assert letter(edit=edit, note=edit.why) == store.edit("m#1", edit) == store.get("m#1")

    @needs("megabyte")
    def test_edit_of_a_megabyte_is_kept_byte_for_byte(self, store: DeadLetterStore) -> None:
        """Beside a megabyte that came in."""
        store.put(letter(original_payload=bytes(range(256)) * 4096))
        edit = attrs.evolve(EDIT, payload=bytes(reversed(range(256))) * 4096)
        assert letter(original_payload=bytes(range(256)) * 4096, edit=edit, note=edit.why) == store.edit("m#1", edit)
        kept = store.get("m#1")
        assert kept is not None
        assert kept.edit == edit

    def test_note_that_is_not_allowed_is_refused(self, store: DeadLetterStore) -> None:
        """Nobody gives a letter up without a word."""
        store.put(letter())
        for note in ("", " ", "x" * 10_001):
            with pytest.raises(ConfigurationError, match=r"^note "):
                store.discard("m#1", note=note)
        with pytest.raises(ConfigurationError, match=r"^note "):
            store.put_back("m#1", redrive_id="r-1", note="x" * 10_001)
        assert letter() == store.get("m#1")
        kept = store.discard("m#1", note="\u20ac" * 10_000)
        assert kept is not None
        assert kept.note == "\u20ac" * 10_000

    def test_purge_takes_letters_by_what_became_of_them(self, store: DeadLetterStore) -> None:
        """Such as those that were given up."""
        for name in "abc":
            store.put(letter(name))
        store.discard("a#1", note="obsolete")
        store.put_back("b#1", redrive_id="r-1")
        later = DIED + timedelta(days=1)
        for state, left in ((DeadLetterState.DISCARDED, ["c", "b"]), (DeadLetterState.REDRIVING, ["c"])):
            assert store.purge(later, query=DeadLetterQuery(state=state)) == 1
            assert left == [each.message_id for each in store.search().letters]
        assert store.discard("a#1", note="again") is None

    @pytest.mark.parametrize("change", CHANGES)
    def test_change_interrupted_in_the_middle_is_made_or_not(
        self, store: DeadLetterStore, clock: SuiteClock, change: str
    ) -> None:
        """Never half: letter and figures are as before, or as afterwards."""
        store.put(letter(fingerprint="v1:abc"))
        before = letter(fingerprint="v1:abc")
        after = _changed(before, change)
        for done in broken_at_each_step(clock, lambda: CHANGES[change](store, "m#1")):
            seen = store.get("m#1")
            assert seen in ([after] if done else [before, after])
            assert seen is not None
            assert [1] * 5 == _figures(store)[seen.state.value]

    @needs("async")
    def test_change_cancelled_is_made_or_not_and_the_next_gets_its_own_answer(self, store: DeadLetterStore) -> None:
        """An answer that nobody waits for any more is not taken for that of the next operation."""
        before = store.put(letter("before"))
        for ticks in range(TICKS):
            own = store.put(letter(f"m-{ticks}"))
            answer = call_cancelled(store, ticks, "discard", own.id, note="obsolete")
            assert before == store.get("before#1")
            assert store.supersede("nobody#1") is None
            expected = attrs.evolve(own, state=DeadLetterState.DISCARDED, note="obsolete")
            assert answer in (None, expected)
            assert expected == store.discard(own.id, note="obsolete")

    def test_many_threads_putting_back_or_discarding_one_wins(self, store: DeadLetterStore) -> None:
        """All are told which, and it alone has said why."""
        for turn, name in enumerate(_NAMES):
            store.put(letter(name, fingerprint="v1:abc"))

            def work(number: int, turn: int = turn, name: str = name) -> tuple[str, str | None, str]:
                if (number + turn) % 2:
                    kept = store.put_back(f"{name}#1", redrive_id=f"{number}", note=f"{number}")
                else:
                    kept = store.discard(f"{name}#1", note=f"{number}")
                assert kept is not None
                return kept.state.value, kept.redrive_id, kept.note

            ((state, redrive_id, note),) = set(in_threads(work))
            assert (state, redrive_id) == (("redriving", note) if (int(note) + turn) % 2 else ("discarded", None))
        figures = _figures(store)
        assert len(_NAMES) == figures["redriving"][0] + figures["discarded"][0]
        assert all(len(set(ways)) == 1 for ways in figures.values())

    def test_resolve_racing_with_changes_is_never_lost(self, store: DeadLetterStore) -> None:
        """Whichever comes first, and whatever the others do."""
        for turn, name in enumerate(_NAMES):
            store.put(letter(name))

            def work(number: int, turn: int = turn, name: str = name) -> None:
                if number == turn % 4:
                    store.resolve(f"{name}#1")
                else:
                    [*CHANGES.values()][number](store, f"{name}#1")

            in_threads(work, 4)
        assert [len(_NAMES)] * 4 == _figures(store)["resolved"][:4]

    def test_many_threads_editing_one_whole_edit_stands(self, store: DeadLetterStore) -> None:
        """With the note of the same person; of many letters, since a race may be missed."""
        for name in _NAMES:
            store.put(letter(name))

        def work(number: int) -> None:
            edit = attrs.evolve(EDIT, payload=f"{number}".encode() * 100, by=f"{number}", why=f"{number}")
            for name in _NAMES:
                assert store.edit(f"{name}#1", edit) is not None

        in_threads(work)
        for name in _NAMES:
            kept = store.get(f"{name}#1")
            assert kept is not None
            assert kept.edit is not None
            assert (f"{kept.note}".encode() * 100, kept.note, kept.note) == (
                kept.edit.payload,
                kept.edit.by,
                kept.edit.why,
            )
            assert kept.note in {f"{number}" for number in range(THREADS)}

    @needs("processes")
    def test_many_processes_discarding_letters_each_is_discarded_by_one(
        self, store: DeadLetterStore, place: Place, colour: str
    ) -> None:
        """All are told by whom."""
        for name in _NAMES:
            store.put(letter(name))
        work = [{"names": [*_NAMES], "by": f"process {number}"} for number in range(PROCESSES)]
        answers = in_processes(self, place, "discard_many", colour, work)
        kept = {each.message_id: each.note for each in store.search(limit=1000).letters}
        assert [[kept[name] for name in _NAMES]] * PROCESSES == answers
        assert len(_NAMES) == store.count(DeadLetterQuery(state=DeadLetterState.DISCARDED))

    @needs("reopen")
    def test_store_opened_again_finds_what_became_of_its_letters(
        self, store: DeadLetterStore, opened: Open, place: Place
    ) -> None:
        """And goes on from there."""
        for name in CHANGES:
            store.put(letter(name))
            CHANGES[name](store, f"{name}#1")
        other = opened(place)
        assert store.search() == other.search()
        assert (store.stats(), _figures(store)) == (other.stats(), _figures(other))
        assert other.supersede("put_back#1") == store.get("put_back#1") != letter("put_back")
