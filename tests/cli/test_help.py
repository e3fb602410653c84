"""The help of every command, and how the command is called."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.capabilities import require

require("click", "rich")

import click
from click.testing import CliRunner

from retrykit.cli.app import app


def commands(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from commands(each, *path, name)


@pytest.mark.parametrize("path", list(commands(app)), ids=" ".join)
def test_help_shows_no_marks_and_each_example_on_its_line(path: tuple[str, ...]) -> None:
    """The mark of click for lines that stay apart is obeyed, not shown."""
    shown = CliRunner().invoke(app, [*path, "--help"], terminal_width=200)
    assert 0 == shown.exit_code, shown.output
    assert "\\b" not in shown.output
    assert "\b" not in shown.output
    examples = [line for line in shown.output.splitlines() if line.startswith("  retrykit ")]
    assert all(1 == line.count("retrykit ") for line in examples), examples


def test_examples_of_reconcile_stand_apart() -> None:
    """Two of them, each a command to copy."""
    shown = CliRunner().invoke(app, ["reconcile", "--help"]).output.splitlines()
    assert [
        "  retrykit reconcile --events events.jsonl --provider ses",
        "  retrykit reconcile --source myapp.mail:events --lookup myapp.mail:lookup",
    ] == [line for line in shown if line.startswith("  retrykit ")]


@pytest.mark.parametrize("module", ["retrykit", "retrykit.cli"])
def test_module_is_the_command(module: str) -> None:
    """For those who have no scripts on their path."""
    done = subprocess.run(
        [sys.executable, "-m", module, "policy", "show", "email", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=dict(os.environ),
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("{")
