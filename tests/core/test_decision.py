"""Attempts of a newer version."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from retrykit.decision import Action, Attempt
from retrykit.errors import InvalidPayloadError
from retrykit.failure import ErrorClass, Failure, Outcome


def test_attempt_of_a_newer_version_keeps_its_fields() -> None:
    """What this version does not know comes back as it came."""
    failure = Failure(error_class=ErrorClass.GREYLISTED, outcome=Outcome.REJECTED, rule="example")
    attempt = Attempt(
        number=1, generation=1, failed_at=datetime(2026, 1, 1, tzinfo=UTC), failure=failure, action=Action.RETRY
    )
    newer = {**attempt.to_dict(), "region": "eu", "cost": {"cents": 2}}
    read = Attempt.from_dict(newer)
    assert read.extra == {"region": "eu", "cost": {"cents": 2}}
    assert newer == read.to_dict()
    assert attempt == Attempt.from_dict(attempt.to_dict())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", "1"),
        ("generation", True),
        ("delay", "soon"),
        ("failed_at", None),
        ("outcome", 3),
        ("rule", 5),
        ("error_message", ["x"]),
        ("retry_after", "abc"),
        ("retry_after", True),
        ("retry_after", -1),
    ],
)
def test_attempt_with_a_field_of_another_type_is_refused_by_name(field: str, value: object) -> None:
    """A record of somebody else's making is refused where it is read, not where it is used."""
    failure = Failure(error_class=ErrorClass.GREYLISTED, outcome=Outcome.REJECTED, rule="example")
    attempt = Attempt(
        number=1, generation=1, failed_at=datetime(2026, 1, 1, tzinfo=UTC), failure=failure, action=Action.RETRY
    )
    with pytest.raises(InvalidPayloadError, match=field):
        Attempt.from_dict({**attempt.to_dict(), field: value})  # type: ignore[dict-item]


def test_attempt_with_whole_numbers_written_as_floats_loads() -> None:
    """To JSON 4.0 is a whole number; other tools write it so."""
    failure = Failure(error_class=ErrorClass.GREYLISTED, outcome=Outcome.REJECTED, rule="example")
    attempt = Attempt(
        number=4, generation=1, failed_at=datetime(2026, 1, 1, tzinfo=UTC), failure=failure, action=Action.RETRY
    )
    assert attempt == Attempt.from_dict({**attempt.to_dict(), "number": 4.0, "generation": 1.0})
