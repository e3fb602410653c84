"""Which backend a command works on."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from tests.capabilities import require

require("click", "rich")

from click.testing import CliRunner, Result

from retrykit.backends.sqlite import SQLiteBackend
from retrykit.cli.app import app


def run(*args: str, **env: str | None) -> Result:
    return CliRunner().invoke(app, ["deliveries", "--json", *args], env={"RETRYKIT_URL": None, **env})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose store is beside its pyproject.toml, and a working directory within it."""
    backend = SQLiteBackend(tmp_path / "mail.db")
    backend.deliveries.counts()
    backend.close()
    (tmp_path / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "down")
    return tmp_path


def test_url_of_the_project_is_used_from_any_folder_within(project: Path) -> None:
    """A file named relatively is beside the pyproject.toml."""
    (project / "pyproject.toml").write_text('[tool.retrykit]\nurl = "sqlite:///mail.db"\n')
    assert (0, "{}\n") == (run().exit_code, run().stdout)


def test_url_of_the_environment_and_of_the_option_go_before_the_project(project: Path) -> None:
    """The nearest to the caller wins."""
    (project / "pyproject.toml").write_text('[tool.retrykit]\nurl = "sqlite:///missing.db"\n')
    assert 2 == run().exit_code
    assert 0 == run(RETRYKIT_URL="memory://").exit_code
    assert 0 == run("--url", f"sqlite:///{project / 'mail.db'}", RETRYKIT_URL="sqlite:///missing.db").exit_code


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("", "which backend? Give --url"),
        ("[tool.other]\n", "which backend? Give --url"),
        ("[tool.retrykit]\nmax_attempts = 3\n", "which backend? Give --url"),
        ("[tool.retrykit]\nurl = 3\n", "url is 3; allowed is text such as 'sqlite:///mail.db'"),
        ('[tool.retrykit]\nurl = "sqlite:///"\n', "there is no file"),
        ('[tool.retrykit]\nurl = "mysql://x"\n', "unknown backend 'mysql'"),
        ("[tool.retrykit\n", "is not TOML"),
        ('tool = "retrykit"\n', "tool is 'retrykit'"),
    ],
)
def test_project_without_a_url_that_can_be_used_is_told(project: Path, toml: str, said: str) -> None:
    """With exit code 2, and what to give."""
    (project / "pyproject.toml").write_text(toml)
    result = run()
    assert 2 == result.exit_code
    assert said in " ".join(result.stderr.split())


def test_file_that_is_somebody_elses_is_not_written_into(tmp_path: Path) -> None:
    """A mistyped address is no empty queue."""
    file = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE t (x)")
    before = file.read_bytes()
    result = run("--url", f"sqlite:///{file}")
    assert (2, True) == (result.exit_code, "nothing of retrykit is in the file" in " ".join(result.stderr.split()))
    assert before == file.read_bytes()
