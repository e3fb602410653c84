"""Attempts of a newer version."""

from __future__ import annotations

from datetime import UTC, datetime

from retrykit.decision import Action, Attempt
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
