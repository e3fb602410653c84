"""Masks: paths in JSON whose values are replaced, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit import codec
from retrykit.deadletter.masks import MASK, mask_json, read_path
from retrykit.errors import ConfigurationError
from retrykit.testing.strategies import json_values

STEPS = st.sampled_from(["a", "b", "c", "d.e", "0", "1"])
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STEPS, inner, max_size=4),
    max_leaves=15,
)
MASKS = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "0", "1", "*", "**"]), min_size=1, max_size=4).map(".".join)


def masked(value, *masks):
    return mask_json(value, map(read_path, masks))[0]


@pytest.mark.parametrize(
    ("mask", "value", "expected"),
    [
        ("a", {"a": "x", "b": "y"}, {"a": MASK, "b": "y"}),
        ("a.b", {"a": {"b": 1, "c": 2}, "b": 3}, {"a": {"b": MASK, "c": 2}, "b": 3}),
        ("a", {"a": {"b": 1}}, {"a": MASK}),
        ("a", {"a": [1, 2]}, {"a": MASK}),
        ("a.*.b", {"a": [{"b": 1}, {"c": 2}]}, {"a": [{"b": MASK}, {"c": 2}]}),
        ("a.b", {"a": [{"b": 1}, {"c": 2}]}, {"a": [{"b": MASK}, {"c": 2}]}),
        ("a.1.b", {"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": MASK}]}),
        ("*", {"a": 1, "b": [2]}, {"a": MASK, "b": MASK}),
        ("*.b", {"a": {"b": 1}, "b": {"b": 2, "a": 3}}, {"a": {"b": MASK}, "b": {"b": MASK, "a": 3}}),
        (
            "**.b",
            {"b": 1, "a": {"a": {"b": 2}}, "c": [[{"b": 3}]]},
            {"b": MASK, "a": {"a": {"b": MASK}}, "c": [[{"b": MASK}]]},
        ),
        ("a.**.b", {"b": 1, "a": {"b": 2, "c": {"b": 3}}}, {"b": 1, "a": {"b": MASK, "c": {"b": MASK}}}),
        ("**", {"a": 1}, MASK),
        ("a.**", {"a": {"b": 1}, "c": 2}, {"a": MASK, "c": 2}),
        ("a", {"a": None}, {"a": None}),
        ("a", {"a": True}, {"a": MASK}),
        ("a.b", {"a": "text"}, {"a": MASK}),
        ("a.b", {"a": 5}, {"a": MASK}),
        ("a.b", {"a": ["text", {"b": 1}]}, {"a": [MASK, {"b": MASK}]}),
        (
            "a.b.c",
            {"a": {"b.c": 1}, "a.b": {"c": 2}, "a.b.c": 3},
            {"a": {"b.c": MASK}, "a.b": {"c": MASK}, "a.b.c": MASK},
        ),
        ("a.b", {"a.b.c": 1, "a.c": 2}, {"a.b.c": MASK, "a.c": 2}),
        ("é", {"é": 1}, {"é": MASK}),
        ("a", "text", MASK),
        ("**.a", "text", "text"),
        ("a", None, None),
        ("b", {}, {}),
    ],
)
def test_mask_replaces_what_it_leads_to_and_leaves_the_rest(mask, value, expected):
    """Keys, places, any key, any depth; what stands in the way is masked, and a null hides nothing."""
    assert expected == masked(value, mask)


def test_several_masks_are_applied_together():
    """In any order."""
    value = {"a": 1, "b": {"c": 2, "d": 3}, "e": 4}
    assert {"a": MASK, "b": {"c": MASK, "d": 3}, "e": 4} == masked(value, "b.c", "a") == masked(value, "a", "b.c")


def test_mask_tells_the_texts_and_numbers_that_it_replaced():
    """So that they can be looked for elsewhere; true, false and null are nobody's."""
    value = {"a": {"b": ["x", 5, None, True, 1.5], "c": {"d": "y"}}, "e": "z"}
    assert frozenset({"x", "5", "1.5", "y"}) == mask_json(value, [read_path("a")])[1]
    assert frozenset() == mask_json(value, [])[1]


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", ".".join("a" * 21), 5, None, ("a", "b")])
def test_mask_that_is_no_path_is_refused(text):
    """By its text."""
    with pytest.raises(ConfigurationError, match=r"the mask is .*; allowed are up to 20 keys with dots between them"):
        read_path(text)


@given(json_values, st.text("ab*", min_size=1, max_size=1))
def test_mask_of_one_key_hides_it_and_nothing_else(value, key):
    """Whatever the value."""
    found = masked({"a": value, "b": value}, key)
    hidden = None if value is None else MASK
    assert {"a": hidden if key in "a*" else value, "b": hidden if key in "b*" else value} == found


def reached(value, path, is_sure=True):
    """The scalars that a path leads to or through, by trying every way: slow and plain.

    It is not sure that a path leads through a value where only the levels that ``**`` stands for have led there.
    """
    if all(part == "**" for part in path):
        yield from scalars(value)
    elif path[0] == "**":
        yield from reached(value, path[1:], False)
        for item in items(value):
            yield from reached(item, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            steps = key.split(".")
            if (
                all(mine in ("*", its) for mine, its in zip(path, steps, strict=False))
                and "**" not in path[: len(steps)]
            ):
                yield from reached(item, path[len(steps) :])
    elif isinstance(value, list):
        for place, item in enumerate(value):
            if path[0] != "*" and not path[0].isdigit():
                yield from reached(item, path, is_sure)
            if path[0] in ("*", str(place)):
                yield from reached(item, path[1:])
    elif is_sure:
        yield from scalars(value)


def items(value):
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def scalars(value):
    if isinstance(value, (dict, list)):
        for item in items(value):
            yield from scalars(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


@given(TREES, MASKS)
def test_everything_that_a_path_leads_to_is_masked(value, mask):
    """Compared with a search that tries every way through the value; what is not masked stays, at its place."""
    found, values = mask_json(value, [read_path(mask)])
    assert set(reached(value, read_path(mask))) <= values
    assert same_but_for_masks(value, found)


def same_but_for_masks(value, found):
    if found == MASK:
        return True
    if isinstance(value, dict):
        return value.keys() == found.keys() and all(same_but_for_masks(value[key], found[key]) for key in value)
    if isinstance(value, list):
        return len(value) == len(found) and all(map(same_but_for_masks, value, found))
    return value == found


@given(json_values, st.lists(MASKS, max_size=3))
def test_masking_twice_is_masking_once(value, masks):
    """And the result is JSON again."""
    once = masked(value, *masks)
    assert once == masked(once, *masks) == codec.decode(codec.encode(once))


def test_masks_with_many_ways_through_a_large_payload_end():
    """No way through it is gone twice: else this would outlast the tests' time limit by years."""
    deep = "x"
    for _ in range(90):
        deep = {"a": [deep, "y"]}
    wide = [{"a": {"b": "x", "c": ["y"]}} for _ in range(10_000)]
    found = masked({"deep": deep, "wide": wide}, "**.a.**.a.**.a.**.zzz", "*.**.zzz", "**.**.**.zzz.**")
    assert {"deep": deep, "wide": wide} == found
