"""`retrykit doctor`: what it prints, and how it ends."""

from __future__ import annotations

import json

from tests.capabilities import require

require("click", "rich")

from click.testing import CliRunner

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.cli.app import app


def run(*args):
    return CliRunner().invoke(app, ["doctor", *args], env={"RETRYKIT_URL": None})


def test_sound_backend_ends_with_0(tmp_path):
    """A line for each thing that was looked at."""
    SQLiteBackend(tmp_path / "mail.db").close()
    result = run("--url", f"sqlite:///{tmp_path}/mail.db")
    assert 0 == result.exit_code
    assert "the file is sound" in result.stdout


def test_problem_ends_with_1_and_says_what_to_do(tmp_path):
    """It is the answer, not an error of the command."""
    result = run("--url", f"sqlite:///{tmp_path}/none.db", "--json")
    assert 1 == result.exit_code
    (found,) = map(json.loads, result.stdout.splitlines())
    assert ("file", "problem") == (found["subject"], found["level"])
    assert found["advice"]


def test_url_that_cannot_be_looked_at_ends_with_2():
    """The command could not run."""
    result = run("--url", "memory://")
    assert (2, "") == (result.exit_code, result.stdout)
    assert "cannot be looked at" in result.stderr


def test_doctor_without_a_url_ends_with_2(tmp_path, monkeypatch):
    """It says how to give one."""
    monkeypatch.chdir(tmp_path)
    result = run()
    assert 2 == result.exit_code
    assert "which backend?" in result.stderr
