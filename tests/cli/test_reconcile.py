"""`retrykit reconcile`, as a user runs it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tests.capabilities import require

require("click", "rich")

from click.testing import CliRunner, Result

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.classification import EventKind, ProviderEvent
from retrykit.cli.app import app
from retrykit.delivery import NotAccepted, Sent
from retrykit.stores import Delivery, DeliveryStatus

NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
BEGIN = NOW - timedelta(hours=5)
HERE = __name__


def run(*args: str, **env: str) -> Result:
    return CliRunner().invoke(app, ["reconcile", *args], env=env)


def events(start: datetime, end: datetime) -> list[ProviderEvent]:
    """A source of an application's: of the message `clean` alone."""
    told = ProviderEvent(
        kind=EventKind.DELIVERED, provider="sendgrid", message_id="clean", provider_id="p-clean", at=BEGIN
    )
    return [told] if start <= BEGIN < end else []


def none(start: datetime, end: datetime) -> list[ProviderEvent]:
    """A source that has nothing."""
    return []


def careless(start: datetime, end: datetime) -> list[ProviderEvent]:
    """A source that makes an event of a kind that is none."""
    return [ProviderEvent(provider="ses", kind=cast("Any", "nope"), at=start)]


def raising(start: datetime, end: datetime) -> list[ProviderEvent]:
    """A source that fails, and says what is nobody's business."""
    raise PermissionError("401 for token=SECRET")


def mute() -> list[ProviderEvent]:
    """A function that takes no window."""
    return []


def broken_lookup(message_id: str) -> Any:
    """A lookup that fails, or gives something else."""
    if message_id == "taken":
        raise TimeoutError("no answer for token=SECRET")
    return True


def lookup(message_id: str) -> Sent | NotAccepted | None:
    return {"taken": Sent("p-taken", "ses"), "refused": NotAccepted()}.get(message_id)


