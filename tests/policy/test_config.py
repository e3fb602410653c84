"""Matrices in TOML: read, written, and read back."""

from __future__ import annotations

import json
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retrykit.decision import Action
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, ErrorGroup
from retrykit.policy import (
    EMAIL_MATRIX,
    HTTP_API_MATRIX,
    Backoff,
    Jitter,
    PolicyMatrix,
    RetryPolicy,
    constant,
    decorrelated,
    delays,
    exponential,
    formula,
    linear,
    plus_minus,
    upward,
)
from tests.policy.strategies import chains, matrices, named_backoffs, policies

E, G = ErrorClass, ErrorGroup
CARD_DECLINED = ErrorClass("card_declined", group=G.PERMANENT_RECIPIENT)

MATRIX = PolicyMatrix(
    {
        E.NETWORK_TIMEOUT: RetryPolicy(max_retries=5, backoff=delays(5, 15, 30, 60, 120)),
        G.TRANSIENT_INFRASTRUCTURE: RetryPolicy(max_retries=5, backoff=exponential(5, cap="1h", jitter="quarter")),
        G.THROTTLING: RetryPolicy(max_retries=8, backoff=constant(10, jitter=upward(0.25)), throttle=True),
        G.TEMPORARY_MAILBOX: RetryPolicy(
            max_retries=3, backoff=linear("15m", cap="6h", jitter=plus_minus(0.2)), on_exhausted=Action.MARK_BOUNCED
        ),
        G.SENDER: RetryPolicy(max_retries=2, backoff=decorrelated(0.5, cap="1m")),
        CARD_DECLINED: RetryPolicy.never(Action.MARK_BOUNCED, audit=True),
    },
    default=RetryPolicy(max_retries=1, backoff=["90s"]),
    max_attempts=9,
    max_age=None,
    on_unknown=Action.MANUAL_REVIEW,
)
TOML = """\
max_attempts = 9
max_age = false
max_retry_after = "1d"
on_unknown = "manual_review"
verify_backoff = { kind = "exponential", base = "30s", factor = 2.0, cap = "1h", jitter = { upward = 0.1 } }

[classes]
card_declined = "permanent_recipient"

[default]
max_retries = 1
backoff = { kind = "delays", delays = ["90s"], jitter = { upward = 0.1 } }
on_exhausted = "dead_letter"

[policies.network_timeout]
max_retries = 5
backoff = { kind = "delays", delays = ["5s", "15s", "30s", "1m", "2m"], jitter = { upward = 0.1 } }
on_exhausted = "dead_letter"

[policies.transient_infrastructure]
max_retries = 5
backoff = { kind = "exponential", base = "5s", factor = 2.0, cap = "1h", jitter = "quarter" }
on_exhausted = "dead_letter"

[policies.throttling]
max_retries = 8
backoff = { kind = "delays", delays = ["10s"], jitter = { upward = 0.25 } }
on_exhausted = "dead_letter"
throttle = true

[policies.temporary_mailbox]
max_retries = 3
backoff = { kind = "linear", base = "15m", step = "15m", cap = "6h", jitter = { plus_minus = 0.2 } }
on_exhausted = "mark_bounced"

[policies.sender]
max_retries = 2
backoff = { kind = "decorrelated", base = 0.5, cap = "1m" }
on_exhausted = "dead_letter"

[policies.card_declined]
max_retries = 0
on_exhausted = "mark_bounced"
audit = true
"""


def test_matrix_is_written_like_this():
    """Durations as people write them, classes of the application with their groups, nothing that goes without saying."""
    assert TOML == MATRIX.to_toml()


def test_written_matrix_is_read_back_equal():
    """With the groups of the application's own classes, which equality of text alone would not see."""
    read = PolicyMatrix.from_toml(TOML)
    assert MATRIX == read
    assert [*MATRIX.policies] == [*read.policies]
    assert [G.PERMANENT_RECIPIENT] == [key.group for key in read.policies if key == CARD_DECLINED]


@pytest.mark.parametrize("matrix", [EMAIL_MATRIX, HTTP_API_MATRIX, MATRIX, PolicyMatrix({})])
def test_matrix_goes_through_toml_and_tables(matrix):
    """The ones that come along, one with everything, and one with nothing."""
    assert matrix == PolicyMatrix.from_toml(matrix.to_toml())
    assert matrix == PolicyMatrix.from_dict(matrix.to_dict())
    assert matrix.to_dict() == {"policies": {}} | tomllib.loads(matrix.to_toml())
    assert matrix == PolicyMatrix.from_dict(json.loads(json.dumps(matrix.to_dict())))


