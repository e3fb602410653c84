"""Sources of a provider's events: any at hand, and files that grow."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.classification import EventKind, ProviderEvent
from retrykit.delivery.sources import MAX_LINE, EventFile, EventList
from retrykit.errors import ConfigurationError
from retrykit.times import to_millis

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def line(message_id: str, minutes: float | None = 0) -> dict[str, object]:
    event: dict[str, object] = {"event": "delivered", "message_id": message_id}
    return event if minutes is None else {**event, "timestamp": to_millis(at(minutes)) / 1000}


def write(path: Path, *lines: object, mode: str = "w") -> Path:
    with path.open(mode, encoding="utf-8") as file:
        for each in lines:
            file.write(each if isinstance(each, str) else json.dumps(each) + "\n")
    return path


def ids(source: EventFile | EventList, start: float = -60, end: float = 60) -> str:
    return "".join(event.message_id or "?" for event in source(at(start), at(end)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_list_gives_the_events_of_a_time_and_those_without_one() -> None:
    """The start is included, the end is not."""
    made = [("a", 0.0), ("b", 1.0), ("c", 2.0), ("x", None)]
    events = EventList(
        ProviderEvent(provider="ses", kind=EventKind.DELIVERED, message_id=name, at=None if when is None else at(when))
        for name, when in made
    )
    assert ["ax", "bx", "x"] == [ids(events, *window) for window in ((0, 1), (1, 2), (3, 4))]


def test_file_gives_the_events_of_a_time(path: Path) -> None:
    """In the order of the file, whatever the order of its lines."""
    source = EventFile(write(path, line("c", 2), line("a", 0), line("b", 1), line("d", 2)), "sendgrid")
    assert ["cabd", "a", "b", "cd", ""] == [ids(source, *window) for window in ((0, 9), (0, 1), (1, 2), (2, 3), (3, 9))]
    assert (at(0), at(2)) == source.span


def test_file_of_batches_gives_of_each_line_what_is_of_the_time(path: Path) -> None:
    """Providers send several events at once."""
    source = EventFile(
        write(path, [line("a", 0), line("b", 5)], [line("c", 1), line("d", 6), line("e", 5)]), "sendgrid"
    )
    assert ["ac", "bde"] == [ids(source, 0, 5), ids(source, 5, 10)]


def test_event_of_a_file_without_a_time_is_of_the_time_before_it(path: Path) -> None:
    """It comes once."""
    source = EventFile(write(path, line("a", 0), line("b", None), line("c", 7), line("d", None)), "sendgrid")
    assert ["ab", "cd"] == [ids(source, 0, 5), ids(source, 5, 10)]


def test_events_before_the_first_that_says_when_are_of_its_time(path: Path) -> None:
    """They come once, in the order of the file; within a line as among lines."""
    source = EventFile(
        write(path, line("a", None), [line("b", None), line("c", 7), line("d", None), line("e", 2), line("f", None)]),
        "sendgrid",
    )
    assert ["ef", "abcd", ""] == [ids(source, *window) for window in ((0, 5), (5, 10), (10, 15))]
    assert (at(2), at(7)) == source.span


def test_events_of_a_file_that_never_says_when_come_with_every_time(path: Path) -> None:
    """As those of a list, until one says when."""
    source = EventFile(write(path, line("a", None), line("b", None)), "sendgrid")
    assert ["ab", "ab"] == [ids(source, 0, 5), ids(source, 5, 10)]
    assert None is source.span
    write(path, line("c", 7), line("d", None), mode="a")
    assert ["", "abcd"] == [ids(source, 0, 5), ids(source, 5, 10)]
    write(path, line("e", 1), line("f", None), line("g", 8), mode="a")
    assert ["ef", "abcdg"] == [ids(source, 0, 5), ids(source, 5, 10)]
    write(path, line("h", None), mode="a")
    assert "abcdgh" == ids(source, 5, 10)


def test_undated_event_of_a_part_that_came_later_is_of_the_time_before_it_in_the_file(path: Path) -> None:
    """Not of the latest time that was read."""
    source = EventFile(write(path, line("a", 7), line("b", 1)), "sendgrid")
    assert "ab" == ids(source)
    write(path, line("c", None), mode="a")
    assert ["bc", "a"] == [ids(source, 0, 5), ids(source, 5, 10)]


def test_file_that_grows_is_read_on(path: Path) -> None:
    """Also by events that come late, and not before a line is whole."""
    source = EventFile(write(path, line("b", 3)), "sendgrid")
    assert ids(source) == "b"
    whole = json.dumps(line("c", 4))
    write(path, line("a", 1), whole[:20], mode="a")
    assert ids(source) == "ba"
    assert (1, [3]) == (source.unreadable_lines, [number for number, _ in source.unreadable])
    assert "the line has no end: it was cut off, or is still being written" in source.unreadable[0][1]
    write(path, whole[20:] + "\n", mode="a")
    assert ids(source) == "bac"
    assert source.unreadable_lines == 0


def test_last_line_needs_no_end(path: Path) -> None:
    """Tools leave it out."""
    source = EventFile(write(path, line("z"), json.dumps(line("a"))), "sendgrid")
    assert ids(source) == "za"
    assert (0, []) == (source.unreadable_lines, source.unreadable)
    write(path, "\nno JSON\n  ", mode="a")
    assert ids(source) == "za"
    assert [3] == [number for number, _ in source.unreadable]


@pytest.mark.parametrize("cut", ['{"event": "delive', "[1", "3", "no JSON", "event=delivered&message_id=b"])
def test_last_line_that_was_cut_off_is_told(path: Path, cut: str) -> None:
    """It is counted with the others; whether it is still being written nobody can know. Half a form is a form as well."""
    source = EventFile(write(path, line("a"), "no JSON\n", cut), "sendgrid")
    assert ids(source) == "a"
    assert (2, [2, 3]) == (source.unreadable_lines, [number for number, _ in source.unreadable])
    write(path, "\n" + json.dumps(line("c")) + "\n", mode="a")
    assert "c" in ids(source)
    assert all("no end" not in why for _, why in source.unreadable)


def test_last_line_that_is_a_form_waits_for_its_end(path: Path) -> None:
    """Then it is read whole."""
    source = EventFile(write(path, "MessageSid=SM1&MessageStatus=deliv"), "twilio")
    assert (0, 1) == (len(list(source(at(0), at(9)))), source.unreadable_lines)
    write(path, "ered\n", mode="a")
    assert ([EventKind.DELIVERED], 0) == ([event.kind for event in source(at(0), at(9))], source.unreadable_lines)


def test_file_that_was_replaced_by_a_shorter_one_is_read_anew(path: Path) -> None:
    """Logs are rotated."""
    source = EventFile(write(path, line("a"), line("b")), "sendgrid")
    assert ids(source) == "ab"
    write(path, line("c"))
    assert ids(source) == "c"


def test_lines_that_cannot_be_read_are_passed_over_and_told(path: Path) -> None:
    """By their numbers; what stands beside them is read."""
    long = "[" + " " * MAX_LINE + "]\n"
    source = EventFile(
        write(path, line("a"), "no JSON\n", "\n", long, "3\n", line("b"), '{"cut": \n', line("c")), "sendgrid"
    )
    assert ids(source) == "abc"
    assert (4, [2, 4, 5, 7]) == (source.unreadable_lines, [number for number, _ in source.unreadable])
    assert f"longer than {MAX_LINE:,} bytes" in source.unreadable[1][1]


def test_many_lines_that_cannot_be_read_are_counted(path: Path) -> None:
    """The first hundred are told one by one."""
    source = EventFile(write(path, *["?\n"] * 150), "sendgrid")
    assert (None, 150, 100) == (source.span, source.unreadable_lines, len(source.unreadable))


def test_file_that_is_not_there_is_refused(path: Path) -> None:
    """Before anything else is done, and so is a folder."""
    for wrong in (path, path.parent):
        with pytest.raises(ConfigurationError, match="there is no file"):
            EventFile(wrong, "ses")


def test_naive_window_is_refused(path: Path) -> None:
    """Instants are aware."""
    source = EventFile(write(path, line("a")), "sendgrid")
    with pytest.raises(ConfigurationError, match="naive"):
        list(source(NOON.replace(tzinfo=None), NOON))


@given(
    minutes=st.lists(st.integers(0, 9), max_size=12),
    cuts=st.lists(st.integers(0, 10), min_size=2, max_size=5, unique=True).map(sorted),
)
def test_windows_one_after_the_other_give_each_event_once(
    tmp_path_factory: pytest.TempPathFactory, minutes: list[int], cuts: list[int]
) -> None:
    """A file gives what a list gives."""
    path = tmp_path_factory.getbasetemp() / f"events-{os.getpid()}.jsonl"
    source = EventFile(write(path, *[line(str(number), each) for number, each in enumerate(minutes)]), "sendgrid")
    windows = list(zip([0, *cuts], [*cuts, 10], strict=True))
    found = [list(source(at(start), at(end))) for start, end in windows]
    assert sorted(map(str, range(len(minutes)))) == sorted(
        str(event.message_id) for events in found for event in events
    )
    for (start, end), events in zip(windows, found, strict=True):
        assert list(EventList(events)(at(start), at(end))) == events
