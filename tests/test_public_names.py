"""The names of `retrykit` itself: a promise, so a change of this list is a change of the library."""

from __future__ import annotations

import pytest

import retrykit
from tests.fresh import run_fresh

NAMES = """
AsyncDispatcher AsyncRetryScheduler Action CircuitBreaker DeadLetter Decision Dispatcher Disposition EMAIL_MATRIX ErrorClass
HTTP_API_MATRIX ErrorClassifier ErrorGroup Failover Failure HttpReply Message Outcome PolicyMatrix Provider RetryBudget RetryLater RetryPolicy RetryScheduler RetrykitError
SmtpReply TaggedError open_async_backend open_backend resilient retry stage tag
""".split()


def test_public_names_are_these_and_no_more() -> None:
    """The snapshot of the public names; there may be at most 35."""
    assert sorted(NAMES) == sorted(retrykit.__all__)
    assert len(NAMES) <= 35


@pytest.mark.parametrize("name", NAMES)
def test_public_name_loads_and_shows_in_dir(name: str) -> None:
    """Every name loads on first use, and shows before it is loaded."""
    assert name in dir(retrykit)
    assert getattr(retrykit, name) is getattr(retrykit, name)


def test_unknown_name_is_an_attribute_error() -> None:
    """A name that is not there is said to be missing, as from any module."""
    with pytest.raises(AttributeError, match="module 'retrykit' has no attribute 'retries'"):
        _ = retrykit.retries  # type: ignore[attr-defined]


def test_import_loads_no_module_of_its_own() -> None:
    """Importing retrykit loads nothing but its own first file; using retry loads no event loop, database or TLS."""
    loaded = run_fresh(
        "import json, sys; before = set(sys.modules); import retrykit\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    assert loaded == ["retrykit"]
    heavy = run_fresh(
        "import json, sys, retrykit; retrykit.retry; retrykit.Dispatcher; retrykit.open_backend\n"
        "heavy = ('asyncio', 'sqlite3', 'ssl', 'smtplib', 'trio', 'click', 'rich')\n"
        "print(json.dumps([name for name in heavy if name in sys.modules]))"
    )
    assert heavy == []


def test_backoff_module_holds_what_policies_are_made_of() -> None:
    """`retrykit.backoff` gives the very names of the policies' own module."""
    from retrykit import backoff
    from retrykit.policy import backoff as own

    assert all(getattr(backoff, name) is getattr(own, name) for name in backoff.__all__)
