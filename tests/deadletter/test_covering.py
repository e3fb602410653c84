"""Texts in which values and addresses are covered, however they are written."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from retrykit.deadletter.covering import Secrets, address_of, cover, cover_json, forms_of
from retrykit.testing.strategies import any_text


@pytest.mark.parametrize(
    ("text", "needles", "expected"),
    [
        ("to ada@example.org: no", ["ada@example.org"], "to ***: no"),
        ("to ADA@Example.ORG: no", ["ada@example.org"], "to ***: no"),
        ("abcabc", ["abc"], "***"),
        ("abc abc", ["abc"], "*** ***"),
        ("abcd bcde", ["abc", "bcd"], "*** ***e"),
        ("aaaaa", ["aa"], "***a"),
        ("Straße 1, STRASSE 1", ["strasse"], "*** 1, *** 1"),
        ("ßß", ["s"], "***"),
        ("İstanbul", ["stanbul"], "İ***"),
        ("nothing", ["else"], "nothing"),
        ("nothing", [], "nothing"),
        ("", ["x"], ""),
    ],
)
def test_cover_replaces_a_needle_wherever_it_stands(text, needles, expected):
    """Whatever the case, overlapping needles together."""
    assert expected == cover(text, needles)


@given(any_text, st.lists(any_text.filter(bool), min_size=1, max_size=3), any_text)
def test_covered_text_holds_no_needle(before, needles, after):
    """Not in any case, wherever it stood."""
    folded = [needle.casefold() for needle in needles]
    assume(not any("*" in needle for needle in folded))
    covered = cover(before + needles[0] + after, folded)
    assert [needle for needle in folded if needle in covered.casefold()] == []


@given(any_text)
def test_covering_without_a_needle_in_the_text_changes_nothing(text):
    """Not a character."""
    assert text == cover(text, ["\U0010ffff never drawn"])


def test_cover_json_changes_texts_and_keys_and_numbers_that_are_a_needle():
    """And neither true, false nor null."""

    def change(text):
        return cover(text, ["secret", "4711"])

    value = {"a": "my secret", "secret": [4711, 14711, 47.11, True, None, {"b": "SECRET"}]}
    assert {"a": "my ***", "***": ["***", 14711, 47.11, True, None, {"b": "***"}]} == cover_json(value, change)


def test_secrets_are_looked_for_by_their_length():
    """A short value is covered where it is the whole text, a longer one anywhere; in a payload, where it is a whole value."""
    secrets = Secrets(frozenset({"ada", "lovelace"}), ("ada@example.org",))
    assert ("***", "Dear Ada ***", "***") == tuple(map(secrets.cover, ("Ada", "Dear Ada Lovelace", "ADA@example.org")))
    assert ("Ada", "***", "Lovelace & Co", "<***>") == tuple(
        map(secrets.cover_value, ("Ada", "Lovelace", "Lovelace & Co", "<ada@example.org>"))
    )
    assert "***" == secrets.with_values(["byron"]).cover_value("BYRON")


@pytest.mark.parametrize(
    ("recipient", "address"),
    [
        ("ada@example.org", "ada@example.org"),
        (" ada@example.org ", "ada@example.org"),
        ("Ada <ada@example.org>", "ada@example.org"),
        ('"<x>" <ada@example.org> ', "ada@example.org"),
        ("<>", "<>"),
        ("+49 170 1234567", "+49 170 1234567"),
        ("", ""),
    ],
)
def test_address_is_what_stands_in_the_brackets(recipient, address):
    """Of an address with a name before it, else all of it."""
    assert address == address_of(recipient)


def test_forms_of_an_address_are_those_of_urls_and_bounces():
    """Besides the address itself and the recipient as he was written; none that would stand everywhere."""
    assert {
        "ada <ada@example.org>",
        "ada@example.org",
        "ada%40example.org",
        "ada=example.org",
    } == set(forms_of("Ada <ada@Example.org>"))
    assert {"a%40b"} == set(forms_of("a@b"))
    assert () == forms_of("17") == forms_of("")
