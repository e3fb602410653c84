"""`retrykit demo`, as a user runs it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.capabilities import require

require("loopback", "aiosmtpd", "click", "rich", "fork")

from click.testing import CliRunner

from retrykit.cli.app import app
from retrykit.demo import day as days
from retrykit.demo.scenarios import SCENARIOS
from retrykit.machines.status import FINAL, DeliveryStatus


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "retrykit.cli", "demo", *args], capture_output=True, text=True, timeout=890, check=False
    )


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_demo_json_passes_its_audit_and_settles_every_unknown(tmp_path: Path, scale: Callable[[int], int]) -> None:
    """A day ends with nothing lost, nothing sent or billed twice, and every unknown outcome and lost event settled."""
    total = scale(10_000)
    speed = 1500 if total > 1000 else 4000
    done = run("--messages", str(total), "--speed", str(speed), "--json", "--db", str(tmp_path / "demo.db"))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-4000:]
    result = json.loads(done.stdout)
    audit = result["audit"]
    assert audit["passed"] is True
    assert [audit[name] for name in ("messages", "lost", "sent_twice", "in_two_places", "unexpected")] == [
        total,
        0,
        0,
        0,
        0,
    ]
    assert (audit["unknown_left"], audit["problems"]) == (0, [])
    assert audit["unknown_settled"] >= 4
    assert audit["statuses"]["delivered"] == audit["delivered"] == audit["bills"]
    assert "sent_to_provider" not in audit["statuses"]
    assert [audit[name] for name in ("events_unseen", "disagreeing", "misbilled")] == [0, 0, 0]
    assert audit["events_lost"] == audit["events_found"] >= 1
    found = audit["reconciled"]
    assert (found["events"], found["missing"], found["unexpected"], found["conflicting"]) == (audit["events"], 0, 0, 0)
    assert {row["name"]: row["as_expected"] for row in audit["scenarios"]} == {
        row["name"]: row["messages"] for row in audit["scenarios"]
    }
    assert len(audit["scenarios"]) == len(SCENARIOS)
    database = sqlite3.connect(tmp_path / "demo.db")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("terminal", [False, True])
def test_demo_text_shows_verdict_top_classes_and_one_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    """With a terminal or without, it ends with the table, the verdict, the dead letters and how to go on."""
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
    path = tmp_path / "a folder %41" / "demo.db"
    path.parent.mkdir()
    result = CliRunner().invoke(app, ["demo", "--messages", "25", "--speed", "4000", "--seed", "5", "--db", str(path)])
    assert result.exit_code == 0
    assert path.exists()
    assert ("\x1b[" in result.output) is terminal
    for text in (
        "How every message ended",
        "The providers' own logs: ",
        "PASSED: none lost, none sent twice, none billed twice",
        "Dead letters, top error classes:",
        '"reason": "retries_exhausted"',
        "Look further",
    ):
        assert text in result.output


def test_demo_that_loses_a_message_exits_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit is sharp: a message that was never delivered is counted as lost, and the command fails."""
    monkeypatch.setattr(days._Run, "live", lambda self, hour: None)
    result = CliRunner().invoke(app, ["demo", "--messages", "25", "--json", "--db", str(tmp_path / "demo.db")])
    audit = json.loads(result.stdout)["audit"]
    assert result.exit_code == 1
    assert (audit["passed"], audit["lost"], audit["accepted"]) == (False, 25, 0)


def test_demo_file_of_an_earlier_run_is_refused(tmp_path: Path) -> None:
    """A file that holds something is never overwritten."""
    path = tmp_path / "demo.db"
    path.write_text("precious")
    result = CliRunner().invoke(app, ["demo", "--db", str(path)])
    assert result.exit_code == 2
    assert "may hold an earlier run" in result.output
    assert path.read_text() == "precious"


def test_demo_file_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """A folder that is not there is named, with what to do."""
    result = CliRunner().invoke(app, ["demo", "--db", str(tmp_path / "missing" / "demo.db")])
    assert result.exit_code == 2
    assert "cannot be used now" in result.output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--messages", "3"], "3 is not in the range 25<=x<=100000"),
        (["--speed", "0"], "0.0 is not in the range"),
        (["--workers", "none"], "'none' is not a valid integer"),
        (["--colour"], "No such option"),
    ],
)
def test_demo_wrong_options_are_refused(args: list[str], message: str) -> None:
    """A value out of range is an error that names the range."""
    result = CliRunner().invoke(app, ["demo", *args])
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize("args", [["--help"], ["demo", "-h"], ["--version"]])
def test_help_and_version_succeed(args: list[str]) -> None:
    """Help stands behind both spellings, and the version is the distribution's."""
    result = CliRunner().invoke(app, args)
    assert (result.exit_code, bool(result.output)) == (0, True)


def test_command_without_its_extra_says_how_to_install_it() -> None:
    """Without click the command names the extra instead of showing a traceback."""
    program = "import sys; sys.modules['click'] = None; from retrykit.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.strip() == "retrykit: 'click' is not installed; install it with: pip install 'retrykit[cli]'"


def test_progress_adds_up() -> None:
    """What is settled and what waits is told by one look at the log: no message is both."""
    progress = days.Progress(total=60)
    progress.take(dict.fromkeys(DeliveryStatus, 2))
    rest = {DeliveryStatus.DEFERRED, DeliveryStatus.UNKNOWN, *FINAL}
    assert (2 * len(FINAL), 4) == (progress.settled, progress.waiting)
    assert 2 * len(rest) == progress.settled + progress.waiting
