"""How long letters are kept: by class, in batches, and never those that somebody waits for."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from retrykit.backends import MemoryBackend
from retrykit.dead_letter import DeadLetter, DeadLetterState
from retrykit.deadletter import Retention, RetentionReport
from retrykit.errors import ConfigurationError, StoreUnavailableError
from retrykit.failure import ErrorClass, ErrorGroup
from retrykit.stores import DeadLetterQuery, as_async
from retrykit.testing import ManualClock, Paused
from tests.colours import both_loops

NOW = datetime(2026, 11, 30, tzinfo=UTC)
S = DeadLetterState
FULL, DENIED = ErrorClass.MAILBOX_FULL, ErrorClass.CONTENT_REJECTED
CARD = ErrorClass("card_declined", group=ErrorGroup.PERMANENT_RECIPIENT)


def clock():
    return ManualClock(NOW)


def store_with(*letters):
    return backend_with(*letters).dead_letters


def backend_with(*letters):
    """A backend with letters, each given as its class, its age in days and its state."""
    backend = MemoryBackend(clock=clock())
    for number, (error_class, age, state) in enumerate(letters):
        died = NOW - timedelta(days=age)
        letter = DeadLetter.from_dict(
            {
                "message_id": f"m-{number}",
                "error_class": str(error_class),
                "error_group": error_class.group.value,
                "attempt_count": 1,
                "last_failed_at": died.isoformat(),
                "original_payload": "{}",
                "state": state.value,
            }
        )
        backend.dead_letters.put(letter)
    return backend


def left(store):
    return sorted(letter.message_id for letter in store.search().letters)


def test_retention_keeps_each_class_for_its_own_time():
    """A class goes before its group, the group before the default; an application's own class counts by its name and group."""
    own = ErrorClass("own.bug", group=ErrorGroup.INTERNAL)
    classes = [FULL, ErrorClass.GREYLISTED, ErrorClass.INTERNAL_ERROR, own, CARD, DENIED, ErrorClass.QUOTA_EXCEEDED]
    retention = Retention(
        {
            FULL: "10d",
            ErrorGroup.TEMPORARY_MAILBOX: "20d",
            "internal": timedelta(days=30),
            "card_declined": 40 * 86400,
            "quota_exceeded": "60d",
        },
        default="50d",
    )
    for name, days in zip(classes, [10, 20, 30, 30, 40, 50, 60], strict=True):
        store = store_with((name, days + 1, S.RESOLVED), (name, days - 1, S.RESOLVED))
        assert RetentionReport(finished={str(name): 1}) == retention.apply(store, clock=clock())
        assert ["m-1"] == left(store)


def test_letter_is_kept_to_the_millisecond():
    """What died exactly that long ago is kept, as `purge` has it."""
    store = store_with((FULL, 10, S.RESOLVED))
    assert 0 == Retention({FULL: "10d"}).apply(store, clock=clock()).total
    assert 1 == Retention({FULL: 10 * 86400 - 0.001}).apply(store, clock=clock()).total


def test_only_finished_letters_are_deleted():
    """Nobody deletes what is quarantined or being put back."""
    store = store_with(*((FULL, 5000, state) for state in S))
    waiting = sorted(f"m-{number}" for number, state in enumerate(S) if state in (S.QUARANTINED, S.REDRIVING))
    report = Retention({}, default="1d").apply(store, clock=clock())
    assert waiting == left(store)
    assert ({str(FULL): len(S) - 2}, {}) == (report.finished, report.quarantined)


