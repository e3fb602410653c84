"""However many values there are, a label takes a bounded number of them."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.errors import ConfigurationError
from retrykit.exporters.labels import NONE, OTHER, Bounded


@given(st.lists(st.text(max_size=70)), st.integers(1, 5))
def test_bounded_with_any_values_gives_at_most_so_many(values, limit):
    """The first ones come through, each always the same way; the rest are one."""
    bounded = Bounded(limit)
    given_out = [bounded(value) for value in values]
    assert len(set(given_out) - {OTHER, NONE}) <= limit
    assert given_out == [bounded(value) for value in values]
    first = list(dict.fromkeys(value[:64] for value in values if value[:64] not in (OTHER, NONE)))[:limit]
    assert set(first) == set(given_out) - {OTHER, NONE}


def test_bounded_with_a_known_value_lets_it_through_beyond_the_limit():
    """What is known beforehand takes no place."""
    bounded = Bounded(1, known=["unknown"])
    assert ["a", "other", "unknown", "none"] == [bounded(value) for value in ("a", "b", "unknown", None)]


def test_bounded_with_a_long_value_cuts_it():
    """A value takes little memory, whatever a provider writes into its code."""
    assert "x" * 64 == Bounded(1)("x" * 1_000_000)


def test_bounded_in_many_threads_keeps_its_limit():
    """Threads that bring new values at once do not get past it."""
    bounded, barrier, seen = Bounded(10), threading.Barrier(8), set()

    def bring(number):
        barrier.wait()
        seen.update(bounded(f"{number}-{each}") for each in range(100))

    threads = [threading.Thread(target=bring, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 11 == len(seen)


@pytest.mark.parametrize("known", ["ses", 5, None])
def test_bounded_with_known_values_that_are_no_list_names_them(known):
    """A text would be taken for its letters."""
    with pytest.raises(ConfigurationError, match=r"^known is .*; allowed is a list of values"):
        Bounded(1, known=known)


@pytest.mark.parametrize("limit", [0, True, "many"])
def test_bounded_with_a_limit_that_is_not_allowed_names_it(limit):
    """The limit is a whole number of at least one."""
    with pytest.raises(ConfigurationError, match="limit is"):
        Bounded(limit)
