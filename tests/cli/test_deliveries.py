"""`retrykit deliveries`, as a user runs it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.capabilities import require

require("click", "rich")

from click.testing import CliRunner, Result

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.cli.app import app
from retrykit.delivery import EventKind
from retrykit.stores import Delivery, DeliveryEvent, DeliveryStatus

NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)


def run(*args: str, **env: str) -> Result:
    return CliRunner().invoke(app, ["deliveries", *args], env=env)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with three unknown messages, one sent, and one that only a provider knows."""
    backend = SQLiteBackend(tmp_path / "mail.db")
    for number in range(3):
        unknown = Delivery(message_id=f"m{number}", status=DeliveryStatus.UNKNOWN, version=1, updated_at=NOW)
        backend.deliveries.record(unknown)
    sent = Delivery(
        message_id="sent", status=DeliveryStatus.SENT_TO_PROVIDER, provider="ses", provider_id="p7", updated_at=NOW
    )
    backend.deliveries.record(sent)
    backend.deliveries.apply(
        DeliveryEvent(message_id="strange", kind=EventKind.BOUNCED, provider="ses", error_class="invalid_recipient",
                      error_group="permanent_recipient", at=NOW)  # type: ignore[arg-type]
    )  # fmt: skip
    backend.close()
    return f"sqlite:///{tmp_path / 'mail.db'}"


def test_deliveries_are_counted_by_status(url: str) -> None:
    """The whole at a glance."""
    result = run("--url", url)
    assert result.exit_code == 0, result.output
    assert [line.split() for line in result.stdout.splitlines()][:1] == [["5", "messages"]]
    assert json.loads(run("--json", RETRYKIT_URL=url).stdout) == {
        "unknown": 3,
        "sent_to_provider": 1,
        "bounced_permanent": 1,
    }


def test_deliveries_of_a_status_are_listed(url: str) -> None:
    """In the order of their ids, as many as are wanted."""
    lines = run("--url", url, "--status", "unknown", "--limit", "2", "--json").stdout.splitlines()
    assert [json.loads(line)["message_id"] for line in lines] == ["m0", "m1"]
    shown = run("--url", url, "--status", "sent_to_provider").stdout
    assert "sent_to_provider" in shown
    assert "p7" in shown


def test_messages_that_only_a_provider_knows_are_listed(url: str) -> None:
    """Somebody sends under our name, or our log was lost."""
    shown = run("--url", url, "--unexpected").stdout
    assert "strange" in shown
    assert "invalid_recipient" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--url"),
        (["--url", "sqlite:///absent.db"], "there is no file 'absent.db'"),
        (["--url", "nonsense://x"], "nonsense"),
        (["--url", "sqlite:///absent.db", "--status", "unknown", "--unexpected"], "not both"),
    ],
)
def test_wrong_call_is_refused_with_what_is_allowed(arguments: list[str], message: str) -> None:
    """Exit code 2, and a sentence that helps."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
