"""What the suite of the redrive store asks of the audit log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import attrs
import pytest

from ...errors import RedriveConflictError
from ...stores.redrives import AuditEntry, RedriveStore
from .redrives_samples import BEGUN, entry, is_sound, job, pausing, resuming, stopping
from .suite import StoreSuite, SuiteClock

__all__ = ["RedriveAudit"]


def _another(value: Any) -> Any:
    """Return the next value of the same type."""
    if isinstance(value, str):
        return f"{value}."
    return value + (1 if isinstance(value, int) else timedelta(milliseconds=1))


class RedriveAudit(StoreSuite[RedriveStore]):
    """It only grows, and all that happened to redrives stands in it."""

    def test_note_comes_back_as_it_was_given(self, store: RedriveStore) -> None:
        """In every field."""
        expected = entry("discarded", at=BEGUN + timedelta(milliseconds=1), by="bob", result="x")
        store.note(expected)
        assert [expected] == list(store.audit())

    def test_note_repeated_is_one_entry(self, store: RedriveStore) -> None:
        """Its answer may be lost; one that differs in anything is another entry."""
        first = entry()
        fields = attrs.asdict(first)
        expected = [first, *(entry(**(fields | {name: _another(value)})) for name, value in fields.items())]
        for each in (*expected, *expected):
            store.note(each)
        assert sorted(expected, key=lambda each: each.position) == list(store.audit())

    def test_audit_comes_latest_first_then_by_key(self, store: RedriveStore) -> None:
        """Page by page, also while it grows; of whichever order they came in."""
        noted = [
            entry(f"{number} {action}", at=BEGUN + timedelta(seconds=seconds))
            for number, seconds in enumerate((0.001, 5, 5, 9, 0, 5))
            for action in ("Z", "a", "\u00fc", "\U0001f600")
        ]
        for each in noted:
            store.note(each)
        expected = sorted(noted, key=lambda each: each.position)
        for limit in (1, 3, 24, 25):
            seen, last = list[AuditEntry](), None
            while page := store.audit(limit=limit, after=last):
                assert len(page) <= limit
                assert len(seen) < 100, "the pages have no end"
                seen += page
                last = page[-1]
                store.note(entry(f"later {limit} {len(seen)}", at=BEGUN.replace(year=2027)))
            assert expected == [each for each in seen if not each.action.startswith("later")]
            assert len(seen) == len(set(seen))
        assert expected[-2:] == list(store.audit(after=expected[-3]))
        assert [] == list(store.audit(after=expected[-1]))

    def test_audit_goes_on_after_an_entry_that_does_not_stand_in_it(self, store: RedriveStore) -> None:
        """Where it would stand counts."""
        noted = [entry("a", at=BEGUN + timedelta(seconds=second)) for second in range(3)]
        for each in noted:
            store.note(each)
        between = entry("b", at=BEGUN + timedelta(seconds=1.5))
        assert [noted[1], noted[0]] == list(store.audit(after=between))

    def test_audit_gives_a_hundred_unless_asked_for_more(self, store: RedriveStore) -> None:
        """A page for people."""
        for number in range(105):
            store.note(entry(f"{number}"))
        assert [100, 5, 105] == [
            len(store.audit()),
            len(store.audit(after=store.audit()[-1])),
            len(store.audit(limit=10**12)),
        ]

    def test_audit_holds_what_a_redrives_history_holds_from_the_same_moment_on(
        self, store: RedriveStore, clock: SuiteClock
    ) -> None:
        """Each entry once, beside what was noted."""
        noted = entry(at=BEGUN - timedelta(days=1))
        store.note(noted)
        known = store.start(job())
        assert [*known.history, noted] == list(store.audit())
        for change in (pausing(), pausing("bob"), resuming(), stopping(), resuming("bob"), stopping("bob")):
            clock.advance("1s")
            store.start(job())
            changed = store.change("r-1", change)
            assert changed is not None
            assert [*reversed(changed.history), noted] == list(store.audit())
        assert [6] == [len(each.history) for each in store.jobs()]
        assert is_sound(store)

    def test_audit_holds_all_of_a_history_that_gained_several_entries_at_once(self, store: RedriveStore) -> None:
        """One change may do more than one thing."""
        store.start(job(history=(entry("redrive started"), entry("redrive planned"))))
        more = (entry("redrive x", why="1"), entry("redrive x", why="2"), entry("redrive x", why="3"))
        store.change("r-1", lambda known, _: attrs.evolve(known, history=(*known.history, *more)))
        assert len(store.audit()) == 5
        assert is_sound(store)

    def test_audit_holds_nothing_of_what_was_refused(self, store: RedriveStore) -> None:
        """A start that conflicts, and a resumption that does."""
        store.start(job("r-1"))
        store.change("r-1", stopping())
        store.start(job("r-2"))
        before = store.audit()
        with pytest.raises(RedriveConflictError):
            store.start(job("r-3"))
        with pytest.raises(RedriveConflictError):
            store.change("r-1", resuming())
        assert before == store.audit()
