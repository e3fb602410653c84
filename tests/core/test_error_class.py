"""`ErrorClass` is an open text with a group."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, ErrorGroup
from retrykit.testing.strategies import error_classes

CARD_DECLINED = ErrorClass("card_declined", group=ErrorGroup.PERMANENT_RECIPIENT)

BUILT_IN = {
    "transient_infrastructure": [
        "network_timeout",
        "dns_failure",
        "connection_error",
        "provider_unavailable",
        "resource_contention",
    ],
    "throttling": ["provider_throttled", "quota_exceeded"],
    "temporary_mailbox": ["soft_bounce", "mailbox_full", "greylisted"],
    "permanent_recipient": ["invalid_recipient", "invalid_domain", "recipient_suppressed"],
    "content_policy": ["content_rejected", "policy_violation"],
    "sender": ["provider_misconfigured", "reputation_blocked"],
    "internal": ["invalid_payload", "rendering_failure", "internal_error", "poison_message"],
    "unmapped": ["unknown"],
}


def test_built_in_classes_and_their_groups_are_exactly_these():
    """The vocabulary is fixed: names and groups are stored in records that outlive releases."""
    seen = {}
    for name, value in vars(ErrorClass).items():
        if isinstance(value, ErrorClass):
            assert name.lower() == value
            seen.setdefault(value.group.value, []).append(str(value))
    assert BUILT_IN == seen
    assert list(BUILT_IN) == [group.value for group in ErrorGroup]


def test_built_in_class_by_its_name_is_the_constant():
    """A stored name needs no group where the name is built in."""
    assert ErrorClass("mailbox_full") is ErrorClass.MAILBOX_FULL
    assert ErrorClass.MAILBOX_FULL == ErrorClass("mailbox_full", group="temporary_mailbox")


def test_own_class_is_a_text_with_its_group():
    """It compares, sorts and is written as text."""
    assert CARD_DECLINED == "card_declined"
    assert CARD_DECLINED.group is ErrorGroup.PERMANENT_RECIPIENT
    assert json.dumps({CARD_DECLINED: CARD_DECLINED}) == '{"card_declined": "card_declined"}'
    assert repr(CARD_DECLINED) == "ErrorClass('card_declined', group='permanent_recipient')"
    assert f"{CARD_DECLINED}" == "card_declined"


@pytest.mark.parametrize("group", list(ErrorGroup))
def test_name_of_a_group_is_refused_as_a_class(group):
    """A policy for the group would otherwise be taken for one of the class."""
    with pytest.raises(ConfigurationError) as caught:
        ErrorClass(group.value, group=ErrorGroup.INTERNAL)
    assert str(caught.value) == (
        f"{group.value!r} is the name of an error group, not of a class; use ErrorGroup({group.value!r})"
    )
    with pytest.raises(ConfigurationError):
        ErrorClass(group)


@pytest.mark.parametrize(
    "name", ["", " ", "Card", "card declined", "1card", "_card", "card\n", "kärt", "card/x", "c" * 65, "550", None]
)
def test_bad_name_is_refused_with_the_name(name):
    """Names stay usable as labels, file names and columns."""
    with pytest.raises(ConfigurationError) as caught:
        ErrorClass(name, group=ErrorGroup.INTERNAL)
    assert str(caught.value) == (
        f"the error class is {str(name)!r}; allowed are lower-case letters, digits, '_', '.' and '-', "
        "beginning with a letter, at most 64 characters"
    )


@pytest.mark.parametrize("name", ["c", "c" * 64, "acme.card-declined_2"])
def test_name_at_the_limits_is_taken(name):
    """One letter is enough, 64 characters are not too many."""
    assert name == ErrorClass(name, group=ErrorGroup.INTERNAL)


def test_own_class_without_a_group_is_refused():
    """Nobody can guess who is at fault."""
    with pytest.raises(
        ConfigurationError, match=r"^the error class 'card_declined' needs a group: one of content_policy,"
    ):
        ErrorClass("card_declined")


@pytest.mark.parametrize("group", ["", "Internal", "mailbox_full", 3])
def test_unknown_group_is_refused(group):
    """The groups are closed: each has a meaning in policies, breakers and monitoring."""
    with pytest.raises(
        ConfigurationError, match=r"^the group of 'card_declined' is .*; allowed are content_policy, int"
    ):
        ErrorClass("card_declined", group=group)


def test_built_in_class_with_another_group_is_refused():
    """A built-in name means the same everywhere."""
    with pytest.raises(ConfigurationError) as caught:
        ErrorClass("mailbox_full", group=ErrorGroup.INTERNAL)
    assert "'mailbox_full' is a built-in class of the group" in str(caught.value)


@given(error_classes, st.integers(2, pickle.HIGHEST_PROTOCOL))
def test_class_pickled_or_copied_keeps_name_and_group(error_class, protocol):
    """Also inside other objects, and for classes of the application."""
    for again in (
        pickle.loads(pickle.dumps(error_class, protocol)),
        copy.copy(error_class),
        copy.deepcopy([error_class])[0],
    ):
        assert (type(error_class), str(error_class), error_class.group) == (type(again), str(again), again.group)


@given(st.lists(error_classes))
def test_class_as_a_key_never_collides_with_a_group(classes):
    """Classes and groups may stand side by side in one mapping."""
    mapping = dict.fromkeys(ErrorGroup, "group") | dict.fromkeys(classes, "class")
    assert {"group"} == {mapping[group] for group in ErrorGroup}
    assert len(ErrorGroup) + len({str(error_class) for error_class in classes}) == len(mapping)


def test_class_carries_nothing_but_its_group():
    """No attribute can be added by mistake."""
    with pytest.raises(AttributeError):
        CARD_DECLINED.provider = "ses"
