"""Figures and groups of dead letters: the pure functions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.backends.spans import pieces
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass
from retrykit.stores import DeadLetterGroup, DeadLetterQuery, GroupChange, GroupNote
from retrykit.stores.dead_letter_figures import frame, spread
from retrykit.stores.dead_letter_groups import read_group_cursor, write_group_cursor
from retrykit.testing.strategies import any_text, instants

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@given(st.none() | st.integers(-500, 500), st.none() | st.integers(-500, 500))
def test_pieces_of_a_window_are_all_of_it_once(start, end):
    """In the longest pieces that fit, none of them empty."""
    cut = pieces(start, end, (1, 6, 24))
    seen = [
        moment
        for length, first, before in cut
        for moment in range(-2400 if first is None else first * length, 2400 if before is None else before * length)
    ]
    assert sorted(seen) == list(range(-2400 if start is None else start, 2400 if end is None else end))
    for length, first, before in cut:
        assert first is None or before is None or first < before
        longer = {1: 6, 6: 24}.get(length)
        if longer and first is not None and before is not None and start is not None and end is not None:
            assert before - first < 2 * longer // length


@pytest.mark.parametrize(
    ("since", "until", "step", "expected"),
    [
        (NOON, NOON + timedelta(hours=2), "1h", (NOON, 3600, 2)),
        (NOON + timedelta(minutes=1), NOON + timedelta(hours=2, milliseconds=1), "1h", (NOON, 3600, 3)),
        (NOON, NOON + timedelta(milliseconds=1), "1m", (NOON, 60, 1)),
        (NOON, NOON + timedelta(days=1), "24h", (NOON - timedelta(hours=12), 86_400, 2)),
    ],
)
def test_frame_of_a_trend_begins_at_a_multiple_of_its_step(since, until, step, expected):
    """And takes in the last millisecond, not the end."""
    assert expected == frame(DeadLetterQuery(since=since, until=until), step)


@pytest.mark.parametrize("step", ["1s", "59s", "61s", "7m", "45m", "90m", "1.5h", 0, -60, "x"])
def test_step_that_divides_nothing_is_refused(step):
    """Its buckets would have no end in common with an hour."""
    with pytest.raises(ConfigurationError):
        frame(DeadLetterQuery(since=NOON, until=NOON + timedelta(days=1)), step)


def test_trend_that_is_too_long_or_begins_before_time_is_refused():
    """With what is allowed."""
    with pytest.raises(ConfigurationError, match="10001 steps; allowed are 10000"):
        frame(DeadLetterQuery(since=NOON, until=NOON + timedelta(minutes=10_001)), "1m")
    first = datetime(1, 1, 1, tzinfo=UTC)
    with pytest.raises(ConfigurationError, match="before the year 1"):
        frame(DeadLetterQuery(since=first, until=first + timedelta(hours=1)), "36h")


@given(st.lists(instants, max_size=5))
def test_spread_counts_every_instant_once(given_):
    """In the step in which it lies."""
    start = datetime(1900, 1, 1, tzinfo=UTC)
    counts = spread(given_, start, 86_400.0 * 365, 300)
    assert len(given_) == sum(counts)


@given(st.sampled_from(["last_seen", "matching"]), any_text, instants, st.integers(1, 10**9))
def test_group_cursor_reads_as_it_was_written(order, fingerprint, seen, matching):
    """Whatever a fingerprint looks like."""
    group = DeadLetterGroup(
        fingerprint=fingerprint,
        error_class=ErrorClass.MAILBOX_FULL,
        error_code=None,
        provider=None,
        error_message="",
        counts={},
        first_seen=seen,
        last_seen=seen,
        matching=matching,
        letter_ids=(),
    )
    cursor = write_group_cursor(group, order)
    rank = matching if order == "matching" else round(seen.timestamp() * 1000)
    assert (rank, fingerprint) == read_group_cursor(cursor)
    assert cursor.isascii()
    assert cursor.isprintable()


@pytest.mark.parametrize(
    "cursor", ["", "after-", "after-1", "after--", "after-1-zz", "after-x-61", "after-1-6", "b-1-61"]
)
def test_what_is_no_group_cursor_is_refused(cursor):
    """It is quoted."""
    with pytest.raises(ConfigurationError, match="the cursor is"):
        read_group_cursor(cursor)


def test_change_of_a_note_leaves_what_it_does_not_name():
    """An instant mutes until then, True for good, and False ends it."""
    old = GroupNote(muted=True, muted_until=NOON, owner="ada", note="known", updated_by="ada", updated_at=NOON)
    later = NOON + timedelta(hours=1)
    new = GroupChange(by="bob", note="").made_to(old, later)
    assert GroupNote(muted=True, muted_until=NOON, owner="ada", note="", updated_by="bob", updated_at=later) == new
    assert (True, None) == _mute(True, old)
    assert (False, None) == _mute(False, old)
    assert (True, later) == _mute(later, old)
    assert (old.is_muted(NOON - timedelta(seconds=1)), old.is_muted(NOON)) == (True, False)


def _mute(muted, old):
    new = GroupChange(by="bob", muted=muted).made_to(old, NOON)
    return new.muted, new.muted_until


@pytest.mark.parametrize("muted", [1, "yes", 0.5])
def test_mute_that_is_neither_yes_nor_no_nor_an_instant_is_refused(muted):
    """It is quoted, with what is allowed."""
    with pytest.raises(ConfigurationError, match="allowed are True, False"):
        GroupChange(by="bob", muted=muted)


@pytest.mark.parametrize("fields", [{"by": None}, {"by": 1}, {"owner": 1}])
def test_note_that_is_no_text_is_refused(fields):
    """By the name of its field."""
    with pytest.raises(ConfigurationError, match=f"^{next(iter(fields))} is "):
        GroupChange(**({"by": "ada"} | fields))
