"""Many phrases looked for in one pass."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retrykit.classification.phrases import PhraseBook

LETTERS = st.text(st.sampled_from("ab é"), max_size=12)


@given(phrases=st.lists(st.text(st.sampled_from("ab é"), min_size=1, max_size=6), max_size=12), text=LETTERS)
def test_book_finds_what_a_search_for_each_would_find(phrases: list[str], text: str) -> None:
    """Phrases of every length, in any place of the text."""
    book = PhraseBook(phrases)
    present = book.found(text)
    assert [bool(present & book.mask([phrase])) for phrase in phrases] == [phrase in text for phrase in phrases]


def test_mask_of_several_phrases_is_any_of_them() -> None:
    """One comparison asks for all."""
    book = PhraseBook(["user unknown", "no such user", "ptr"])
    present = book.found(" no such user here ")
    assert present & book.mask(["user unknown", "no such user"])
    assert not present & book.mask(["user unknown", "ptr"])
    assert not present & book.mask([])
