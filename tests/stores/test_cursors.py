"""The cursors of our own backends: text that survives a command line."""

from __future__ import annotations

import pytest

from retrykit.backends import MemoryBackend
from retrykit.backends.cursors import read_cursor, write_cursor
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.errors import ConfigurationError
from retrykit.testing.conformance.dead_letters_samples import LETTERS


@pytest.fixture(params=["memory", "sqlite"])
def letters(request, tmp_path):
    """Dead letters in either backend."""
    backend = MemoryBackend() if request.param == "memory" else SQLiteBackend(tmp_path / "store.db")
    for each in LETTERS:
        backend.dead_letters.put(each)
    yield backend.dead_letters
    backend.close()


def test_cursor_is_read_as_it_was_written():
    """For every row there can be."""
    for number in (0, 1, 17, 10**17):
        assert number == read_cursor(write_cursor(number))


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "garbage", "before-", "before-x", "before--1", "before-1.5", "after-1", "before-\u0663", "before-\u00b2"),
        *("1", "x" * 99, "before-" + "9" * 19, "before-1 OR 1=1"),
    ],
)
def test_cursor_of_another_kind_is_named(letters, cursor):
    """Garbage is shortened, and never reaches the store."""
    with pytest.raises(ConfigurationError) as caught:
        letters.search(cursor=cursor)
    assert f"the cursor is {cursor[:40]!r}; allowed is the cursor of the page before" == str(caught.value)


def test_cursor_beyond_either_end_is_a_page_all_the_same(letters):
    """A cursor that was passed on the command line may be old."""
    assert list(letters.search(cursor="before-0").letters) == []
    assert list(letters.search(cursor="before-" + "9" * 18).letters) == list(reversed(LETTERS))