wide = st.floats(0, 1e300) | st.integers(0, 10**18) | st.sampled_from([0, 1e-9, 0.001, 60, 86400, 10**12, 1e12 + 0.5])
wide_backoffs = named_backoffs(durations=wide) | chains


@given(matrices(policies(wide_backoffs), limits=st.floats(1e-9, 1e300), verify_backoff=wide_backoffs))
@example(PolicyMatrix({G.INTERNAL: RetryPolicy(max_retries=0, backoff=["5m"])}))
@example(PolicyMatrix({}, max_age=8.64e17, on_unknown=Action.MARK_BOUNCED))
def test_any_matrix_of_named_backoffs_goes_through_toml_and_tables(matrix):
    """Whatever its classes, backoffs, jitters and limits, to the last bit."""
    for read in (PolicyMatrix.from_toml(matrix.to_toml()), PolicyMatrix.from_dict(matrix.to_dict())):
        assert matrix == read
        assert list(map(repr, matrix.policies)) == list(map(repr, read.policies))


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (delays("1m", 90), '["1m", 90]'),
        (constant(60), '"1m"'),
        (constant(1.5), "1.5"),
        (delays("1m", 90), '{ kind = "delays", delays = ["1m", 90] }'),
        (delays("1m", jitter="none"), '{ kind = "delays", delays = ["1m"], jitter = "none" }'),
        (constant(60, jitter="full"), '{ kind = "constant", delay = "1m", jitter = "full" }'),
        (linear(60), '{ kind = "linear", base = "1m" }'),
        (linear(60, step=5, cap=99), '{ kind = "linear", base = "1m", step = 5, cap = "1m39s" }'),
        (exponential(1), '{ kind = "exponential", base = 1 }'),
        (exponential(1, factor=3), '{ kind = "exponential", base = 1, factor = 3 }'),
        (exponential(1, jitter="equal"), '{ kind = "exponential", base = 1, jitter = "equal" }'),
        (exponential(1, jitter=upward(1)), '{ kind = "exponential", base = 1, jitter = { upward = 1 } }'),
        (exponential(1, jitter=plus_minus(0)), '{ kind = "exponential", base = 1, jitter = { plus_minus = 0 } }'),
        (decorrelated(1), '{ kind = "decorrelated", base = 1 }'),
        (decorrelated(1, cap="1h"), '{ kind = "decorrelated", base = 1, cap = "1h" }'),
    ],
)
def test_backoff_is_read_in_each_of_its_forms(expected, text):
    """A list is a ladder, one duration a constant, a table one of the named ones; what is left out has its default."""
    matrix = PolicyMatrix.from_toml(f"[policies.sender]\nmax_retries = 1\nbackoff = {text}\n")
    assert expected == matrix.policies[G.SENDER].backoff


def test_empty_text_is_a_matrix_with_the_usual_limits():
    """Nothing has to be said."""
    assert PolicyMatrix({}) == PolicyMatrix.from_toml("")


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (PolicyMatrix({}, max_age="2d"), 'max_age = "2d"'),
        (PolicyMatrix({}, max_age=None), "max_age = false"),
        (PolicyMatrix({}, max_attempts=3), "max_attempts = 3"),
        (PolicyMatrix({}, max_retry_after="1h"), 'max_retry_after = "1h"'),
        (PolicyMatrix({}, on_unknown=Action.RETRY), 'on_unknown = "retry"'),
        (PolicyMatrix({}, verify_backoff=["1m", "5m"]), 'verify_backoff = ["1m", "5m"]'),
        (PolicyMatrix({}, default=RetryPolicy.never()), "[default]"),
        (PolicyMatrix({G.SENDER: RetryPolicy.never()}), "[policies.sender]"),
        (PolicyMatrix({G.SENDER: RetryPolicy.never(audit=True)}), "[policies.sender]\naudit = true"),
    ],
)
def test_each_setting_is_read(expected, text):
    """By itself, with the rest as usual."""
    assert expected == PolicyMatrix.from_toml(text)