async def alookup(message_id: str) -> None:
    """No lookup that a command can call."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A provider's events: one of a message that was sent, one of a stranger, and two lines that are none."""
    lines = [
        {"event": "delivered", "sg_event_id": "e1", "message_id": "clean", "timestamp": BEGIN.timestamp()},
        {"event": "delivered", "sg_event_id": "e2", "message_id": "strange\x1b[2J", "timestamp": BEGIN.timestamp()},
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join([json.dumps(lines[0]), "no JSON", json.dumps(lines[1]), "[1, 2"]) + "\n")
    return path


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with three messages sent five hours ago, and three of which nobody is sure."""
    backend = SQLiteBackend(tmp_path / "mail.db")
    for name in ("clean", "lost[red]", "other"):
        provider = "mailgun" if name == "other" else "sendgrid"
        record(backend, name, DeliveryStatus.SENT_TO_PROVIDER, provider)
    for name in ("taken", "refused", "unclear"):
        record(backend, name, DeliveryStatus.UNKNOWN)
    backend.close()
    return f"sqlite:///{tmp_path / 'mail.db'}"


def record(backend: SQLiteBackend, name: str, status: DeliveryStatus, provider: str | None = None) -> None:
    at = BEGIN + timedelta(minutes=1)
    delivery = Delivery(
        message_id=name, status=status, version=1, provider=provider, provider_id=f"p-{name}", updated_at=at
    )
    backend.deliveries.record(delivery)


def test_file_of_events_is_compared_with_the_log(url: str, file: Path) -> None:
    """What does not agree is listed, with its provider alone; lines that are none are told; the exit code is 1."""
    result = run("--url", url, "--events", str(file), "--provider", "sendgrid")
    assert 1 == result.exit_code, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "1 of which the log and the provider tell the same" in lines
    assert "1 missing: sent, and the provider tells nothing of them" in lines
    assert any(line.startswith("missing lost[red] (p-lost[red]): the log has it as sent") for line in lines)
    assert any(line.startswith(r"unexpected strange\x1b[2J: 'sendgrid' tells of it") for line in lines)
    assert "\x1b" not in result.output
    assert "line 2 was passed over" in result.stderr
    assert "line 4 was passed over" in result.stderr


def test_last_line_that_was_cut_off_is_told(url: str, file: Path) -> None:
    """A run from a timer would never come back to it."""
    with file.open("a") as text:
        text.write('{"event": "deliv')
    result = run("--url", url, "--events", str(file), "--provider", "sendgrid", "--json")
    assert 3 == json.loads(result.stdout)["unreadable_lines"]
    assert "line 5 was passed over" in result.stderr
    assert "the line has no end" in result.stderr


def test_file_of_events_that_never_say_when_is_compared(url: str, tmp_path: Path) -> None:
    """With every window."""
    file = tmp_path / "undated.jsonl"
    file.write_text(json.dumps({"event": "delivered", "message_id": "clean"}) + "\n")
    args = ("--since", BEGIN.isoformat(), "--until", (BEGIN + timedelta(hours=1)).isoformat(), "--json")
    report = json.loads(run("--url", url, "--events", str(file), "--provider", "sendgrid", *args).stdout)
    assert (1, 1, 1) == tuple(report[name] for name in ("events", "matched", "missing"))


def test_events_go_into_the_log(url: str, file: Path) -> None:
    """As those of webhooks do; and the next run goes on after what was compared."""
    args = ("--events", str(file), "--provider", "sendgrid", "--json")
    first = json.loads(run(*args, RETRYKIT_URL=url).stdout)
    assert (2, 1, 1, 1, 2) == tuple(
        first[n] for n in ("events", "matched", "missing", "unexpected", "unreadable_lines")
    )
    assert ["unexpected", "missing"] == [each["kind"] for each in first["mismatches"]]
    again = run(*args, RETRYKIT_URL=url)
    assert (0, None) == (again.exit_code, json.loads(again.stdout)["window"])
    backend = SQLiteBackend(url.removeprefix("sqlite:///"))
    delivery = backend.deliveries.get("clean")
    backend.close()
    assert delivery is not None
    assert DeliveryStatus.DELIVERED is delivery.status


def test_since_compares_again(url: str, file: Path) -> None:
    """Whatever was compared before, and the bookmark stays."""
    args = ("--url", url, "--events", str(file), "--provider", "sendgrid")
    run(*args)
    result = run(*args, "--since", BEGIN.isoformat(), "--until", (BEGIN + timedelta(hours=2)).isoformat(), "--json")
    report = json.loads(result.stdout)
    assert [(BEGIN + timedelta(hours=h)).strftime("%Y-%m-%dT%H:%M:%S.000Z") for h in (0, 2)] == report["window"]
    assert (2, 1, 1, 1) == tuple(report[name] for name in ("events", "matched", "missing", "unexpected"))


@pytest.mark.parametrize("spelled", ["sendgrid", "SendGrid", "SENDGRID"])
def test_provider_may_be_spelled_in_any_case(url: str, file: Path, spelled: str) -> None:
    """What is missing is found all the same."""
    result = run("--url", url, "--events", str(file), "--provider", spelled, "--json")
    report = json.loads(result.stdout)
    assert (1, 1, 1) == (result.exit_code, report["missing"], report["elsewhere"])
    assert "what the log calls the provider" not in result.stderr


def test_provider_that_the_log_does_not_know_is_told(url: str) -> None:
    """Nothing is missing of a name that was mistyped, which is no all-clear."""
    result = run("--url", url, "--source", f"{HERE}:none", "--provider", "sengdrid", "--json")
    assert (0, 0, 3) == (result.exit_code, *(json.loads(result.stdout)[each] for each in ("missing", "elsewhere")))
    assert "the log has 3 messages that wait for their first event" in result.stderr
    assert "none of them sent through 'sengdrid'" in result.stderr


def test_time_without_events_is_told(url: str, file: Path) -> None:
    """Who gives an old file learns why nothing was found in it."""
    args = ("--url", url, "--events", str(file), "--provider", "sendgrid", "--since", "2h", "--patience", "1s")
    result = run(*args)
    assert (0, 1) == (result.exit_code, result.stderr.count("the file has events from"))


def test_source_and_lookup_are_functions_of_the_application(url: str) -> None:
    """Given as MODULE:FUNCTION; what is unknown is settled, and without mismatches the exit code is 0."""
    result = run("--url", url, "--source", f"{HERE}:events", "--lookup", f"{HERE}:lookup", "--provider", "ses")
    assert 0 == result.exit_code, result.output
    assert "1 had been accepted, 1 had not, 1 could not be told yet" in result.stdout
    backend = SQLiteBackend(url.removeprefix("sqlite:///"))
    try:
        stands = {name: backend.deliveries.get(name) for name in ("clean", "taken", "refused", "unclear")}
    finally:
        backend.close()
    assert {
        "clean": "delivered",
        "taken": "sent_to_provider",
        "refused": "failed_internal",
        "unclear": "unknown",
    } == {name: each.status.value for name, each in stands.items() if each}


def test_lookup_alone_compares_nothing(url: str) -> None:
    """It settles, and says so."""
    result = run("--url", url, "--lookup", f"{HERE}:lookup")
    assert 0 == result.exit_code, result.output
    assert "No window was due to be compared." in result.stdout


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("careless", "ConfigurationError: the kind of event is 'nope'"),
        ("raising", "PermissionError"),
        ("mute", "TypeError"),
    ],
)
def test_source_that_fails_exits_with_2_and_one_line(url: str, source: str, said: str) -> None:
    """Without a traceback, and without what the application's error says."""
    result = run("--url", url, "--source", f"{HERE}:{source}", "--provider", "ses")
    assert (2, "") == (result.exit_code, result.stdout), result.output
    assert said in result.stderr
    assert "SECRET" not in result.output
    assert 1 == len(result.stderr.splitlines())


