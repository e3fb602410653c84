"""The JSON Schema of dead letters: it allows what loads, and what is written keeps to it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib.resources import files

import attrs
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from retrykit.codec import decode, encode
from retrykit.dead_letter import SCHEMA_VERSION, DeadLetter, DeadLetterState, PayloadState, dead_letter_schema
from retrykit.decision import Action, Attempt, DeadLetterReason
from retrykit.errors import InvalidPayloadError
from retrykit.failure import BUILT_IN_CLASSES, ErrorGroup, Failure, Outcome
from retrykit.testing.strategies import letters
from tests.json_schemas import documents

SCHEMA = dead_letter_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
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


@pytest.mark.unmeasured
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large])
@given(documents(SCHEMA))
def test_record_that_the_schema_allows_loads(record):
    """Each of them; what is written again keeps to the schema and has the fields of newer versions."""
    letter = DeadLetter.from_json(encode(record))
    written = letter.to_dict()
    VALIDATOR.validate(written)
    newer = {name: value for name, value in record.items() if name not in SCHEMA["properties"]}
    assert newer == letter.extra
    assert {name: written[name] for name in newer} == newer
    assert letter == DeadLetter.from_dict(written)


@pytest.mark.unmeasured
@given(letters)
def test_letter_written_keeps_to_the_schema(letter):
    """Every letter, as a dictionary and as JSON."""
    VALIDATOR.validate(letter.to_dict())
    VALIDATOR.validate(decode(letter.to_json()))


@pytest.mark.parametrize("left_out", [None, "campaign_id", "recipient", "error_code", "error_message"])
def test_minimal_record_keeps_to_the_schema(left_out):
    """Nine fields, of which some may be missing or null."""
    VALIDATOR.validate({name: value for name, value in MINIMAL.items() if name != left_out})
    VALIDATOR.validate({name: None if name == left_out else value for name, value in MINIMAL.items()})


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {name: None}
            for name in ("message_id", "error_class", "attempt_count", "last_failed_at", "original_payload")
        ),
        {"attempt_count": "many"},
        {"attempt_count": 1.5},
        {"attempt_count": True},
        {"generation": "1"},
        {"provider": True},
        {"attributes": {"a": 1}},
        {"last_failed_at": "2026-01-31T08:00:00"},
        {"last_failed_at": "2026-13-31T08:00:00Z"},
        {"last_failed_at": "0000-01-31T08:00:00Z"},
        {"last_failed_at": "0001-01-01T00:00:00+01:00"},
        {"last_failed_at": 10**18},
        {"reason": "boredom"},
        {"state": "lost"},
        {"payload_state": "half"},
        {"payload_cipher": True},
        {"error_class": "internal"},
        {"error_class": "Not A Class"},
        {"error_group": "nobody"},
        {"error_group": "internal"},
        {"original_payload": "abc", "original_payload_encoding": "base64"},
        {"attempts": [{}]},
        {"attempts": 5},
    ],
    ids=str,
)
def test_record_that_does_not_load_is_not_allowed(changes):
    """Schema and loader agree."""
    with pytest.raises(InvalidPayloadError):
        DeadLetter.from_dict({**MINIMAL, **changes})
    assert not VALIDATOR.is_valid({**MINIMAL, **changes})


def test_first_and_last_instant_keep_to_the_schema():
    """All that a datetime can hold."""
    for instant in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        letter = attrs.evolve(DeadLetter.from_dict(MINIMAL), last_failed_at=instant)
        VALIDATOR.validate(letter.to_dict())
        assert letter == DeadLetter.from_dict(letter.to_dict())


def test_schema_names_every_field_and_word():
    """A field, class or state that is added here is added there."""
    written = DeadLetter.from_dict(MINIMAL).to_dict()
    assert sorted(written) == sorted(SCHEMA["properties"])
    own = {"error_class", "error_group"}
    of_attempt = {field.name for cls in (Attempt, Failure) for field in attrs.fields(cls)} - {"failure", "extra"} | own
    assert of_attempt == set(SCHEMA["$defs"]["attempt"]["properties"])
    assert [*DeadLetterReason, None] == SCHEMA["properties"]["reason"]["enum"]
    assert [*DeadLetterState, None] == SCHEMA["properties"]["state"]["enum"]
    assert [*PayloadState, None] == SCHEMA["properties"]["payload_state"]["enum"]
    assert list(Action) == SCHEMA["$defs"]["attempt"]["properties"]["action"]["enum"]
    assert list(Outcome) == SCHEMA["$defs"]["attempt"]["properties"]["outcome"]["enum"]
    *built_in, others = (pair["properties"] for pair in SCHEMA["$defs"]["class_and_group"]["anyOf"])
    classes = {name: pair["error_group"]["enum"] for pair in built_in for name in pair["error_class"]["enum"]}
    assert classes == {name: [known.group, None] for name, known in BUILT_IN_CLASSES.items()}
    assert [*ErrorGroup, None] == others["error_group"]["enum"]
    assert {*ErrorGroup, *BUILT_IN_CLASSES} == set(others["error_class"]["not"]["enum"])


def test_schema_is_a_file_of_the_package_and_the_callers_own():
    """Its name and id carry the version; who changes what was returned changes nothing else."""
    text = files("retrykit").joinpath("schemas", f"dead_letter.v{SCHEMA_VERSION}.json").read_text(encoding="utf-8")
    assert SCHEMA == json.loads(text)
    assert SCHEMA["$id"] == f"urn:retrykit:schema:dead-letter:{SCHEMA_VERSION}"
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    dead_letter_schema().clear()
    assert SCHEMA == dead_letter_schema()