def test_tables_made_in_python_may_hold_what_python_has():
    """Durations as `timedelta`, keys as classes and groups, a default of None."""
    table = {
        "default": None,
        "max_age": timedelta(days=1),
        "policies": {G.SENDER: {"max_retries": 1, "backoff": [timedelta(minutes=5)]}, E.UNKNOWN: {}},
    }
    expected = PolicyMatrix(
        {G.SENDER: RetryPolicy(max_retries=1, backoff=["5m"]), E.UNKNOWN: RetryPolicy.never()}, max_age="1d"
    )
    assert expected == PolicyMatrix.from_dict(table)


def test_file_is_loaded(tmp_path):
    """By path, as text or as a Path."""
    file = tmp_path / "matrix.toml"
    file.write_text(TOML, encoding="utf-8")
    assert MATRIX == PolicyMatrix.load(file) == PolicyMatrix.load(str(file))


def test_pyproject_is_loaded_from_its_own_table(tmp_path):
    """What else stands in the file does not matter."""
    lines = [f"[tool.retrykit.{line[1:]}" if line.startswith("[") else line for line in TOML.splitlines()]
    file = tmp_path / "pyproject.toml"
    file.write_text("\n".join(['[project]\nname = "mailer"', "[tool.retrykit]", *lines]), encoding="utf-8")
    assert MATRIX == PolicyMatrix.load(file)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.toml", None, "the matrix cannot be read from {file!r}: [Errno 2] No such file or directory"),
        ("latin.toml", b"on_unknown = \xe9", "the matrix cannot be read from {file!r}: 'utf-8' codec can't decode"),
        ("broken.toml", b"max_age = \n", "{file} is not TOML: Invalid value (at line 1, column 11)"),
        ("twice.toml", b"[default]\n[default]\n", "{file} is not TOML: Cannot declare ('default',) twice (at line 2"),
        ("long.toml", b"max_attempts = " + b"9" * 5000, "{file} is not TOML: Exceeds the limit"),
        ("deep.toml", b"max_age = " + b"[" * 9999, "{file} is not TOML: "),
        ("matrix.toml", b"max_tries = 3", "{file} has the unknown key 'max_tries'; did you mean"),
        ("matrix.toml", b"max_attempts = 0", "{file}: max_attempts is 0; allowed are whole numbers >= 1"),
        ("pyproject.toml", b"[tool.ruff]", "{file} has no table [tool.retrykit]"),
        ("pyproject.toml", b"tool = 3", "{file} has no table [tool.retrykit]"),
        ("pyproject.toml", b"", "{file} has no table [tool.retrykit]"),
        ("pyproject.toml", b"[tool]\nretrykit = 3", "{file}: tool.retrykit is 3; allowed is a table"),
        (
            "pyproject.toml",
            b"[tool.retrykit]\nmax_age = 0",
            "{file}: [tool.retrykit]: max_age is 0; allowed are a duration > 0, and false",
        ),
    ],
)
def test_file_that_is_no_matrix_is_refused_by_name(tmp_path, name, content, message):
    """The error names the file, and the line or key."""
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        PolicyMatrix.load(file)
    assert str(caught.value).startswith(message.format(file=str(file)))


def test_folder_is_no_matrix(tmp_path):
    """What cannot be read says so."""
    with pytest.raises(ConfigurationError, match="the matrix cannot be read from"):
        PolicyMatrix.load(Path(tmp_path))


class _Squares(Backoff):
    jitter = Jitter("none")

    def rung(self, retry):
        return float(retry**2)

    def __str__(self):
        return "squares"


@pytest.mark.parametrize(
    ("message", "matrix"),
    [
        (
            "policies.sender.backoff is by float, which only code can say; TOML holds the named backoffs",
            PolicyMatrix({G.SENDER: RetryPolicy(max_retries=1, backoff=formula(float))}),
        ),
        (
            "policies.sender.backoff is squares, which only code can say; TOML holds the named backoffs",
            PolicyMatrix({G.SENDER: RetryPolicy(max_retries=1, backoff=_Squares())}),
        ),
        (
            "default.backoff is by float, which only code can say; TOML holds the named backoffs",
            PolicyMatrix({}, default=RetryPolicy(max_retries=1, backoff=float)),
        ),
        (
            "verify_backoff is by float, which only code can say; TOML holds the named backoffs",
            PolicyMatrix({}, verify_backoff=float),
        ),
    ],
)
def test_function_is_refused_when_a_matrix_is_written(message, matrix):
    """It names the place, and what it is."""
    for write in (matrix.to_toml, matrix.to_dict):
        with pytest.raises(ConfigurationError) as caught:
            write()
        assert message == str(caught.value)