@pytest.mark.parametrize(
    ("quarantined", "gone", "report"),
    [
        (None, set(), {}),
        ("100d", {"m-0", "m-1"}, {"mailbox_full": 1, "content_rejected": 1}),
        ({FULL: "100d"}, {"m-0"}, {"mailbox_full": 1}),
        ({ErrorGroup.CONTENT_POLICY: "100d", FULL: "9000d"}, {"m-1"}, {"content_rejected": 1}),
        ({}, set(), {}),
    ],
)
def test_quarantined_letters_are_deleted_only_where_that_is_said(quarantined, gone, report):
    """For all, or for classes; they are reported by themselves. What is being put back is kept in any case."""
    store = store_with(
        (FULL, 200, S.QUARANTINED), (DENIED, 200, S.QUARANTINED), (FULL, 200, S.REDRIVING), (FULL, 50, S.QUARANTINED)
    )
    found = Retention({FULL: "1d"}, default="1d", quarantined=quarantined).apply(store, clock=clock())
    assert sorted({"m-0", "m-1", "m-2", "m-3"} - gone) == left(store)
    assert ({}, report, len(gone)) == (found.finished, found.quarantined, found.total)


def test_class_without_a_time_is_kept_for_ever_where_there_is_no_default():
    """Only what is named is deleted."""
    store = store_with((FULL, 20000, S.RESOLVED), (DENIED, 20000, S.RESOLVED))
    assert {"mailbox_full": 1} == Retention({FULL: "1d"}, default=None).apply(store, clock=clock()).finished
    assert 0 == Retention(default=None).apply(store, clock=clock()).total
    assert ["m-1"] == left(store)


def test_retention_tells_what_is_due_and_deletes_nothing():
    """The same figures as those of deleting it."""
    store = store_with(
        (FULL, 20, S.RESOLVED), (FULL, 20, S.DISCARDED), (FULL, 5, S.RESOLVED), (DENIED, 20, S.QUARANTINED)
    )
    retention = Retention({FULL: "10d"}, quarantined="15d")
    due = retention.due(store, clock=clock())
    assert RetentionReport(finished={"mailbox_full": 2}, quarantined={"content_rejected": 1}) == due
    assert 4 == store.count()
    assert due == retention.apply(store, clock=clock())
    assert RetentionReport() == retention.due(store, clock=clock()) == retention.apply(store, clock=clock())


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 100])
def test_retention_deletes_in_batches_until_nothing_is_left(batch):
    """Also when the last batch is full."""
    store = store_with(*[(FULL, 20, S.RESOLVED)] * 4)
    assert {"mailbox_full": 4} == Retention({FULL: "10d"}).apply(store, batch=batch, clock=clock()).finished
    assert [] == left(store)


def test_retention_of_a_thousand_years_and_more_deletes_nothing():
    """No letter is as old as that."""
    store = store_with((FULL, 300_000, S.RESOLVED))
    assert 0 == Retention({FULL: "999999999d"}, default="999999999d").apply(store, clock=clock()).total


def test_letters_of_one_name_in_two_groups_are_kept_by_their_own_group():
    """Two applications may call a class alike."""
    other = ErrorClass("card_declined", group=ErrorGroup.INTERNAL)
    store = store_with((CARD, 20, S.RESOLVED), (other, 20, S.RESOLVED))
    assert {"card_declined": 1} == Retention({ErrorGroup.INTERNAL: "10d"}).apply(store, clock=clock()).finished
    assert ["m-0"] == left(store)


def test_retention_by_the_clock_in_force(manual_clock):
    """Where none is given."""
    store = store_with((FULL, 1, S.RESOLVED))
    manual_clock.move_to(NOW + timedelta(days=1))
    assert 0 == Retention({FULL: "3d"}).due(store).total
    assert 1 == Retention({FULL: "1d"}).due(store).total


def test_what_was_resolved_before_its_letter_came_is_forgotten_after_the_longest_time():
    """It is of no class; a letter that comes later is then put as it is."""
    for age, state in ((99, S.RESOLVED), (101, S.QUARANTINED)):
        time = clock()
        backend = MemoryBackend(clock=time)
        (letter,) = store_with((FULL, 0, S.QUARANTINED)).search().letters
        backend.dead_letters.resolve(letter.id)
        time.advance(age * 86400)
        report = Retention({FULL: "100d", DENIED: "1d"}, default="50d").apply(backend.dead_letters, clock=time)
        assert 0 == report.total
        assert state is backend.dead_letters.put(letter).state


