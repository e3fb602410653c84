"""Dead letters as files: what goes out comes in, in the same order, and one broken line is no more than that."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit import codec
from retrykit.backends import MemoryBackend
from retrykit.dead_letter import DeadLetter, DeadLetterState
from retrykit.deadletter import (
    BrokenLine,
    ImportReport,
    export_letters,
    export_letters_async,
    import_letters,
    import_letters_async,
)
from retrykit.errors import ConfigurationError, StoreUnavailableError
from retrykit.stores import DeadLetterQuery, as_async
from retrykit.testing.strategies import any_text, json_values
from retrykit.testing.strategies import letters as any_letters
from tests.colours import both_loops

MINIMAL = {
    "message_id": "m-0",
    "error_class": "mailbox_full",
    "attempt_count": 1,
    "last_failed_at": "2026-01-31T08:00:00Z",
    "original_payload": '{"name":"Ada"}',
}
WHY_EMPTY = "a dead letter needs the fields message_id, error_class, attempt_count, last_failed_at, original_payload"


def letters(count, **fields):
    return [DeadLetter.from_dict({**MINIMAL, "message_id": f"m-{number}", **fields}) for number in range(count)]


def store_with(*letters):
    store = MemoryBackend().dead_letters
    for letter in letters:
        store.put(letter)
    return store


def ids(lines):
    return [json.loads(line)["message_id"] for line in lines]


@pytest.mark.unmeasured
@given(st.lists(any_letters, max_size=7, unique_by=lambda letter: letter.id), st.integers(1, 4))
def test_letters_exported_imported_and_exported_again_are_the_same_bytes(some, page):
    """In the same order, with their states, and with the fields of newer versions."""
    store, copy = store_with(*some), store_with()
    lines = list(export_letters(store, page=page))
    assert [f"{letter.to_json()}\n".encode() for letter in some] == lines
    assert len(some) == import_letters(copy, lines).imported
    assert lines == list(export_letters(copy, page=page + 1))
    assert store.search().letters == copy.search().letters
    assert ImportReport(present=len(some)) == attrs.evolve(import_letters(copy, lines), newer=0)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("page", [1, 2, 3, 100])
def test_export_gives_each_letter_once_the_one_put_first_first(count, page):
    """Whether or not the last page is full."""
    lines = list(export_letters(store_with(*letters(count)), page=page))
    assert [f"m-{number}" for number in range(count)] == ids(lines)
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)


def test_export_of_a_query_gives_what_it_takes_in():
    """And nothing else."""
    store = store_with(
        *letters(3), *(attrs.evolve(letter, id=f"x{letter.id}", campaign_id="spring") for letter in letters(3))
    )
    assert 3 == len(list(export_letters(store, DeadLetterQuery(campaign_id="spring"), page=2)))


def test_export_holds_no_more_than_its_pages():
    """However many letters there are: it asks for a page at a time, each twice, and goes on only when its lines are taken."""
    store = store_with(*letters(50))
    asked = []
    search = store._search
    store._search = lambda query, limit, cursor: asked.append(limit) or search(query, limit, cursor)
    lines = export_letters(store, page=10)
    assert [] == asked
    assert 10 == len([next(lines) for _ in range(10)])
    assert [10] * 6 == asked
    assert 40 == len(list(lines))
    assert [10] * 9 == asked


def test_letters_put_while_an_export_runs_are_not_in_it():
    """It is the letters of one moment."""
    store = store_with(*letters(5))
    lines = export_letters(store, page=2)
    first = next(lines)
    store.put(DeadLetter.from_dict({**MINIMAL, "message_id": "late"}))
    assert [f"m-{number}" for number in range(5)] == ids([first, *lines])


def test_letters_deleted_while_an_export_runs_take_none_with_them():
    """And none comes twice, unless more than a page of them is gone."""
    store = store_with(*letters(3), *letters(2, generation=2, state="resolved"), *letters(3, generation=3))
    lines = export_letters(store, page=3)
    first = [next(lines) for _ in range(2)]
    last = max(letter.last_failed_at for letter in store.search().letters)
    store.purge(last.replace(year=2027), query=DeadLetterQuery(state=DeadLetterState.RESOLVED))
    found = [json.loads(line)["id"] for line in [*first, *lines]]
    assert ["m-0#1", "m-1#1", "m-2#1", "m-0#3", "m-1#3", "m-2#3"] == found


def test_export_with_a_page_that_is_none_is_refused_at_once():
    """Before the first line is taken."""
    with pytest.raises(ConfigurationError, match="page is 0; allowed are whole numbers >= 1"):
        export_letters(store_with(), page=0)
    with pytest.raises(ConfigurationError, match="page is 0; allowed are whole numbers >= 1"):
        export_letters_async(as_async(MemoryBackend()).dead_letters, page=0)


def test_broken_lines_are_told_by_number_and_the_rest_is_imported():
    """Empty lines are none, and count as lines; nothing of a payload is quoted."""
    good, other = (json.dumps({**MINIMAL, "message_id": f"m-{number}"}).encode() for number in (1, 2))
    lines = [
        good + b"\r\n",
        b"\n",
        b'{"message_id": "ada@example.org"',
        b"\xff\n",
        b"[1]",
        b"{}",
        "  ",
        json.dumps({**MINIMAL, "attributes": {"recipient": ["ada@example.org"]}}),
        json.dumps({**MINIMAL, "recipient": ["ada@example.org"]}),
        json.dumps({**MINIMAL, "state": "parked"}),
        json.dumps({**MINIMAL, "redrive_count": -1}),
        json.dumps({**MINIMAL, "id": "m-1#1"}),
        b"[" * 101,
        other.decode(),
    ]
    store = store_with()
    report = import_letters(store, lines)
    assert (2, 0, 0, 10) == (report.imported, report.present, report.newer, report.broken)
    assert [3, 4, 5, 6, 8, 9, 10, 11, 12, 13] == [line.number for line in report.broken_lines]
    assert [
        "not JSON: Expecting ',' delimiter at character 32",
        "not UTF-8: invalid start byte at byte 0",
        "a dead letter is a JSON object, not list",
        WHY_EMPTY,
        "the dead letter of 'm-0' cannot be read: attributes is of type dict; allowed is text by name",
        "the dead letter of 'm-0' cannot be read: recipient is of type list; allowed is text",
        "the dead letter of 'm-0' cannot be read: 'parked' is not a valid DeadLetterState",
        "the dead letter of 'm-0' cannot be read: redrive_count is -1; allowed are whole numbers >= 0",
        "the id of the dead letter 'm-0#1' is 'm-1#1'; allowed is the former, or none",
    ] == [line.reason for line in report.broken_lines[:-1]]
    assert ["m-1", "m-2"] == ids(export_letters(store))


@given(st.lists(st.binary(max_size=50) | any_text | json_values.map(codec.encode), max_size=5))
def test_no_line_stops_an_import(lines):
    """Whatever it holds, the good ones around it are imported."""
    good = [json.dumps({**MINIMAL, "message_id": name}) for name in ("first", "last")]
    report = import_letters(store_with(), [good[0], *lines, good[1]])
    assert 2 == report.imported
    assert len([line for line in lines if line.strip()]) == report.broken


def test_only_the_first_hundred_broken_lines_are_told():
    """All are counted, and no reason is long."""
    report = import_letters(store_with(), [b"{}"] * 250)
    assert (250, 100, BrokenLine(100, WHY_EMPTY)) == (report.broken, len(report.broken_lines), report.broken_lines[-1])
    long = json.dumps({**MINIMAL, "state": "x" * 5000})
    assert 300 == len(import_letters(store_with(), [long]).broken_lines[0].reason)


def test_letter_that_is_there_already_stays_as_it_is():
    """Whatever the file says of it; also where the message was sent before its letter came."""
    store = store_with(*letters(1))
    store.resolve("m-0#1")
    store.resolve("m-1#1")
    lines = [letter.to_json() for letter in letters(2)]
    assert ImportReport(imported=1, present=1) == import_letters(store, lines)
    assert [DeadLetterState.RESOLVED] * 2 == [letter.state for letter in store.search().letters]


def test_record_of_a_newer_version_is_kept_whole_and_counted():
    """It is written again with all that this version does not know."""
    line = json.dumps({**MINIMAL, "schema_version": 7, "colour": {"of": ["the", None]}})
    store = store_with()
    assert ImportReport(imported=1, newer=1) == import_letters(store, [line])
    (written,) = map(json.loads, export_letters(store))
    assert (7, {"of": ["the", None]}) == (written["schema_version"], written["colour"])
    assert ImportReport(present=1, newer=1) == import_letters(store, [line])


def test_record_of_nine_fields_is_imported():
    """As other tools write it."""
    assert ImportReport(imported=1) == import_letters(store_with(), [json.dumps(MINIMAL)])


class Watched(io.BytesIO):
    """A file that tells how much was read of it at once."""

    most = 0

    def readline(self, size=-1):
        line = super().readline(size)
        self.most = max(self.most, len(line))
        return line


def test_line_that_is_too_long_is_told_and_never_read_at_once():
    """The lines after it are found."""
    good = json.dumps(MINIMAL).encode()
    limit = len(good) + 1
    for end in (b"\n", b""):
        file = Watched(b"x" * 10_000 + b"\n" + good + b"\n" + b"y" * (limit + 1) + b"\n" + b"z" * 3 * limit + end)
        report = import_letters(store_with(), file, max_line=limit)
        assert (1, 3) == (report.imported, report.broken)
        assert [BrokenLine(number, f"it is longer than {limit} bytes") for number in (1, 3, 4)] == list(
            report.broken_lines
        )
        assert limit + 1 == file.most
    assert 1 == import_letters(store_with(), [good + b"    "], max_line=len(good)).broken
    assert 1 == import_letters(store_with(), io.StringIO(good.decode())).imported


def test_line_as_long_as_allowed_is_imported():
    """With its end of line."""
    line = json.dumps(MINIMAL).encode() + b"\n"
    file = io.BytesIO(line + line.replace(b"m-0", b"m-1"))
    assert ImportReport(imported=2) == import_letters(store_with(), file, max_line=len(line))


@pytest.mark.parametrize("text", ["{}", b"{}"])
def test_text_in_the_place_of_lines_is_refused(text):
    """Its characters are no lines."""
    with pytest.raises(ConfigurationError, match=r"lines is one text; allowed are a file and the lines of one"):
        import_letters(store_with(), text)


def test_import_with_a_limit_that_is_none_is_refused():
    """Before the first line."""
    with pytest.raises(ConfigurationError, match="max_line is 0; allowed are whole numbers >= 1"):
        import_letters(store_with(), [], max_line=0)


def test_line_of_another_type_is_a_broken_line():
    """As of a reader that gives records instead of text."""
    report = import_letters(store_with(), [MINIMAL, json.dumps(MINIMAL)])
    assert (1, (BrokenLine(1, "it is of type dict; allowed are bytes and text"),)) == (
        report.imported,
        report.broken_lines,
    )


def test_import_stopped_by_a_store_that_fails_goes_on_when_it_is_run_again():
    """What was put stays."""
    store = store_with()
    put, lines = store._put, [letter.to_json() for letter in letters(3)]

    def failing(letter):
        if letter.message_id == "m-1":
            raise StoreUnavailableError("gone")
        return put(letter)

    store._put = failing
    with pytest.raises(StoreUnavailableError):
        import_letters(store, lines)
    store._put = put
    assert ImportReport(imported=2, present=1) == import_letters(store, lines)


@both_loops
def test_async_transfer_does_the_same(runner):
    """From lines that come at once and from such that come one by one."""
    store, copies = MemoryBackend(), [MemoryBackend(), MemoryBackend()]
    for letter in letters(5):
        store.dead_letters.put(letter)

    async def main():
        source = as_async(store).dead_letters
        lines = [line async for line in export_letters_async(source, page=2)]
        reports = [
            await import_letters_async(as_async(copies[0]).dead_letters, [*lines, b"{}"]),
            await import_letters_async(as_async(copies[1]).dead_letters, export_letters_async(source, page=2)),
        ]
        return lines, reports

    lines, reports = runner(main)
    assert list(export_letters(store.dead_letters)) == lines
    assert [
        ImportReport(imported=5, broken=1, broken_lines=(BrokenLine(6, WHY_EMPTY),)),
        ImportReport(imported=5),
    ] == reports
    assert [lines, lines] == [list(export_letters(copy.dead_letters)) for copy in copies]


def test_export_is_an_iterator_that_may_be_left():
    """Nothing is read before the first line is wanted, and nothing after the last."""
    lines = export_letters(store_with(*letters(3)), page=1)
    assert isinstance(lines, Iterator)
    assert ["m-0"] == ids([next(lines)])
