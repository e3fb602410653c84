"""Failures and histories to decide about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from retrykit.decision import Action, Attempt
from retrykit.failure import Failure, Outcome


def failed(error_class, *, outcome=Outcome.NOT_SENT, retry_after=None, rule=""):
    """Return a failure of this class."""
    return Failure(error_class=error_class, outcome=outcome, retry_after=retry_after, rule=rule)


def history(*classes):
    """Return earlier tries of these classes, a minute apart."""
    return [
        Attempt(
            number=number,
            generation=1,
            failed_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number),
            failure=failed(error_class),
            action=Action.RETRY,
        )
        for number, error_class in enumerate(classes, 1)
    ]
