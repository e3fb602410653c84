"""The dead letter: all the evidence, byte for byte, in a form that every release reads."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.dead_letter import SCHEMA_VERSION, DeadLetter, DeadLetterState, dead_letter_id
from retrykit.decision import DeadLetterReason
from retrykit.errors import ConfigurationError, InvalidPayloadError
from retrykit.failure import ErrorClass, ErrorGroup
from retrykit.testing.strategies import any_text, json_values, letters

MINIMAL = {
    "message_id": "welcome-17",
    "campaign_id": "spring",
    "recipient": "ada@example.org",
    "error_class": "mailbox_full",
    "error_code": "552",
    "error_message": "5.2.2 mailbox full",
    "attempt_count": 4,
    "last_failed_at": "2026-01-31T08:00:00Z",
    "original_payload": '{"name":"Ada"}',
}
DIED = datetime(2026, 1, 31, 8, tzinfo=UTC)


@given(letters)
def test_letter_survives_a_round_trip(letter):
    """Through a dictionary, one line of JSON, and pickle, equal in every field; unknown fields are kept."""
    assert letter == DeadLetter.from_dict(letter.to_dict())
    text = letter.to_json()
    assert letter == DeadLetter.from_json(text) == DeadLetter.from_json(text.encode())
    assert "\n" not in text
    assert letter == pickle.loads(pickle.dumps(letter))


def test_minimal_record_loads():
    """Nine fields are enough; everything else has a sensible default."""
    assert DeadLetter(
        id="welcome-17#1",
        message_id="welcome-17",
        generation=1,
        campaign_id="spring",
        recipient="ada@example.org",
        error_class=ErrorClass.MAILBOX_FULL,
        error_code="552",
        error_message="5.2.2 mailbox full",
        reason=DeadLetterReason.APPLICATION,
        attempt_count=4,
        last_failed_at=DIED,
        dead_lettered_at=DIED,
        original_payload=b'{"name":"Ada"}',
    ) == DeadLetter.from_dict(MINIMAL)


def test_record_with_nulls_loads_like_one_without_the_fields():
    """Other tools write null for what they do not know."""
    names = {field.name for field in attrs.fields(DeadLetter)} - set(MINIMAL) | {"campaign_id", "recipient"}
    nulls = {**MINIMAL, **dict.fromkeys(names)}
    without = {name: value for name, value in MINIMAL.items() if name not in names}
    assert DeadLetter.from_dict(without) == DeadLetter.from_dict(nulls)


@pytest.mark.parametrize("name", ["message_id", "error_class", "attempt_count", "last_failed_at", "original_payload"])
def test_record_without_a_required_field_is_refused_by_name(name):
    """Missing and null are the same."""
    for fields in ({**MINIMAL, name: None}, {key: value for key, value in MINIMAL.items() if key != name}):
        with pytest.raises(InvalidPayloadError) as caught:
            DeadLetter.from_dict(fields)
        assert f"a dead letter needs the fields {name}" == str(caught.value)


def test_record_without_several_required_fields_names_all_of_them():
    """One look is enough to repair an export."""
    with pytest.raises(InvalidPayloadError) as caught:
        DeadLetter.from_dict({"recipient": "ada@example.org"})
    assert str(caught.value) == (
        "a dead letter needs the fields message_id, error_class, attempt_count, last_failed_at, original_payload"
    )


CRASH = {
    "number": 1,
    "generation": 1,
    "failed_at": "2026-01-31T08:00:00Z",
    "action": "retry",
    "error_class": "internal_error",
    "error_group": "internal",
    "outcome": "not_sent",
}


@pytest.mark.parametrize("started_at", [None, "2026-01-31T07:00:00+00:00"])
def test_attempt_says_since_when_a_lost_worker_had_it_where_that_is_known(started_at):
    """Letters of earlier versions do not."""
    known = {} if started_at is None else {"started_at": started_at}
    (attempt,) = DeadLetter.from_dict({**MINIMAL, "attempts": [CRASH | known]}).attempts
    assert started_at == (attempt.started_at and attempt.started_at.isoformat())
    assert set(known) == attempt.to_dict().keys() & {"started_at"}


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("attempt_count", "many", "attempt_count is 'many'; allowed are whole numbers >= 0"),
        ("attempt_count", True, "attempt_count is True; allowed are whole numbers >= 0"),
        ("redrive_count", 1.5, "redrive_count is 1.5; allowed are whole numbers >= 0"),
        ("generation", "1", "generation is '1'; allowed are whole numbers >= 1"),
        ("redrive_count", -1, "redrive_count is -1; allowed are whole numbers >= 0"),
        ("message_id", ["a"], "message_id is of type list; allowed is text"),
        ("provider", True, "provider is of type bool; allowed is text"),
        ("error_class", {"a": 1}, "error_class is of type dict; allowed is text"),
        ("attributes", ["a"], "attributes is of type list; allowed is text by name"),
        ("attributes", {"a": 1}, "attributes is of type dict; allowed is text by name"),
        ("last_failed_at", "2026-01-31T08:00:00", "last_failed_at is the naive datetime 2026-01-31T08:00:00; give it"),
        ("last_failed_at", "yesterday", "last_failed_at is 'yesterday'; allowed is ISO 8601 text"),
        ("last_failed_at", 1.5, "last_failed_at is 1.5; allowed are ISO 8601 text with a timezone, or epoch millis"),
        ("first_failed_at", True, "first_failed_at is True; allowed are ISO 8601 text with a timezone, or epoch mi"),
        ("dead_lettered_at", 10**18, f"dead_lettered_at is {10**18}; allowed are the years 1 to 9999"),
        ("last_failed_at", "9999-12-31T23:59:59-12:00", "last_failed_at is 9999-12-31T23:59:59-12:00; allowed are the"),
        ("reason", "boredom", "'boredom' is not a valid DeadLetterReason"),
        ("state", "lost", "'lost' is not a valid DeadLetterState"),
        ("payload_state", "half", "'half' is not a valid PayloadState"),
        ("error_class", "internal", "'internal' is the name of an error group, not of a class"),
        ("error_class", "Not A Class", "the error class is 'Not A Class'; allowed are"),
        ("error_group", "nobody", "the group of 'mailbox_full' is 'nobody'; allowed are"),
        ("error_group", "internal", "'mailbox_full' is a built-in class of the group"),
        ("attempts", [1], "'int' object"),
        ("attempts", 5, "'int' object"),
        ("edit", "x", "edit is of type str; allowed is an object"),
        (
            "original_payload_encoding",
            "rot13",
            "original_payload_encoding is 'rot13'; allowed are 'utf-8' and 'base64'",
        ),
        ("attempts", [{}], "number of an attempt is no whole number"),
        ("attempts", [CRASH | {"started_at": 5}], "started_at of an attempt is no text"),
        ("attempts", [CRASH | {"started_at": "soon"}], "started_at is 'soon'"),
    ],
)
def test_record_with_a_bad_value_is_refused_with_the_field(name, value, complaint):
    """The error names the letter, the field and what is allowed."""
    with pytest.raises(InvalidPayloadError) as caught:
        DeadLetter.from_dict({**MINIMAL, name: value})
    text = str(caught.value)
    who = repr(value if name == "message_id" else "welcome-17")
    assert text.startswith(f"the dead letter of {who} cannot be read: {complaint}")


@given(
    st.sampled_from([*(field.name for field in attrs.fields(DeadLetter)), "error_group", "original_payload_encoding"]),
    json_values,
)
def test_record_with_any_value_in_a_field_loads_or_is_refused(name, value):
    """No value of any field leads to another error, and what loads can be written again."""
    try:
        letter = DeadLetter.from_dict({**MINIMAL, name: value})
    except InvalidPayloadError:
        return
    assert letter == DeadLetter.from_json(letter.to_json())


@pytest.mark.parametrize(("name", "value"), [("error_code", 552), ("campaign_id", 7), ("message_id", 17)])
def test_record_with_a_number_for_a_text_loads_it_as_text(name, value):
    """Other tools write codes and ids as numbers."""
    assert str(value) == getattr(DeadLetter.from_dict({**MINIMAL, name: value}), name)


def test_record_with_epoch_milliseconds_loads():
    """Both forms of an instant are read."""
    assert DIED == DeadLetter.from_dict({**MINIMAL, "last_failed_at": 1769846400000}).last_failed_at


def test_record_of_an_unknown_class_without_a_group_is_unmapped():
    """Nobody knows who is at fault; the name is kept."""
    letter = DeadLetter.from_dict({**MINIMAL, "error_class": "card_declined"})
    assert (letter.error_class, letter.error_group) == ("card_declined", ErrorGroup.UNMAPPED)


def test_record_of_an_own_class_keeps_its_group():
    """The group is written beside the class."""
    card_declined = ErrorClass("card_declined", group=ErrorGroup.PERMANENT_RECIPIENT)
    letter = attrs.evolve(DeadLetter.from_dict(MINIMAL), error_class=card_declined)
    assert letter.to_dict()["error_group"] == "permanent_recipient"
    assert DeadLetter.from_dict(letter.to_dict()).error_group is ErrorGroup.PERMANENT_RECIPIENT


@pytest.mark.parametrize("payload", [{"name": "Ada"}, ["Ada"], 5, False])
def test_record_with_a_payload_that_is_json_keeps_it_as_its_text(payload):
    """An export may hold the payload as an object."""
    assert payload == json.loads(DeadLetter.from_dict({**MINIMAL, "original_payload": payload}).original_payload)


@pytest.mark.parametrize(
    ("body", "encoding", "written"),
    [
        (b'{"name":"Ada"}', "utf-8", '{"name":"Ada"}'),
        ("Größe\n".encode(), "utf-8", "Größe\n"),
        (b"\xff\x00\xfe", "base64", "/wD+"),
        (b"\xed\xa0\x80", "base64", "7aCA"),
        (b"", "utf-8", ""),
    ],
)
def test_payload_is_written_as_text_or_base64_and_comes_back_byte_for_byte(body, encoding, written):
    """The record says which of the two it is."""
    letter = attrs.evolve(DeadLetter.from_dict(MINIMAL), original_payload=body)
    fields = letter.to_dict()
    assert (encoding, written) == (fields["original_payload_encoding"], fields["original_payload"])
    assert body == DeadLetter.from_dict(fields).original_payload


@pytest.mark.parametrize("text", ["not base64!", "abc", "ü"])
def test_payload_that_is_not_the_base64_it_claims_to_be_is_refused(text):
    """Evidence is not repaired by guessing."""
    with pytest.raises(InvalidPayloadError, match=r"^the dead letter of 'welcome-17' cannot be read: "):
        DeadLetter.from_dict({**MINIMAL, "original_payload": text, "original_payload_encoding": "base64"})


def test_fields_of_a_newer_version_are_kept_and_written_again():
    """An older release passes on what it does not understand."""
    newer = {**MINIMAL, "schema_version": 9, "mood": {"deep": [1]}, "nothing": None}
    letter = DeadLetter.from_dict(newer)
    assert {"mood": {"deep": [1]}, "nothing": None} == letter.extra
    assert letter.schema_version == 9
    again = letter.to_dict()
    assert ({"deep": [1]}, 9) == (again["mood"], again["schema_version"])


def test_unknown_field_never_hides_a_known_one():
    """What the letter itself says wins."""
    letter = attrs.evolve(DeadLetter.from_dict(MINIMAL), extra={"message_id": "other"})
    assert letter.to_dict()["message_id"] == "welcome-17"


@pytest.mark.parametrize("text", ["[]", "5", '"x"', "null", b"[{}]"])
def test_json_that_is_no_object_is_refused(text):
    """A letter is an object."""
    with pytest.raises(InvalidPayloadError, match=r"^a dead letter is a JSON object, not (list|int|str|NoneType)$"):
        DeadLetter.from_json(text)


def test_text_that_is_no_json_is_refused():
    """A cut line of an export is one clear error."""
    with pytest.raises(InvalidPayloadError, match=r"^not JSON"):
        DeadLetter.from_json('{"message_id":')


@pytest.mark.parametrize("name", ["first_failed_at", "last_failed_at", "dead_lettered_at"])
def test_letter_with_a_naive_instant_is_refused(name):
    """Also where it is made by hand; aware ones are cut to the millisecond."""
    letter = DeadLetter.from_dict(MINIMAL)
    with pytest.raises(ConfigurationError, match="naive datetime"):
        attrs.evolve(letter, **{name: datetime(2026, 1, 31)})  # noqa: DTZ001 - on purpose
    cut = attrs.evolve(letter, **{name: datetime(2026, 1, 31, 0, 0, 0, 1999, UTC)})
    assert getattr(cut, name).microsecond == 1000


@given(any_text, st.integers(1, 10**6))
def test_letter_id_is_derived_from_message_and_generation(message_id, generation):
    """A put may be repeated, and two generations of a message have two letters."""
    assert f"{message_id}#{generation}" == dead_letter_id(message_id, generation)


def test_states_and_version_are_exactly_these():
    """What is stored does not change."""
    assert SCHEMA_VERSION == 1
    assert [state.value for state in DeadLetterState] == [
        "quarantined",
        "redriving",
        "resolved",
        "discarded",
        "superseded",
    ]