def test_lookup_that_fails_is_told_and_exits_with_2(url: str) -> None:
    """By number and type; in JSON as well."""
    result = run("--url", url, "--lookup", f"{HERE}:broken_lookup", "--json")
    assert 2 == result.exit_code, result.output
    assert {"TimeoutError": 1, "ConfigurationError": 2} == json.loads(result.stdout)["lookup_errors"]
    assert "the lookup failed for 3 of the 3 messages it was asked about: ConfigurationError 2, TimeoutError 1" in (
        result.stderr
    )
    assert "it gave something else than Sent, NotAccepted or None" in result.stderr
    assert "SECRET" not in result.output


def test_lookup_that_fails_beside_mismatches_exits_with_1(url: str) -> None:
    """What does not agree is the answer; the lookup is told as well."""
    result = run("--url", url, "--source", f"{HERE}:none", "--lookup", f"{HERE}:broken_lookup")
    assert 1 == result.exit_code, result.output
    assert "the lookup failed for 3 of the 3 messages" in result.stderr


def test_lookup_that_works_tells_of_no_errors(url: str) -> None:
    """Whatever it answers."""
    result = run("--url", url, "--lookup", f"{HERE}:lookup", "--json")
    assert (0, {}, "") == (result.exit_code, json.loads(result.stdout)["lookup_errors"], result.stderr)


def test_module_that_fails_when_it_is_imported_is_told(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a traceback, and without what it says."""
    (tmp_path / "failing_module.py").write_text("raise RuntimeError('token=SECRET')\n")
    monkeypatch.chdir(tmp_path)
    result = run("--url", url, "--lookup", "failing_module:lookup")
    assert 2 == result.exit_code, result.output
    assert "its module raised RuntimeError" in " ".join(result.stderr.split())
    assert "SECRET" not in result.output


def test_without_a_lookup_nobody_is_asked(url: str, file: Path) -> None:
    """What is unknown waits for those who can ask."""
    report = json.loads(run("--url", url, "--events", str(file), "--provider", "sendgrid", "--json").stdout)
    assert (0, 0, 0, 0) == tuple(report[name] for name in ("sent", "not_sent", "unsure", "given_up"))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "nothing to compare with"),
        (("--events", __file__), "--events needs --provider"),
        (("--events", __file__, "--source", f"{HERE}:events"), "not both"),
        (("--lookup", f"{HERE}:lookup", "--since", "3d"), "--since needs --events or --source"),
        (("--source", f"{HERE}:events", "--until", "3d"), "--until needs --since"),
        (("--source", f"{HERE}:events", "--since", "soon"), "--since is 'soon'; allowed is how long ago"),
        (
            ("--source", f"{HERE}:events", "--since", "1d", "--until", "2d"),
            "allowed is a time that ends after it begins",
        ),
        (("--source", f"{HERE}:events", "--window", "0s"), "window is '0s'"),
        (
            ("--source", f"{HERE}:events", "--window", "0.001s", "--since", "1d", "--patience", "0s"),
            "--window is '0.001s', of which 86400 s have 86,400,000; allowed are 100,000 windows: give at least 1s",
        ),
        (("--source", f"{HERE}:events", "--window", "0.001s"), "allowed are 100,000 windows: give at least 3s"),
        (("--source", f"{HERE}:events", "--patience", "-1"), "patience is '-1'"),
        (("--source", f"{HERE}:events", "--matrix", "missing.toml"), "cannot be read"),
        (("--lookup", "no_such_module:lookup"), "cannot be imported"),
        (("--lookup", f"{HERE}:no_such"), "cannot be imported"),
        (("--lookup", "lookup"), "cannot be imported"),
        (("--lookup", f"{HERE}:HERE"), "allowed is a function that is not asynchronous"),
        (("--lookup", f"{HERE}:alookup"), "allowed is a function that is not asynchronous"),
    ],
)
def test_wrong_call_exits_with_2_and_says_why(url: str, args: tuple[str, ...], said: str) -> None:
    """Before anything is done."""
    result = run("--url", url, *args)
    assert 2 == result.exit_code, result.output
    assert said in " ".join(result.stderr.split())