def test_letter_that_is_resolved_while_retention_runs_is_counted():
    """Among the others, when it had its time and more."""
    store = store_with((FULL, 500, S.QUARANTINED), (DENIED, 500, S.RESOLVED))
    flow = Paused(Retention({FULL: "10d"})._apply(store, 10, clock()))
    while not (flow.step.fn.__name__ == "purge" and flow.step.kwargs["query"] == DeadLetterQuery(state=S.RESOLVED)):
        flow.make_step()
    store.resolve("m-0#1")
    assert {"content_rejected": 1, "other": 1} == flow.finish().finished


def test_retention_run_by_many_deletes_and_counts_each_letter_once():
    """They take turns at every step of the store."""
    store = store_with(*[(FULL, 20, S.RESOLVED)] * 7, *[(DENIED, 20, S.RESOLVED)] * 5)
    flows = [Paused(Retention(default="10d")._apply(store, 2, clock())) for _ in range(3)]
    total = Counter()
    while flows:
        for flow in list(flows):
            flow.make_step()
            if flow.done:
                total.update(flow.result.finished)
                flows.remove(flow)
    assert {"mailbox_full": 7, "content_rejected": 5} == total
    assert [] == left(store)


def test_retention_stopped_by_a_store_that_fails_goes_on_when_it_is_run_again():
    """What was deleted stays deleted."""
    store = store_with(*[(FULL, 20, S.RESOLVED)] * 5)
    flow = Paused(Retention(default="10d")._apply(store, 2, clock()))
    while store.count() == 5:
        flow.make_step()
    with pytest.raises(StoreUnavailableError):
        flow.interrupt(StoreUnavailableError("gone"))
    assert {"mailbox_full": 3} == Retention(default="10d").apply(store, clock=clock()).finished


def test_what_was_deleted_is_logged_by_class(caplog):
    """And nothing where nothing was."""
    caplog.set_level(logging.INFO)
    store = store_with((FULL, 500, S.RESOLVED))
    for _ in range(2):
        Retention().apply(store, clock=clock())
    assert [
        "deleted 1 dead letters whose time was over, by error class: finished {'mailbox_full': 1}, quarantined {}"
    ] == [record.getMessage() for record in caplog.records if record.name == "retrykit.deadletter"]


@both_loops
def test_async_retention_does_the_same(runner):
    """Under each event loop."""
    backend = backend_with((FULL, 20, S.RESOLVED), (FULL, 5, S.RESOLVED))
    retention = Retention({FULL: "10d"})

    async def main():
        letters = as_async(backend).dead_letters
        due = await retention.due_async(letters, clock=clock())
        return due, await retention.apply_async(letters, batch=1, clock=clock())

    due, done = runner(main)
    assert RetentionReport(finished={"mailbox_full": 1}) == due == done
    assert ["m-1"] == left(backend.dead_letters)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"times": ["mailbox_full"]}, "the times are .*; allowed is a mapping of error class or group to duration"),
        ({"times": {5: "1d"}}, "a time is given for 5; allowed are error classes, groups, and their names"),
        ({"times": {"Mailbox Full": "1d"}}, "the error class is 'Mailbox Full'; allowed are"),
        ({"times": {FULL: 0}}, "the time of 'mailbox_full' is 0; allowed are finite durations > 0"),
        ({"times": {FULL: None}}, "the time of 'mailbox_full' is None; allowed are seconds"),
        ({"default": "soon"}, "default is 'soon'; allowed is text such as"),
        ({"quarantined": "never"}, "quarantined is 'never'; allowed is text such as"),
        ({"quarantined": {FULL: "soon"}}, "the time of 'mailbox_full' is 'soon'; allowed is text such as"),
    ],
)
def test_retention_with_a_time_that_is_none_is_refused(arguments, complaint):
    """By its class."""
    with pytest.raises(ConfigurationError, match=complaint):
        Retention(**arguments)


def test_retention_with_a_batch_that_is_none_is_refused():
    """In both colours at once."""
    with pytest.raises(ConfigurationError, match="batch is 0; allowed are whole numbers >= 1"):
        Retention().apply(MemoryBackend().dead_letters, batch=0)
