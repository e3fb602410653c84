"""The JSON Schema of a matrix in TOML: it says what the loader says."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorGroup
from retrykit.policy import EMAIL_MATRIX, HTTP_API_MATRIX, PolicyMatrix
from retrykit.policy.config import matrix_schema
from retrykit.times import seconds
from tests.capabilities import require
from tests.policy.strategies import matrices

require("jsonschema")

import jsonschema

SCHEMA = matrix_schema()
CHECKER = jsonschema.Draft202012Validator(SCHEMA)
POLICY = "[policies.sender]\nmax_retries = 1\nbackoff = "


def test_schema_is_a_schema():
    """Of the draft that it names, with every built-in class and group for editors to complete."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert {*ErrorGroup, "network_timeout", "unknown"} <= set(SCHEMA["properties"]["policies"]["properties"])


@pytest.mark.parametrize("matrix", [EMAIL_MATRIX, HTTP_API_MATRIX, PolicyMatrix({})])
def test_schema_takes_the_matrices_that_come_along(matrix):
    """As tables and as TOML."""
    CHECKER.validate(matrix.to_dict())
    CHECKER.validate(tomllib.loads(matrix.to_toml()))


@given(matrices())
def test_schema_takes_every_matrix_that_is_written(matrix):
    """Whatever its classes, backoffs, jitters and limits."""
    CHECKER.validate(matrix.to_dict())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "max_age = 0.5",
        'max_age = "1h 30M"',
        'max_retry_after = " 500ms "',
        'verify_backoff = "30s"',
        '[classes]\ncard_declined = "permanent_recipient"\n[policies.card_declined]\naudit = true',
        f'{POLICY}["1m", 90]',
        f"{POLICY}5",
        f"{POLICY}{{ kind = 'linear', base = 1, step = '5s', jitter = {{ plus_minus = 0.5 }} }}",
        f"{POLICY}{{ kind = 'exponential', base = 1, factor = 3, cap = '1h', jitter = 'full' }}",
        f"{POLICY}{{ kind = 'decorrelated', base = 1, cap = '1h' }}",
        f"{POLICY}{{ kind = 'constant', delay = '1w', jitter = 'none' }}",
        f"{POLICY}{{ kind = 'delays', delays = [1], jitter = {{ upward = 0 }} }}",
    ],
)
def test_schema_takes_what_the_loader_takes(text):
    """In each of the forms that a person may write."""
    table = tomllib.loads(text)
    PolicyMatrix.from_dict(table)
    CHECKER.validate(table)


@pytest.mark.parametrize(
    "text",
    [
        "max_agee = 3",
        "max_attempts = 0",
        "max_attempts = 1.5",
        "max_attempts = true",
        "max_age = 0",
        "max_age = -1",
        "max_age = true",
        'max_age = "soon"',
        "max_retry_after = 0",
        "max_retry_after = false",
        'on_unknown = "verifyx"',
        "verify_backoff = []",
        '[classes]\nmine = "sendr"',
        "policies = 3",
        "[policies.sender]\nretries = 3",
        "[policies.sender]\nmax_retries = -1",
        '[policies.sender]\nthrottle = "yes"',
        '[policies.sender]\non_exhausted = "retry"',
        '[policies.sender]\non_exhausted = "verify"',
        f"{POLICY}true",
        f"{POLICY}[1, -1]",
        f"{POLICY}{{ base = 1 }}",
        f"{POLICY}{{ kind = 'exponentail', base = 1 }}",
        f"{POLICY}{{ kind = 'exponential' }}",
        f"{POLICY}{{ kind = 'exponential', base = 1, factor = 0.5 }}",
        f"{POLICY}{{ kind = 'decorrelated', base = 1, jitter = 'full' }}",
        f"{POLICY}{{ kind = 'constant', delay = 1, jitter = 'half' }}",
        f"{POLICY}{{ kind = 'constant', delay = 1, jitter = {{ upward = 2 }} }}",
        f"{POLICY}{{ kind = 'constant', delay = 1, jitter = {{ upward = 0.1, plus_minus = 0.1 }} }}",
        "default = 3",
    ],
)
def test_schema_refuses_what_the_loader_refuses(text):
    """So that an editor underlines it."""
    table = tomllib.loads(text)
    with pytest.raises(ConfigurationError):
        PolicyMatrix.from_dict(table)
    assert not CHECKER.is_valid(table)


texts = st.from_regex(r"\A *[0-9]{1,14}(\.[0-9]{1,10})? ?[smhdwSM]{0,2}([0-9]{1,2} ?[mh]?)?\Z") | st.text(max_size=6)


@given(texts)
def test_schema_reads_durations_as_the_loader_does(text):
    """The same text is a duration for both."""
    try:
        seconds(text)
    except ConfigurationError:
        allowed = False
    else:
        allowed = True
    assert allowed is CHECKER.evolve(schema=SCHEMA | {"$ref": "#/$defs/duration", "type": "string"}).is_valid(text)
