"""What is counted of a payload, and what takes it back: the pure rule."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, ErrorGroup, Failure, Outcome
from retrykit.machines import claim as machine
from retrykit.machines import poison
from retrykit.machines.poison import MARKS_KEPT, Mark, PoisonRule
from retrykit.message import CALL_MARK, Message
from tests.machines.claims import DEAD, LEASE, RETRY, TIMEOUT, at, claimed, sending, settled, take

BUG = Failure(error_class=ErrorClass.INTERNAL_ERROR, outcome=Outcome.NOT_SENT)


def held(**fields):
    """Return a record that somebody holds, of a payload."""
    return attrs.evolve(sending(owner="host:7/3"), fingerprint="f", **fields)


def after(failure, record=None, decision=DEAD):
    record = record or held()
    return settled(record, machine.failed(record, failure, decision, failed_at=at(9)), now=at(10))


def test_internal_failure_is_a_mark_of_its_hold():
    """At the time of the store; also where it is tried again."""
    for decision in (DEAD, RETRY):
        assert Mark("failed:host:7/3", at(10)) == poison.mark_of(held(), after(BUG, decision=decision), at(10))


def test_lost_worker_is_a_mark_of_its_process():
    """Whoever notices, at the instant at which it was lost."""
    lapsed = take(held(), now=at(100))[0]
    assert Mark("host:7", at(LEASE)) == poison.mark_of(held(), lapsed, at(100))


@pytest.mark.parametrize("error_class", [ErrorClass.NETWORK_TIMEOUT, ErrorClass.UNKNOWN, ErrorClass.INVALID_RECIPIENT])
def test_failure_of_another_group_is_no_mark(error_class):
    """The provider's and the recipient's failures say nothing about the payload."""
    assert error_class.group is not ErrorGroup.INTERNAL
    failure = Failure(error_class=error_class, outcome=Outcome.NOT_SENT)
    assert poison.mark_of(held(), after(failure), at(10)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"fingerprint": None},
        {"fingerprint": Message("m", None).fingerprint},
        {"fingerprint": Message("m", {}).fingerprint},
        {"fingerprint": Message("m", b"").fingerprint},
        {"key": f"{CALL_MARK}k"},
    ],
)
def test_calls_and_payloads_that_say_nothing_have_no_marks(fields):
    """A hundred messages without a payload have nothing in common; and what is condemned has no marks either."""
    record = attrs.evolve(held(), **fields)
    assert poison.mark_of(record, after(BUG, record), at(10)) is None
    assert () == poison.cleared(record, settled(record, machine.sent(record)))
    marks = {str(number): at(number) for number in range(5)}
    assert poison.verdict(attrs.evolve(record, lease=None), marks, PoisonRule(), at(10)) is None


def test_what_has_not_changed_is_neither_a_mark_nor_takes_one_away():
    """A repeated settlement, a new generation, a key that was not there."""
    dead, done = after(BUG), settled(held(), machine.sent(held()))
    reopened = machine.reopen(dead, "k", machine.ReopenTerms(letter_id="k#1", generation=1), now=at(20))
    for before, record in ((dead, dead), (None, dead), (dead, reopened), (held(), held())):
        assert poison.mark_of(before, record, at(30)) is None
    for before, record in ((dead, dead), (done, done), (reopened, reopened), (None, dead), (held(), after(BUG))):
        assert () == poison.cleared(before, record)


@pytest.mark.parametrize(
    ("failure", "is_cleared"),
    [
        (attrs.evolve(TIMEOUT, outcome=Outcome.REJECTED), True),
        (TIMEOUT, False),
        (attrs.evolve(TIMEOUT, outcome=Outcome.UNKNOWN), False),
        (attrs.evolve(BUG, outcome=Outcome.REJECTED), False),
    ],
)
def test_payload_that_came_through_to_a_provider_has_no_marks_left(failure, is_cleared):
    """Refused or taken, it was processed; what is not known, or failed before, is no sign of that."""
    assert (("f",) if is_cleared else ()) == poison.cleared(held(), after(failure))
    assert ("f",) == poison.cleared(held(), settled(held(), machine.sent(held())))
    assert ("f",) == poison.cleared(None, attrs.evolve(machine.sent(held())))


def test_letter_that_is_put_back_clears_its_payload_and_those_before():
    """Each once, and with or without a record."""
    dead = attrs.evolve(after(BUG), replaced=("first",))
    terms = machine.ReopenTerms(letter_id="k#1", generation=1, fingerprint="new", replaced=("second", "f"))
    expected = {"f", "new", "first", "second"}
    cleared = poison.cleared(dead, machine.reopen(dead, "k", terms, now=at(20)))
    assert expected == set(cleared)
    assert len(expected) == len(cleared)
    assert {"new", "second", "f"} == set(poison.cleared(None, machine.reopen(None, "k", terms, now=at(20))))


@given(st.lists(st.tuples(st.integers(0, 30).map(str), st.integers(0, 1000)), max_size=60))
def test_newest_marks_are_kept_one_for_each_source(told):
    """In whatever order they are told."""
    marks, newest = {}, {}
    for source, seconds in told:
        marks = poison.with_mark(marks, Mark(source, at(seconds)))
        newest[source] = max(newest.get(source, at(seconds)), at(seconds))
        assert len(marks) <= MARKS_KEPT
    assert marks == poison.with_mark(marks, None)
    if len(newest) <= MARKS_KEPT:
        assert newest == marks
    assert sorted(newest.values())[-min(3, len(newest)) :] == sorted(marks.values())[-min(3, len(newest)) :]


def test_verdict_counts_what_lies_within_the_window():
    """At its very begin no more; three are enough, and the sentence says what was counted."""
    record = attrs.evolve(claimed(), fingerprint="f", lease=None)
    lost = {f"host:{number}": at(number) for number in range(3)}
    rule = PoisonRule(window=100)
    assert poison.verdict(record, lost, rule, at(100)) is None
    failure = poison.verdict(record, lost, rule, at(99.999))
    assert failure is not None
    assert "3 lost workers within 100 s had the same payload" == failure.error_message
    assert ErrorClass.POISON_MESSAGE == failure.error_class
    assert poison.verdict(record, lost, PoisonRule(window=100, failures=None), at(50)) is None


def test_internal_failures_count_for_a_shorter_time_than_lost_workers():
    """Code that is repaired is tried again by itself, whatever failed before with the same payload."""
    record = attrs.evolve(claimed(), fingerprint="f", lease=None)
    failed = {f"failed:host:{number}/1": at(number) for number in range(3)}
    rule = PoisonRule(failure_window=100)
    assert poison.verdict(record, failed, rule, at(99.999)) is not None
    assert poison.verdict(record, failed, rule, at(100)) is None
    failure = poison.verdict(record, {**failed, "host:1": at(-1000)}, rule, at(100))
    assert failure is not None
    assert (
        "2 internal failures within 100 s and 1 lost worker within 259200 s had the same payload"
        == failure.error_message
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        ("", None),
        (" \n\0", None),
        ("exit code 137", "exit code 137"),
        ("  signal 11\n(SIGSEGV)\x1b[31m\ud800 ", "signal 11 (SIGSEGV) [31m"),
        ("ü" * 300, "ü" * 200),
    ],
)
def test_last_words_are_one_line_of_bounded_length(given, kept):
    """Without what a terminal would obey, or a store could not keep."""
    assert kept == poison.last_words(given)


def test_last_words_that_are_no_text_are_refused():
    """An exit code alone says too little: the supervisor puts it into words."""
    with pytest.raises(ConfigurationError, match="lost is 137; allowed is how the worker ended"):
        poison.last_words(137)
