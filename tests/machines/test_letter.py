"""What may become of a dead letter, and from where."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.dead_letter import DeadLetter, DeadLetterState, Edit
from retrykit.machines import letter as machine
from retrykit.testing.strategies import letters

QUARANTINED, REDRIVING, RESOLVED, DISCARDED, SUPERSEDED = (
    DeadLetterState.QUARANTINED,
    DeadLetterState.REDRIVING,
    DeadLetterState.RESOLVED,
    DeadLetterState.DISCARDED,
    DeadLetterState.SUPERSEDED,
)
EDIT = Edit(payload=b"\xff mended", by="ada", why="a comma too many", at=datetime(2026, 1, 2, tzinfo=UTC))
CHANGES = {
    "put back": (lambda letter: machine.put_back(letter, "r-1", "fixed"), {"redrive_id": "r-1", "note": "fixed"}),
    "superseded": (machine.superseded, {}),
    "discarded": (lambda letter: machine.discarded(letter, "ada: obsolete"), {"note": "ada: obsolete"}),
}
TABLE = {
    "put back": {QUARANTINED: REDRIVING},
    "superseded": {QUARANTINED: SUPERSEDED, REDRIVING: SUPERSEDED},
    "discarded": {QUARANTINED: DISCARDED},
}


def letter_in(state) -> DeadLetter:
    fields = {"message_id": "m", "error_class": "greylisted", "attempt_count": 1, "last_failed_at": 0}
    return DeadLetter.from_dict({**fields, "original_payload": "{", "state": state.value, "note": "before"})


def test_table_of_changes_leads_from_every_state():
    """A resolved letter goes nowhere; everything else may turn out to have been sent."""
    assert set(DeadLetterState) == set(machine.ALLOWED)
    assert {RESOLVED: False} | dict.fromkeys(set(DeadLetterState) - {RESOLVED}, True) == {
        state: RESOLVED in following for state, following in machine.ALLOWED.items()
    }
    assert machine.ALLOWED[RESOLVED] == frozenset()
    assert not any(QUARANTINED in following for following in machine.ALLOWED.values())


@pytest.mark.parametrize("state", DeadLetterState)
@pytest.mark.parametrize("change", CHANGES)
def test_change_moves_a_letter_from_where_the_table_allows_it(change, state):
    """From everywhere else the letter stays the very same, its note included."""
    apply, fields = CHANGES[change]
    letter = letter_in(state)
    if state in TABLE[change]:
        assert attrs.evolve(letter, state=TABLE[change][state], **fields) == apply(letter)
    else:
        assert apply(letter) is letter


@pytest.mark.parametrize("change", CHANGES)
def test_change_repeated_does_nothing(change):
    """Its first answer may have been lost."""
    apply, _ = CHANGES[change]
    once = apply(letter_in(QUARANTINED))
    assert apply(once) is once


@pytest.mark.parametrize("state", DeadLetterState)
def test_edit_lays_a_repair_beside_the_original_of_a_quarantined_letter(state):
    """What came in stays, and a second repair takes the place of the first."""
    letter = letter_in(state)
    edited = machine.edited(letter, EDIT)
    if state is not QUARANTINED:
        assert edited is letter
        return
    assert attrs.evolve(letter, edit=EDIT, note=EDIT.why) == edited
    again = attrs.evolve(EDIT, payload=b"{}", why="better")
    assert attrs.evolve(letter, edit=again, note="better") == machine.edited(edited, again)


@given(letters, st.lists(st.sampled_from([*CHANGES, "edited"]), max_size=5))
def test_any_changes_go_along_the_table_and_keep_the_evidence(letter, names):
    """Only state, note, edit and the redrive ever differ."""
    for name in names:
        before = letter
        letter = machine.edited(letter, EDIT) if name == "edited" else CHANGES[name][0](letter)
        assert letter.state is before.state or letter.state in machine.ALLOWED[before.state]
        kept = {"state": before.state, "note": before.note, "edit": before.edit, "redrive_id": before.redrive_id}
        assert before == attrs.evolve(letter, **kept)
